package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const applyStallMax = raft.Time(10 * time.Second)

// hanging is a leader of the members, in term 2, whose FSM was given a batch that ends at entry 4, just now. All others
// hold its log, and have applied entry 3.
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
	c.step(raft.Applying{ID: id(4, 2), Since: c.now})
	c.applying(nil)
	return c
}

// applying has all others answer the last heartbeat. Those that are named have applied so much, the rest up to entry 3.
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

// hangsAt3 stands for a member that has applied entry 3, and whose FSM hangs.
const hangsAt3 = raft.Index(1 << 40)

// waitApplying is waitHearing for members that report what they have applied.
func (c *core) waitApplying(d raft.Time, applied map[raft.NodeID]raft.Index) (events []raft.TraceEventKind) {
	for end := c.now + d; c.now < end; {
		events = append(events, traced(c.after(min(heartbeatPace, end-c.now)))...)
		events = append(events, traced(c.applying(applied))...)
		c.persist() // a leader that waits for the FSM tries the disk
	}
	return events
}

// A leader whose FSM hangs transfers its leadership to a voter that is beyond the entry at which it hangs. Without one, it
// stays and refuses proposals (docs/divergence.md).
func TestHangingFSM_WhoIsHandedOverTo(t *testing.T) {
	type applied = map[raft.NodeID]raft.Index
	for _, row := range []struct {
		rule    string
		members string
		applied applied
		target  []raft.NodeID
	}{
		{"who has applied the batch", "abc", applied{"c": 4}, []raft.NodeID{"c"}},
		{"the first of several", "abc", applied{"b": 4, "c": 4}, []raft.NodeID{"b"}},
		{"nobody who may hang at the same entry", "abc", nil, nil},
		{"nobody whose FSM hangs", "abc", applied{"b": hangsAt3, "c": hangsAt3}, nil},
		{"nobody is there", "a", nil, nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := hanging(t, row.members)
			assert.NotContains(t, c.waitApplying(applyStallMax-1-heartbeatPace, row.applied), raft.TraceFSMHangs, "not before its time")
			require.False(t, c.Status().FSMHangs)
			c.after(heartbeatPace)
			c.applying(row.applied)
			require.LessOrEqual(t, c.out.WakeAt, c.now+1, "it wakes for it")
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

// While nobody is beyond the entry, it waits for somebody to be.
func TestHangingFSM_IsHandedOverOnceSomebodyIsBeyond(t *testing.T) {
	c := hanging(t, "abc")
	assert.NotContains(t, c.waitApplying(4*applyStallMax, nil), raft.TraceTransfer)
	assert.Contains(t, traced(c.applying(map[raft.NodeID]raft.Index{"c": 4})), raft.TraceTransfer)
}

// A batch that is slow, and not hanging, raises the limit; each batch has the limit for itself.
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
	require.True(t, c.Status().FSMHangs, "that was the batch before")
	c.step(raft.Applied{ID: id(5, 2)}, raft.Applying{ID: id(5, 2), Since: c.now})
	require.False(t, c.Status().FSMHangs, "a report that came late counts for nothing")
}

// A follower whose FSM hangs lets the others campaign first. It tells its leader, and the members that it asks.
func TestHangingFSM_CampaignsLater(t *testing.T) {
	hung := func(t *testing.T) *core {
		c := follower(t, 2, 1, 1)
		c.append("b", 2, id(3, 1), 3)
		c.persist()
		c.step(raft.Applying{ID: id(3, 1), Since: c.now})
		for range applyStallMax / heartbeatPace {
			c.now += heartbeatPace
			c.receive("b", 2, raft.Heartbeat{Commit: 3})
		}
		out := c.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}, Commit: 3})
		require.Equal(t, []raft.Body{c.to("b", raft.HeartbeatReply{Round: raft.RPCID{StartCount: 1, Counter: 1}, Match: 3, Hindered: raft.HinderedFSM}).Body},
			bodies(out.Send, "b"))
		return c
	}
	t.Run("by three waits", func(t *testing.T) {
		c := hung(t)
		c.after(5*electionTimeout - 1 - 2*electionTimeout)
		require.Equal(t, raft.Follower, c.Leadership().Role, "no draw is that short")
		c.timeout()
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
		require.True(t, bodies(c.out.Send, "c")[0].(raft.PreVoteRequest).FSMHangs)
	})
	t.Run("not if only it can win", func(t *testing.T) {
		c := hung(t)
		c.after(electionTimeout)
		c.receive("c", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 9}, Last: id(2, 1)})
		require.Equal(t, raft.Follower, c.Leadership().Role)
		c.after(electionTimeout / 15)
		require.Equal(t, raft.PreCandidate, c.Leadership().Role, "it has denied a candidate for its log")
	})
	t.Run("as late as before once it has heard a leader", func(t *testing.T) {
		c := hung(t)
		c.after(electionTimeout)
		c.receive("c", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 9}, Last: id(2, 1)})
		c.receive("b", 2, raft.Heartbeat{})
		c.after(3 * electionTimeout)
		require.Equal(t, raft.Follower, c.Leadership().Role)
	})
	t.Run("nor later once its FSM goes on", func(t *testing.T) {
		c := hung(t)
		c.step(raft.Applied{ID: id(3, 1)})
		c.after(2 * electionTimeout)
		require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	})
}

// A voter does not put off its own campaign for a candidate whose FSM hangs, unless its own hangs, too.
func TestHangingFSM_IsGivenNoRoom(t *testing.T) {
	campaignsAt := func(hangs bool) raft.Time {
		c := follower(t, 2, 1)
		c.now = c.out.WakeAt - 1
		c.receive("b", 2, raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1}, Last: id(2, 1), FSMHangs: hangs})
		return c.out.WakeAt - c.now
	}
	require.Equal(t, raft.Time(1), campaignsAt(true))
	require.Equal(t, electionTimeout/15, campaignsAt(false))
}

// A member that restarts applies its log again. What it reported before it does not make it a target any more.
func TestHangingFSM_ARestartedMemberAppliesAgain(t *testing.T) {
	c := hanging(t, "abc")
	c.applying(map[raft.NodeID]raft.Index{"b": 4})
	old := c.beat
	c.after(heartbeatPace)
	c.applying(map[raft.NodeID]raft.Index{"b": 1})
	c.receive("b", 2, raft.HeartbeatReply{Round: old, Match: 4, Applied: 4})
	assert.NotContains(t, c.waitApplying(2*applyStallMax, map[raft.NodeID]raft.Index{"b": 1}), raft.TraceTransfer)
}

// A busy follower is asked now and then: only its answer to a heartbeat says that its FSM hangs.
func TestHeartbeat_ABusyFollowerIsAskedNowAndThen(t *testing.T) {
	c := replicating(t, 2, 1)
	asked := 0
	for range 64 {
		c.propose("x")
		c.persist()
		for _, other := range []raft.NodeID{"b", "c"} {
			c.receive(other, 2, raft.AppendReply{Match: c.Status().Last.Index})
		}
		c.after(heartbeatPace)
		for _, m := range bodies(c.out.Send, "b") {
			if h, is := m.(raft.Heartbeat); is && h.Round != (raft.RPCID{}) {
				asked++
			}
		}
	}
	require.Equal(t, 4, asked)
}

// A target that lacks an entry cannot be told to campaign before it has it, and may never get it. A transfer to it would keep
// everything else waiting: see docs/decisions/0037.
func TestHangingFSM_IsNotHandedOverToWhoLacksTheEnd(t *testing.T) {
	c := hanging(t, "abc")
	c.propose("y") // entry 5, which b never persists
	c.persist()
	c.receive("c", 2, raft.AppendReply{Match: 5})
	assert.NotContains(t, c.waitApplying(2*applyStallMax, map[raft.NodeID]raft.Index{"b": 4, "c": hangsAt3}), raft.TraceTransfer)
	assert.Empty(t, c.transferTo("c").Answers, "a caller's transfer begins")
}

// After a transfer that has failed, others have their turn before the next one.
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

// The time in which the process did not run is no time of the FSM, whether the core knew of the batch or not.
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

// One long hang does not make the next one last three times as long.
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
