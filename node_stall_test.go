package raft_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
)

// stallingDisks is a cluster of three whose disks stand still on demand.
func stallingDisks(t *testing.T) (c *rafttest.Cluster, stall func(...raft.NodeID) (resume func())) {
	var gates sync.Map // by id
	c = startAll(t, rafttest.Options{
		NewFSM:    newJournal,
		Configure: func(cfg *raft.Config) { cfg.DiskStallMax = 400 * time.Millisecond },
		Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &trap{s, func(raft.StorageWrite) error {
				if gate, ok := gates.Load(id); ok {
					<-gate.(chan struct{})
				}
				return nil
			}}
		},
	})
	return c, func(ids ...raft.NodeID) func() {
		gate := make(chan struct{})
		for _, id := range ids {
			gates.Store(id, gate)
		}
		return func() {
			gates.Clear()
			close(gate)
		}
	}
}

func TestDiskStall_AnotherLeadsAndWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stall := stallingDisks(t)
		old := c.Leader()
		resume := stall(old.Status().ID)
		began := time.Now()
		_, err := old.Propose(context.Background(), []byte("x"))
		assert.ErrorIs(t, err, raft.ErrOutcomeUnknown, "the others have it")
		next := c.Leader()
		assert.Less(t, time.Since(began), 600*time.Millisecond)
		require.NotEqual(t, old.Status().ID, next.Status().ID)
		_, err = next.Propose(context.Background(), []byte("y"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, old.Metrics().DiskStalls)
		assert.True(t, old.Status().DiskStalled)

		resume()
		c.Converge()
		assert.False(t, old.Status().DiskStalled)
		assert.Equal(t, raft.Follower, old.Status().Role)
		assert.Zero(t, next.Metrics().DiskStalls)
	})
}

func TestDiskStall_WhereAllStandStillTheLeaderStaysAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stall := stallingDisks(t)
		leader := c.Leader()
		before := leader.Status().Leadership
		resume := stall(c.IDs()...)
		waits := make(chan error, 1)
		go func() {
			_, err := leader.Propose(context.Background(), []byte("x"))
			waits <- err
		}()
		c.Await("the leader notices", func() bool { return leader.Metrics().DiskStalls == 1 })
		_, err := leader.Propose(context.Background(), []byte("y"))
		var stalled *raft.DiskStalledError
		require.ErrorAs(t, err, &stalled)
		require.ErrorIs(t, err, raft.ErrOverloaded)
		assert.Equal(t, "raft: the leader's disk has not finished a write for 400ms (Config.DiskStallMax); "+
			"not applied, try again later", err.Error())
		assert.Contains(t, leader.Status().LeaderReason, "its disk stands still")
		assert.EqualValues(t, 1, leader.Metrics().ProposalsFailed.Overloaded)

		resume()
		assert.NoError(t, <-waits, "what it had taken is served")
		_, err = leader.Propose(context.Background(), []byte("y"))
		assert.NoError(t, err)
		assert.Equal(t, before, leader.Status().Leadership, "nobody else ever led")
	})
}
