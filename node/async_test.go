package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
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

// promises counts, by command, two kinds of outcomes: the ones that ProposeAsync must still deliver, and the ones that have
// arrived.
type promises struct {
	mu       sync.Mutex
	accepted map[string]raft.EntryID // by ProposeAsync itself
	outcomes map[string]int
	acked    acknowledged
}

func newPromises() *promises {
	return &promises{accepted: map[string]raft.EntryID{}, outcomes: map[string]int{}}
}

// propose proposes one command with ProposeAsync. It records the outcome. If the command was applied, it compares the outcome
// with the returned id.
func (p *promises) propose(ctx context.Context, t *testing.T, n *node.Node, command string) (accepted bool) {
	var result node.Result
	id, err := n.ProposeAsync(ctx, []byte(command), func(r node.Result, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.outcomes[command]++
		result = r
		p.acked.add(command, err)
		if id, known := p.accepted[command]; known && err == nil {
			assert.Equal(t, id, raft.EntryID{Term: r.Term, Index: r.Index})
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.acked.add(command, err)
		return false
	}
	p.accepted[command] = id
	if result.Index != 0 { // the outcome arrived first
		assert.Equal(t, id, raft.EntryID{Term: result.Term, Index: result.Index})
	}
	return true
}

// check checks that each accepted command has exactly one outcome, and that each refused command has none.
func (p *promises) check(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for command := range p.accepted {
		assert.Equal(t, 1, p.outcomes[command], command)
	}
	assert.Len(t, p.outcomes, len(p.accepted), "no outcome of what was not accepted")
}

// pipelineOn proposes in bursts until the context ends, and cancels the context of some of its calls meanwhile.
// It runs inside a bubble.
func pipelineOn(ctx context.Context, t *testing.T, client int, r *running, ids []raft.NodeID, p *promises) {
	rng := rand.New(rand.NewPCG(uint64(client), 9))
	for i := 0; ctx.Err() == nil; i++ {
		n, _ := r.pick(rng, ids)
		for j := range 1 + rng.IntN(20) {
			bound, cancel := context.WithCancel(ctx)
			if rng.IntN(4) == 0 {
				go cancel()
			}
			p.propose(bound, t, n, fmt.Sprintf("%d/%d/%d", client, i, j))
			cancel()
		}
		time.Sleep(time.Duration(rng.IntN(int(200 * time.Millisecond))))
	}
}

func TestAsync_EveryAcceptedProposalHasExactlyOneOutcome(t *testing.T) {
	for seed := range seedsOf(5) {
		synctest.Test(t, func(t *testing.T) {
			c, p := rafttest.New(t, 3, newJournal), newPromises()
			ids, rng := c.IDs(), rand.New(rand.NewPCG(seed, 8))
			r := &running{nodes: map[raft.NodeID]*node.Node{}, fsms: map[raft.NodeID]*journal{}}
			for _, id := range ids {
				r.set(c, id)
			}
			ctx, stop := context.WithCancel(context.Background())
			var callers sync.WaitGroup
			for client := range 3 {
				callers.Go(func() { pipelineOn(ctx, t, client, r, ids, p) })
			}
			for range 25 {
				disturb(c, r, rng)
				if id := ids[rng.IntN(len(ids))]; rng.IntN(3) == 0 {
					c.Close(id) // with pending calls
					c.Start(id)
					r.set(c, id)
				}
			}
			c.Heal()
			stop()
			callers.Wait()
			c.Converge()
			applied := listOf(c, "n1")
			for _, id := range ids {
				c.Close(id) // answers all pending calls
				c.Start(id)
			}
			p.check(t)
			times := map[string]int{}
			for _, command := range applied {
				times[command]++
				assert.Equal(t, 1, times[command], command)
			}
			assert.Empty(t, without(p.acked.commands, applied), "all acknowledged commands were applied")
			assert.Len(t, without(p.acked.refused, applied), len(p.acked.refused), "no refused command was applied")
			t.Logf("%d accepted, %d applied, %d refused", len(p.accepted), len(p.acked.commands), len(p.acked.refused))
			require.Greater(t, len(p.acked.commands), 100)
		})
	}
}

// The id arrives when the proposal is accepted. The outcomes arrive in the order of the log.
func TestAsync_OneGoroutinePipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		leader := c.Leader()
		const commands = 100
		var got []node.Result
		done := make(chan struct{})
		var last raft.EntryID
		for i := range commands {
			id, err := leader.ProposeAsync(context.Background(), []byte(strconv.Itoa(i)), func(r node.Result, err error) {
				assert.NoError(t, err)
				if got = append(got, r); len(got) == commands {
					close(done)
				}
			})
			require.NoError(t, err)
			assert.Greater(t, id.Index, last.Index, "they are in the log in the order of the calls")
			last = id
		}
		<-done
		for i, r := range got {
			assert.Equal(t, strconv.Itoa(i+1), string(r.Data))
		}
		assert.EqualValues(t, commands, leader.Metrics().Proposals)
	})
}

func TestAsync_WhatIsNotAcceptedHasNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		never := func(node.Result, error) { assert.Fail(t, "it was not accepted") }
		var refusal *node.NotLeaderError
		_, err := c.Follower().ProposeAsync(context.Background(), []byte("a"), never)
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, c.Leader().Status().ID, refusal.Leader.ID)
		_, err = c.Leader().ProposeAsync(context.Background(), make([]byte, 10<<20), never)
		var tooLarge *raft.TooLargeError
		assert.ErrorAs(t, err, &tooLarge)
		_, err = c.Leader().ProposeAsync(context.Background(), nil, nil)
		assert.ErrorContains(t, err, "needs a function")
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = c.Leader().ProposeAsync(ended, nil, never)
		assert.Equal(t, context.Canceled, err)
	})
}

// A slow function delays neither the FSM nor other callers. Its command counts towards the limits until the function returns.
func TestAsync_LimitsHoldUntilTheFunctionHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Members: 1, Configure: func(cfg *node.Config) { cfg.ProposalsMax = 3 }})
		n, ctx, resume := c.Leader(), context.Background(), make(chan struct{})
		slow := func(node.Result, error) { <-resume }
		for range 3 {
			_, err := n.ProposeAsync(ctx, []byte("a"), slow)
			require.NoError(t, err)
		}
		synctest.Wait()
		assert.Len(t, listOf(c, "n1"), 3, "all are applied")
		assert.Equal(t, 3, n.Status().Pending)
		_, err := n.ProposeAsync(ctx, []byte("b"), slow)
		assert.ErrorIs(t, err, raft.ErrOverloaded)
		close(resume)
		synctest.Wait()
		assert.Zero(t, n.Status().Pending)
		propose(t, n, "c")
	})
}

func TestAsync_AFunctionMayCallTheNodeAndCannotCloseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		n, ctx := c.Leader(), context.Background()
		done := make(chan error, 3)
		_, err := n.ProposeAsync(ctx, []byte("a"), func(node.Result, error) {
			_, err := n.Propose(ctx, []byte("b"))
			done <- err
			_, err = n.ProposeAsync(ctx, []byte("c"), func(_ node.Result, err error) { done <- err })
			assert.NoError(t, err)
			done <- n.Close()
		})
		require.NoError(t, err)
		assert.NoError(t, <-done)
		assert.ErrorIs(t, <-done, node.ErrWithinCallback)
		assert.NoError(t, <-done)
		assert.Equal(t, []string{"a", "b", "c"}, listOf(c, "n1"))
	})
}

// ProposeAsync does not wait for the FSM, so the FSM and a function of Read may call it.
func TestAsync_TheFSMAndAFunctionOfReadMayPropose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := make(chan error, 2)
		proposeWithin := func(n *node.Node) {
			_, err := n.ProposeAsync(context.Background(), []byte("within"), func(_ node.Result, err error) { outcomes <- err })
			assert.NoError(t, err)
		}
		n := callWithin(t, proposeWithin)
		propose(t, n, "call")
		assert.NoError(t, <-outcomes)
		assert.NoError(t, n.Read(context.Background(), func() { proposeWithin(n) }))
		assert.NoError(t, <-outcomes)
	})
}

// A failed require ends the goroutine that calls it. Here that goroutine belongs to the node.
func TestAsync_AFunctionThatEndsItsGoroutineCostsNoOtherItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		n, came := c.Leader(), make(chan struct{}, 4)
		for i := range 4 {
			_, err := n.ProposeAsync(context.Background(), nil, func(node.Result, error) {
				came <- struct{}{}
				if i < 2 {
					runtime.Goexit()
				}
			})
			require.NoError(t, err)
		}
		for range 4 {
			select {
			case <-came:
			case <-time.After(time.Minute):
				require.Fail(t, "an outcome is lost")
			}
		}
		synctest.Wait()
		assert.Zero(t, n.Status().Pending)
		require.NoError(t, n.Close())
	})
}

// No callback is called after Close has returned.
func TestAsync_CloseAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		c.Isolate(n.Status().ID) // nothing more is committed
		outcomes := 0
		for range 10 {
			_, err := n.ProposeAsync(context.Background(), []byte("a"), func(_ node.Result, err error) {
				assert.ErrorIs(t, err, node.ErrOutcomeUnknown)
				outcomes++
			})
			require.NoError(t, err)
		}
		_ = n.Close()
		assert.Equal(t, 10, outcomes)
	})
}
