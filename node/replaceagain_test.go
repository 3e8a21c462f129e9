package node_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// A replacement that was given up leaves the new member as a learner. The same call goes on from there.
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

// standing is the transport of a member that does not notice that a peer has gone: a connection once made seems to stand.
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

// A machine that loses its power ends no connection. The leader must not take what it heard before as a sign of life.
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
