package node_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// voters returns the ids of the voters.
func voters(m node.Members) (ids []raft.NodeID) {
	for _, v := range m.Voters() {
		ids = append(ids, v.ID)
	}
	return ids
}

func TestAddMember_ReturnsOnceItVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		propose(t, c.Leader(), "before")
		for _, id := range []raft.NodeID{"n2", "n3"} {
			c.Join(id)
			m := c.Add(id)
			added, ok := m.Member(id)
			require.True(t, ok)
			assert.Equal(t, raft.Voter, added.Kind)
			assert.Equal(t, c.Node(id).Status().Incarnation, added.Incarnation)
			assert.Equal(t, "http://"+string(id), added.Meta)
			assert.True(t, m.Committed)
			assert.False(t, m.Joint())
			assert.Equal(t, m, c.Leader().Members())
		}
		assert.Equal(t, []raft.NodeID{"n1", "n2", "n3"}, voters(c.Leader().Members()))
		c.Crash("n1")
		propose(t, c.Leader(), "after")
		c.Restart("n1")
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []string{"before", "after"}, c.FSM(id).(*journal).list())
		}
	})
}

func TestRemove_TheLeaderAnswersAndTransfersLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		old := c.Leader()
		id := old.Status().ID
		m := c.Remove(id)
		assert.NotContains(t, voters(m), id)
		<-old.Done()
		var removed *raft.RemovedError
		require.ErrorAs(t, old.Err(), &removed)
		assert.Equal(t, m.Index, removed.Index)
		require.ErrorIs(t, old.Err(), raft.ErrRemoved)
		_, err := old.Propose(t.Context(), []byte("late"))
		require.ErrorAs(t, err, &removed)
		propose(t, c.Leader(), "after")
		c.Crash(id)
		_, err = c.TryStart(id)
		require.ErrorAs(t, err, &removed, "its log says so")
	})
}

func TestRemove_TheRemovedMemberHearsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		gone := c.Follower()
		m := c.Remove(gone.Status().ID)
		<-gone.Done()
		var removed *raft.RemovedError
		require.ErrorAs(t, gone.Err(), &removed)
		assert.Equal(t, m.Index, removed.Index)
		propose(t, c.Leader(), "after")
	})
}

func TestReplaceMember_ByItselfOnAnEmptyDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		propose(t, c.Leader(), "before")
		id := c.Follower().Status().ID
		old, _ := c.Leader().Members().Member(id)
		c.Crash(id)
		c.Wipe(id)
		c.Start(id)
		c.Await("the leader to see it", func() bool {
			for _, m := range c.Leader().Status().Members {
				if m.ID == id {
					return m.Replace
				}
			}
			return false
		})
		c.Crash(id)
		m := c.Replace(id)
		now, _ := m.Member(id)
		assert.Equal(t, raft.Voter, now.Kind)
		assert.NotEqual(t, old.Incarnation, now.Incarnation)
		assert.Len(t, m.Members, 3)
		assert.Equal(t, old.Meta, now.Meta, "as before")
		c.Await("it to be whole again", func() bool { return !c.Node(id).Status().Wiped })
		c.Converge()
		assert.Equal(t, []string{"before"}, c.FSM(id).(*journal).list())
	})
}

func TestDemoteMember_AndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		id := c.Follower().Status().ID
		m, err := c.Leader().DemoteMember(t.Context(), id, node.ChangeOptions{})
		require.NoError(t, err)
		assert.Len(t, voters(m), 2)
		m, err = c.Leader().AddMember(t.Context(), raft.Member{ID: id}, node.ChangeOptions{IfIndex: m.Index})
		require.NoError(t, err)
		assert.Len(t, voters(m), 3)
		again, _ := m.Member(id)
		assert.Equal(t, c.Member(id).Address, again.Address)
	})
}

func TestAddLearner_StaysOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Join("n4")
		m, err := c.Leader().AddLearner(t.Context(), c.Member("n4"), node.ChangeOptions{})
		require.NoError(t, err)
		added, _ := m.Member("n4")
		assert.Equal(t, raft.Learner, added.Kind)
		propose(t, c.Leader(), "one")
		c.Converge()
		assert.Equal(t, []string{"one"}, c.FSM("n4").(*journal).list())
	})
}

func TestUpdate_MetaIsInNotLeaderError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		meta := "http://moved"
		m, err := n.UpdateMember(t.Context(), raft.Update{Peer: raft.Peer{ID: n.Status().ID}, Meta: &meta}, node.ChangeOptions{})
		require.NoError(t, err)
		now, _ := m.Member(n.Status().ID)
		assert.Equal(t, meta, now.Meta)
		f := c.Follower()
		c.Await("it to know", func() bool { return f.Members().Index == m.Index })
		_, err = f.Propose(t.Context(), []byte("x"))
		var other *node.NotLeaderError
		require.ErrorAs(t, err, &other)
		assert.Equal(t, meta, other.Leader.Meta)
	})
}

// A slow reader may miss a configuration. But it sees the configurations in order, and it sees the last one.
func TestWatchMembers_GoesForwardToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		c.Join("n2")
		seen := make(chan node.Members, 100)
		go func() {
			for m := range c.Node("n1").WatchMembers(t.Context()) {
				seen <- m
			}
			close(seen)
		}()
		synctest.Wait()
		last := c.Add("n2")
		synctest.Wait()
		c.Crash("n1")
		var all []node.Members
		for m := range seen {
			all = append(all, m)
		}
		assert.Equal(t, last, all[len(all)-1])
		for i, m := range all {
			assert.NotEqual(t, raft.Index(0), m.Index)
			if i > 0 {
				assert.GreaterOrEqual(t, m.Index, all[i-1].Index)
			}
		}
	})
}

// laggard is the transport of a member that can be made to lag.
type laggard struct {
	raft.Transport
	mu       sync.Mutex
	contacts []raft.Contact
	lags     bool
	dials    raft.NodeID
}

// lag drops all incoming messages from now on. The member keeps only its connection to the peer that it still dials.
func (l *laggard) lag(dials raft.NodeID) {
	l.mu.Lock()
	l.lags, l.dials = true, dials
	contacts := l.contacts
	l.mu.Unlock()
	l.Connect(contacts)
}

func (l *laggard) Connect(contacts []raft.Contact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contacts = contacts
	l.Transport.Connect(slices.DeleteFunc(slices.Clone(contacts), func(k raft.Contact) bool { return l.lags && k.ID != l.dials }))
}

func (l *laggard) Start(h raft.Handler) error { return l.Transport.Start(lagging{h, l}) }

type lagging struct {
	raft.Handler
	l *laggard
}

func (h lagging) Receive(from raft.Peer, batch []raft.Message) {
	h.l.mu.Lock()
	lags := h.l.lags
	h.l.mu.Unlock()
	if !lags {
		h.Handler.Receive(from, batch)
	}
}

// A removed member lags until the leader no longer serves it. It still has connections to the other members. Each of them
// closes its connection, and the next handshake reports the removal.
func TestRemoved_ALaggingMemberLearnsItFromTheNextHandshake(t *testing.T) {
	leader := func(c *rafttest.Cluster) raft.NodeID { return c.Leader().Status().ID }
	follower := func(c *rafttest.Cluster) raft.NodeID { return c.Follower().Status().ID }
	for _, row := range []struct {
		who     string
		by      func(c *rafttest.Cluster) raft.NodeID
		demoted bool
	}{
		{"a voter, by the leader", leader, false},
		{"a voter, by a follower", follower, false},
		{"a learner, which asks for no votes", follower, true},
	} {
		t.Run(row.who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wires := map[raft.NodeID]*laggard{}
				c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
					wires[id] = &laggard{Transport: wire}
					return wires[id]
				}})
				for _, id := range c.IDs() {
					c.Start(id)
				}
				by := row.by(c)
				others := slices.DeleteFunc(c.IDs(), func(id raft.NodeID) bool { return id == by || id == leader(c) })
				gone := c.Node(others[0])
				if row.demoted {
					_, err := c.Leader().DemoteMember(t.Context(), others[0], node.ChangeOptions{})
					require.NoError(t, err)
				}
				wires[others[0]].lag(by)
				m := c.Remove(others[0])
				select {
				case <-gone.Done():
				case <-time.After(time.Minute):
					require.Fail(t, "it does not know that it was removed")
				}
				assert.Equal(t, &raft.RemovedError{Index: m.Index}, gone.Err())
				propose(t, c.Leader(), "after")
			})
		})
	}
}

// If a replacement is given up, the new member stays as a learner. The same call later continues with that learner.
func TestReplaceMember_AgainAfterItWasGivenUp(t *testing.T) {
	t.Run("on an empty disk", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, silent := withMute(t)
			c.Join("n4")
			before, _ := c.Add("n4").Member("n4")
			c.Crash("n4")
			c.Await("the leader to notice", func() bool { return !connected(c, c.Leader().Status().ID, "n4") })
			c.Wipe("n4")
			silent.Store(true)
			c.Start("n4")
			replaceTwice(t, c.Leader(), "n4", raft.Member{}, func() { silent.Store(false) })
			now, _ := c.Leader().Members().Member("n4")
			assert.NotEqual(t, before.Incarnation, now.Incarnation)
		})
	})
	t.Run("by another member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, silent := withMute(t)
			silent.Store(true)
			c.Join("n4")
			replaceTwice(t, c.Leader(), c.Follower().Status().ID, c.Member("n4"), func() { silent.Store(false) })
		})
	})
}

// replaceTwice replaces a member twice. The first attempt must be given up, and leave a learner; the second one succeeds.
func replaceTwice(t *testing.T, n *node.Node, id raft.NodeID, by raft.Member, heal func()) {
	t.Helper()
	voters := len(n.Members().Voters())
	_, err := n.ReplaceMember(t.Context(), id, by, node.ChangeOptions{Patience: 2 * time.Second})
	require.ErrorIs(t, err, raft.ErrChangeGivenUp)
	require.Len(t, n.Members().Members, voters+1, "the new one stays a learner")
	heal()
	m, err := n.ReplaceMember(t.Context(), id, by, node.ChangeOptions{})
	require.NoError(t, err)
	assert.Len(t, m.Members, voters)
	now, found := m.Member("n4")
	require.True(t, found)
	assert.Equal(t, raft.Voter, now.Kind)
}

// standing is the transport of a member that does not notice that a peer has gone. Once a connection has been made, it always
// appears to be open.
type standing struct {
	raft.Transport
	made *sync.Map
}

func (s standing) Peer(p raft.Peer) raft.PeerStatus {
	status := s.Transport.Peer(p)
	if status.Connected {
		s.made.Store(p, true)
	}
	_, status.Connected = s.made.Load(p)
	return status
}

// A machine that loses power closes no connection. The leader must not take an old connection as a sign of life.
func TestReplaceMember_TheLeaderHasNotNoticedThatTheFormerSelfHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
			return standing{wire, new(sync.Map)}
		}})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		n, id := c.Leader(), c.Follower().Status().ID
		before, _ := n.Members().Member(id)
		propose(t, n, "so that all are heard")
		require.True(t, connected(c, n.Status().ID, id))
		c.Crash(id)
		require.True(t, connected(c, n.Status().ID, id), "as it seems")
		refused[*node.UnreachableError](t, n, replaces(id, raft.Member{}), "nobody listens there")

		c.Start(id)
		n = c.Leader()
		propose(t, n, "so that all are heard")
		require.True(t, connected(c, n.Status().ID, id))
		refused[*raft.MemberExistsError](t, n, replaces(id, raft.Member{}), "itself answers")
		c.Crash(id)
		c.Wipe(id)
		c.Start(id)
		require.True(t, connected(c, n.Status().ID, id), "as it seems")
		m, err := n.ReplaceMember(t.Context(), id, raft.Member{}, node.ChangeOptions{})
		require.NoError(t, err)
		after, _ := m.Member(id)
		assert.NotEqual(t, before.Incarnation, after.Incarnation)
		assert.Equal(t, c.Node(id).Status().Incarnation, after.Incarnation)
	})
}

// The leader makes contact with a member that does not dial back. Meanwhile no other change makes contact. If the leader
// transfers its leadership, it stops making contact, and returns the error at once.
func TestChange_ContactIsMadeByOneLeaderForOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		dials.Store(false)
		c.Join("n4")
		c.Join("n5")
		n := c.Leader()
		first := make(chan error, 1)
		begin := time.Now()
		go func() {
			_, err := n.AddMember(t.Context(), c.Member("n4"), node.ChangeOptions{})
			first <- err
		}()
		synctest.Wait()
		refused[*raft.ChangePendingError](t, n, adds(c.Member("n5")), "")

		require.NoError(t, n.TransferLeadership(t.Context(), ""))
		var e *node.NotLeaderError
		require.ErrorAs(t, <-first, &e)
		assert.Less(t, time.Since(begin), 4*time.Second, "contact may take five")
		c.Add("n5")
	})
}

// A caller that tries again at once makes contact anew, although the connection of the first attempt was still open.
func TestChange_ContactIsMadeAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		dials.Store(false)
		c.Join("n4")
		n := c.Leader()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := n.AddMember(ctx, c.Member("n4"), node.ChangeOptions{})
			require.ErrorContains(t, err, "it answers, but has not reached this member")
			cancel()
		}
	})
}

// unrefused is the transport of a member whose dials are never refused, because nothing answers them.
type unrefused struct{ raft.Transport }

func (u unrefused) Peer(p raft.Peer) raft.PeerStatus {
	status := u.Transport.Peer(p)
	status.RefusedFor = 0
	return status
}

// Another machine with the same id takes the place of a member once that has ended, and its address has refused for a while.
// Otherwise the leader waits longer.
func TestReplaceMember_ByAnotherMachineOnceTheMemberIsGone(t *testing.T) {
	for _, row := range []struct {
		rule   string
		wire   func(raft.Transport) raft.Transport
		within time.Duration
	}{
		{"the address refuses", func(w raft.Transport) raft.Transport { return w }, joining.RefusedMin},
		{"the address is silent", func(w raft.Transport) raft.Transport { return unrefused{w} }, joining.SilenceMin},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replacedElsewhere(t, row.wire, row.within) })
		})
	}
}

func replacedElsewhere(t *testing.T, wire func(raft.Transport) raft.Transport, within time.Duration) {
	network := transport.NewNetwork()
	initial := []raft.Member{{ID: "n1", Address: "n1:1"}, {ID: "n2", Address: "n2:1"}, {ID: "n3", Address: "n3:1"}}
	nodes := map[raft.NodeID]*node.Node{}
	start := func(id raft.NodeID, initial []raft.Member, at *transport.Memory) *node.Node {
		n, err := node.Start(t.Context(), node.Config{ID: id, Cluster: "test", Initial: initial, Seed: 1}, newJournal(), storage.NewMemory(), wire(at))
		require.NoError(t, err)
		return n
	}
	for _, m := range initial {
		nodes[m.ID] = start(m.ID, initial, network.Join(m.ID))
	}
	leader, err := nodes["n1"].WaitLeader(t.Context())
	require.NoError(t, err)
	n, old := nodes[leader.ID], initial[0]
	if old.ID == leader.ID {
		old = initial[1]
	}
	propose(t, n, "so that all are heard")
	by := start(old.ID, nil, network.JoinAt(old.ID, "elsewhere:1"))
	elsewhere := raft.Member{Address: "elsewhere:1"}
	inUse := refused[*joining.InUseError](t, n, replaces(old.ID, elsewhere), "is a member already, at "+old.Address)
	assert.Equal(t, nodes[old.ID].Status().Incarnation, inUse.Member.Incarnation)

	require.NoError(t, nodes[old.ID].Close())
	ended := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	_, err = n.ReplaceMember(ctx, old.ID, elsewhere, node.ChangeOptions{})
	cancel()
	require.ErrorAs(t, err, &inUse)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it may be free soon")
	assert.NotErrorIs(t, err, node.ErrOutcomeUnknown)
	m, err := n.ReplaceMember(t.Context(), old.ID, elsewhere, node.ChangeOptions{})
	require.NoError(t, err)
	took := time.Since(ended)
	assert.True(t, within <= took && took <= within+2*time.Second, took)
	now, _ := m.Member(old.ID)
	assert.Equal(t, by.Status().Incarnation, now.Incarnation)
	nodes[old.ID] = by
	for _, n := range nodes {
		assert.NoError(t, n.Close())
	}
}

// A member is removed while it is away. The leader serves it for ten election timeouts, and the leader's status shows that.
func TestStatus_ShowsDepartingMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader, gone := c.Leader(), c.Follower().Status()
		assert.Empty(t, leader.Status().Departing)
		c.Crash(gone.ID)
		m := c.Remove(gone.ID)
		c.Await("the leader to count the time", func() bool { return leader.Status().Departing[0].Left > 0 })
		departing := leader.Status().Departing
		require.Len(t, departing, 1)
		left := departing[0].Left
		assert.Positive(t, left)
		assert.Equal(t, []node.DepartingMember{{
			ID: gone.ID, Incarnation: gone.Incarnation, Removal: m.Index, Left: left, Dialed: departing[0].Dialed,
		}}, departing)
		time.Sleep(left + time.Second)
		assert.Empty(t, leader.Status().Departing)
	})
}

// During a rolling upgrade, an operator sees which members have been upgraded. In tests, no build has recorded a release.
func TestStatus_ShowsWhichProtocolEachMemberSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Converge()
		away := c.Follower().Status().ID
		c.Crash(away)
		for _, n := range []*node.Node{c.Leader(), c.Follower()} {
			for _, m := range n.Status().Members {
				assert.Equal(t, raft.ProtocolNewest, m.Protocol, "%s, also once it is away", m.ID)
				assert.Empty(t, m.Release)
			}
		}
	})
}
