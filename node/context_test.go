package node_test

import (
	"context"
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
)

// waits returns calls that wait if they are made on a leader that has just been cut off.
func waits(n *node.Node, to raft.NodeID) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"ReadIndex":          func(ctx context.Context) error { _, err := n.ReadIndex(ctx); return err },
		"Barrier":            func(ctx context.Context) error { _, err := n.Barrier(ctx); return err },
		"WaitApplied":        func(ctx context.Context) error { return n.WaitApplied(ctx, 1<<40) },
		"TransferLeadership": func(ctx context.Context) error { return n.TransferLeadership(ctx, to) },
		"Ready":              n.Ready,
	}
}

func TestContext_ACallThatIsCancelledWhileItWaitsReturnsAtOnce(t *testing.T) {
	for name := range waits(nil, "") {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := rafttest.New(t, 3, newJournal)
				n, to := c.Leader(), c.Follower().Status().ID
				c.Isolate(n.Status().ID)
				ctx, cancel := context.WithCancel(context.Background())
				result := make(chan error, 1)
				if name == "TransferLeadership" { // ends at once if the target is gone and lacks nothing
					go func() { _, _ = n.Propose(ctx, []byte("what the target lacks")) }()
					synctest.Wait()
				}
				go func() { result <- waits(n, to)[name](ctx) }()
				synctest.Wait()
				require.Empty(t, result, "it waits")

				began := time.Now()
				cancel()
				err := <-result
				assert.Zero(t, time.Since(began))
				require.ErrorIs(t, err, context.Canceled)
				switch name {
				case "Barrier":
					assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "its entry is in the leader's log")
				case "TransferLeadership":
					assert.ErrorIs(t, err, node.ErrOutcomeUnknown, "the leader may still transfer its leadership")
				case "Ready": // its error says what it waited for
				default:
					assert.Equal(t, context.Canceled, err)
				}
				synctest.Wait() // for the other caller, too
				m := n.Metrics()
				assert.Zero(t, m.WaitingReads+m.WaitingProposals, "no call is pending any longer")

				c.Heal()
				c.Await("the cluster to continue, also after a transfer that was under way", func() bool {
					_, err := c.Leader().Propose(context.Background(), []byte("on"))
					return err == nil
				})
				c.Converge()
			})
		})
	}
}

func TestContext_ACallThatIsCancelledBeforeItBeginsDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n, to := c.Leader(), c.Follower().Status().ID
		before := n.Status().Last
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for name, call := range waits(n, to) {
			assert.Equal(t, context.Canceled, call(ctx), name)
		}
		_, err := n.WaitLeader(ctx)
		assert.Equal(t, context.Canceled, err)
		for range n.Watch(ctx) {
			break
		}
		time.Sleep(time.Second)
		assert.Equal(t, before, n.Status().Last, "no entry was written, and nobody else was elected")
		assert.Equal(t, raft.Leader, n.Status().Role)
	})
}

func TestContext_WaitLeaderIsCancelledWhileThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal})
		n := c.Start("n1") // alone, it bootstraps nothing
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := n.WaitLeader(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestContext_AStartThatIsCancelledTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, wire := storage.NewMemory(), transport.NewNetwork().Join("n1")
		cfg := node.Config{ID: "n1", Cluster: "test", Initial: []raft.Member{{ID: "n1", Address: "n1:1"}}}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := node.Start(ctx, cfg, newJournal(), disk, wire)
		require.ErrorIs(t, err, context.Canceled)
		var failed *node.StorageError
		require.ErrorAs(t, err, &failed)

		n, err := node.Start(context.Background(), cfg, newJournal(), disk, wire)
		require.NoError(t, err, "the caller can still use storage and transport")
		_, err = n.WaitLeader(context.Background())
		require.NoError(t, err)
		require.NoError(t, n.Close())
	})
}
