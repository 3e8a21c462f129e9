package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// A member that was removed while it is away is served for ten election timeouts, and the status of the leader shows it.
func TestStatus_ShowsWhoDeparts(t *testing.T) {
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

// An operator of a rolling upgrade sees who has been upgraded. In tests, no build has recorded a release.
func TestStatus_ShowsWhichProtocolEachMemberSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Converge()
		away := c.Follower().Status().ID
		c.Crash(away)
		for _, n := range []*node.Node{c.Leader(), c.Follower()} {
			for _, m := range n.Status().Members {
				assert.Equal(t, raft.ProtocolMembership, m.Protocol, "%s, also once it is away", m.ID)
				assert.Empty(t, m.Release)
			}
		}
	})
}
