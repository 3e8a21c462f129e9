package node_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// caller is a state machine that calls the function do when it applies "call".
type caller struct {
	raft.FSM
	do func()
}

func (c *caller) Apply(batch []raft.Entry, results [][]byte) error {
	for _, e := range batch {
		if string(e.Data) == "call" {
			c.deeper(8)
		}
	}
	return c.FSM.Apply(batch, results)
}

// deeper adds stack frames between Apply and the call of do.
func (c *caller) deeper(frames int) {
	if frames > 0 {
		c.deeper(frames - 1)
		return
	}
	c.do()
}

// callWithin starts a cluster of one member, whose FSM runs do when it applies "call", and returns its node.
func callWithin(t *testing.T, do func(n *node.Node)) *node.Node {
	t.Helper()
	var n *node.Node
	c := startAll(t, rafttest.Options{Members: 1, NewFSM: func() raft.FSM {
		return &caller{newJournal(), func() { do(n) }}
	}})
	n = c.Leader()
	return n
}

// An FSM that waits for its own node would deadlock: the call returns an error, and the node continues.
func TestFSM_ThatWaitsForItselfIsRefused(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(*node.Node) error{
		"Propose":            func(n *node.Node) error { _, err := n.Propose(ctx, []byte("within")); return err },
		"Barrier":            func(n *node.Node) error { _, err := n.Barrier(ctx); return err },
		"ReadIndex":          func(n *node.Node) error { _, err := n.ReadIndex(ctx); return err },
		"WaitApplied":        func(n *node.Node) error { return n.WaitApplied(ctx, n.Status().Last.Index) },
		"Ready":              func(n *node.Node) error { return n.Ready(ctx) },
		"TransferLeadership": func(n *node.Node) error { return n.TransferLeadership(ctx, "") },
		"RunAsLeader": func(n *node.Node) error {
			return n.RunAsLeader(ctx, func(context.Context, raft.Term) error { return nil })
		},
		"ChangeMembers": func(n *node.Node) error { _, err := n.ChangeMembers(ctx, raft.Change{}, 0); return err },
		"AddMember": func(n *node.Node) error {
			_, err := n.AddMember(ctx, raft.Member{ID: "n9", Address: "n9:1"}, node.ChangeOptions{})
			return err
		},
		"Backup": func(n *node.Node) error { _, err := n.Backup(ctx, io.Discard); return err },
		"Close":  func(n *node.Node) error { return n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				var took time.Duration
				n := callWithin(t, func(n *node.Node) {
					began := time.Now()
					got = call(n)
					took = time.Since(began)
				})
				short, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				_, err := n.Propose(short, []byte("call"))
				require.NoError(t, err, "the FSM continues")
				assert.ErrorIs(t, got, node.ErrWithinFSM)
				assert.Less(t, took, time.Second)
				assert.NoError(t, n.Err(), "this does not end the node")
				propose(t, n, "after")
			})
		})
	}
}

// Other callers that wait at the same time continue to wait, unless the FSM hangs.
func TestFSM_ThatTakesItsTimeKeepsItsCallersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := callWithin(t, func(*node.Node) { <-release })
		assert.Zero(t, n.Status().Applying)
		ctx := context.Background()
		results := make(chan error, 3)
		go func() { _, err := n.Propose(ctx, []byte("call")); results <- err }()
		synctest.Wait()
		go func() { _, err := n.Propose(ctx, []byte("behind it")); results <- err }()
		go func() { _, err := n.ReadIndex(ctx); results <- err }()
		time.Sleep(5 * time.Second)
		assert.Equal(t, 5*time.Second, n.Status().Applying)
		assert.InDelta(t, 5, n.Metrics().ApplyingSeconds, .001)
		assert.Empty(t, results)
		close(release)
		for range 3 {
			assert.NoError(t, <-results)
		}
		assert.Zero(t, n.Status().Applying)
	})
}

// If the node published an index before the FSM has applied it, a read could be stale.
func TestFSM_AnIndexIsPublishedOnceTheFSMHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := callWithin(t, func(*node.Node) { <-release })
		ctx := context.Background()
		results := make(chan error, 3)
		go func() { _, err := n.Propose(ctx, []byte("call")); results <- err }()
		synctest.Wait()
		s := n.Status()
		require.Equal(t, s.Commit, s.Last.Index, "it is committed")
		assert.Less(t, s.Applied, s.Commit)
		assert.Less(t, n.Metrics().AppliedIndex, s.Commit)
		go func() { _, err := n.ReadIndex(ctx); results <- err }()
		go func() { results <- n.WaitApplied(ctx, s.Commit) }()
		time.Sleep(9 * time.Second) // less than ApplyStallMax
		assert.Empty(t, results, "and the FSM does not have it")
		close(release)
		for range 3 {
			assert.NoError(t, <-results)
		}
		assert.Equal(t, s.Commit, n.Status().Applied)
	})
}

// The node cannot distinguish a goroutine that the FSM has started from any other caller. The status shows the call of the
// FSM that never returns.
func TestFSM_ThatWaitsForAHelperIsSeenInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		n := callWithin(t, func(n *node.Node) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := n.Propose(ctx, []byte("by a helper"))
				assert.ErrorIs(t, err, context.Canceled)
			}()
			<-done
		})
		answered := make(chan error, 1)
		go func() { _, err := n.Propose(context.Background(), []byte("call")); answered <- err }()
		time.Sleep(9 * time.Second) // less than ApplyStallMax
		assert.GreaterOrEqual(t, n.Status().Applying, 9*time.Second)
		cancel()
		assert.NoError(t, <-answered)
	})
}
