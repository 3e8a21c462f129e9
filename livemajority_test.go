package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The voters do not change while a majority of the new ones is silent: otherwise the cluster would stall at
// once.
func TestLiveMajority_IsNeeded(t *testing.T) {
	silent := func(t *testing.T) *core { // c is not heard
		c := caughtUp(t)
		c.answering(3*electionTimeout, "bd")
		return c
	}
	c := silent(t)
	c.change(remove("b"))
	var lost *raft.QuorumLossError
	c.assertRefused(raft.RefusedQuorumLoss, &lost)
	assert.Equal(t, raft.QuorumLossError{Silent: []raft.NodeID{"c"}, Voters: []raft.NodeID{"a", "c"}}, *lost)

	ch := remove("b")
	ch.Despite = []raft.NodeID{"b"}
	c.change(ch)
	c.assertRefused(raft.RefusedQuorumLoss, &lost)
	ch.Despite = []raft.NodeID{"c"}
	c.change(ch)
	assert.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())

	c = silent(t)
	c.change(remove("c"))
	assert.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered(), "a and b remain, and are heard")
}

// The majority is checked again when the members have caught up, and the change waits for it.
func TestLiveMajority_IsWaitedFor(t *testing.T) {
	ch := addVoter("d")
	ch.Remove = []raft.Peer{peer("b")}
	begun := func() *core { // {a c d} are to vote, and c and d become silent
		c := joins(t, ch)
		c.answering(2*electionTimeout, "b")
		return c
	}
	c := begun()
	c.hold("d")
	assert.True(t, c.Status().Config.Joint(), "a and d are a majority")

	ch = addVoter("d")
	ch.Remove = []raft.Peer{peer("b")}
	ch.Demote = []raft.Peer{peer("a")}
	c = begun() // {c d}
	c.hold("d")
	require.True(t, c.Status().Config.Changing(), "d alone is no majority")
	assert.Empty(t, c.Status().Change.Waiting)
	began := c.now
	for c.Status().Config.Changing() {
		require.Less(t, c.now-began, raft.Time(2*time.Second))
		c.answering(heartbeatPace, "bd")
	}
	a := c.givenUp()
	assert.Equal(t, raft.RefusedQuorumLoss, a.Refusal)
	var lost *raft.QuorumLossError
	assert.ErrorAs(t, a.Err, &lost)
	assert.ErrorIs(t, a.Err, raft.ErrChangeGivenUp)

	c = begun()
	c.hold("d")
	c.echo("c", 0)
	assert.True(t, c.Status().Config.Joint(), "c is back")
}

// A member that repeatedly catches up and falls silent again does not prolong the wait for the others.
func TestLiveMajority_IsNotWaitedForByAMemberThatComesAndGoes(t *testing.T) {
	ch := addVoter("d")
	ch.Patience = 2 * time.Second
	ch.Remove, ch.Demote = []raft.Peer{peer("b")}, []raft.Peer{peer("a")} // {c d} are to vote, and c is silent
	ready := func() *core {
		c := joins(t, ch)
		c.answering(2*electionTimeout, "b")
		c.hold("d")
		require.Empty(t, c.Status().Change.Waiting)
		return c
	}
	goes := func(c *core) { // d comes and goes
		c.propose("x")
		c.hold("b")
		c.answering(2*electionTimeout, "b")
		require.True(t, !c.Status().Config.Changing() || len(c.Status().Change.Waiting) == 1)
	}
	c := ready()
	began := c.now
	for c.Status().Config.Changing() {
		require.Less(t, c.now-began, raft.Time(4*time.Second))
		goes(c)
		c.hold("d")
	}
	assert.Equal(t, raft.RefusedQuorumLoss, c.givenUp().Refusal)

	c = ready()
	goes(c)
	c.answering(electionTimeout, "bc")
	c.answering(5*electionTimeout, "b")
	for range 4 {
		c.hold("d")
		goes(c)
	}
	c.hold("d")
	assert.True(t, c.Status().Config.Changing(), "c was back, so its time began again")
}

// At the beginning of its term, a leader may not have heard everybody yet: it waits before it refuses.
func TestLiveMajority_ANewLeaderWaits(t *testing.T) {
	c := leaderOf(t, "abc", 5, 1)
	c.hold("b")
	ch := remove("b")
	c.change(ch)
	assert.Empty(t, c.out.Answers)
	c.echo("c", 0)
	assert.Equal(t, []raft.AnswerKind{raft.AnswerAccepted}, c.answered())

	c = leaderOf(t, "abc", 5, 1)
	c.hold("b")
	c.change(ch)
	for c.now < 10000*ms && len(c.out.Answers) == 0 {
		c.after(heartbeatPace)
		if len(c.out.Answers) == 0 {
			c.echo("b", 0)
		}
	}
	c.assertRefused(raft.RefusedQuorumLoss, new(*raft.QuorumLossError))
}

// The voters that the caller has named in Despite may still be silent when the members have caught up.
func TestLiveMajority_DespiteCountsUntilTheChangeEnds(t *testing.T) {
	for despite, enters := range map[raft.NodeID]bool{"c": true, "b": false} {
		ch := addVoter("d")
		ch.Remove, ch.Demote, ch.Despite = []raft.Peer{peer("b")}, []raft.Peer{peer("a")}, []raft.NodeID{despite}
		c := joins(t, ch) // {c d} are to vote
		c.answering(2*electionTimeout, "b")
		c.hold("d")
		assert.Equal(t, enters, c.Status().Config.Joint(), despite)
	}
}
