package raft

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// churn is a world in which members come and go. Messages are lost, delayed, duplicated and reordered, disks are slow, and
// members crash. At every step, the world checks the safety properties of Figure 3, and each core checks its invariants.
type churn struct {
	*world
	rng     *rand.Rand
	changes map[AnswerKind]int
	joint   int
}

func newChurn(t *testing.T, seed uint64) *churn {
	w := newWorld(t, seed, "a", "b", "c")
	for _, id := range []NodeID{"d", "e", "f"} {
		w.spare(id)
	}
	w.startAll()
	k := &churn{world: w, rng: w.rng, changes: map[AnswerKind]int{}}
	w.trace = func(id NodeID, out Output) {
		for _, a := range out.Answers {
			if a.Kind == AnswerChanged || a.Kind == AnswerGivenUp {
				k.changes[a.Kind]++
			}
		}
		if out.Config != nil && out.Config.Joint() {
			k.joint++
		}
	}
	w.run(time.Second)
	return k
}

func (k *churn) anybody() *member { return k.members[k.order[k.rng.IntN(len(k.order))]] }

// someChange returns a change of one or two random members.
func (k *churn) someChange() Change {
	ch := Change{Patience: time.Duration(1+k.rng.IntN(3)) * time.Second}
	if k.rng.IntN(10) == 0 {
		return Change{Cancel: true}
	}
	for range 1 + k.rng.IntN(2) {
		switch m := k.anybody(); k.rng.IntN(6) {
		case 0, 1:
			ch.Add = append(ch.Add, Member{
				ID: m.id, Address: string(m.id) + ":1", Incarnation: m.disk.incarnation, Kind: MemberKind(k.rng.IntN(2)),
			})
		case 2:
			ch.Remove = append(ch.Remove, m.peer())
		case 3:
			ch.Promote = append(ch.Promote, m.peer())
		case 4:
			ch.Demote = append(ch.Demote, m.peer())
		case 5:
			by := k.anybody()
			ch.Replace = append(ch.Replace, Replacement{
				Old: m.peer(), New: Member{ID: by.id, Address: string(by.id) + ":1", Incarnation: by.disk.incarnation},
			})
		}
	}
	return ch
}

// restart starts a member that has crashed. A member whose disk says that it was removed gets an empty disk.
func (k *churn) restart(m *member) {
	var stored StoredLog
	for _, e := range m.disk.log {
		require.NoError(k.t, stored.Observe(e))
	}
	if _, removed := stored.configAt(min(m.disk.commit, stored.Last.Index)).Config.removal(m.peer()); removed {
		k.wiped(m)
		return
	}
	m.start()
}

// wiped gives an empty disk to a member that was removed.
func (k *churn) wiped(m *member) {
	m.crash()
	m.joins, m.disk = true, simDisk{incarnation: Incarnation(k.rng.Uint64N(1<<40) + 1000)}
	m.start()
}

func (k *churn) act() {
	switch m := k.anybody(); k.rng.IntN(40) {
	case 0:
		m.propose("x")
	case 1:
		if l := k.leader(); l != nil {
			l.change(k.someChange())
		}
	case 2:
		m.transfer("")
	case 3:
		if k.rng.IntN(8) == 0 && m.core != nil {
			m.crash()
		}
	case 4, 5:
		if m.core == nil {
			k.restart(m)
		} else if m.core.Removed() > 0 && k.rng.IntN(4) == 0 {
			k.wiped(m)
		}
	case 6, 7, 8:
		k.now += Time(k.rng.IntN(int(30 * time.Millisecond)))
		for _, id := range k.order {
			if m := k.members[id]; m.core != nil && m.wakeAt <= k.now {
				m.step()
			}
		}
	case 9, 10, 11, 12, 13:
		m.persist(1 + k.rng.IntN(3))
	case 14:
		m.read()
	default:
		k.transmit()
	}
}

// transmit delivers, loses or duplicates a message.
func (k *churn) transmit() {
	if len(k.wire) == 0 {
		return
	}
	i := k.rng.IntN(min(len(k.wire), 6))
	switch k.rng.IntN(40) {
	case 0:
		k.wire = append(k.wire[:i:i], k.wire[i+1:]...)
	case 1:
		k.wire = append(k.wire, k.wire[i])
	default:
		k.deliver(i)
	}
}

func TestChurn_StaysSafe(t *testing.T) {
	changed, joint := 0, 0
	for seed := range uint64(60) {
		k := newChurn(t, seed)
		for range 6000 {
			k.act()
		}
		for _, id := range k.order {
			if m := k.members[id]; m.core == nil {
				k.restart(m)
			}
		}
		k.run(20 * time.Second) // a running change ends, or is given up
		lead := k.leader()
		require.NotNil(t, lead, "seed %d\n%s", seed, k)
		s := lead.core.Status()
		require.Nil(t, s.Change, "seed %d\n%s", seed, k)
		require.Equal(t, s.ConfigIndex, s.ConfigCommitted)
		for _, m := range s.Config.Members {
			other := k.members[m.ID].core.Status()
			require.Equal(t, s.Config, other.Config, "seed %d: %s", seed, m.ID)
			for _, r := range k.members[m.ID].core.clocks {
				require.NotZero(t, other.Config.VotesIn(r.peer), "seed %d: the clocks of members that have left are forgotten", seed)
			}
		}
		changed, joint = changed+k.changes[AnswerChanged], joint+k.joint
	}
	require.Greater(t, changed, 100)
	require.Greater(t, joint, 100)
	t.Log(changed, "changes,", joint, "joint configurations put in force")
}

// Around a change of the members, a correct leader names a successor that the receiver does not know yet, or no longer.
func TestSuccession_AChangeOfTheMembersRefusesNothing(t *testing.T) {
	w := newWorld(t, 1, "a", "b", "c", "d")
	w.startAll()
	w.run(2 * time.Second)
	leader := w.leader()
	require.NotNil(t, leader)
	var victim, away NodeID
	for _, id := range w.order {
		if id != leader.id {
			victim, away = away, id
		}
	}
	w.members[away].crash()
	s := w.spare("e")
	s.start()
	w.run(time.Second)
	leader = w.leader()
	leader.change(Change{Add: []Member{{ID: "e", Address: "e:1", Incarnation: s.disk.incarnation}}})
	w.run(2 * time.Second)
	require.Contains(t, leader.core.Status().Successors, Peer{"e", s.disk.incarnation})
	w.members[away].start()
	w.run(time.Second)
	leader.change(Change{Remove: []Peer{{ID: victim}}})
	w.run(2 * time.Second)
	require.Len(t, leader.core.Status().Config.Members, 4)
	for _, m := range w.members {
		for _, e := range m.events {
			require.NotEqual(t, TraceRefused, e.Kind, "%s: %s", m.id, e.Text)
		}
	}
}
