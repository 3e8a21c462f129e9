package node_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// shift is one call of a function by RunAsLeader. The function returns what end receives, however late.
type shift struct {
	member raft.NodeID
	ctx    context.Context
	term   raft.Term
	end    chan error
}

// cause returns why the shift must end.
func (s *shift) cause(t *testing.T) *node.LeadershipEndedError {
	t.Helper()
	<-s.ctx.Done()
	var ended *node.LeadershipEndedError
	require.ErrorAs(t, context.Cause(s.ctx), &ended)
	assert.Equal(t, s.term, ended.Term)
	return ended
}

// jobs are calls of RunAsLeader.
type jobs struct {
	shifts chan *shift
	ended  chan error // the results of RunAsLeader
}

func newJobs() *jobs { return &jobs{make(chan *shift, 16), make(chan error, 16)} }

// run calls RunAsLeader on a member.
func (j *jobs) run(ctx context.Context, n *node.Node) {
	id := n.Status().ID
	go func() {
		j.ended <- n.RunAsLeader(ctx, func(ctx context.Context, term raft.Term) error {
			s := &shift{id, ctx, term, make(chan error)}
			j.shifts <- s
			return <-s.end
		})
	}()
}

// transfer begins to transfer a member's leadership, once it has heard the target in its term. It returns the channel of the result.
func transfer(c *rafttest.Cluster, n *node.Node, to raft.NodeID) chan error {
	transferred := make(chan error, 1)
	c.Await("the leader to hear its target", func() bool {
		go func() { transferred <- n.TransferLeadership(context.Background(), to) }()
		synctest.Wait()
		select {
		case err := <-transferred:
			transferred <- err
			if errors.Is(err, node.ErrNoTarget) {
				<-transferred
				return false
			}
		default:
		}
		return true
	})
	return transferred
}

// observed is a cluster of three whose messages are shown to sees before they leave.
func observed(t *testing.T, sees func(raft.Message)) *rafttest.Cluster {
	return startAll(t, rafttest.Options{
		NewFSM: newJournal,
		Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
			return &dropping{wire, func(m raft.Message) bool { sees(m); return false }}
		},
	})
}

func TestRunAsLeader_OnlyTheLeaderRunsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		for _, id := range c.IDs() {
			j.run(t.Context(), c.Node(id))
		}
		s := <-j.shifts
		lead := c.Leader().Status()
		assert.Equal(t, lead.ID, s.member)
		assert.Equal(t, lead.Term, s.term)
		_, limited := s.ctx.Deadline()
		assert.False(t, limited)
		time.Sleep(time.Second)
		require.Empty(t, j.shifts, "nobody else runs it")
		require.NoError(t, s.ctx.Err())

		failed := errors.New("failed")
		s.end <- failed
		assert.Equal(t, failed, <-j.ended, "its error counts, as its leadership lasts")
		time.Sleep(time.Second)
		require.Empty(t, j.shifts, "it is not called again")

		j.run(t.Context(), c.Leader())
		s = <-j.shifts
		s.end <- nil
		assert.NoError(t, <-j.ended, "its job is done")
	})
}

// gated is a journal that applies the command "held" once its gate opens.
type gated struct {
	journal
	gate chan struct{}
}

func (g *gated) Apply(batch []raft.Entry, results [][]byte) error {
	for i := range batch {
		if string(batch[i].Data) == "held" {
			<-g.gate
		}
	}
	return g.journal.Apply(batch, results)
}

// A new leader has not applied everything that was committed before its term.
func TestRunAsLeader_BeginsOnceEverythingBeforeIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open() // also if the test fails
		c, j := rafttest.New(t, 3, func() raft.FSM { return &gated{gate: gate} }), newJobs()
		old := c.Leader()
		c.Converge()
		proposed, held := make(chan error, 1), old.Status().Last.Index+1
		go func() { _, err := old.Propose(context.Background(), []byte("held")); proposed <- err }()
		c.Await("it to be committed", func() bool {
			return !slices.ContainsFunc(c.IDs(), func(id raft.NodeID) bool { return c.Node(id).Status().Commit < held })
		})
		c.Isolate(old.Status().ID)
		var next *node.Node
		c.Await("another leader", func() bool {
			for _, id := range c.IDs() {
				if s := c.Node(id).Status(); s.Role == raft.Leader && c.Node(id) != old {
					next = c.Node(id)
				}
			}
			return next != nil && next.Status().Commit > held
		})
		j.run(t.Context(), next)
		time.Sleep(time.Second)
		require.Empty(t, j.shifts)
		open()
		s := <-j.shifts
		assert.Equal(t, []string{"held"}, c.FSM(s.member).(*gated).list())
		s.end <- nil
		<-proposed
	})
}

func TestRunAsLeader_ATransferWaitsForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var present *shift
		told := 0
		c, j := observed(t, func(m raft.Message) {
			if _, ok := m.Body.(raft.TimeoutNow); ok {
				mu.Lock()
				defer mu.Unlock()
				told++
				assert.Error(t, present.ctx.Err(), "its context was cancelled before")
			}
		}), newJobs()
		for _, id := range c.IDs() {
			j.run(t.Context(), c.Node(id))
		}
		s := <-j.shifts
		mu.Lock()
		present = s
		mu.Unlock()
		transferred, proposed := transfer(c, c.Node(s.member), ""), make(chan error, 1)
		assert.Contains(t, s.cause(t).Reason, "transferred")
		go func() { _, err := c.Node(s.member).Propose(t.Context(), []byte("a")); proposed <- err }()
		time.Sleep(900 * time.Millisecond)
		require.Empty(t, transferred)
		require.Empty(t, proposed, "it waits for the outcome")
		require.Empty(t, j.shifts)
		mu.Lock()
		require.Zero(t, told)
		mu.Unlock()

		s.end <- errors.New("it does not count, because its leadership has ended")
		require.NoError(t, <-transferred)
		var moved *node.NotLeaderError
		require.ErrorAs(t, <-proposed, &moved)
		next := <-j.shifts
		assert.NotEqual(t, s.member, next.member)
		assert.Greater(t, next.term, s.term)
		require.Empty(t, j.ended)

		mu.Lock()
		present = next
		mu.Unlock()
		transferred = transfer(c, c.Node(next.member), s.member)
		next.cause(t)
		next.end <- nil
		require.NoError(t, <-transferred)
		again := <-j.shifts
		assert.Equal(t, s.member, again.member, "the same call runs it again")
		again.end <- nil
	})
}

// A function that does not return in time overlaps with the next leader's, but never with itself.
func TestRunAsLeader_ATransferWaitsNoLongerThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		for _, id := range c.IDs() {
			j.run(t.Context(), c.Node(id))
		}
		s := <-j.shifts
		began := time.Now()
		require.NoError(t, <-transfer(c, c.Node(s.member), ""))
		assert.GreaterOrEqual(t, time.Since(began), time.Second)
		assert.Less(t, time.Since(began), 2*time.Second)
		next := <-j.shifts
		require.NotEqual(t, s.member, next.member)

		transferred := transfer(c, c.Node(next.member), s.member)
		next.cause(t)
		next.end <- nil
		require.NoError(t, <-transferred)
		c.Await("the first member to lead again", func() bool { return c.Node(s.member).Status().Role == raft.Leader })
		time.Sleep(time.Second)
		require.Empty(t, j.shifts, "its function still runs")
		s.end <- nil
		again := <-j.shifts
		assert.Greater(t, again.term, next.term)
		again.end <- nil
	})
}

// Without a function that runs, a transfer takes no longer than before.
func TestRunAsLeader_ATransferWithoutAFunctionDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		n := c.Leader()
		j.run(t.Context(), n)
		s := <-j.shifts
		s.end <- nil
		require.NoError(t, <-j.ended)
		began := time.Now()
		require.NoError(t, <-transfer(c, n, ""))
		assert.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// If a transfer fails, this member continues to lead, and calls the function again in the same term.
func TestRunAsLeader_AFailedTransferBeginsItAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{
			NewFSM: newJournal,
			Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
				return &dropping{wire, func(m raft.Message) bool { _, told := m.Body.(raft.TimeoutNow); return told }}
			},
		})
		j := newJobs()
		n := c.Leader()
		j.run(t.Context(), n)
		s := <-j.shifts
		failed := transfer(c, n, "")
		s.cause(t)
		s.end <- nil
		require.ErrorIs(t, <-failed, node.ErrTransferTimedOut)
		again := <-j.shifts
		assert.Equal(t, s.term, again.term)
		assert.NoError(t, again.ctx.Err())
		again.end <- nil
		assert.NoError(t, <-j.ended)
	})
}

func TestRunAsLeader_ALeaderThatHearsNobodyCancelsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		for _, id := range c.IDs() {
			j.run(t.Context(), c.Node(id))
		}
		s := <-j.shifts
		c.Isolate(s.member)
		assert.Contains(t, s.cause(t).Reason, "it no longer leads")
		next := <-j.shifts
		assert.Greater(t, next.term, s.term)
		c.Heal()
		time.Sleep(time.Second)
		s.end <- nil
		next.end <- nil
		require.NoError(t, <-j.ended)
	})
}

// Close waits as a transfer does. RunAsLeader then returns the error of a closed node.
func TestRunAsLeader_EndsWithItsNode(t *testing.T) {
	for _, members := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			c, j := rafttest.New(t, members, newJournal), newJobs()
			n := c.Leader()
			j.run(t.Context(), n)
			s := <-j.shifts
			closed := make(chan error, 1)
			go func() { closed <- n.Close() }()
			s.cause(t)
			if members > 1 {
				time.Sleep(500 * time.Millisecond)
				require.Empty(t, closed)
			}
			s.end <- nil
			require.NoError(t, <-closed)
			require.ErrorIs(t, <-j.ended, raft.ErrClosed)
			require.ErrorIs(t, n.RunAsLeader(t.Context(), func(context.Context, raft.Term) error { return nil }), raft.ErrClosed)
		})
	}
}

// A node that ends by itself, as here because it was removed, ends it too.
func TestRunAsLeader_EndsWithARemovedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		follower := c.Follower()
		j.run(t.Context(), follower)
		c.Remove(follower.Status().ID)
		require.ErrorIs(t, <-j.ended, raft.ErrRemoved)

		c.Crash("n1")
		c.Wipe("n1")
		if follower.Status().ID == "n1" {
			return
		}
		n := c.Start("n1")
		j.run(t.Context(), n)
		require.ErrorIs(t, <-j.ended, node.ErrWiped)
	})
}

func TestRunAsLeader_TheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		ctx, cancel := context.WithCancel(t.Context())
		j.run(ctx, c.Follower())
		time.Sleep(time.Second)
		cancel()
		assert.Equal(t, context.Canceled, <-j.ended, "it was never called")

		ctx, cancel = context.WithCancel(t.Context())
		j.run(ctx, c.Leader())
		s := <-j.shifts
		cancel()
		<-s.ctx.Done()
		assert.Equal(t, context.Canceled, context.Cause(s.ctx))
		s.end <- errors.New("own")
		assert.EqualError(t, <-j.ended, "own")
	})
}

func TestRunAsLeader_SeveralAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) { cfg.ProposalsMax = 2 }})
		j, n := newJobs(), c.Leader()
		j.run(t.Context(), n)
		j.run(t.Context(), n)
		one, two := <-j.shifts, <-j.shifts
		assert.ErrorIs(t, n.RunAsLeader(t.Context(), func(context.Context, raft.Term) error { return nil }), raft.ErrOverloaded)
		transferred := transfer(c, n, "")
		one.cause(t)
		two.cause(t)
		one.end <- nil
		time.Sleep(500 * time.Millisecond)
		require.Empty(t, transferred, "the other one still runs")
		two.end <- nil
		require.NoError(t, <-transferred)
	})
}

// A function of an earlier term that still runs does not hide one of the present term from a transfer.
func TestRunAsLeader_ATransferWaitsForTheLatestFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		n := c.Leader()
		j.run(t.Context(), n)
		j.run(t.Context(), n)
		late, one := <-j.shifts, <-j.shifts
		transferred := transfer(c, n, "")
		one.cause(t)
		one.end <- nil
		require.NoError(t, <-transferred, "it waits no longer for the other one")
		require.NoError(t, <-transfer(c, c.Leader(), n.Status().ID))
		two := <-j.shifts
		require.Greater(t, two.term, late.term)
		transferred = transfer(c, n, "")
		two.cause(t)
		time.Sleep(900 * time.Millisecond)
		require.Empty(t, transferred)
		two.end <- nil
		require.NoError(t, <-transferred)
		late.end <- nil
	})
}

// When a step ends the leadership, the context ends before anything else shows that.
func TestRunAsLeader_TheContextEndsBeforeTheStepIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var present *shift
		seen := 0
		c, j := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			id := cfg.ID
			cfg.Logger = &hearing{hclog.NewNullLogger(), func(msg string, args []any) {
				mu.Lock()
				defer mu.Unlock()
				if msg == "leadership changed" && args[3] != "leader" && present != nil && present.member == id {
					seen++
					assert.Error(t, present.ctx.Err())
				}
			}}
		}}), newJobs()
		j.run(t.Context(), c.Leader())
		s := <-j.shifts
		mu.Lock()
		present = s
		mu.Unlock()
		c.Isolate(s.member)
		s.cause(t)
		c.Await("the step to be seen", func() bool { mu.Lock(); defer mu.Unlock(); return seen > 0 })
		s.end <- nil
	})
}

func TestRunAsLeader_RefusesBadCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: func(cfg *node.Config) { cfg.ProposalsMax = 1 }})
		n := c.Leader()
		assert.ErrorContains(t, n.RunAsLeader(t.Context(), nil), "needs a function")
		assert.PanicsWithValue(t, "its own", func() {
			_ = n.RunAsLeader(t.Context(), func(context.Context, raft.Term) error { panic("its own") })
		})
		assert.NoError(t, n.RunAsLeader(t.Context(), func(context.Context, raft.Term) error { return nil }), "the one that panicked no longer counts")
		within := n.Read(t.Context(), func() {
			assert.ErrorIs(t, n.RunAsLeader(t.Context(), func(context.Context, raft.Term) error { return nil }), node.ErrWithinFSM)
		})
		assert.NoError(t, within)
	})
}
