package node_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// stallingDisks returns a cluster of three with disks that a test can stall. The network loses every message for which lost
// returns true.
func stallingDisks(t *testing.T, lost func(raft.Message) bool) (
	c *rafttest.Cluster, stall func(...raft.NodeID) (resume func()),
) {
	var gates sync.Map // by id
	c = startAll(t, rafttest.Options{
		NewFSM:    newJournal,
		Configure: func(cfg *node.Config) { cfg.DiskStallMax = 400 * time.Millisecond },
		Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
			return &trap{s, func(raft.StorageWrite) error {
				if gate, ok := gates.Load(id); ok {
					<-gate.(chan struct{})
				}
				return nil
			}}
		},
		Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport { return &dropping{wire, lost} },
	})
	return c, func(ids ...raft.NodeID) func() {
		gate := make(chan struct{})
		for _, id := range ids {
			gates.Store(id, gate)
		}
		return func() {
			for _, id := range ids {
				gates.Delete(id)
			}
			close(gate)
		}
	}
}

func nothing(raft.Message) bool { return false }

func TestDiskStall_AnotherLeadsAndWritesContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stall := stallingDisks(t, nothing)
		old := c.Leader()
		resume := stall(old.Status().ID)
		began := time.Now()
		_, err := old.Propose(context.Background(), []byte("x"))
		assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "the others have it")
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

func TestDiskStall_IfAllStallTheLeaderStaysAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stall := stallingDisks(t, nothing)
		leader := c.Leader()
		before := leader.Status().Leadership
		resumeOthers, resume := stall("n2", "n3"), stall("n1")
		require.Same(t, c.Node("n1"), leader)
		waits := make(chan error, 1)
		go func() {
			_, err := leader.Propose(context.Background(), []byte("x"))
			waits <- err
		}()
		c.Await("the leader notices", func() bool { return leader.Metrics().DiskStalls == 1 })
		_, err := leader.Propose(context.Background(), []byte("y"))
		var stalled *node.DiskStalledError
		require.ErrorAs(t, err, &stalled)
		require.ErrorIs(t, err, raft.ErrOverloaded)
		assert.Equal(t, "raft: the leader's disk has not finished a write for 400ms (Config.DiskStallMax); "+
			"not applied, try again later: see docs/runbook.md#disk-stalled", err.Error())
		assert.Contains(t, leader.Status().LeaderReason, "its disk has stalled")
		assert.EqualValues(t, 1, leader.Metrics().ProposalsFailed.Overloaded)

		resume()
		synctest.Wait() // as long as the others do not acknowledge, it need not give its leadership to one of them
		resumeOthers()
		assert.NoError(t, <-waits, "a proposal that it had accepted is served")
		_, err = leader.Propose(context.Background(), []byte("y"))
		assert.NoError(t, err)
		assert.Equal(t, before, leader.Status().Leadership, "no other member led")
	})
}

// transfers lists the ways to begin a transfer: the leader's disk stalls, or a caller asks for it.
var transfers = map[string]func(leader *node.Node, stall func(...raft.NodeID) func()) (resume func()){
	"for a stalled disk": func(leader *node.Node, stall func(...raft.NodeID) func()) func() {
		resume := stall(leader.Status().ID)
		go func() { _, _ = leader.Propose(context.Background(), []byte("x")) }()
		return resume
	},
	"that was asked for": func(leader *node.Node, _ func(...raft.NodeID) func()) func() {
		go func() { _ = leader.TransferLeadership(context.Background(), "") }()
		return func() {}
	},
}

// TimeoutNow is lost, and repeated with the heartbeats.
func TestClose_WaitsForATransferThatIsUnderWay(t *testing.T) {
	for what, begin := range transfers {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				c, stall := stallingDisks(t, func(m raft.Message) bool {
					_, isTimeoutNow := m.Body.(raft.TimeoutNow)
					return isTimeoutNow && sent.Add(1) == 1
				})
				old, other := c.Leader(), c.Follower()
				resume := begin(old, stall)
				c.Await("the transfer", func() bool { return sent.Load() == 1 })
				began, closed := time.Now(), make(chan error, 1)
				go func() { closed <- old.Close() }()
				c.Await("another leads", func() bool {
					leader := other.Status().Leader
					return leader != "" && leader != old.Status().ID
				})
				assert.Less(t, time.Since(began), 100*time.Millisecond, "no election timeout had to pass")
				resume()
				assert.NoError(t, <-closed)
			})
		})
	}
}

func TestClose_WaitsForATransferThatDoesNotSucceedForTwoElectionTimeouts(t *testing.T) {
	for what, begin := range transfers {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Bool
				c, stall := stallingDisks(t, func(m raft.Message) bool {
					_, isTimeoutNow := m.Body.(raft.TimeoutNow)
					sent.CompareAndSwap(false, isTimeoutNow)
					return isTimeoutNow
				})
				old := c.Leader()
				resume := begin(old, stall)
				c.Await("the transfer", sent.Load)
				began, closed := time.Now(), make(chan error, 1)
				go func() { closed <- old.Close() }()
				c.Await("the end", func() bool { return old.Err() != nil })
				assert.InDelta(t, 300, time.Since(began).Milliseconds(), 10)
				resume()
				assert.NoError(t, <-closed)
			})
		})
	}
}
