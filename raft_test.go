package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A restarted member continues from its stored commit hint, but not beyond the end of its log.
func TestStart_TheCommitHintOfTheLastLife(t *testing.T) {
	for hint, want := range map[raft.Index]raft.Index{0: 0, 2: 2, 3: 3, 9: 3} {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 2}, Commit: hint}
		assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		for _, e := range entries(2, 1, 1) {
			assert.NoError(t, stored.Log.Observe(e))
		}
		c := begin(t, coreConfig(), stored)
		assert.Equal(t, want, c.Status().Commit)
		assert.Equal(t, want, c.out.Apply.Index)
	}
}

// A state machine that is ahead of the log does not belong to the log.
func TestStart_AppliedBeyondTheLogIsRefused(t *testing.T) {
	for name, applied := range map[string]raft.EntryID{"beyond": id(3, 1), "another term": id(2, 2), "index 0": id(0, 1)} {
		stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 2}, Applied: applied}
		assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
		assert.NoError(t, stored.Log.Observe(entries(2, 1)[0]))
		core, _, err := raft.NewCore(coreConfig(), stored, raft.Now{})
		assert.Nil(t, core, name)
		var beyond *raft.AppliedBeyondLogError
		assert.ErrorAs(t, err, &beyond, name)
	}
}

// A term is durable before the entries of that term. So if the log is ahead of the stored term, the store has lost something.
func TestStart_ALogAheadOfItsTermIsRefused(t *testing.T) {
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 4, Hard: raft.HardState{Term: 1}}
	assert.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	assert.NoError(t, stored.Log.Observe(entries(2, 2)[0]))
	_, _, err := raft.NewCore(coreConfig(), stored, raft.Now{})
	var corrupt *raft.CorruptError
	assert.ErrorAs(t, err, &corrupt)
}

// "If RPC request or response contains term T > currentTerm: set currentTerm = T, convert to follower
// (§5.1)." (Figure 2, All Servers)
func TestTerm_ANewerOneConvertsToFollower(t *testing.T) {
	states := map[string]func() *core{
		"follower":      func() *core { return follower(t, 2, 1) },
		"pre-candidate": func() *core { c := follower(t, 2, 1); c.timeout(); return c },
		"candidate":     func() *core { return candidateOf(t, "abc", 2, 1) },
		"leader":        func() *core { return leaderOf(t, "abc", 2, 1) },
	}
	for role, state := range states {
		for _, body := range []raft.Body{
			raft.VoteReply{}, raft.AppendReply{}, raft.AppendConflict{Prev: 1}, raft.HeartbeatReply{},
			raft.PreVoteReply{}, raft.ReadRequest{}, raft.ReadReply{}, raft.TimeoutNow{},
		} {
			c := state()
			out := c.receive("b", 9, body)
			assert.Equal(t, raft.Leadership{Term: 9}, c.Leadership(), "%s, %T", role, body)
			require.NotNil(t, out.Write.Hard, "%s, %T", role, body)
			assert.Equal(t, raft.HardState{Term: 9}, *out.Write.Hard, "a new term begins without a vote")
		}
	}
}

// storedOf returns the store of a member of abc that has been bootstrapped.
func storedOf(t *testing.T) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 1}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	return stored
}

// NewCore refuses a configuration that cannot work. Each field is tested alone, so that a missing check is
// noticed.
func TestCoreConfig_WhatCannotWorkIsRefusedByName(t *testing.T) {
	for field, spoil := range map[string]func(*raft.CoreConfig){
		"ID":                func(c *raft.CoreConfig) { c.ID = "" },
		"Initial":           func(c *raft.CoreConfig) { c.Initial = listNamed("bc") },
		"NewCluster":        func(c *raft.CoreConfig) { c.Initial, c.NewCluster = listNamed("abc"), raft.ClusterID{} },
		"ElectionTimeout":   func(c *raft.CoreConfig) { c.ElectionTimeout = -time.Second },
		"HeartbeatInterval": func(c *raft.CoreConfig) { c.HeartbeatInterval = c.ElectionTimeout },
		"DiskStallMax":      func(c *raft.CoreConfig) { c.DiskStallMax = -1 },
		"CommandBytesMax":   func(c *raft.CoreConfig) { c.CommandBytesMax = raft.EntryDataBytesMax + 1 },
		"ProposalsMax":      func(c *raft.CoreConfig) { c.ProposalsMax = -1 },
		"ProposalBytesMax":  func(c *raft.CoreConfig) { c.ProposalBytesMax = -1 },
		"UnappliedMax":      func(c *raft.CoreConfig) { c.UnappliedMax = -1 },
		"AppendBytesMax":    func(c *raft.CoreConfig) { c.AppendBytesMax = -1 },
		"InflightMax":       func(c *raft.CoreConfig) { c.InflightMax = -1 },
		"InflightBytesMax":  func(c *raft.CoreConfig) { c.InflightBytesMax = -1 },
		"SnapshotEntries":   func(c *raft.CoreConfig) { c.SnapshotEntries = -1 },
		"SnapshotLogBytes":  func(c *raft.CoreConfig) { c.SnapshotLogBytes = -1 },
		"SnapshotTailBytes": func(c *raft.CoreConfig) { c.SnapshotTailBytes = -1 },
		"SnapshotHoldBytes": func(c *raft.CoreConfig) { c.SnapshotHoldBytes = -1 },
	} {
		t.Run(field, func(t *testing.T) {
			cfg := coreConfig()
			spoil(&cfg)
			core, _, err := raft.NewCore(cfg, storedOf(t), raft.Now{Mono: 1})
			var problem *raft.ConfigError
			require.ErrorAs(t, err, &problem)
			assert.Equal(t, field, problem.Field)
			assert.ErrorContains(t, err, field+": ")
			assert.Nil(t, core)
		})
	}
}

func TestCoreConfig_AllProblemsAreNamedAtOnce(t *testing.T) {
	cfg := coreConfig()
	cfg.ID, cfg.InflightMax, cfg.DiskStallMax = "", -1, -1
	_, _, err := raft.NewCore(cfg, storedOf(t), raft.Now{Mono: 1})
	for _, field := range []string{"ID", "InflightMax", "DiskStallMax"} {
		assert.ErrorContains(t, err, field+": ")
	}
}

// A core whose configuration has only an id is elected, accepts a proposal, sends it and commits it.
func TestCoreConfig_ZeroValuesAreDefaults(t *testing.T) {
	c := begin(t, raft.CoreConfig{ID: "a"}, storedOf(t))
	c.electedBy("b")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	out := c.propose("x")
	assert.Equal(t, raft.AnswerAccepted, out.Answers[0].Kind)
	assert.Len(t, appends(out.Send, "b"), 1, "the proposal is sent to the follower at once")
	c.persist()
	out = c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	assert.Equal(t, c.Status().Last, out.Apply)
}

// Only the bootstrapper's own list needs all addresses.
func TestCoreConfig_OpenAddresses(t *testing.T) {
	for _, row := range []struct {
		rule string
		id   raft.NodeID
		open []int
		says string
	}{
		{"of the bootstrapper itself", "a", []int{0}, `member "a" has no address`},
		{"of another, at the bootstrapper", "a", []int{2}, `member "c" has no address`},
		{"of all, at another member", "b", []int{0, 1, 2}, ""},
		{"of some, at another member", "c", []int{0, 2}, ""},
	} {
		cfg := coreConfig()
		cfg.ID, cfg.Initial = row.id, listNamed("abc")
		for _, i := range row.open {
			cfg.Initial.Members[i].Address = ""
		}
		err := cfg.Validate()
		if row.says == "" {
			assert.NoError(t, err, row.rule)
			continue
		}
		var problem *raft.ConfigError
		require.ErrorAs(t, err, &problem, row.rule)
		assert.ErrorContains(t, err, row.says, row.rule)
		cfg.Initial.Members[0].Kind = raft.Learner // b bootstraps
		if row.open[0] > 0 {
			assert.NoError(t, cfg.Validate(), row.rule)
		}
	}
	cfg := coreConfig()
	cfg.ID, cfg.Initial = "b", listNamed("abc")
	cfg.Initial.Members[0].Address, cfg.Initial.Members[0].Meta = "", "url"
	assert.ErrorContains(t, cfg.Validate(), "the address has 0 bytes")
}
