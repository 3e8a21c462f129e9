package raft

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chaosSeeds is enough to meet every rule of the core under crashes, and quick.
var chaosSeeds = 300

// seedsOfThisRun is fewer where each step is slow: with the race detector, or on request.
func seedsOfThisRun() int {
	if testing.Short() || checkAll {
		return chaosSeeds / 5
	}
	return chaosSeeds
}

func TestCore_BootstrapsElectsAndCommits(t *testing.T) {
	for n := 1; n <= 5; n++ {
		w := newWorld(t, uint64(n), []NodeID{"a", "b", "c", "d", "e"}[:n]...)
		w.startAll()
		w.run(2 * time.Second)
		lead := w.leader()
		require.NotNil(t, lead, "n=%d\n%s", n, w)
		requestID := lead.propose("x")
		w.settle()
		require.Equal(t, AnswerAccepted, lead.answers[requestID].Kind)
		for _, m := range w.members {
			require.EqualValues(t, 3, m.applied, "n=%d %s\n%s", n, m.id, w)
		}
	}
}

// TestCore_SurvivesChaos drives whole clusters with random loss, duplicates, reordering, partitions,
// late timers, batches and crashes that keep any legal prefix of the unsynced writes, and checks
// Figure 3 after each step; at the end everything heals, and the cluster must serve, answer every
// request id, and fall quiet.
func TestCore_SurvivesChaos(t *testing.T) {
	for seed := range seedsOfThisRun() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chaosRun(t, uint64(seed)) })
	}
}

func chaosRun(t *testing.T, seed uint64) {
	w := chaosWorld(t, seed)
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("seed %d: %v\n%s", seed, r, w)
		}
	}()
	for range 1500 {
		w.disturb()
	}
	w.heal()
	w.run(5 * time.Second)
	lead := w.leader()
	require.NotNil(t, lead, "seed %d: no leader\n%s", seed, w)
	for _, m := range w.members {
		require.Equal(t, lead.applied, m.applied, "seed %d: all catch up without a new proposal\n%s", seed, w)
	}
	requestID := lead.propose("last")
	read := w.members[w.order[len(w.order)-1]].read()
	w.run(time.Second)
	require.Equal(t, AnswerAccepted, lead.answers[requestID].Kind)
	require.Len(t, w.ledger.requests[read].answers, 1)
	require.Equal(t, AnswerReadSafe, w.ledger.requests[read].answers[0].Kind)
	for _, m := range w.members {
		require.Equal(t, lead.applied, m.applied, "seed %d\n%s", seed, w)
		require.GreaterOrEqual(t, m.applied, lead.answers[requestID].ID.Index)
	}
	w.ledger.settled(t)
	w.ledger.notApplied(t)
	w.idle(t)
	w.restartsInSilence(t)
	w.closeAll(t)
}

// restartsInSilence restarts a follower of an idle cluster, unseen by the transport: it learns again
// what is committed.
func (w *world) restartsInSilence(t *testing.T) {
	lead := w.leader()
	m := w.members[w.order[w.rng.IntN(len(w.order))]]
	if m == lead {
		return
	}
	m.crash()
	m.start()
	w.run(200 * time.Millisecond)
	require.Equal(t, lead.applied, m.applied, "%s", w)
	require.Equal(t, lead, w.leader(), "a restart deposes nobody")
}

func chaosWorld(t testing.TB, seed uint64) *world {
	ids := []NodeID{"a", "b", "c", "d", "e"}
	w := newWorld(t, seed, ids[:1+seed%5]...)
	if seed%3 == 0 {
		w.tweak = func(c *CoreConfig) { c.AppendBytesMax, c.InflightMax = 100, 2 }
	}
	w.startAll()
	if seed%4 != 0 {
		w.run(2 * time.Second)
	}
	return w
}

// idle requires that a cluster with nothing to do exchanges heartbeats, and nothing else.
func (w *world) idle(t *testing.T) {
	clear(w.sent)
	writes := 0
	for _, m := range w.members {
		writes += int(m.issued)
	}
	w.run(time.Second)
	rounds := (len(w.order) - 1) * 21
	require.LessOrEqual(t, w.sent["raft.Heartbeat"], rounds)
	require.Equal(t, w.sent["raft.Heartbeat"], w.sent["raft.HeartbeatReply"])
	for kind, n := range w.sent {
		if kind != "raft.Heartbeat" && kind != "raft.HeartbeatReply" {
			require.Zero(t, n, "an idle cluster sends %s", kind)
		}
	}
	for _, m := range w.members {
		writes -= int(m.issued)
	}
	require.Zero(t, writes, "an idle cluster writes nothing")
}

// closeAll asks for more, and closes: what was asked is answered.
func (w *world) closeAll(t *testing.T) {
	for _, id := range w.order {
		w.members[id].propose("at the end")
		w.members[id].read()
		w.members[id].transfer("")
	}
	for _, id := range w.order {
		w.members[id].step(Closing{})
		w.members[id].read()
		w.members[id].propose("too late")
	}
	for requestID, r := range w.ledger.requests {
		if r.asked.lives == r.life {
			require.NotEmpty(t, r.answers, "request %d of %s is not answered", requestID, r.asked.id)
		}
	}
}

// disturb does one random thing.
func (w *world) disturb() {
	m := w.members[w.order[w.rng.IntN(len(w.order))]]
	switch k := w.rng.IntN(100); {
	case k < 34 && len(w.wire) > 0:
		for range 1 + w.rng.IntN(6) {
			if len(w.wire) > 0 {
				w.deliver(w.rng.IntN(min(len(w.wire), 1+w.rng.IntN(20))))
			}
		}
	case k < 35:
		if w.rng.IntN(4) == 0 {
			w.run(time.Duration(w.rng.IntN(300)) * time.Millisecond) // a calm, as far as the cuts allow
		}
	case k < 45:
		w.deliverBatch(m, 1+w.rng.IntN(6))
	case k < 53 && len(w.wire) > 0:
		w.disturbWire(k)
	case k < 70:
		m.persist(1 + w.rng.IntN(3))
	case k < 80:
		w.disturbTime()
	case k < 86:
		m.propose(fmt.Sprintf("%d", w.rng.IntN(1000)))
		m.read()
	case k < 88:
		if m.core != nil {
			m.crash()
		}
	case k < 93:
		if m.core == nil {
			m.start()
		}
	case k < 95:
		other := w.order[w.rng.IntN(len(w.order))]
		w.cut[[2]NodeID{m.id, other}] = w.rng.IntN(2) == 0
	case k < 96:
		m.transfer("")
	case k < 98:
		w.disturbConnection(m)
	default:
		if m.core != nil && m.applied > 0 {
			m.step(Applied{m.tail[m.applied-1].ID()})
		}
	}
}

// deliverBatch hands up to n messages over in one step.
func (w *world) deliverBatch(m *member, n int) {
	var events []Event
	w.wire = slices.DeleteFunc(w.wire, func(msg Message) bool {
		if len(events) >= n || msg.To.ID != m.id {
			return false
		}
		if !w.cut[[2]NodeID{msg.From.ID, msg.To.ID}] {
			events = append(events, Received{msg})
		}
		return true
	})
	m.step(events...)
}

// disturbWire loses a message, silently or told, or doubles it.
func (w *world) disturbWire(k int) {
	i := w.rng.IntN(len(w.wire))
	msg := w.wire[i]
	if k >= 50 {
		w.wire = append(w.wire, msg)
		return
	}
	w.wire = slices.Delete(w.wire, i, i+1)
	if r, ok := msg.Body.(AppendRequest); ok && k >= 48 {
		w.members[msg.From.ID].step(SendDropped{msg.To.ID, Span{r.Prev.Index, r.Last.Index}})
	}
}

// disturbTime lets time pass. Some sleep through their deadline.
func (w *world) disturbTime() {
	w.now += Time(w.rng.IntN(40)) * Time(time.Millisecond)
	if w.rng.IntN(50) == 0 {
		w.now += Time(w.rng.IntN(600)) * Time(time.Millisecond)
	}
	for _, id := range w.order {
		m := w.members[id]
		switch {
		case m.core == nil || w.rng.IntN(10) == 0:
		case m.wakeAt <= w.now:
			m.step()
		default:
			m.early()
		}
	}
}

// early steps a member before its deadline: it has nothing to do.
func (m *member) early() {
	out := m.core.Step(Now{Mono: m.w.now, Wall: int64(m.w.now)})
	require.Empty(m.w.t, out.Send, "%s: a message was due before WakeAt", m.id)
	require.Empty(m.w.t, out.Trace, "%s: a decision was due before WakeAt", m.id)
	require.Empty(m.w.t, out.Answers, "%s: an answer was due before WakeAt", m.id)
	require.Zero(m.w.t, out.Write.Seq, "%s: a write was due before WakeAt", m.id)
	moved := out.WakeAt != m.wakeAt && out.WakeAt != m.w.now+idleMax
	require.False(m.w.t, moved, "%s: the deadline moved without an event, %d to %d", m.id, m.wakeAt, out.WakeAt)
	m.wakeAt = out.WakeAt
}

func (w *world) disturbConnection(m *member) {
	other := w.members[w.order[w.rng.IntN(len(w.order))]]
	if other == m {
		return
	}
	m.step(PeerLost{ID: other.id})
	if w.rng.IntN(2) == 0 {
		m.step(PeerUp{ID: other.id, Incarnation: other.disk.incarnation, StartCount: other.disk.startCount})
	}
}

func (w *world) heal() {
	clear(w.cut)
	for _, id := range w.order {
		if w.members[id].core == nil {
			w.members[id].start()
		}
	}
}
