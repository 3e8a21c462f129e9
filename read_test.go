package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *core) read(t raft.RequestID) raft.Output { return c.step(raft.ReadRequested{RequestID: t}) }

func readSafe(t raft.RequestID, index raft.Index, term raft.Term) raft.Answer {
	return raft.Answer{RequestID: t, Kind: raft.AnswerReadSafe, ID: id(index, term)}
}

// "The leader needs to make sure it hasn't been superseded by a newer leader of which it is unaware. It
// issues a new round of heartbeats and waits for their acknowledgments from a majority of the cluster."
// (dissertation §6.4)
func TestRead_NeedsARoundThatAQuorumAnswers(t *testing.T) {
	c := replicating(t, 2, 1)
	earlier := c.beat
	out := c.read(1)
	require.Empty(t, out.Answers)
	assert.Equal(t, []raft.Body{raft.Heartbeat{Round: c.beat, Commit: 3}}, bodies(out.Send, "b"))

	out = c.receive("b", 2, raft.HeartbeatReply{Round: earlier, Match: 3})
	assert.Empty(t, out.Answers, "an answer to an earlier round confirms nothing now")
	out = c.echo("b", 3)
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, out.Answers)
	assert.Empty(t, c.echo("c", 3).Answers, "once")
}

// "The leader saves its current commit index in a local variable readIndex." (dissertation §6.4) The leader answers with the
// commit index at the beginning of the round, or with a later one.
func TestRead_IndexIsTheCommitIndexAtItsRound(t *testing.T) {
	c := replicating(t, 2, 1)
	c.propose("x")
	c.persist()
	c.read(1)
	c.receive("b", 2, raft.AppendReply{Match: 4})
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, c.echo("c", 3).Answers)
	c.read(2)
	assert.Equal(t, []raft.Answer{readSafe(2, 4, 2)}, c.echo("c", 3).Answers)
}

// One round confirms all reads that wait. Reads that come during a round share the next one.
func TestRead_WaitingReadsShareARound(t *testing.T) {
	c := replicating(t, 2, 1)
	c.read(1)
	first := c.beat
	assert.Empty(t, c.read(2).Send)
	assert.Empty(t, c.read(3).Send)
	out := c.echo("b", 3)
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, out.Answers)
	assert.NotEqual(t, first, c.beat)
	assert.Equal(t, []raft.Answer{readSafe(2, 3, 2), readSafe(3, 3, 2)}, c.echo("b", 3).Answers)
}

// "If the leader has not yet marked an entry from its current term committed, it waits until it has
// done so." (dissertation §6.4)
func TestRead_WaitsForTheFirstCommitOfTheTerm(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	c.read(1)
	assert.Empty(t, c.echo("b", 0).Answers)
	c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, c.echo("b", 3).Answers)
}

func TestRead_SingleMemberAnswersAtOnce(t *testing.T) {
	c := leaderOf(t, "a", 2, 1)
	c.persist()
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, c.read(1).Answers)
}

// A lost round is repeated with the next heartbeat.
func TestRead_LostRoundIsRepeated(t *testing.T) {
	c := replicating(t, 2, 1)
	c.after(heartbeatPace)
	c.propose("x")
	c.receive("b", 2, raft.AppendReply{Match: 4})
	c.read(1)
	out := c.after(heartbeatPace)
	assert.Len(t, bodies(out.Send, "b"), 1)
	assert.Equal(t, []raft.Answer{readSafe(1, 3, 2)}, c.echo("b", 4).Answers)
}

// A follower asks the leader once for all reads that wait.
func TestRead_FollowerAsksTheLeader(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	out := c.read(1)
	request := out.Send[0].Body.(raft.ReadRequest)
	assert.Equal(t, []raft.Message{c.to("b", request)}, out.Send)
	assert.Empty(t, c.read(2).Send)
	assert.Empty(t, c.read(3).Send)

	out = c.receive("b", 2, raft.ReadReply{ID: request.ID, OK: true, Index: 9})
	assert.Equal(t, []raft.Answer{readSafe(1, 9, 0)}, out.Answers)
	next := out.Send[0].Body.(raft.ReadRequest)
	assert.Empty(t, c.receive("b", 2, raft.ReadReply{ID: request.ID, OK: true, Index: 9}).Answers, "a duplicate answer has no effect")
	assert.Empty(t, c.receive("c", 2, raft.ReadReply{ID: next.ID, OK: true, Index: 9}).Answers, "only the leader answers")
	out = c.receive("b", 2, raft.ReadReply{ID: next.ID, OK: true, Index: 10})
	assert.Equal(t, []raft.Answer{readSafe(2, 10, 0), readSafe(3, 10, 0)}, out.Answers)
}

// The leader serves a follower's read like its own.
func TestRead_LeaderServesAFollower(t *testing.T) {
	c := replicating(t, 2, 1)
	request := raft.RPCID{StartCount: 8, Counter: 1}
	c.receive("c", 2, raft.ReadRequest{ID: request})
	out := c.echo("b", 3)
	assert.Equal(t, []raft.Body{raft.ReadReply{ID: request, OK: true, Index: 3}}, bodies(out.Send, "c"))

	f := follower(t, 2, 1)
	out = f.receive("c", 2, raft.ReadRequest{ID: request})
	assert.Equal(t, []raft.Body{raft.ReadReply{ID: request, Refusal: raft.RefusedNotLeader}}, bodies(out.Send, "c"), "a member that does not lead refuses")
}

// Every read is answered.
func TestRead_IsRefusedWhenItCannotBeServed(t *testing.T) {
	refused := func(requestID raft.RequestID, why raft.RefusalKind, leader raft.NodeID) []raft.Answer {
		return []raft.Answer{{RequestID: requestID, Kind: raft.AnswerRefused, Refusal: why, Leader: leader}}
	}
	t.Run("no leader is known", func(t *testing.T) {
		assert.Equal(t, refused(1, raft.RefusedNotLeader, ""), follower(t, 2, 1).read(1).Answers)
	})
	t.Run("leadership ends while it waits", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.read(1)
		assert.Equal(t, refused(1, raft.RefusedNotLeader, ""), c.receive("b", 3, raft.VoteReply{}).Answers)
	})
	t.Run("leadership ends in the step that brings it", func(t *testing.T) {
		c := replicating(t, 2, 1)
		out := c.step(raft.ReadRequested{RequestID: 1}, c.from("b", 3, raft.Heartbeat{}))
		assert.Equal(t, refused(1, raft.RefusedNotLeader, ""), out.Answers)
		out = c.step(c.from("c", 4, raft.Heartbeat{}), raft.ReadRequested{RequestID: 2})
		assert.Empty(t, out.Answers)
		assert.Len(t, bodies(append(out.Send, out.Write.Then...), "c"), 1, "the new leader is asked")
	})
	t.Run("the leader changes while a follower asks", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		c.read(1)
		out := c.receive("c", 3, raft.Heartbeat{})
		require.Len(t, out.Answers, 1)
		assert.Equal(t, raft.RefusedNotLeader, out.Answers[0].Refusal)
	})
	t.Run("the leader refuses", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		request := c.read(1).Send[0].Body.(raft.ReadRequest)
		assert.Equal(t, refused(1, raft.RefusedOverloaded, "b"), c.receive("b", 2, raft.ReadReply{ID: request.ID}).Answers)
	})
	t.Run("the leader is silent for two timeouts", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		c.read(1)
		out := c.after(2*electionTimeout - ms)
		require.Empty(t, out.Answers)
		assert.Equal(t, refused(1, raft.RefusedTimedOut, "b"), c.after(ms).Answers)
	})
	t.Run("the leader is heard, and does not answer in sixteen timeouts", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		c.read(1)
		asked, repeats := c.now, 0
		for c.now += heartbeatPace; c.now-asked < 20*electionTimeout; c.now += heartbeatPace {
			out := c.receive("b", 2, raft.Heartbeat{})
			repeats += len(bodies(out.Send, "b"))
			if len(out.Answers) > 0 {
				assert.Equal(t, refused(1, raft.RefusedTimedOut, "b"), out.Answers)
				break
			}
		}
		assert.InDelta(t, float64(16*electionTimeout), float64(c.now-asked), float64(electionTimeout))
		assert.Equal(t, 9, repeats, "the pauses grow up to two timeouts")
	})
}

func TestRead_WhatTheCoreHasNoRoomFor(t *testing.T) {
	refused := func(requestID raft.RequestID, why raft.RefusalKind, leader raft.NodeID) []raft.Answer {
		return []raft.Answer{{RequestID: requestID, Kind: raft.AnswerRefused, Refusal: why, Leader: leader}}
	}
	t.Run("too many wait", func(t *testing.T) {
		c := replicating(t, 2, 1)
		for i := range raft.RequestID(128) {
			require.Empty(t, c.read(i).Answers)
		}
		assert.Equal(t, refused(200, raft.RefusedOverloaded, ""), c.read(200).Answers)
	})
	t.Run("closing", func(t *testing.T) {
		c := replicating(t, 2, 1)
		c.read(1)
		assert.Equal(t, refused(1, raft.RefusedClosing, "a"), c.step(raft.Closing{}).Answers)
		assert.Equal(t, refused(2, raft.RefusedClosing, "a"), c.read(2).Answers)
	})
}

// A follower repeats a request that may be lost. The leader keeps only one copy. Otherwise the repetitions during one slow
// round would leave no room for other reads.
func TestRead_ARepeatedRequestWaitsOnce(t *testing.T) {
	c := replicating(t, 2, 1)
	request := raft.RPCID{StartCount: 8, Counter: 1}
	for range 2 * coreConfig().ProposalsMax {
		c.receive("c", 2, raft.ReadRequest{ID: request})
	}
	c.receive("b", 2, raft.ReadRequest{ID: request}) // another follower's own
	out := c.read(1)
	for _, a := range out.Answers {
		assert.NotEqual(t, raft.RefusedOverloaded, a.Refusal)
	}
	answers := 0
	for range 3 {
		for _, body := range bodies(c.echo("b", 3).Send, "c") {
			if r, ok := body.(raft.ReadReply); ok && r.OK {
				answers++
			}
		}
	}
	assert.Equal(t, 1, answers)
}

// If a follower's leader has stepped down, a read is refused because there is no leader, not because of overload.
func TestRead_OfWhoLeadsNoMoreIsNoOverload(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	request := c.read(1).Send[0].Body.(raft.ReadRequest)
	out := c.receive("b", 2, raft.ReadReply{ID: request.ID, Refusal: raft.RefusedNotLeader})
	assert.Equal(t, []raft.Answer{{RequestID: 1, Kind: raft.AnswerRefused, Refusal: raft.RefusedNotLeader}}, out.Answers)
}
