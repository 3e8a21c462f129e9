package raft_test

import (
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Under load, too, each follower gets each heartbeat. Only the answers to heartbeats report what a follower has applied and
// what hinders it, and they keep the ages of states short.
func TestHeartbeat_IsSentUnderLoad(t *testing.T) {
	c := replicating(t, 2, 1)
	for range 4 {
		c.propose("x")
		c.persist()
		c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
		out := c.after(heartbeatPace)
		assert.Len(t, bodies(out.Send, "b"), 1)
		assert.Len(t, bodies(out.Send, "c"), 1)
	}
}

// The answer to a heartbeat names the heartbeat's round. It also names the last index that is durable here and that this
// leader has proved to match.
func TestHeartbeat_Reply(t *testing.T) {
	c := follower(t, 2, 1, 1)
	round := raft.RPCID{StartCount: 4, Counter: 9}
	reply := func(match raft.Index) []raft.Message {
		return []raft.Message{c.to("b", raft.HeartbeatReply{Round: round, Match: match})}
	}
	assert.Equal(t, reply(0), c.receive("b", 2, raft.Heartbeat{Round: round}).Send, "nothing is proved yet")
	c.append("b", 2, id(3, 1), 0, 2)
	assert.Equal(t, reply(3), c.receive("b", 2, raft.Heartbeat{Round: round}).Send, "entry 4 is not durable yet")
	c.persist()
	assert.Equal(t, reply(4), c.receive("b", 2, raft.Heartbeat{Round: round}).Send)
	assert.Empty(t, c.receive("b", 2, raft.Heartbeat{Commit: 4}).Send, "without a round it asks for no answer")
}

// In its answers to heartbeats, a follower reports why it does not count at present.
func TestHeartbeat_ReplySaysWhatHinders(t *testing.T) {
	c := follower(t, 2, 1, 1)
	c.append("b", 2, id(3, 1), 0, 2)
	c.now += 2 * diskStallMax
	reply := c.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 4, Counter: 9}}).Send[0].Body.(raft.HeartbeatReply)
	assert.Equal(t, raft.HinderedStalled, reply.Hindered)

	c = replicating(t, 2, 1)
	c.after(heartbeatPace)
	c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 3, Hindered: raft.HinderedNoRoom})
	assert.Equal(t, raft.HinderedNoRoom, c.Status().Peers[0].Hindered)
	assert.Zero(t, c.Status().Peers[1].Hindered)
	c.after(heartbeatPace)
	c.echo("b", 3)
	assert.Zero(t, c.Status().Peers[0].Hindered)
}

// The leader reports since when a member has lacked an entry, at the latest. That is the time at which the leader appended
// the first entry that the member lacks.
func TestProgress_SaysSinceWhenAMemberLags(t *testing.T) {
	c := replicating(t, 2, 1)
	lags := func() raft.Time { return c.Status().Peers[0].LagsSince }
	both := func(match raft.Index) {
		c.receive("b", 2, raft.AppendReply{Match: match})
		c.receive("c", 2, raft.AppendReply{Match: 5})
		c.echo("b", match)
		c.echo("c", 5)
	}
	both(3)
	c.after(heartbeatPace)
	c.propose("x")
	c.propose("y")
	c.persist()
	assert.Zero(t, lags(), "the entries have just been appended")
	both(3)
	c.after(heartbeatPace)
	since := c.now
	for range 5 {
		both(4)
		assert.Equal(t, since, lags(), "it has lacked entry 5 since then")
		c.after(heartbeatPace)
	}
	both(5)
	assert.Zero(t, lags())
}

// "a leader steps down if an election timeout elapses without a successful round of heartbeats to a
// majority of its cluster" (dissertation §6.2)
func TestCheckQuorum_ALeaderWithoutAQuorumStepsDown(t *testing.T) {
	c := replicating(t, 2, 1)
	elected := c.now
	for c.out.WakeAt < elected+electionTimeout {
		c.timeout()
	}
	require.Equal(t, raft.Leader, c.Leadership().Role)
	out := c.timeout()
	assert.Equal(t, elected+electionTimeout, c.now)
	assert.Equal(t, raft.Leadership{Term: 2}, c.Leadership(), "the term stays")
	assert.Equal(t, []raft.TraceEventKind{raft.TraceQuorumLost, raft.TraceFollower}, traced(out))
	for _, id := range []raft.NodeID{"b", "c"} {
		assert.Contains(t, bodies(out.Send, id), raft.Body(raft.SteppedDown{}), "its message may still arrive")
	}

	c = replicating(t, 2, 1)
	for range 10 {
		c.after(heartbeatPace)
		c.echo("c", 0)
	}
	assert.Equal(t, raft.Leader, c.Leadership().Role, "one follower of two is enough")

	c = leaderOf(t, "a", 2, 1)
	c.after(100 * electionTimeout)
	assert.Equal(t, raft.Leader, c.Leadership().Role, "a single member is its own quorum")
}

// "The check-quorum window is one timeout, but at least twice the round trip as measured (first on the
// votes), and does not count the loop's own pauses."
func TestCheckQuorum_ALeaderOnALongWay(t *testing.T) {
	c := standing(t)
	c.after(3 * electionTimeout)
	c.receive("b", 2, raft.VoteReply{Granted: true})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	elected := c.now
	for c.Leadership().Role == raft.Leader {
		c.timeout()
	}
	assert.Equal(t, elected+6*electionTimeout, c.now, "twice as long as the election took")

	c = replicating(t, 2, 1)
	c.after(20 * electionTimeout)
	assert.Equal(t, raft.Leader, c.Leadership().Role, "the leader slept, but nobody was silent")
	slept := c.now
	for c.Leadership().Role == raft.Leader {
		c.timeout()
	}
	assert.LessOrEqual(t, c.now-slept, electionTimeout, "now the others are silent")
}

// Under load, no heartbeat measures the round trip. Instead, appends that are answered within an interval measure it.
// Otherwise the round trip would stay long after one pause of a follower. A leader that is cut off much later could then
// still lead for a long time.
func TestCheckQuorum_UnderLoadALongRoundTripIsForgotten(t *testing.T) {
	c := replicating(t, 2, 1)
	c.after(heartbeatPace)
	for c.now < 1000*ms+10*electionTimeout { // b is paused
		c.echo("c", 0)
		c.after(heartbeatPace / 2)
	}
	c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 3})
	for range 40 {
		c.propose("x")
		c.persist()
		last := c.Status().Last.Index
		c.receive("b", 2, raft.AppendReply{Match: last})
		c.receive("c", 2, raft.AppendReply{Match: last})
		c.after(heartbeatPace / 2)
	}
	heard := c.now
	for c.Leadership().Role == raft.Leader {
		c.timeout()
	}
	assert.LessOrEqual(t, c.now-heard, electionTimeout)
}

// The voters do not change while a majority of the new voters is silent. Otherwise the cluster would stall at once.
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

// When the members have caught up, the leader checks again that it hears a majority of the new voters. If it does not, the
// change waits.
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

// If a member repeatedly catches up and then falls silent, this does not prolong the wait for the others.
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

// At the beginning of its term, a leader may not have heard all members yet. So it waits before it refuses a change.
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
