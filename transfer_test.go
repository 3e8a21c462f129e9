package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heardLeader returns a leader of abc in term 2. Both other members have answered its heartbeats.
func heardLeader(t *testing.T) *core {
	c := replicating(t, 2, 1)
	c.after(heartbeatPace)
	c.after(heartbeatPace)
	c.echo("b", 3)
	c.echo("c", 3)
	return c
}

func (c *core) transferTo(to raft.NodeID) raft.Output {
	return c.step(raft.TransferRequested{RequestID: requestIDOfTheTests, To: to})
}

// "1. The prior leader stops accepting new client requests. 2. The prior leader fully updates the target
// server's log to match its own ... 3. The prior leader sends a TimeoutNow request to the target
// server." (dissertation §3.10)
func TestTransfer_BringsTheTargetUpToDateThenTellsIt(t *testing.T) {
	c := heardLeader(t)
	c.propose("x")
	out := c.transferTo("b")
	assert.Empty(t, bodies(out.Send, "b"), "b lacks an entry")
	assert.Equal(t, raft.RefusedTransferring, c.propose("y").Answers[0].Refusal)
	assert.Equal(t, raft.NodeID("b"), c.out.Answers[0].Leader)

	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 4})
	out = c.step(raft.Applied{ID: id(4, 2)})
	assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.TimeoutNow{Named: true}))
	out = c.after(heartbeatPace)
	assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.TimeoutNow{Named: true}), "it may be lost")
}

// accepting returns a leader that has accepted entry 4 and transfers its leadership to b, which holds that entry.
func accepting(t *testing.T, e raft.TransferRequested) *core {
	c := heardLeader(t)
	c.propose("x")
	c.persist()
	e.RequestID, e.To = requestIDOfTheTests, "b"
	c.step(e)
	c.receive("b", 2, raft.AppendReply{Match: 4})
	require.Equal(t, raft.Index(4), c.Status().Commit)
	return c
}

// A planned transfer leaves no outcome unknown: TimeoutNow waits until this member has applied what it has accepted.
func TestTransfer_WaitsUntilTheAcceptedProposalsAreApplied(t *testing.T) {
	c := accepting(t, raft.TransferRequested{})
	assert.Empty(t, c.toldToCampaign(), "entry 4 is committed, but not applied")
	c.step(raft.Applied{ID: id(4, 2)})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	c.receive("b", 3, raft.VoteRequest{Last: id(4, 2), Transfer: true})
	assert.Empty(t, c.out.Answers, "the transfer has no outcome yet")
}

func TestTransfer_AnUrgentOneWaitsOnlyForTheTarget(t *testing.T) {
	c := accepting(t, raft.TransferRequested{Urgent: true})
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	assert.False(t, c.HoldsProposals(), "they are refused at once")
}

// If the proposals are not applied in time, a request fails. A leader that is about to end lets the target campaign all the
// same, if the target has the whole log.
func TestTransfer_WaitsForTheProposalsNoLongerThanItsBound(t *testing.T) {
	pass := func(c *core, acked raft.Index) {
		for end := c.Status().TransferringUntil; c.now < end; {
			require.Empty(t, c.toldToCampaign())
			c.after(min(heartbeatPace, end-c.now))
			if c.now < end {
				c.echo("b", acked)
				c.echo("c", 3)
			}
		}
	}
	c := accepting(t, raft.TransferRequested{})
	pass(c, 4)
	assert.Equal(t, refused(raft.RefusedTimedOut, "a"), c.out.Answers)
	assert.Empty(t, c.toldToCampaign())
	assert.Equal(t, raft.AnswerAccepted, c.propose("y").Answers[0].Kind)

	c = accepting(t, raft.TransferRequested{Leaving: true})
	pass(c, 4)
	assert.Empty(t, c.out.Answers)
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	assert.Greater(t, c.Status().TransferringUntil, c.now, "the target has its time to win")

	c = heardLeader(t)
	c.propose("x")
	c.step(raft.TransferRequested{RequestID: requestIDOfTheTests, To: "b", Leaving: true})
	pass(c, 3)
	assert.Equal(t, refused(raft.RefusedTimedOut, "a"), c.out.Answers, "b lacks an entry")
}

// A member that can apply nothing does not wait until it has.
func TestTransfer_AMemberThatCannotApplyDoesNotWait(t *testing.T) {
	t.Run("its disk stalls", func(t *testing.T) {
		c := heardLeader(t)
		acked := map[raft.NodeID]raft.Index{"b": 3, "c": 3}
		c.propose("x")
		c.waitHearing(diskStallMax-heartbeatPace, acked)
		c.transferTo("b")
		c.hear(map[raft.NodeID]raft.Index{"b": 4, "c": 3})
		require.Empty(t, c.toldToCampaign())
		c.after(heartbeatPace)
		assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	})
	t.Run("its FSM hangs", func(t *testing.T) {
		c := hanging(t, "abc")
		c.waitApplying(applyStallMax-heartbeatPace, nil)
		c.transferTo("b")
		require.Empty(t, c.toldToCampaign())
		c.after(heartbeatPace)
		assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	})
}

// A loop holds proposals back until the transfer has failed, or until this member can name the next leader.
func TestTransfer_HoldsProposalsUntilItsOutcomeIsKnown(t *testing.T) {
	c := heardLeader(t)
	assert.False(t, c.HoldsProposals())
	c.transferTo("b")
	assert.True(t, c.HoldsProposals())
	c.receive("b", 3, raft.VoteRequest{Last: id(3, 2), Transfer: true})
	require.Empty(t, c.Leadership().Leader)
	assert.True(t, c.HoldsProposals(), "it cannot name the leader")
	c.receive("b", 3, raft.Heartbeat{})
	assert.False(t, c.HoldsProposals())
	assert.Equal(t, raft.Leadership{Term: 3, Leader: "b", LeaderIncarnation: 'b', ByTransfer: true}, c.Leadership())

	c = heardLeader(t)
	c.transferTo("b")
	c.receive("b", 3, raft.VoteRequest{Last: id(3, 2), Transfer: true})
	c.receive("c", 4, raft.Heartbeat{})
	assert.False(t, c.HoldsProposals())
	assert.False(t, c.Leadership().ByTransfer, "c was not told to campaign")

	c = heardLeader(t)
	c.transferTo("b")
	c.step(raft.Closing{})
	assert.False(t, c.HoldsProposals())
}

// The target campaigns at once in the next term, without a pre-vote. Members grant its requests even if they hear a leader.
func TestTransfer_TargetCampaignsAtOnce(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	out := c.receive("b", 2, raft.TimeoutNow{})
	assert.Equal(t, raft.Leadership{Term: 3, Role: raft.Candidate}, c.Leadership())
	assert.Equal(t, []raft.Message{
		c.to("b", raft.VoteRequest{Last: id(2, 1), Transfer: true}),
		c.to("c", raft.VoteRequest{Last: id(2, 1), Transfer: true}),
	}, out.Write.Then)

	c = follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	out = c.receive("c", 3, raft.VoteRequest{Last: id(2, 1), Transfer: true})
	assert.Equal(t, []raft.Message{c.to("c", raft.VoteReply{Granted: true})}, out.Write.Then)
}

// A TimeoutNow counts only in its own term, if its leader sent it, and if the receiver is a voter.
func TestTransfer_StaleTimeoutNowIsIgnored(t *testing.T) {
	t.Run("of an earlier term", func(t *testing.T) {
		c := follower(t, 3, 1)
		c.receive("b", 3, raft.Heartbeat{})
		c.receive("b", 2, raft.TimeoutNow{})
		assert.Equal(t, raft.Leadership{Term: 3, Leader: "b", LeaderIncarnation: 'b'}, c.Leadership())
	})
	t.Run("of somebody who does not lead", func(t *testing.T) {
		c := follower(t, 3, 1)
		c.receive("b", 3, raft.Heartbeat{})
		c.receive("c", 3, raft.TimeoutNow{})
		assert.Equal(t, raft.Leadership{Term: 3, Leader: "b", LeaderIncarnation: 'b'}, c.Leadership())
	})
	t.Run("by a candidate", func(t *testing.T) {
		c := candidateOf(t, "abc", 3, 1)
		c.receive("b", 3, raft.TimeoutNow{})
		assert.EqualValues(t, 3, c.Leadership().Term)
	})
	t.Run("by a learner", func(t *testing.T) {
		members := membersNamed("abc")
		members[0].Kind = raft.Learner
		c := restart(t, members, raft.HardState{Term: 3}, 1)
		c.receive("b", 3, raft.Heartbeat{})
		c.receive("b", 3, raft.TimeoutNow{})
		assert.Equal(t, raft.Leadership{Term: 3, Leader: "b", LeaderIncarnation: 'b'}, c.Leadership())
	})
}

// If the target tries again, it campaigns in the usual way, because the transfer mark is valid for one term only.
func TestTransfer_MarkIsForOneTerm(t *testing.T) {
	c := follower(t, 2, 1)
	c.receive("b", 2, raft.Heartbeat{})
	c.receive("b", 2, raft.TimeoutNow{})
	c.persist()
	c.timeout()
	out := c.grantPreVote("c")
	require.Len(t, out.Write.Then, 2)
	assert.Equal(t, raft.VoteRequest{Last: id(2, 1)}, out.Write.Then[0].Body)
}

func transferred(to raft.NodeID) []raft.Answer {
	return []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerTransferred, Leader: to}}
}

func refused(why raft.RefusalKind, leader raft.NodeID) []raft.Answer {
	return []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerRefused, Refusal: why, Leader: leader}}
}

// The request is always answered.
func TestTransfer_RequestIDIsAnswered(t *testing.T) {
	t.Run("the target leads", func(t *testing.T) {
		c := heardLeader(t)
		c.transferTo("b")
		assert.Empty(t, c.receive("b", 3, raft.VoteRequest{Last: id(3, 2), Transfer: true}).Answers)
		assert.Equal(t, transferred("b"), c.receive("b", 3, raft.Heartbeat{}).Answers)
	})
	t.Run("another leads", func(t *testing.T) {
		c := heardLeader(t)
		c.transferTo("b")
		assert.Equal(t, refused(raft.RefusedTimedOut, "c"), c.receive("c", 3, raft.Heartbeat{}).Answers)
	})
	t.Run("another leads, and none was named", func(t *testing.T) {
		c := heardLeader(t)
		c.transferTo("")
		assert.Equal(t, transferred("c"), c.receive("c", 3, raft.Heartbeat{}).Answers)
	})
	// "if leadership transfer does not complete after about an election timeout, the prior leader aborts
	// the transfer and resumes accepting client requests." (dissertation §3.10)
	t.Run("the target does not answer", func(t *testing.T) {
		c := heardLeader(t)
		c.transferTo("b")
		for c.now < c.out.WakeAt && len(c.out.Answers) == 0 {
			c.timeout()
			if len(c.out.Answers) == 0 {
				c.echo("c", 3)
			}
		}
		assert.Equal(t, refused(raft.RefusedTimedOut, "a"), c.out.Answers)
		assert.Equal(t, raft.AnswerAccepted, c.propose("x").Answers[0].Kind)
	})
	t.Run("nobody leads for two timeouts", func(t *testing.T) {
		c := heardLeader(t)
		c.transferTo("b")
		c.receive("b", 3, raft.VoteRequest{Last: id(3, 2), Transfer: true})
		c.persist()
		until := c.now + 2*electionTimeout
		for len(c.out.Answers) == 0 {
			require.LessOrEqual(t, c.out.WakeAt, until)
			c.timeout()
		}
		assert.Equal(t, refused(raft.RefusedTimedOut, ""), c.out.Answers)
	})
}

// A transfer that cannot begin is refused at once. The answer names the member to ask instead.
func TestTransfer_RefusesAtOnce(t *testing.T) {
	t.Run("no such target", func(t *testing.T) {
		c := heardLeader(t)
		for _, to := range []raft.NodeID{"a", "z"} {
			assert.Equal(t, refused(raft.RefusedNoTarget, "a"), c.transferTo(to).Answers)
		}
	})
	t.Run("a target that has not been heard", func(t *testing.T) {
		c := leaderOf(t, "abc", 2, 1)
		c.receive("c", 2, raft.AppendReply{Match: 3})
		assert.Equal(t, refused(raft.RefusedNoTarget, "a"), c.transferTo("b").Answers)
		c.transferTo("")
		assert.Equal(t, refused(raft.RefusedTransferring, "c"), c.transferTo("c").Answers, "one at a time")
	})
	t.Run("by a follower", func(t *testing.T) {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		assert.Equal(t, refused(raft.RefusedNotLeader, "b"), c.transferTo("c").Answers)
	})
	t.Run("closing", func(t *testing.T) {
		c := heardLeader(t)
		c.propose("b lacks it")
		c.transferTo("b")
		assert.Contains(t, c.step(raft.Closing{}).Answers, refused(raft.RefusedClosing, "a")[0])
		assert.Equal(t, refused(raft.RefusedClosing, "a"), c.transferTo("b").Answers)
	})
	t.Run("closing, and the target may campaign", func(t *testing.T) {
		c := heardLeader(t)
		require.NotEmpty(t, bodies(c.transferTo("b").Send, "b"))
		assert.Equal(t, []raft.Answer{{RequestID: requestIDOfTheTests, Kind: raft.AnswerUnknown, Leader: "a"}}, c.step(raft.Closing{}).Answers)
	})
}

// The time to catch up grows with the duration of the target's acknowledgements. That duration is measured from the first
// time that the append was sent. This holds even if the leader repeated the append with each heartbeat while the target's
// disk was writing.
func TestTransfer_WaitsForASlowDiskOfTheTarget(t *testing.T) {
	const write = 3 * electionTimeout
	for _, row := range []struct {
		rule string
		lead func(t *testing.T) *core // b's disk is writing entry 3
	}{
		{"a new leader's first append", func(t *testing.T) *core {
			c := leaderOf(t, "abc", 2, 1)
			c.persist()
			c.receive("c", 2, raft.AppendReply{Match: 2})
			return c
		}},
		{"an append after others", func(t *testing.T) *core {
			c := replicating(t, 2, 1)
			c.propose("x")
			c.persist()
			c.receive("c", 2, raft.AppendReply{Match: 3})
			return c
		}},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := row.lead(t)
			last := c.Status().Last.Index
			for began := c.now; c.now < began+write; {
				c.after(heartbeatPace)
				c.echo("b", last-1)
				c.echo("c", last)
			}
			c.receive("b", 2, raft.AppendReply{Match: last})
			assert.GreaterOrEqual(t, c.Status().Peers[0].SlowestAck, write-heartbeatPace)

			c.propose("y")
			c.transferTo("b")
			c.persist()
			for began := c.now; c.now < began+2*write; {
				c.after(heartbeatPace)
				require.Empty(t, c.out.Answers, "b's disk is still writing the entry")
				c.echo("b", last)
				c.echo("c", last)
			}
			c.receive("b", 2, raft.AppendReply{Match: last + 1})
			out := c.step(raft.Applied{ID: id(last+1, 2)})
			assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.TimeoutNow{Named: true}))
		})
	}
}

// A new leader knows from its election that disks are slow. The answer to a heartbeat may end the target's probe early,
// because it acknowledges what the target held before. The leader does not conclude that the target's disk is fast.
func TestTransfer_OfANewLeaderWaitsForASlowDiskOfTheTarget(t *testing.T) {
	const write = 9 * electionTimeout / 10
	c := candidateOf(t, "abc", 2, 1)
	c.persist()
	c.after(write)
	c.receive("c", 2, raft.VoteReply{Granted: true})
	c.persist()
	c.receive("c", 2, raft.AppendReply{Match: 3})
	c.after(heartbeatPace)
	c.echo("b", 2)
	require.Equal(t, write, c.Status().Peers[0].SlowestAck)
	c.transferTo("b")
	for began := c.now; c.now < began+4*write; {
		c.after(heartbeatPace)
		require.Empty(t, c.out.Answers, "b's disk is still writing entry 3")
		c.echo("b", 2)
		c.echo("c", 3)
	}
	out := c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.Contains(t, bodies(out.Send, "b"), raft.Body(raft.TimeoutNow{Named: true}))
}

// Settings may differ between members. If a follower's election timeout is shorter than its leader's heartbeat interval, the
// follower asks for pre-votes between any two heartbeats. It still obeys its leader's TimeoutNow.
func TestTransfer_ReachesAPreCandidate(t *testing.T) {
	asking := func(t *testing.T) *core {
		c := follower(t, 2, 1)
		c.receive("b", 2, raft.Heartbeat{})
		c.timeout()
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
		return c
	}
	t.Run("TimeoutNow", func(t *testing.T) {
		c := asking(t)
		out := c.receive("b", 2, raft.TimeoutNow{})
		require.Equal(t, raft.Leadership{Term: 3, Role: raft.Candidate}, c.Leadership())
		require.Equal(t, []raft.Body{raft.VoteRequest{Last: id(2, 1), Transfer: true}}, bodies(out.Write.Then, "b"))
	})
	t.Run("TimeoutNow of another member", func(t *testing.T) {
		c := asking(t)
		c.receive("c", 2, raft.TimeoutNow{})
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	})
	t.Run("SteppedDown", func(t *testing.T) {
		c := asking(t)
		c.receive("b", 2, raft.SteppedDown{})
		require.Equal(t, raft.Follower, c.Leadership().Role)
		c.receive("b", 2, raft.Heartbeat{})
		require.Empty(t, c.Leadership().Leader, "a late heartbeat does not restore the leader")
	})
}

// TimeoutNow may leave while the FSM hangs, because nothing can be applied. If the FSM goes on after that, TimeoutNow is
// repeated once what was accepted is applied, and the leader wakes up in time.
func TestTransfer_TheFSMGoesOnAfterTimeoutNowHasLeft(t *testing.T) {
	c := hanging(t, "abc")
	c.propose("y")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 5})
	c.waitApplying(applyStallMax, nil)
	require.True(t, c.Status().FSMHangs)
	c.transferTo("b")
	require.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
	c.step(raft.Applied{ID: id(4, 2)})
	require.False(t, c.Status().FSMHangs)
	out := c.after(heartbeatPace)
	assert.Empty(t, c.toldToCampaign(), "entry 5 is not applied")
	assert.Greater(t, out.WakeAt, c.now)
	c.step(raft.Applied{ID: id(5, 2)})
	c.after(heartbeatPace)
	assert.Equal(t, []raft.NodeID{"b"}, c.toldToCampaign())
}
