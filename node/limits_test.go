package node_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

func commandOf(size int) []byte { return bytes.Repeat([]byte("x"), size) }

// A proposal that begins after SetLimits has returned is judged by the new limits, here and in the core.
func TestSetLimits_CountForTheNextProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		for range 50 {
			require.NoError(t, n.SetLimits(raft.Limits{CommandBytesMax: 100}))
			_, err := n.Propose(t.Context(), commandOf(101))
			var large *raft.TooLargeError
			require.ErrorAs(t, err, &large)
			assert.Equal(t, 100, large.Limit)
			require.NoError(t, n.SetLimits(raft.Limits{CommandBytesMax: 200}))
			_, err = n.Propose(t.Context(), commandOf(101))
			require.NoError(t, err)
		}
		require.NoError(t, n.SetLimits(raft.Limits{}))
		_, err := n.Propose(t.Context(), commandOf(1<<20))
		assert.NoError(t, err, "zero means the default")
	})
}

// Callers and the loop read the limits while others set them.
func TestSetLimits_WhileCallersPropose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		n := c.Leader()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for k := range 50 {
					_, err := n.Propose(t.Context(), commandOf(50))
					assert.True(t, err == nil || errors.Is(err, raft.ErrOverloaded), "%v", err)
					limits := raft.Limits{CommandBytesMax: 50 + i, ProposalsMax: 1 + k%3, AppendBytesMax: 1 + k, InflightMax: 1 + k%2}
					assert.NoError(t, n.SetLimits(limits))
					_, err = n.ReadIndex(t.Context())
					assert.True(t, err == nil || errors.Is(err, raft.ErrOverloaded), "%v", err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, n.SetLimits(raft.Limits{}))
		c.Converge()
	})
}

func TestSetLimits_SnapshotsFollowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		n := c.Leader()
		for range 20 {
			propose(t, n, "x")
		}
		require.Zero(t, n.Status().Base)
		require.NoError(t, n.SetLimits(raft.Limits{SnapshotEntries: 8, SnapshotTailBytes: 1}))
		c.Await("a snapshot, and a shorter log", func() bool { return n.Status().Base.Index > 8 })
	})
}

func TestSetLimits_BadOnesAreRefusedAsAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{
			NewFSM: newJournal,
			Configure: func(cfg *node.Config) {
				cfg.ReceivedBytesMax, cfg.CommandBytesMax, cfg.AppendBytesMax = 1<<20, 100, 1<<12
			},
			Transport: func(_ raft.NodeID, tr raft.Transport) raft.Transport { return narrow{tr, 1 << 21} },
		})
		n := c.Leader()
		for _, row := range []struct {
			rule   string
			limits raft.Limits
			fields []string
		}{
			{"all problems at once", raft.Limits{CommandBytesMax: raft.EntryDataBytesMax + 1, InflightMax: -1}, []string{"CommandBytesMax", "InflightMax"}},
			{"too large for what may wait", raft.Limits{CommandBytesMax: 200, AppendBytesMax: 1<<20 + 1}, []string{"ReceivedBytesMax"}},
			{"too large for the transport", raft.Limits{CommandBytesMax: 1 << 21}, []string{"CommandBytesMax"}},
		} {
			err := n.SetLimits(row.limits)
			require.Error(t, err, row.rule)
			cfg := node.Config{ID: "n1", Cluster: "c", Limits: row.limits, ReceivedBytesMax: 1 << 20}
			if valid := cfg.Validate(); valid != nil {
				assert.EqualError(t, err, valid.Error(), row.rule)
			}
			for _, field := range row.fields {
				assert.ErrorContains(t, err, field+": ", row.rule)
			}
			var problem *raft.ConfigError
			assert.ErrorAs(t, err, &problem, row.rule)
			_, err = n.Propose(t.Context(), commandOf(101))
			var large *raft.TooLargeError
			require.ErrorAs(t, err, &large, "%s: nothing has changed", row.rule)
		}
		require.NoError(t, n.SetLimits(raft.Limits{CommandBytesMax: 101}))
		_, err := n.Propose(t.Context(), commandOf(101))
		assert.NoError(t, err)
		require.NoError(t, n.Close())
		assert.ErrorIs(t, n.SetLimits(raft.Limits{}), raft.ErrClosed)
	})
}

// The limits of a start are those of its Config, whatever was set before.
func TestSetLimits_AreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startAll(t, rafttest.Options{Members: 1, NewFSM: newJournal, Configure: func(cfg *node.Config) { cfg.CommandBytesMax = 100 }})
		require.NoError(t, c.Leader().SetLimits(raft.Limits{}))
		c.Restart("n1")
		_, err := c.Leader().Propose(context.Background(), commandOf(101))
		var large *raft.TooLargeError
		assert.ErrorAs(t, err, &large)
	})
}

// The other members learn the limit of a command on the next connection.
func TestSetLimits_TheOthersCompareWhatTheNextConnectionSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		c.Converge()
		require.NoError(t, c.Node("n3").SetLimits(raft.Limits{CommandBytesMax: 2000}))
		assert.Equal(t, []string{"limit of a command 1048576, not 2000"}, differing(c.Node("n3"), "n1"), "here at once")
		assert.Empty(t, differing(c.Node("n1"), "n3"))
		c.Isolate("n3")
		c.Await("n1 to lose it", func() bool { return !c.Node("n1").Status().Members[2].Connected })
		c.Heal()
		c.Await("n1 to see it", func() bool { return len(differing(c.Node("n1"), "n3")) == 1 })
		assert.Equal(t, []string{"limit of a command 2000, not 1048576"}, differing(c.Node("n1"), "n3"))
	})
}
