package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
)

// Every request is answered: accepted, and again only if leadership ended while it was pending.
func TestAnswer_ProposalsOfALostTerm(t *testing.T) {
	t.Run("unknown: the entry is still in the log", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.receive("b", 3, raft.Heartbeat{})
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("unknown: cut off here, it may be committed by another member that holds it", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.append("b", 3, id(3, 2), 3, 3)
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("not applied: another entry is committed in its place", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.append("b", 3, id(3, 2), 4, 3)
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerNotApplied, ID: id(4, 2)}}, out.Answers)
	})
	t.Run("being applied in the same step: the applier answers", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		c.persist()
		out := c.step(c.from("b", 3, raft.AppendRequest{Prev: id(4, 2), Last: id(4, 2), Commit: 4}))
		assert.Equal(t, id(4, 2), out.Apply)
		assert.Empty(t, out.Answers)
	})
	t.Run("refused: a follower names the leader", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		assert.Equal(t, []raft.Answer{{
			RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader, Leader: "b",
		}}, c.propose("x").Answers)
	})
	t.Run("closing: everything is answered, and nothing taken", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.propose("x")
		out := c.step(raft.Closing{})
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, ID: id(4, 2)}}, out.Answers)
		assert.Equal(t, raft.RefusedClosing, c.propose("y").Answers[0].Refusal)
	})
}
