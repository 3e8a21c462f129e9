package node_test

import (
	"context"
	"errors"
	"fmt"
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

// waiting is a leader that transfers its leadership. The network loses TimeoutNow until succeed is called.
type waiting struct {
	c          *rafttest.Cluster
	leader     *node.Node
	transfer   chan error
	loses      atomic.Bool
	began      chan struct{}
	onceBegins sync.Once
}

func startWaiting(t *testing.T, configure func(*node.Config)) *waiting {
	w := &waiting{transfer: make(chan error, 1), began: make(chan struct{})}
	w.loses.Store(true)
	w.c = startAll(t, rafttest.Options{
		NewFSM: newJournal, Configure: configure,
		Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
			return &dropping{wire, func(m raft.Message) bool {
				_, told := m.Body.(raft.TimeoutNow)
				if told {
					w.onceBegins.Do(func() { close(w.began) })
				}
				return told && w.loses.Load()
			}}
		},
	})
	w.leader = w.c.Leader()
	require.NoError(t, w.leader.Ready(context.Background()))
	go func() { w.transfer <- w.leader.TransferLeadership(context.Background(), "") }()
	<-w.began
	synctest.Wait()
	return w
}

// propose begins proposals, one after another, and returns the channel of their outcomes once all of them wait.
func (w *waiting) propose(ctx context.Context, commands ...string) chan outcome {
	outcomes := make(chan outcome, len(commands))
	for _, command := range commands {
		go func() {
			r, err := w.leader.Propose(ctx, []byte(command))
			outcomes <- outcome{command, r, err}
		}()
		synctest.Wait()
	}
	return outcomes
}

type outcome struct {
	command string
	node.Result
	err error
}

// Proposals that arrive during a planned transfer wait. If it succeeds, they fail and name the new leader.
func TestPlanned_ProposalsWaitAndLearnTheNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, nil)
		outcomes := w.propose(context.Background(), "a", "b")
		barrier := make(chan error, 1)
		go func() { _, err := w.leader.Barrier(context.Background()); barrier <- err }()
		async := make(chan error, 1)
		go func() {
			_, err := w.leader.ProposeAsync(context.Background(), []byte("c"), func(node.Result, error) { t.Error("it was accepted") })
			async <- err
		}()
		synctest.Wait()
		require.Empty(t, outcomes)
		w.loses.Store(false)
		require.NoError(t, <-w.transfer)
		next := w.c.Leader().Status().ID
		for _, err := range []error{(<-outcomes).err, (<-outcomes).err, <-barrier, <-async} {
			var elsewhere *node.NotLeaderError
			require.ErrorAs(t, err, &elsewhere)
			require.NotNil(t, elsewhere.Leader)
			assert.Equal(t, next, elsewhere.Leader.ID)
		}
		w.c.Converge()
		assert.Empty(t, listOf(w.c, next))
	})
}

// If the transfer fails, the proposals that wait are made here, in their order. Those whose callers have stopped waiting are not:
// they never reached the core, so their errors are those of the contexts alone.
func TestPlanned_AfterAFailureProposalsContinueInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, nil)
		first := w.propose(context.Background(), "a", "b")
		ctx, cancel := context.WithCancel(context.Background())
		canceled := w.propose(ctx, "x", "y")
		last := w.propose(context.Background(), "c")
		cancel()
		for range 2 {
			o := <-canceled
			assert.Equal(t, context.Canceled, o.err)
		}
		require.ErrorIs(t, <-w.transfer, node.ErrTransferTimedOut)
		for _, outcomes := range []chan outcome{first, first, last} {
			o := <-outcomes
			require.NoError(t, o.err, o.command)
		}
		w.c.Converge()
		assert.Equal(t, []string{"a", "b", "c"}, listOf(w.c, w.leader.Status().ID))
	})
}

// Proposals that wait count towards the limits.
func TestPlanned_TheLimitsApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, func(cfg *node.Config) { cfg.ProposalsMax = 2 })
		outcomes := w.propose(context.Background(), "a", "b")
		_, err := w.leader.Propose(context.Background(), []byte("c"))
		assert.ErrorIs(t, err, raft.ErrOverloaded)
		<-w.transfer
		for range 2 {
			require.NoError(t, (<-outcomes).err)
		}
	})
}

// Close answers the proposals that wait. They are applied if the transfer fails before Close ends, and else they never reach
// the core.
func TestPlanned_CloseAnswersTheProposalsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWaiting(t, nil)
		outcomes := w.propose(context.Background(), "a", "b")
		require.NoError(t, w.leader.Close())
		for range 2 {
			err := (<-outcomes).err
			var elsewhere *node.NotLeaderError
			assert.True(t, err == nil || errors.Is(err, raft.ErrClosed) || errors.As(err, &elsewhere), "%v", err)
			assert.NotErrorIs(t, err, node.ErrOutcomeUnknown)
		}
	})
}

// A leader that closes first applies what it has accepted.
func TestPlanned_CloseFirstAppliesWhatIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader := c.Leader()
		outcomes := make(chan error, 100)
		for i := range cap(outcomes) {
			go func() {
				_, err := leader.Propose(context.Background(), fmt.Append(nil, i))
				outcomes <- err
			}()
		}
		c.Await("some are accepted", func() bool { return leader.Status().Pending > 0 || len(outcomes) > 0 })
		require.NoError(t, leader.Close())
		for range cap(outcomes) {
			assert.NotErrorIs(t, <-outcomes, node.ErrOutcomeUnknown)
		}
	})
}

// The transfer waits for the FSM, so an FSM that proposes must not wait for the transfer.
func TestPlanned_TheFSMDoesNotWaitForTheTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leader *node.Node
		transfer, refused := make(chan error, 1), make(chan error, 1)
		var called atomic.Bool
		within := func() {
			if called.Swap(true) {
				return
			}
			go func() { transfer <- leader.TransferLeadership(context.Background(), "") }()
			time.Sleep(10 * time.Millisecond)
			_, err := leader.ProposeAsync(context.Background(), []byte("more"), func(node.Result, error) {})
			refused <- err
		}
		c := startAll(t, rafttest.Options{NewFSM: func() raft.FSM { return &caller{newJournal(), within} }})
		leader = c.Leader()
		_, err := leader.Propose(context.Background(), []byte("call"))
		require.NoError(t, err)
		var elsewhere *node.NotLeaderError
		require.ErrorAs(t, <-refused, &elsewhere)
		require.NoError(t, <-transfer)
	})
}
