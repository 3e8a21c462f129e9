package main_test

import (
	"testing"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A leader that is drained and then stopped fails no request.
func TestEndToEnd_DrainTheLeader(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	w, end := startWriters(t, c)
	other := c.others(leader.ID)[0]
	out, _ := c.members(other, 0, "drain", leader.ID)
	assert.Contains(t, out, leader.ID+" can be stopped: ")
	assert.Contains(t, out, "raftkv members drain "+leader.ID+" --undo\n")
	next := c.leader("")
	assert.NotEqual(t, leader.ID, next.ID)
	s := c.status(next)
	assert.NotContains(t, s.Successors, leader.ID)
	c.Process(leader.ID).Stop(patience)

	require.NoError(t, c.Start(leader.ID))
	c.caughtUp()
	c.members(leader, 0, "drain", leader.ID, "--undo")
	c.members(leader, 0, "drain", leader.ID, "--undo", "--priority", "1") // nothing to do
	end()
	t.Logf("%d writes, and %d requests met a closed port", len(w.acked), w.unreach)
	now, err := c.clientOf(next).Members(t.Context())
	require.NoError(t, err)
	for _, m := range now.Members {
		assert.Equal(t, 1, *m.Priority, m.ID)
	}
}

// The new leader says why it took over.
func TestEndToEnd_StatusSaysWhyTheLeaderTookOver(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	c.await(leader, "names its successors", func(s api.Status) bool { return len(s.Successors) == 2 })
	c.Process(leader.ID).Kill()
	next := c.leader(leader.ID)
	s := c.status(next)
	t.Log(s.LeaderReason)
	assert.Contains(t, []string{"news", "silence"}, s.LeaderCause, "silence if the machine is slow")
	assert.Contains(t, s.LeaderReason, ": it took over ")
	assert.Contains(t, s.LeaderReason, leader.ID)
	assert.NotContains(t, s.Successors, next.ID)
}
