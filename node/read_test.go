package node_test

import (
	"context"
	"strconv"
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

// bare is a state machine without a lock. If a read runs at the same time as Apply, the race detector reports it.
type bare struct {
	raft.FSM
	count, halves int // halves is twice count whenever Apply does not run
}

func newBare() raft.FSM { return &bare{FSM: newJournal()} }

// Apply is slow, so that a call that may run at the same time as Apply does so. It runs inside a bubble.
func (b *bare) Apply(batch []raft.Entry, results [][]byte) error {
	for range batch {
		b.count++
		time.Sleep(time.Millisecond)
		b.halves += 2
	}
	return b.FSM.Apply(batch, results)
}

func TestRead_SeesEveryAcknowledgedWriteOnEveryMemberBetweenTwoBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		ctx, leader := context.Background(), c.Leader()
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() {
				for i := range 20 {
					r := propose(t, leader, strconv.Itoa(w)+"/"+strconv.Itoa(i))
					acknowledged, err := strconv.Atoi(string(r.Data))
					assert.NoError(t, err)
					for _, id := range c.IDs() {
						fsm := c.FSM(id).(*bare)
						assert.NoError(t, c.Node(id).Read(ctx, func() {
							assert.GreaterOrEqual(t, fsm.count, acknowledged)
							assert.Equal(t, 2*fsm.count, fsm.halves)
						}))
					}
				}
			})
		}
		writers.Wait()
		c.Converge()
	})
}

// The FSM waits for a function of Read. So if such a function called a method that waits for the FSM, the call would
// deadlock.
func TestRead_AFunctionThatWaitsForItsNodeIsRefused(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(*node.Node) error{
		"Propose":            func(n *node.Node) error { _, err := n.Propose(ctx, []byte("within")); return err },
		"WaitApplied":        func(n *node.Node) error { return n.WaitApplied(ctx, n.Status().Last.Index+1) },
		"Ready":              func(n *node.Node) error { return n.Ready(ctx) },
		"TransferLeadership": func(n *node.Node) error { return n.TransferLeadership(ctx, "") },
		"Read":               func(n *node.Node) error { return n.Read(ctx, func() { t.Error("within another") }) },
		"Close":              func(n *node.Node) error { return n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := rafttest.New(t, 1, newJournal).Leader()
				var got error
				require.NoError(t, n.Read(ctx, func() { got = call(n) }))
				assert.ErrorIs(t, got, node.ErrWithinFSM)
				assert.NoError(t, n.Err(), "this does not end the node")
				propose(t, n, "after")
			})
		})
	}
}

func TestRead_WaitsForAnApplyThatRunsAndCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n := callWithin(t, func(*node.Node) { <-release })
		results := make(chan error, 2)
		index, err := n.ReadIndex(context.Background())
		require.NoError(t, err)
		go func() { _, err := n.Propose(context.Background(), []byte("call")); results <- err }()
		synctest.Wait()
		require.Equal(t, index+1, n.Status().Commit)

		ctx, cancel := context.WithTimeout(context.Background(), 9*time.Second) // less than ApplyStallMax
		defer cancel()
		assert.ErrorIs(t, n.Read(ctx, func() { t.Error("beside Apply") }), context.DeadlineExceeded)
		ran := false
		go func() { results <- n.Read(context.Background(), func() { ran = true }) }()
		synctest.Wait()
		close(release)
		assert.NoError(t, <-results)
		assert.NoError(t, <-results)
		assert.True(t, ran)
	})
}

// A slow function delays the FSM; the status shows it, as it shows a slow Apply.
func TestRead_AFunctionThatTakesItsTimeIsSeenInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		release, results := make(chan struct{}), make(chan error, 2)
		go func() { results <- n.Read(context.Background(), func() { <-release }) }()
		synctest.Wait()
		go func() { _, err := n.Propose(context.Background(), []byte("behind it")); results <- err }()
		time.Sleep(5 * time.Second)
		assert.Equal(t, 5*time.Second, n.Status().Applying)
		assert.Empty(t, results)
		close(release)
		assert.NoError(t, <-results)
		assert.NoError(t, <-results)
		assert.Zero(t, n.Status().Applying)
	})
}

// Once Close has returned, its caller may dismantle the state machine.
func TestRead_CloseWaitsForTheFunctionThatRunsAndLetsNoneBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		ctx, release, closed := context.Background(), make(chan struct{}), make(chan error, 1)
		results := make(chan error, 3)
		running := false
		go func() { results <- n.Read(ctx, func() { running = true; <-release; running = false }) }()
		synctest.Wait()
		for range 2 {
			go func() { results <- n.Read(ctx, func() { assert.Empty(t, closed, "after Close") }) }()
		}
		synctest.Wait()
		go func() { closed <- n.Close() }()
		time.Sleep(time.Minute)
		assert.Empty(t, closed, "a function runs")
		close(release)
		assert.NoError(t, <-closed)
		assert.False(t, running)
		assert.ErrorIs(t, n.Read(ctx, func() { t.Error("after Close") }), raft.ErrClosed)
		for range 3 {
			<-results
		}
	})
}

func TestRead_APanicReachesItsCallerAndTheNodeContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		assert.PanicsWithValue(t, "mine", func() { _ = n.Read(context.Background(), func() { panic("mine") }) })
		propose(t, n, "after")
		assert.NoError(t, n.Read(context.Background(), func() {}))
		assert.Error(t, n.Read(context.Background(), nil))
	})
}

// Apply gets its turn, even if there are many readers.
func TestRead_ReadersDoNotStarveApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.New(t, 1, newJournal).Leader()
		ctx, cancel := context.WithCancel(context.Background())
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() {
				for ctx.Err() == nil {
					_ = n.Read(ctx, func() { time.Sleep(time.Millisecond) })
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		propose(t, n, "x")
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		cancel()
		readers.Wait()
	})
}
