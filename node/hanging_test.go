package node_test

import (
	"context"
	"errors"
	"slices"
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

// hangingFSM is a journal that hangs in a batch with the command "poison" and, on demand, in the next batch.
type hangingFSM struct {
	journal
	free chan struct{}

	mu    sync.Mutex
	hangs bool
}

func (f *hangingFSM) Apply(batch []raft.Entry, results [][]byte) error {
	f.mu.Lock()
	hangs := f.hangs
	f.mu.Unlock()
	for _, e := range batch {
		hangs = hangs || string(e.Data) == "poison"
	}
	if hangs {
		<-f.free
	}
	return f.journal.Apply(batch, results)
}

func (f *hangingFSM) set(hangs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = hangs
}

// hangingFSMs returns a cluster of three, its state machines in the order of their creation, and a function that releases
// all hanging calls.
func hangingFSMs(t *testing.T) (c *rafttest.Cluster, fsms *[]*hangingFSM, resume func()) {
	fsms = new([]*hangingFSM)
	free := make(chan struct{})
	c = startAll(t, rafttest.Options{
		NewFSM: func() raft.FSM {
			*fsms = append(*fsms, &hangingFSM{free: free})
			return (*fsms)[len(*fsms)-1]
		},
		Configure: func(cfg *node.Config) { cfg.ApplyStallMax = 2 * time.Second },
	})
	return c, fsms, sync.OnceFunc(func() {
		for _, f := range *fsms {
			f.set(false)
		}
		close(free)
	})
}

func TestHangingFSM_AnotherLeadsAndWritesContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fsms, resume := hangingFSMs(t)
		defer resume()
		old := c.Leader()
		for i, id := range c.IDs() {
			(*fsms)[i].set(id == old.Status().ID)
		}
		began := time.Now()
		_, err := old.Propose(context.Background(), []byte("x"))
		assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "it is committed, and nobody here can say what it has led to")
		assert.InDelta(t, 2*time.Second, time.Since(began), float64(100*time.Millisecond))
		c.Await("another one leads", func() bool { // Leader would wait for a read of the old one, which hangs
			return slices.ContainsFunc(c.IDs(), func(id raft.NodeID) bool {
				n := c.Node(id)
				return n != old && n.Status().Role == raft.Leader
			})
		})
		assert.Less(t, time.Since(began), 2500*time.Millisecond)
		next := c.Leader()
		_, err = next.Propose(context.Background(), []byte("y"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, old.Metrics().FSMHangs)
		assert.True(t, old.Status().FSMHangs)
		assert.False(t, next.Status().FSMHangs)

		resume()
		c.Converge()
		assert.False(t, old.Status().FSMHangs)
	})
}

// If the FSMs of all members hang at the same entry, the leader stays, and refuses proposals.
func TestHangingFSM_IfAllHangTheLeaderStaysAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, resume := hangingFSMs(t)
		defer resume()
		leader := c.Leader()
		before := leader.Status().Leadership
		behind := make(chan error, 1)
		go func() {
			_, err := leader.Propose(context.Background(), []byte("poison"))
			behind <- err
		}()
		require.ErrorIs(t, <-behind, node.ErrOutcomeUnknown)
		_, err := leader.Propose(context.Background(), []byte("y"))
		var hangs *node.FSMHangsError
		require.ErrorAs(t, err, &hangs)
		require.ErrorIs(t, err, raft.ErrOverloaded)
		assert.Equal(t, "raft: the leader's FSM has not finished a batch for 2s (Config.ApplyStallMax); not applied, try again later: see docs/runbook.md#fsm-hangs", err.Error())
		time.Sleep(time.Minute)
		assert.Equal(t, before, leader.Status().Leadership, "no other member led")
		assert.Contains(t, leader.Status().LeaderReason, "its FSM hangs")
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var unready *node.NotReadyError
		require.True(t, errors.As(leader.Ready(limited), &unready))
		assert.Contains(t, unready.Reason, "its FSM hangs")

		resume()
		c.Await("it continues", func() bool { return !leader.Status().FSMHangs })
		_, err = leader.Propose(context.Background(), []byte("y"))
		assert.NoError(t, err)
		assert.Equal(t, before, leader.Status().Leadership)
	})
}

// Only a slow Apply counts as hanging. A function of Read, which runs in turn with Apply, may take any time.
func TestHangingFSM_ReadsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, resume := hangingFSMs(t)
		defer resume()
		leader := c.Leader()
		reads := make(chan struct{})
		go func() { _ = leader.Read(context.Background(), func() { close(reads); time.Sleep(time.Minute) }) }()
		<-reads
		_, err := leader.Propose(context.Background(), []byte("x"))
		assert.NoError(t, err, "after a minute")
		assert.Zero(t, leader.Metrics().FSMHangs)
	})
}

// If the FSM of a leader hangs and the leader loses its leadership, it still answers the proposals that it has accepted.
func TestHangingFSM_AFormerLeaderAnswersWhatItHasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fsms, resume := hangingFSMs(t)
		defer resume()
		old := c.Leader()
		for i, id := range c.IDs() {
			(*fsms)[i].set(id == old.Status().ID)
		}
		began := time.Now()
		outcome := make(chan error, 1)
		go func() {
			_, err := old.Propose(context.Background(), []byte("x"))
			outcome <- err
		}()
		time.Sleep(time.Second)
		require.ErrorIs(t, old.TransferLeadership(context.Background(), ""), node.ErrTransferTimedOut, "a proposal is not applied yet")
		c.Isolate(old.Status().ID)
		c.Await("it to step down", func() bool { return old.Status().Role != raft.Leader })
		assert.Less(t, time.Since(began), 2*time.Second)
		select {
		case err := <-outcome:
			assert.ErrorIs(t, err, node.ErrOutcomeUnknown)
			assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
		case <-time.After(time.Minute):
			t.Error("the caller waits as long as the FSM hangs")
		}
	})
}
