package raft_test

import (
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Beyond each limit proposals are refused; none is queued.
func TestPropose_BeyondALimitIsRefused(t *testing.T) {
	refusal := func(out raft.Output) raft.RefusalKind { return out.Answers[len(out.Answers)-1].Refusal }

	c := replicating(t, 2, 1)
	assert.Equal(t, raft.RefusedTooLarge, refusal(c.propose(strings.Repeat("x", 1<<10+1))))
	var many []string
	for range 129 {
		many = append(many, "x")
	}
	out := c.propose(many...)
	assert.Equal(t, raft.RefusedOverloaded, refusal(out), "ProposalsMax is 128")
	assert.Equal(t, raft.AnswerAccepted, out.Answers[127].Kind)
	assert.Len(t, out.Write.Log.Entries, 128)

	c = replicating(t, 2, 1)
	for range 64 {
		require.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))))
	}
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")), "ProposalBytesMax is 64 KiB")
	assert.Equal(t, 1<<16, c.Status().PendingBytes)

	c = replicating(t, 2, 1)
	for range 63 {
		require.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))))
	}
	require.Zero(t, refusal(c.propose("x")))
	assert.Zero(t, refusal(c.propose(strings.Repeat("x", 1<<10))), "what is let in does not depend on its size")
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")))

	c = replicating(t, 2, 1)
	for range 1<<10 - 3 {
		require.Zero(t, refusal(c.propose("x")))
		c.persist()
		c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
	}
	assert.Equal(t, raft.RefusedOverloaded, refusal(c.propose("x")), "UnappliedMax is 1,024 entries")
	c.step(raft.Applied{ID: id(10, 2)})
	assert.Zero(t, refusal(c.propose("x")))
}
