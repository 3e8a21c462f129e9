package node_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// switchLeases sets the duration of the leases, and waits for the first one.
func switchLeases(t *testing.T, leader *node.Node, d time.Duration) {
	t.Helper()
	_, err := leader.SetLeaseDuration(context.Background(), d)
	require.NoError(t, err)
	awaitLease(t, leader)
}

// The context ends at the end of the lease, to the nanosecond, although the leader believes longer that it leads. LeaseEnd tells
// that end.
func TestRunAsLeader_EndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		leader := c.Leader()
		switchLeases(t, leader, leaseTime)
		for _, id := range c.IDs() {
			j.run(t.Context(), c.Node(id))
		}
		s := <-j.shifts
		_, limited := s.ctx.Deadline()
		assert.False(t, limited)
		first, leased := raft.LeaseEnd(s.ctx)
		require.True(t, leased)
		assert.Positive(t, time.Until(first))
		time.Sleep(10 * time.Second)
		require.NoError(t, s.ctx.Err(), "it is renewed")
		end, leased := raft.LeaseEnd(s.ctx)
		require.True(t, leased)
		assert.Greater(t, end.Sub(first), 9*time.Second)
		assert.LessOrEqual(t, time.Until(end), leaseTime)

		c.Isolate(s.member)
		synctest.Wait()
		end, leased = raft.LeaseEnd(s.ctx)
		require.True(t, leased)
		assert.Contains(t, s.cause(t).Reason, "its lease has ended")
		assert.True(t, time.Now().Equal(end), "%v after the end", time.Since(end))
		assert.Equal(t, raft.Leader, leader.Status().Role)
		_, leased = raft.LeaseEnd(s.ctx)
		assert.False(t, leased)

		next := <-j.shifts
		assert.NotEqual(t, s.member, next.member)
		assert.Greater(t, next.term, s.term)
		_, leased = raft.LeaseEnd(next.ctx)
		assert.True(t, leased)
		s.end <- nil
		next.end <- nil
	})
}

// Once the lease is back, the function is called again in the same term, but not before the former call has returned.
func TestRunAsLeader_BeginsAnewWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Transport: func(_ raft.NodeID, wire raft.Transport) raft.Transport {
			return &dropping{wire, func(raft.Message) bool { return cut.Load() }}
		}})
		j, leader := newJobs(), c.Leader()
		switchLeases(t, leader, leaseTime/2) // it ends before anybody campaigns
		j.run(t.Context(), leader)
		s := <-j.shifts
		cut.Store(true)
		s.cause(t)
		cut.Store(false)
		c.Await("the lease to be back", func() bool { return leader.Metrics().Leased })
		require.Equal(t, s.term, leader.Status().Term)
		_, leased := raft.LeaseEnd(s.ctx)
		assert.False(t, leased, "it is not the lease of this context")
		time.Sleep(time.Second)
		require.Empty(t, j.shifts, "the former call has not returned")
		s.end <- nil
		again := <-j.shifts
		assert.Equal(t, s.term, again.term)
		require.NoError(t, again.ctx.Err())

		cut.Store(true)
		again.cause(t)
		again.end <- nil
		synctest.Wait()
		assert.Equal(t, raft.Leader, leader.Status().Role)
		require.Empty(t, j.shifts, "no lease runs")
		cut.Store(false)
		third := <-j.shifts
		third.end <- nil
		assert.NoError(t, <-j.ended)
	})
}

// Switching leases on ends work that runs without one. It begins anew with the first lease. Switching them off ends nothing.
func TestRunAsLeader_LeasesAreSwitched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, j := rafttest.New(t, 3, newJournal), newJobs()
		leader := c.Leader()
		j.run(t.Context(), leader)
		s := <-j.shifts
		_, leased := raft.LeaseEnd(s.ctx)
		assert.False(t, leased, "there are no leases")
		switchLeases(t, leader, leaseTime)
		assert.Contains(t, s.cause(t).Reason, "its lease")
		s.end <- nil
		again := <-j.shifts
		_, leased = raft.LeaseEnd(again.ctx)
		assert.True(t, leased)

		_, err := leader.SetLeaseDuration(context.Background(), 0)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, again.ctx.Err())
		_, leased = raft.LeaseEnd(again.ctx)
		assert.False(t, leased)
		again.end <- nil
		assert.NoError(t, <-j.ended)
	})
}

// In real time: whatever happens to the leaders, no function believes in its lease while another one does.
func TestRunAsLeader_NoTwoLeasesAtOnce(t *testing.T) {
	c := rafttest.New(t, 3, newJournal)
	switchLeases(t, c.Leader(), leaseTime)
	var mu sync.Mutex
	holders := map[raft.Term]time.Time{} // the latest end of a lease that the function of a term has seen
	turns := make(chan raft.NodeID, 64)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, id := range c.IDs() {
		n := c.Node(id)
		all.Go(func() {
			_ = n.RunAsLeader(ctx, func(ctx context.Context, term raft.Term) error {
				turns <- id
				for often := time.Tick(time.Millisecond); ctx.Err() == nil; <-often {
					mu.Lock()
					end, leased := raft.LeaseEnd(ctx)
					if now := time.Now(); leased && now.Before(end) {
						for other, until := range holders {
							assert.True(t, other == term || !now.Before(until), "terms %d and %d", other, term)
						}
						holders[term] = end
					}
					mu.Unlock()
				}
				return ctx.Err()
			})
		})
	}
	leads := <-turns
	for range 3 {
		c.Isolate(leads)
		next := <-turns
		for next == leads { // its own lease may have ended and come back before
			next = <-turns
		}
		leads = next
		c.Heal()
	}
	cancel()
	all.Wait()
}

// The lease is withdrawn before TimeoutNow leaves, and before anybody can hear that the leader has stepped down.
func TestLease_IsWithdrawnBeforeAnotherCanLead(t *testing.T) {
	var leased sync.Map // by member: reports whether it has a lease
	holds := func(id raft.NodeID) bool {
		n, known := leased.Load(id)
		return known && n.(*node.Node).Metrics().Leased
	}
	c := startAll(t, rafttest.Options{
		NewFSM: newJournal,
		Transport: func(id raft.NodeID, wire raft.Transport) raft.Transport {
			return &dropping{wire, func(m raft.Message) bool {
				if _, told := m.Body.(raft.TimeoutNow); told {
					assert.False(t, holds(id), "%s tells %s to campaign", id, m.To.ID)
				}
				return false
			}}
		},
		Configure: func(cfg *node.Config) {
			id := cfg.ID
			cfg.Logger = &hearing{hclog.NewNullLogger(), func(msg string, args []any) {
				if msg == "leadership changed" && args[3] != "leader" {
					assert.False(t, holds(id), "%s logs, within its step, that it follows", id)
				}
			}}
		},
	})
	switchLeases(t, c.Leader(), leaseTime)
	for _, id := range c.IDs() {
		leased.Store(id, c.Node(id))
	}
	for range 20 {
		leader := c.Leader()
		awaitLease(t, leader)
		err := leader.TransferLeadership(t.Context(), "")
		require.True(t, err == nil || errors.Is(err, node.ErrNoTarget), err)
	}
}

// hearing is a logger that passes on what a node logs.
type hearing struct {
	hclog.Logger
	hears func(msg string, args []any)
}

func (h *hearing) Log(_ hclog.Level, msg string, args ...any) { h.hears(msg, args) }
func (h *hearing) Info(msg string, args ...any)               { h.hears(msg, args) }
func (h *hearing) With(...any) hclog.Logger                   { return h }
func (h *hearing) Named(string) hclog.Logger                  { return h }
