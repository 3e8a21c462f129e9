package node_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
)

// startPair starts a cluster of two on a network, and returns both once one of them leads.
func startPair(t *testing.T, network *transport.Network) (n1, n2 *node.Node) {
	t.Helper()
	initial := []raft.Member{{ID: "n1", Address: "n1:1"}, {ID: "n2", Address: "n2:1"}}
	start := func(id raft.NodeID) *node.Node {
		cfg := node.Config{ID: id, Cluster: "test", Initial: initial, Seed: 1}
		n, err := node.Start(t.Context(), cfg, newJournal(), storage.NewMemory(), network.Join(id))
		require.NoError(t, err)
		return n
	}
	n1, n2 = start("n1"), start("n2")
	_, err := n1.WaitLeader(t.Context())
	require.NoError(t, err)
	return n1, n2
}

// stranger starts a member of the cluster that no configuration of n names. It connects the member to n, and n dials the
// member back. It runs inside a bubble.
func stranger(t *testing.T, network *transport.Network, n *node.Node) (*transport.Memory, *transporttest.Recorder) {
	t.Helper()
	s := n.Status()
	wire, r := network.JoinAt("z", "z:1"), transporttest.NewRecorder("z")
	r.Self.Cluster, r.Self.Term = s.Cluster, s.Term
	require.NoError(t, wire.Start(r))
	t.Cleanup(func() { assert.NoError(t, wire.Close()) })
	wire.Connect([]raft.Contact{{Member: raft.Member{ID: s.ID}, Addresses: []string{string(s.ID) + ":1"}}})
	time.Sleep(time.Second)
	synctest.Wait()
	var calls []transporttest.Event
	r.Discard(func(e transporttest.Event) bool {
		if e.Kind == transporttest.EventAccepted {
			calls = append(calls, e)
		}
		return true
	})
	require.NotEmpty(t, calls)
	assert.Equal(t, s.ID, calls[0].Peer.ID)
	return wire, r
}

// A member with a lagging log does not know every voter. An unknown voter may need the vote of this member, so this member
// dials it back.
func TestCallers_AnUnknownCandidateGetsItsVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n1, n2 := startPair(t, network)
		defer func() { require.NoError(t, n1.Close()) }()
		require.NoError(t, n2.Close())
		time.Sleep(time.Second) // n1 alone is no quorum
		wire, r := stranger(t, network, n1)
		s := n1.Status()
		require.NotEqual(t, raft.Leader, s.Role)
		ask := raft.Message{
			From: r.Self.From, To: raft.Peer{ID: "n1", Incarnation: s.Incarnation}, Cluster: s.Cluster, Term: s.Term + 5,
			Body: raft.VoteRequest{Last: raft.EntryID{Term: s.Term, Index: 99}},
		}
		require.NoError(t, wire.Send(ask.To, raft.LaneUrgent, []raft.Message{ask}))
		answer := r.AwaitMessages(t, 1)[0]
		assert.Equal(t, raft.VoteReply{Granted: true, Wall: answer.Body.(raft.VoteReply).Wall}, answer.Body)
	})
}

// If a caller is silent, this member stops dialing it back. Once a message arrives on the connection that the caller has
// dialed, this member dials the caller again.
func TestCallers_ASilentOneIsNotDialedUntilItSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n1, n2 := startPair(t, network)
		defer func() { require.NoError(t, n1.Close()) }()
		defer func() { require.NoError(t, n2.Close()) }()
		wire, r := stranger(t, network, n1)
		s := n1.Status()
		probe := raft.Message{
			From: r.Self.From, To: raft.Peer{ID: "n1", Incarnation: s.Incarnation}, Cluster: s.Cluster, Term: s.Term,
			Body: raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: raft.EntryID{Term: 1, Index: 1}},
		}
		require.NoError(t, wire.Send(probe.To, raft.LaneUrgent, []raft.Message{probe}))
		assert.Equal(t, s.Leader, r.AwaitMessages(t, 1)[0].Body.(raft.PreVoteReply).Leader)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.Discard(func(transporttest.Event) bool { return true })
		for tries := 0; r.Count() == 0; tries++ { // the first answers find no connection
			require.Less(t, tries, 60, "it dials a stranger again that speaks")
			require.NoError(t, wire.Send(probe.To, raft.LaneUrgent, []raft.Message{probe}))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		require.NoError(t, wire.Send(probe.To, raft.LaneUrgent, []raft.Message{probe}))
		assert.IsType(t, raft.PreVoteReply{}, r.AwaitMessages(t, 1)[0].Body)
	})
}

// All members move at once. One of them gets the new addresses of the others. The others learn the address of that member
// when it dials them, and each remembers it.
func TestMove_AllAtOnceSurvivesARestart(t *testing.T) {
	l := newLoopback(t, 3)
	propose(t, l.leader(), "before")
	move := func(listen func(i int) string, resolve func(i int) func(context.Context, raft.Member) (string, error)) {
		for _, n := range l.nodes {
			require.NoError(t, n.Close())
		}
		wires := make([]*transport.TCP, len(l.members))
		for i := range wires {
			wire, err := transport.Listen(listen(i), transport.Options{Resolve: resolve(i)})
			require.NoError(t, err)
			wires[i] = wire
		}
		for i, wire := range wires {
			l.advertise[i] = wire.Addr().String()
		}
		for i, wire := range wires {
			l.start(i, wire)
		}
	}
	move(func(int) string { return "127.0.0.1:0" }, func(i int) func(context.Context, raft.Member) (string, error) {
		if i != 0 {
			return nil
		}
		return func(_ context.Context, m raft.Member) (string, error) { return l.advertise[m.ID[1]-'1'], nil }
	})
	propose(t, l.leader(), "moved")
	require.Eventually(t, func() bool {
		away := func(m node.MemberStatus) bool { return m.ID != "n1" && !m.Connected }
		return !slices.ContainsFunc(l.nodes[0].Status().Members, away)
	}, time.Minute, 10*time.Millisecond, "n1 remembers only whom it has met")

	dialed := make(chan string, 1000)
	move(func(i int) string { return l.advertise[i] }, func(i int) func(context.Context, raft.Member) (string, error) {
		if i != 0 {
			return nil
		}
		return func(_ context.Context, m raft.Member) (string, error) {
			dialed <- m.Address
			return m.Address, nil
		}
	})
	last := propose(t, l.leader(), "restarted")
	require.NoError(t, l.nodes[0].WaitApplied(t.Context(), last.Index))
	assert.Equal(t, []string{"before", "moved", "restarted"}, l.states[0].list())
	assert.Contains(t, l.advertise[1:], <-dialed, "the address that a peer has advertised comes before that of its configuration")
}

// Two incarnations of an id may be connected at the same time, but only one start of each.
func TestTwin_IsByIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		var handler raft.Handler
		n, err := node.Start(t.Context(), node.Config{ID: "n1", Cluster: "test", Initial: []raft.Member{{ID: "n1", Address: "n1:1"}}},
			newJournal(), storage.NewMemory(), open{network.Join("n1"), &handler})
		require.NoError(t, err)
		defer func() { require.NoError(t, n.Close()) }()
		_, err = n.WaitLeader(t.Context())
		require.NoError(t, err)
		s := n.Status()
		hello := func(incarnation raft.Incarnation, starts ...uint64) raft.Hello {
			h := raft.Hello{
				ClusterName: "test", Cluster: s.Cluster, Term: s.Term, From: raft.Peer{ID: "z", Incarnation: incarnation},
				Expected: raft.Peer{ID: "n1"}, StartCount: uint64(len(starts)),
			}
			for _, nonce := range starts {
				h.Lineage = h.Lineage.Begin(nonce)
			}
			return h
		}
		require.Nil(t, handler.Check(hello(1, 7)))
		handler.Up(hello(1, 7))
		assert.Nil(t, handler.Check(hello(2, 8)))
		twin := handler.Check(hello(1, 7, 9))
		require.NotNil(t, twin)
		assert.Equal(t, raft.RejectTwin, twin.Reason)
		handler.Lost(raft.Peer{ID: "z", Incarnation: 2}, false)
		require.NotNil(t, handler.Check(hello(1, 7, 9)), "the other incarnation was lost")
		handler.Lost(raft.Peer{ID: "z", Incarnation: 1}, false)
		assert.Nil(t, handler.Check(hello(1, 7, 9)))
	})
}

// A member was removed while it was away. It ends when a member that its configuration names reports the removal.
func TestRemoved_AMemberThatLearnsItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler raft.Handler
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal, Transport: func(id raft.NodeID, tr raft.Transport) raft.Transport {
			if id == "n1" {
				return open{tr, &handler}
			}
			return tr
		}})
		for _, id := range c.IDs() {
			c.Start(id)
		}
		propose(t, c.Leader(), "x")
		n := c.Node("n1")
		s := n.Status()
		n2 := s.Members[1].Peer()
		reject := func(by raft.Peer, cluster raft.ClusterID) {
			handler.Rejected(by, raft.Rejection{Reason: raft.RejectRemoved, From: by, Cluster: cluster, Index: 9})
			synctest.Wait()
		}
		reject(raft.Peer{ID: "z", Incarnation: 1}, s.Cluster)
		reject(raft.Peer{ID: "n2", Incarnation: n2.Incarnation + 1}, s.Cluster)
		reject(n2, raft.ClusterID{7})
		require.NoError(t, n.Err(), "strangers, and members of other clusters, end nobody")
		reject(n2, s.Cluster)
		select {
		case <-n.Done():
		case <-time.After(time.Minute):
			require.Fail(t, "a member has learned of its removal, and continues")
		}
		assert.Equal(t, &raft.RemovedError{Index: 9}, n.Err())
		assert.ErrorIs(t, n.Err(), raft.ErrRemoved)
	})
}
