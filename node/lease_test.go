package node_test

import (
	"context"
	"strconv"
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

// leaseTime is how long leases last in these tests.
const leaseTime = 120 * time.Millisecond

// awaitLease proposes commands until the leader has a lease: the answers to appends bring it.
func awaitLease(t *testing.T, leader *node.Node) {
	t.Helper()
	for !leader.Metrics().Leased {
		propose(t, leader, "x")
	}
}

// While the leader has a lease, it answers reads by it without a message, and each read sees every write that was acknowledged
// before. Without leases, and on other members, such a read takes a round.
func TestLease_AnswersReadsThatSeeEveryAcknowledgedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		ctx, leader := context.Background(), c.Leader()
		propose(t, leader, "x")
		_, err := leader.ReadIndexWith(ctx, raft.Lease)
		require.NoError(t, err)
		assert.Equal(t, [2]uint64{0, 1}, leaseReads(leader), "there are no leases")
		m, err := leader.SetLeaseDuration(ctx, leaseTime)
		require.NoError(t, err)
		assert.Equal(t, leaseTime, m.LeaseDuration)
		awaitLease(t, leader)
		assert.Equal(t, leaseTime, leader.Status().LeaseDuration)
		assert.Positive(t, leader.Status().Lease)
		fsm := c.FSM(leader.Status().ID).(*bare)
		for i := range 200 {
			acknowledged, err := strconv.Atoi(string(propose(t, leader, "y").Data))
			require.NoError(t, err)
			require.NoError(t, leader.ReadWith(ctx, raft.Lease, func() { assert.GreaterOrEqual(t, fsm.count, acknowledged, i) }))
		}
		assert.Equal(t, [2]uint64{200, 1}, leaseReads(leader), "a busy leader keeps its lease")
		time.Sleep(10 * time.Second)
		_, err = leader.ReadIndexWith(ctx, raft.Lease)
		require.NoError(t, err)
		assert.Equal(t, [2]uint64{201, 1}, leaseReads(leader), "and so does an idle one")
		for _, id := range c.IDs() {
			if n := c.Node(id); n != leader {
				_, err := n.ReadIndexWith(ctx, raft.Lease)
				require.NoError(t, err)
				assert.Equal(t, [2]uint64{0, 1}, leaseReads(n))
			}
		}
	})
}

func leaseReads(n *node.Node) [2]uint64 {
	m := n.Metrics()
	return [2]uint64{m.LeaseReads, m.LeaseFallbacks}
}

// A leader that is cut off reads by its lease until that ends, and not after: it then asks the others, in vain.
func TestLease_EndsWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		ctx, leader := context.Background(), c.Leader()
		_, err := leader.SetLeaseDuration(ctx, leaseTime)
		require.NoError(t, err)
		awaitLease(t, leader)
		c.Partition([]raft.NodeID{leader.Status().ID})
		_, err = leader.ReadIndexWith(ctx, raft.Lease)
		require.NoError(t, err)
		time.Sleep(leaseTime)
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = leader.ReadIndexWith(limited, raft.Lease)
		require.Error(t, err)
		assert.Zero(t, leader.Status().Lease)
	})
}

// After a leader has crashed, nobody is elected before its lease would have ended, although the others have the news at once: a
// promise runs from the arrival of the request.
func TestLease_NobodyIsElectedBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		switchLeases(t, c.Leader(), leaseTime)
		for i := range 15 {
			leader := c.Leader()
			awaitLease(t, leader)
			time.Sleep(time.Second + time.Duration(i)*7*time.Millisecond) // the followers have slept between two heartbeats
			s, elected := leader.Status(), make(chan time.Time, 2)
			for _, id := range c.IDs() {
				if id == s.ID {
					continue
				}
				go func() {
					for now := range c.Node(id).Watch(t.Context()) {
						if now.Term > s.Term && now.Leader != "" {
							elected <- time.Now()
							return
						}
					}
				}()
			}
			synctest.Wait()
			end := time.Now().Add(s.Lease)
			c.Crash(s.ID)
			assert.GreaterOrEqual(t, (<-elected).Sub(end), time.Duration(0))
			c.Start(s.ID)
		}
	})
}

// The lease is published before the answers to callers: a read after the answer to a write sees the write, on whichever
// goroutine.
func TestLease_IsPublishedBeforeTheAnswers(t *testing.T) {
	c := rafttest.New(t, 1, newBare)
	ctx, leader := context.Background(), c.Leader()
	_, err := leader.SetLeaseDuration(ctx, leaseTime)
	require.NoError(t, err)
	awaitLease(t, leader)
	var acknowledged atomic.Uint64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				r, err := leader.Propose(ctx, []byte("x"))
				if !assert.NoError(t, err) {
					return
				}
				for was := acknowledged.Load(); was < uint64(r.Index) && !acknowledged.CompareAndSwap(was, uint64(r.Index)); was = acknowledged.Load() {
				}
				floor := acknowledged.Load()
				index, err := leader.ReadIndexWith(ctx, raft.Lease)
				if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, uint64(index), floor) {
					return
				}
			}
		})
	}
	all.Wait()
}

// A read by lease allocates nothing.
func TestLease_AllocatesNothing(t *testing.T) {
	c := rafttest.New(t, 1, newBare)
	ctx, leader := context.Background(), c.Leader()
	_, err := leader.SetLeaseDuration(ctx, leaseTime)
	require.NoError(t, err)
	awaitLease(t, leader)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := leader.ReadIndexWith(ctx, raft.Lease); err != nil {
			t.Error(err)
		}
	}))
}

// A lease that is refused changes nothing. The error says what to do, also through another member.
func TestLease_TooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newBare)
		leader := c.Leader()
		_, err := leader.SetLeaseDuration(context.Background(), time.Hour)
		var tooLong *raft.LeaseTooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, time.Hour, tooLong.Duration)
		assert.ErrorContains(t, err, tooLong.Limit.String())
		assert.Zero(t, leader.Members().LeaseDuration)
	})
}
