package node_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

func TestLeader_IsKnownAtOnceAndWithItsMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.Prepare(t, rafttest.Options{NewFSM: newJournal})
		_, known := c.Start("n1").Leader()
		assert.False(t, known, "nothing is bootstrapped")
		c.Start("n2")
		c.Start("n3")
		want, err := c.Leader().WaitLeader(context.Background())
		require.NoError(t, err)
		for _, id := range c.IDs() {
			c.Await("all to know it", func() bool { m, _ := c.Node(id).Leader(); return m == want })
		}
		assert.Equal(t, "http://"+string(want.ID), want.Meta)

		old := c.Node(want.ID)
		c.Isolate(want.ID)
		c.Await("it to step down", func() bool { _, known := old.Leader(); return !known })
		c.Heal()
		n := c.Leader()
		require.NoError(t, n.Close())
		_, known = n.Leader()
		assert.False(t, known, "it has ended")
	})
}

// If a caller receives a change from Watch, Leader already returns that change or a later one.
func TestLeader_IsNotOlderThanWhatWatchYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Follower()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		transfers := 0
		for now := range n.Watch(ctx) {
			if now.Leader == "" {
				continue
			}
			m, _ := n.Leader()
			assert.Equal(t, now.Leader, m.ID)
			if transfers++; transfers > 3 {
				break
			}
			require.NoError(t, c.Leader().TransferLeadership(ctx, ""))
		}
		assert.Equal(t, 4, transfers)
	})
}

func TestLeader_AllocatesNothing(t *testing.T) {
	c := rafttest.New(t, 1, newJournal)
	n := c.Leader()
	var m raft.Member
	assert.Zero(t, testing.AllocsPerRun(100, func() { m, _ = n.Leader() }))
	assert.Equal(t, raft.NodeID("n1"), m.ID)
}

func TestLeader_AVainWaitReturnsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		c.Isolate(n.Status().ID)
		c.Await("it to step down", func() bool { _, known := n.Leader(); return !known })
		const why = "no leader: 1 of 3 voters can be reached, 2 are needed"
		c.Await("it to know that the others are gone", func() bool { return strings.HasPrefix(n.Status().LeaderReason, why) })

		ctx := context.Background()
		calls := map[string]func() error{
			"Propose":            func() error { _, err := n.Propose(ctx, nil); return err },
			"Barrier":            func() error { _, err := n.Barrier(ctx); return err },
			"ReadIndex":          func() error { _, err := n.ReadIndex(ctx); return err },
			"TransferLeadership": func() error { return n.TransferLeadership(ctx, "") },
		}
		for name, call := range calls {
			var refusal *node.NotLeaderError
			require.ErrorAs(t, call(), &refusal, name)
			assert.Nil(t, refusal.Leader, name)
			assert.Contains(t, refusal.Reason, why, name)
		}
		for _, wait := range []func(context.Context) error{
			n.Ready, func(ctx context.Context) error { _, err := n.WaitLeader(ctx); return err },
		} {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			err := wait(limited)
			cancel()
			var waiting *node.NotReadyError
			require.ErrorAs(t, err, &waiting)
			assert.Contains(t, waiting.Reason, why)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}
