package raft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// storedOf is a member of abc that has been bootstrapped.
func storedOf(t *testing.T) raft.Stored {
	t.Helper()
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 1}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("abc"))))
	return stored
}

// NewCore refuses a configuration that cannot work. Each field is tested alone, so that a missing check is noticed.
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

// A core that is configured with an id alone is elected, takes a proposal, sends it and commits it.
func TestCoreConfig_ZeroValuesAreDefaults(t *testing.T) {
	c := begin(t, raft.CoreConfig{ID: "a"}, storedOf(t))
	c.timeout()
	c.grantPreVote("b")
	c.persist()
	c.receive("b", 2, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	out := c.propose("x")
	assert.Equal(t, raft.AnswerAccepted, out.Answers[0].Kind)
	assert.Len(t, appends(out.Send, "b"), 1, "it goes to the follower at once")
	c.persist()
	out = c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	assert.Equal(t, c.Status().Last, out.Apply)
}
