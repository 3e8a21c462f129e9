package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const applyStallMax = raft.Time(10 * time.Second)

// hanging returns the leader, in term 2, of a cluster with the given members. Its last heartbeat is out, and the next is not
// due. Its FSM has just received a batch that ends at entry 4. The other members hold the same log, and have applied entry 3.
func hanging(t *testing.T, members string) *core {
	t.Helper()
	c := leaderOf(t, members, 2, 1)
	c.persist()
	c.propose("x")
	c.persist()
	for _, m := range membersNamed(members)[1:] {
		c.receive(m.ID, 2, raft.AppendReply{Match: 4})
	}
	require.EqualValues(t, 4, c.Status().Commit)
	c.now += ms
	c.step(raft.Applying{ID: id(4, 2), Since: c.now})
	c.applying(nil)
	return c
}

// applying lets all other members answer the last heartbeat. The named members report these applied indexes. The others
// report entry 3.
func (c *core) applying(applied map[raft.NodeID]raft.Index) raft.Output {
	var events []raft.Event
	for _, m := range c.Status().Peers {
		reply := raft.HeartbeatReply{Round: c.beat, Match: 4, Applied: 3}
		if i, named := applied[m.ID]; named {
			reply.Applied = i
		}
		if reply.Applied == hangsAt3 {
			reply.Applied, reply.Hindered = 3, raft.HinderedFSM
		}
		events = append(events, c.from(m.ID, 2, reply))
	}
	return c.step(events...)
}

// hangsAt3 stands for a member that has applied entry 3 and whose FSM hangs.
const hangsAt3 = raft.Index(1 << 40)

// waitApplying is waitHearing for members that report what they have applied.
func (c *core) waitApplying(d raft.Time, applied map[raft.NodeID]raft.Index) (events []raft.TraceEventKind) {
	for end := c.now + d; c.now < end; {
		events = append(events, traced(c.after(min(heartbeatPace, end-c.now)))...)
		events = append(events, traced(c.applying(applied))...)
		c.persist() // a leader that waits for the FSM checks the disk with a write
	}
	return events
}

// A leader whose FSM hangs transfers its leadership to a voter that has applied the entry at which it hangs.
// Without such a voter, it stays and refuses proposals (docs/divergence.md).
func TestHangingFSM_WhoGetsTheLeadership(t *testing.T) {
	type applied = map[raft.NodeID]raft.Index
	for _, row := range []struct {
		rule    string
		members string
		applied applied
		target  []raft.NodeID
	}{
		{"the voter that has applied the batch", "abc", applied{"c": 4}, []raft.NodeID{"c"}},
		{"the first of several", "abc", applied{"b": 4, "c": 4}, []raft.NodeID{"b"}},
		{"no voter that may hang at the same entry", "abc", nil, nil},
		{"no voter whose FSM hangs", "abc", applied{"b": hangsAt3, "c": hangsAt3}, nil},
		{"nobody is there", "a", nil, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := hanging(t, row.members)
			c.waitApplying(2*ms, row.applied) // neither a heartbeat nor a check of the disk is due at the limit
			assert.NotContains(t, c.waitApplying(applyStallMax-2*ms-1-heartbeatPace, row.applied), raft.TraceFSMHangs, "not before its time")
			require.False(t, c.Status().FSMHangs)
			c.after(heartbeatPace)
			c.applying(row.applied)
			require.Equal(t, c.now+1, c.out.WakeAt, "it wakes at the limit")
			out := c.after(1)
			assert.Contains(t, traced(out), raft.TraceFSMHangs)
			assert.Equal(t, row.target, c.toldToCampaign())
			assert.Equal(t, raft.Leader, c.Leadership().Role, "until somebody is elected")
			assert.True(t, c.Status().FSMHangs)

			refusal := raft.RefusedFSMHangs
			if row.target != nil {
				refusal = raft.RefusedTransferring
			}
			assert.Equal(t, refusal, c.propose("y").Answers[0].Refusal)

			c.step(raft.Applied{ID: id(4, 2)})
			assert.False(t, c.Status().FSMHangs)
			if row.target == nil {
				assert.Equal(t, raft.AnswerAccepted, c.propose("y").Answers[0].Kind, "it takes proposals again")
			}
		})
	}
}

// As long as no voter has applied the entry, the leader waits for one that has.
func TestHangingFSM_TransfersOnceAVoterIsBeyond(t *testing.T) {
	c := hanging(t, "abc")
	assert.NotContains(t, c.waitApplying(4*applyStallMax, nil), raft.TraceTransfer)
	assert.Contains(t, traced(c.applying(map[raft.NodeID]raft.Index{"c": 4})), raft.TraceTransfer)
}

// The FSM may hang at a later entry than the first one of the batch. So a member is fit only if it has applied the whole
// batch.
func TestHangingFSM_WhoHasAppliedAPartOfTheBatchIsNotBeyond(t *testing.T) {
	c := hanging(t, "ab")
	c.step(raft.Applied{ID: id(4, 2)})
	c.propose("y", "z")
	c.hold("b")
	c.step(raft.Applying{ID: id(6, 2), Since: c.now})
	hears := func(applied raft.Index) []raft.TraceEventKind {
		return traced(c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 6, Applied: applied}))
	}
	for range applyStallMax/heartbeatPace + 1 {
		c.after(heartbeatPace)
		require.NotContains(t, hears(5), raft.TraceTransfer)
		c.persist()
	}
	require.True(t, c.Status().FSMHangs)
	assert.Contains(t, hears(6), raft.TraceTransfer)
}

// While the voters change, the leader prefers a target that stays. It chooses a leaving voter only if no other voter has
// applied the whole batch.
func TestHangingFSM_WhoStaysComesBeforeWhoIsLeaving(t *testing.T) {
	for applied, target := range map[raft.Index]raft.NodeID{4: "d", 3: "b"} {
		c := hanging(t, "abcde")
		c.change(remove("b"))
		require.True(t, c.Status().Config.Joint(), "{a b c d e} and {a c d e}")
		c.hold("bd") // no majority of the members that stay
		var targets []raft.NodeID
		for range applyStallMax/heartbeatPace + 1 {
			for _, e := range c.after(heartbeatPace).Trace {
				if e.Kind == raft.TraceTransfer {
					targets = append(targets, e.Peer)
				}
			}
			reply := func(match, applied raft.Index) raft.HeartbeatReply {
				return raft.HeartbeatReply{Round: c.beat, Match: match, Applied: applied}
			}
			c.step(c.from("b", 2, reply(5, 4)), c.from("c", 2, reply(4, 3)), c.from("d", 2, reply(5, applied)), c.from("e", 2, reply(4, 3)))
			c.persist()
		}
		assert.Equal(t, []raft.NodeID{target}, targets, "d has applied up to %d", applied)
	}
}

// The leader checks whether the FSM hangs when a proposal comes. It does not use the result of the last check of deadlines.
func TestHangingFSM_AProposalIsRefusedExactlyWhileItHangs(t *testing.T) {
	c := hanging(t, "a")
	c.waitApplying(applyStallMax-1, nil)
	require.Equal(t, raft.AnswerAccepted, c.propose("y").Answers[0].Kind)
	c.now++
	require.Equal(t, raft.RefusedFSMHangs, c.propose("y").Answers[0].Refusal, "in the first step after the limit")
	proposed := raft.Proposed{Proposals: []raft.Proposal{{RequestID: requestIDOfTheTests, Kind: raft.EntryCommand}}}
	require.Equal(t, raft.AnswerAccepted, c.step(raft.Applied{ID: id(4, 2)}, proposed).Answers[0].Kind)
}

// A batch that is slow but does not hang raises the limit. The limit applies to each batch separately.
func TestHangingFSM_SlowBatchesAreNoHang(t *testing.T) {
	c := hanging(t, "a")
	c.waitApplying(applyStallMax-ms, nil)
	c.step(raft.Applied{ID: id(4, 2)})
	c.propose("y")
	c.persist()
	c.step(raft.Applying{ID: id(5, 2), Since: c.now})
	c.waitApplying(3*(applyStallMax-ms)-1, nil)
	require.False(t, c.Status().FSMHangs, "three times as long as the batch before")
	c.after(1)
	require.True(t, c.Status().FSMHangs)

	c.step(raft.Applied{ID: id(4, 2)})
	require.True(t, c.Status().FSMHangs, "the limit followed from the batch before")
	c.step(raft.Applied{ID: id(5, 2)}, raft.Applying{ID: id(5, 2), Since: c.now})
	require.False(t, c.Status().FSMHangs, "a late report has no effect")
}

// Only the latest batches raise the limit. They include quick batches, although the loop never reports those.
func TestHangingFSM_ASlowBatchIsForgottenAfterEightQuickOnes(t *testing.T) {
	c := hanging(t, "a")
	c.waitApplying(applyStallMax-ms, nil)
	c.step(raft.Applied{ID: id(4, 2)})
	for i := range raft.Index(8) {
		c.propose("quick")
		c.persist()
		c.step(raft.Applied{ID: id(5+i, 2)})
	}
	c.propose("y")
	c.persist()
	c.step(raft.Applying{ID: id(13, 2), Since: c.now})
	c.waitApplying(applyStallMax-1, nil)
	require.False(t, c.Status().FSMHangs)
	c.after(1)
	require.True(t, c.Status().FSMHangs)
}

// The time of a batch begins when the FSM receives the batch, even if a later step reports it.
func TestHangingFSM_ABatchIsOlderThanItsReport(t *testing.T) {
	c := hanging(t, "a")
	c.step(raft.Applied{ID: id(4, 2)})
	c.propose("y")
	c.persist()
	c.step(raft.Applying{ID: id(5, 2), Since: c.now - ms})
	c.waitApplying(applyStallMax-ms-1, nil)
	require.False(t, c.Status().FSMHangs)
	c.after(1)
	require.True(t, c.Status().FSMHangs)
}

// hungFollower returns a follower of b in term 2 whose FSM hangs in the batch up to entry 3, the last of its
// log. It has just heard b.
func hungFollower(t *testing.T) *core {
	t.Helper()
	c := follower(t, 2, 1, 1)
	c.append("b", 2, id(3, 1), 3)
	c.persist()
	c.step(raft.Applying{ID: id(3, 1), Since: c.now})
	for range applyStallMax / heartbeatPace {
		c.now += heartbeatPace
		c.receive("b", 2, raft.Heartbeat{Commit: 3})
	}
	c.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}, Commit: 3})
	return c
}

// A follower whose FSM hangs lets the others campaign first. It reports the hang to its leader, and in its
// requests for pre-votes.
func TestHangingFSM_CampaignsLater(t *testing.T) {
	older := raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 9}, Last: id(2, 1)}
	t.Run("by three waits", func(t *testing.T) {
		c := hungFollower(t)
		require.Equal(t, []raft.Body{c.to("b", raft.HeartbeatReply{Round: raft.RPCID{StartCount: 1, Counter: 1}, Match: 3, Hindered: raft.HinderedFSM}).Body},
			bodies(c.out.Send, "b"))
		c.after(5*electionTimeout - 1 - 2*electionTimeout)
		require.Equal(t, raft.Follower, c.Leadership().Role, "no draw is that short")
		c.timeout()
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
		require.True(t, bodies(c.out.Send, "c")[0].(raft.PreVoteRequest).FSMHangs)
	})
	t.Run("however long a wait is", func(t *testing.T) {
		c := hungFollower(t)
		c.timeout()
		round := c.round
		c.after(3 * electionTimeout)
		c.receive("b", 2, raft.PreVoteReply{ID: round})
		require.Equal(t, 4*electionTimeout, c.wait())
		require.GreaterOrEqual(t, c.out.WakeAt-c.now, 4*c.wait())
	})
	t.Run("not if only it can win", func(t *testing.T) {
		c := hungFollower(t)
		c.after(electionTimeout)
		c.receive("c", 2, older)
		require.Equal(t, raft.Follower, c.Leadership().Role)
		c.after(electionTimeout / 15)
		require.Equal(t, raft.PreCandidate, c.Leadership().Role, "it has denied a candidate for its log")
		require.GreaterOrEqual(t, c.out.WakeAt-c.now, 4*electionTimeout, "the delay applies to one attempt")
	})
	t.Run("even then not while its vote may elect another one", func(t *testing.T) {
		c := hungFollower(t)
		c.after(electionTimeout)
		c.receive("c", 3, raft.VoteRequest{Last: id(3, 1)})
		c.persist()
		c.receive("b", 3, older)
		c.after(electionTimeout / 15)
		require.Equal(t, raft.Follower, c.Leadership().Role)
		require.LessOrEqual(t, c.out.WakeAt-c.now, 2*electionTimeout)
	})
	t.Run("as late as before once it has heard a leader", func(t *testing.T) {
		c := hungFollower(t)
		c.after(electionTimeout)
		c.receive("c", 2, older)
		c.receive("b", 2, raft.Heartbeat{})
		require.GreaterOrEqual(t, c.out.WakeAt-c.now, 4*electionTimeout)
	})
	t.Run("nor later once its FSM works again", func(t *testing.T) {
		c := hungFollower(t)
		c.step(raft.Applied{ID: id(3, 1)})
		c.after(2 * electionTimeout)
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	})
}

// If a candidate's FSM hangs, a voter does not delay its own campaign for that candidate, unless the voter's own FSM hangs,
// too.
func TestHangingFSM_IsGivenNoRoom(t *testing.T) {
	campaignsAt := func(hangs bool) raft.Time {
		c := follower(t, 2, 1)
		c.now = c.out.WakeAt - 1
		c.receive("b", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(2, 1), FSMHangs: hangs})
		return c.out.WakeAt - c.now
	}
	require.Equal(t, raft.Time(1), campaignsAt(true))
	require.Equal(t, electionTimeout/15, campaignsAt(false))

	c := hungFollower(t)
	c.now = c.out.WakeAt - 1
	c.receive("b", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(3, 1), FSMHangs: true})
	require.GreaterOrEqual(t, c.out.WakeAt-c.now, electionTimeout/15, "its own hangs, too")
}

// A member that restarts applies its log again. Reports that it sent before the restart no longer make it a target.
func TestHangingFSM_ARestartedMemberAppliesAgain(t *testing.T) {
	c := hanging(t, "abc")
	c.applying(map[raft.NodeID]raft.Index{"b": 4})
	old := c.beat
	c.after(heartbeatPace)
	c.applying(map[raft.NodeID]raft.Index{"b": 1})
	c.receive("b", 2, raft.HeartbeatReply{Round: old, Match: 4, Applied: 4})
	assert.NotContains(t, c.waitApplying(2*applyStallMax, map[raft.NodeID]raft.Index{"b": 1}), raft.TraceTransfer)
}

// A target cannot campaign before it has the whole log, and may never get it. So a transfer to a target that lacks an entry
// would block everything else: see docs/decisions/0037.
func TestHangingFSM_IsNotTransferredToWhoLacksTheEnd(t *testing.T) {
	c := hanging(t, "abc")
	c.propose("y") // entry 5, which b never persists
	c.persist()
	c.receive("c", 2, raft.AppendReply{Match: 5})
	assert.NotContains(t, c.waitApplying(2*applyStallMax, map[raft.NodeID]raft.Index{"b": 4, "c": hangsAt3}), raft.TraceTransfer)
	assert.Empty(t, c.transferTo("c").Answers, "a caller's transfer begins")
}

// After a failed transfer, other work has its turn before the next transfer.
func TestHangingFSM_APauseFollowsATransferThatFails(t *testing.T) {
	c := hanging(t, "abc")
	beyond := map[raft.NodeID]raft.Index{"b": 4}
	c.waitApplying(applyStallMax, beyond)
	require.NotZero(t, c.Status().TransferringUntil)
	idle := 0
	for end := c.now + 20*electionTimeout; c.now < end; {
		c.waitApplying(heartbeatPace, beyond)
		if c.Status().TransferringUntil == 0 {
			idle++
		}
	}
	assert.Positive(t, idle)
}

// The time in which the process did not run does not count. This holds whether or not the core already knew of the batch.
func TestHangingFSM_APauseOfTheProcessDoesNotCount(t *testing.T) {
	for _, known := range []bool{true, false} {
		c := leaderOf(t, "a", 2, 1)
		c.persist()
		batch := raft.Applying{ID: id(3, 2), Since: c.now}
		if known {
			c.step(batch)
		}
		c.now += 2 * applyStallMax
		c.step(batch)
		assert.False(t, c.Status().FSMHangs, "known before: %v", known)
	}
}

// If one batch hangs for long, the next batch may not take three times as long.
func TestHangingFSM_AHangIsNoMeasure(t *testing.T) {
	c := hanging(t, "a")
	c.waitApplying(20*applyStallMax, nil)
	c.step(raft.Applied{ID: id(4, 2)})
	c.propose("y")
	c.persist()
	c.step(raft.Applying{ID: id(5, 2), Since: c.now})
	c.waitApplying(3*applyStallMax+heartbeatPace, nil)
	assert.True(t, c.Status().FSMHangs)
}

// A member cannot have applied an entry that its leader does not hold.
func TestHangingFSM_WhatIsReportedAppliedIsInTheLog(t *testing.T) {
	c := hanging(t, "abc")
	assert.NotContains(t, traced(c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 4, Applied: 4})), raft.TraceRefused)
	assert.Contains(t, traced(c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 4, Applied: 5})), raft.TraceRefused)
	assert.EqualValues(t, 4, c.progress("b").Applied)
}

// hearOnlyB lets b answer a leader, until the leader steps down.
func (c *core) hearOnlyB(d raft.Time) {
	for end := c.now + d; c.now < end && c.Leadership().Role == raft.Leader; {
		c.after(min(heartbeatPace, end-c.now))
		c.receive("b", c.Status().Term, raft.HeartbeatReply{Round: c.beat, Match: 4, Applied: 3})
		c.persist()
	}
}

// A voter that the leader does not hear may be healthy. But the members that hear this leader deny that voter their votes. So
// the leader steps down in favour of that voter. It does so again after 64 election timeouts, because the voter may have been
// down before.
func TestHangingFSM_StepsDownNowAndThenForWhoIsNotHeard(t *testing.T) {
	c := hanging(t, "abc")
	c.hearOnlyB(applyStallMax + 4*electionTimeout - 1)
	require.Equal(t, raft.Leader, c.Leadership().Role)
	c.hearOnlyB(heartbeatPace)
	require.Equal(t, raft.Follower, c.Leadership().Role)

	for range 2 {
		until := c.now + 64*electionTimeout
		c.electedBy("b")
		require.Equal(t, raft.Leader, c.Leadership().Role, "no other voter was better")
		c.hearOnlyB(until - 1 - c.now)
		require.Equal(t, raft.Leader, c.Leadership().Role)
		c.hearOnlyB(heartbeatPace)
		require.Equal(t, raft.Follower, c.Leadership().Role)
	}
}

// The voter that the leader hears may lack entries, and campaigns at once. Its candidacy does not make the old leader campaign
// before the voter that it does not hear. Otherwise the old leader might win again, and would not step down again soon.
func TestHangingFSM_LetsWhoIsNotHeardCampaignFirst(t *testing.T) {
	c := hanging(t, "abc")
	c.hearOnlyB(applyStallMax + 4*electionTimeout + heartbeatPace)
	require.Equal(t, raft.Follower, c.Leadership().Role)
	older := raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 9}, Last: id(3, 1)}
	for range 3 {
		c.after(electionTimeout)
		c.receive("b", 2, older)
	}
	c.after(electionTimeout - 1)
	require.Equal(t, raft.Follower, c.Leadership().Role, "no draw is that short")
	c.timeout()
	require.Equal(t, raft.PreCandidate, c.Leadership().Role)
}
