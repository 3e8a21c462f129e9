package raft_test

import (
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// setLimits puts the limits of coreConfig in force, with a change.
func (c *core) setLimits(change func(*raft.Limits)) raft.LimitsChanged {
	limits := coreConfig().Limits
	change(&limits)
	return raft.LimitsChanged{Limits: limits}
}

func TestLimitsChanged_CountForTheNextProposal(t *testing.T) {
	refusal := func(out raft.Output) raft.RefusalKind { return out.Answers[len(out.Answers)-1].Refusal }
	for _, row := range []struct {
		limit         string
		lower, higher func(*raft.Limits)
		large         string
		want          raft.RefusalKind
	}{
		{"CommandBytesMax", func(l *raft.Limits) { l.CommandBytesMax = 1 }, func(l *raft.Limits) { l.CommandBytesMax = 1 << 11 },
			strings.Repeat("x", 1<<10+1), raft.RefusedTooLarge},
		{"ProposalsMax", func(l *raft.Limits) { l.ProposalsMax = 2 }, func(l *raft.Limits) { l.ProposalsMax = 4 }, "x", raft.RefusedOverloaded},
		{"ProposalBytesMax", func(l *raft.Limits) { l.ProposalBytesMax = 2 }, func(l *raft.Limits) { l.ProposalBytesMax = 7 }, "x", raft.RefusedOverloaded},
		{"UnappliedMax", func(l *raft.Limits) { l.UnappliedMax = 2 }, func(l *raft.Limits) { l.UnappliedMax = 1 << 10 }, "x", raft.RefusedOverloaded},
	} {
		t.Run(row.limit, func(t *testing.T) {
			c := replicating(t, 2, 1)
			out := c.propose("xx", "xx", "xx")
			assert.Zero(t, refusal(out))
			out = c.step(c.setLimits(row.lower))
			assert.Empty(t, out.Answers, "what was accepted stays")
			assert.Equal(t, 3, c.Status().Pending)
			assert.Equal(t, row.want, refusal(c.propose(row.large)))

			again := raft.Proposal{RequestID: 900, Kind: raft.EntryCommand, Data: []byte(row.large)}
			out = c.step(c.setLimits(row.higher), raft.Proposed{Proposals: []raft.Proposal{again}})
			assert.Zero(t, refusal(out), "in the same step")
			assert.Equal(t, 4, c.Status().Pending)
		})
	}
}

// Appends in flight stay. More leave only within the limits in force, and a higher limit lets them leave at once.
func TestLimitsChanged_CountForTheNextAppend(t *testing.T) {
	c := replicating(t, 2, 1)
	for range 6 {
		c.propose("x")
	}
	inflight := func() int { return c.Status().Peers[0].Inflight }
	require.Equal(t, 4, inflight())
	first := c.Status().Peers[0].Match
	out := c.step(c.setLimits(func(l *raft.Limits) { l.InflightMax = 2 }))
	assert.Empty(t, appends(out.Send, "b"))
	assert.Equal(t, 4, inflight(), "what has left stays in flight")
	out = c.receive("b", 2, raft.AppendReply{Match: first + 2})
	assert.Empty(t, appends(out.Send, "b"))
	assert.Equal(t, 2, inflight())
	out = c.receive("b", 2, raft.AppendReply{Match: first + 3})
	assert.Len(t, appends(out.Send, "b"), 1)

	c = replicating(t, 2, 1)
	for range 6 {
		c.propose("x")
	}
	out = c.step(c.setLimits(func(l *raft.Limits) { l.InflightMax, l.AppendBytesMax = 6, 1 }))
	assert.Len(t, appends(out.Send, "b"), 2, "one entry each")
	assert.Equal(t, 6, inflight())
	c.propose("x")
	out = c.step(c.setLimits(func(l *raft.Limits) { l.InflightMax, l.InflightBytesMax = 9, 1 }))
	assert.Empty(t, appends(out.Send, "b"))
	out = c.step(c.setLimits(func(l *raft.Limits) { l.InflightMax = 9 }))
	assert.Len(t, appends(out.Send, "b"), 1)
}

func TestLimitsChanged_CountForTheLogAtOnce(t *testing.T) {
	policy := func(change func(*raft.Limits)) raft.LimitsChanged {
		limits := snapConfig().Limits
		change(&limits)
		return raft.LimitsChanged{Limits: limits}
	}
	for _, row := range []struct {
		limit string
		lower func(*raft.Limits)
	}{
		{"SnapshotEntries", func(l *raft.Limits) { l.SnapshotEntries = 8 }},
		{"SnapshotLogBytes", func(l *raft.Limits) { l.SnapshotLogBytes = 200 }},
	} {
		c := begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 3}, 3, 3, 3, 3, 3, 3, 3))
		require.Nil(t, c.step(policy(func(l *raft.Limits) { l.SnapshotEntries = 1000 })).Keep)
		c.append("b", 3, id(8, 3), 7, 3)
		c.persist()
		require.Nil(t, c.receive("b", 3, raft.Heartbeat{Commit: 9}).Keep, "a higher limit counts, too")
		out := c.step(policy(row.lower))
		require.NotNil(t, out.Keep, row.limit)
		assert.Equal(t, id(9, 3), out.Keep.Take.ID, row.limit)
	}

	c, out := eight(t, func(cfg *raft.CoreConfig) { cfg.SnapshotTailBytes = 1 << 20 })
	taken(c, out.Keep.Take, 1)
	require.Nil(t, c.persist().Write.Base, "all of the log is in the tail")
	out = c.step(policy(func(l *raft.Limits) { l.SnapshotTailBytes = 1 }))
	require.NotNil(t, out.Write.Base, "SnapshotTailBytes")
	assert.Equal(t, id(8, 3), out.Write.Base.ID)

	c = begin(t, snapConfig(), storedWhole(t, raft.HardState{Term: 2}, 2, 2, 2, 2, 2, 2, 2))
	c.electedBy("c")
	c.persist()
	out = c.receive("c", 3, raft.AppendReply{Match: 9})
	c.receive("b", 3, raft.AppendReply{Match: 3})
	taken(c, out.Keep.Take, 1)
	require.Equal(t, id(3, 2), c.persist().Write.Base.ID, "b needs entry 4 next")
	out = c.step(policy(func(l *raft.Limits) { l.SnapshotHoldBytes = 1 }))
	require.NotNil(t, out.Write.Base, "SnapshotHoldBytes")
	assert.Equal(t, id(8, 2), out.Write.Base.ID)
}

func TestLimitsChanged_ZeroIsTheDefaultAndOutOfRangeIsABugOfTheLoop(t *testing.T) {
	c := replicating(t, 2, 1)
	c.step(raft.LimitsChanged{})
	assert.Zero(t, c.propose(strings.Repeat("x", 1<<20)).Answers[0].Refusal, "1 MiB")
	assert.PanicsWithError(t, "raft: broken invariant: limits are checked before they change", func() {
		c.step(c.setLimits(func(l *raft.Limits) { l.InflightMax = -1 }))
	})
}
