package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
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
