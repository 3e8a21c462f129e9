package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A member that could vote a moment ago may fall behind: its present round counts as soon as it takes too long, not only once
// it has ended.
func TestCatchUp_ARoundThatTakesTooLongIsNoticedWhileItRuns(t *testing.T) {
	c := caughtUp(t)
	c.propose("1", "2", "3", "4", "5", "6", "7", "8")
	held := c.progress("d")
	require.True(t, held.CatchUp.Ready, "its round has just begun")
	require.Equal(t, c.Status().Last.Index, held.CatchUp.Target)
	for since := c.now; c.now-since <= 2*electionTimeout; {
		c.answering(heartbeatPace, "bcd")
		held.Match++
		c.receive("d", 5, raft.AppendReply{Match: held.Match})
		require.Equal(t, "replicate", c.progress("d").State)
		require.Equal(t, c.now-since <= electionTimeout, c.progress("d").CatchUp.Ready, "after %v", c.now-since)
	}
	c.hold("bc")
	c.change(promote("d"))
	c.hold("bc")
	assert.Equal(t, []raft.NodeID{"d"}, c.Status().Change.Waiting)
}
