package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A heartbeat to a follower is skipped only if the follower has acknowledged an append that was sent since the
// last heartbeat was due.
func TestHeartbeat_IsSkippedForWhoAnsweredAnAppend(t *testing.T) {
	c := replicating(t, 2, 1)
	c.after(heartbeatPace)
	c.propose("x")
	c.receive("b", 2, raft.AppendReply{Match: 4})
	out := c.after(heartbeatPace)
	assert.Empty(t, bodies(out.Send, "b"))
	assert.Len(t, bodies(out.Send, "c"), 1)
	out = c.after(heartbeatPace)
	assert.Len(t, bodies(out.Send, "b"), 1, "the next one is due again")
}

// The answer to a heartbeat names its round, and the last index that is durable here and that this leader has
// proved to match.
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

// A follower reports in its answers to heartbeats why it does not count at present. Until it reports that it
// counts again, its heartbeats are not skipped, even if it acknowledges appends.
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
	c.propose("x")
	c.receive("b", 2, raft.AppendReply{Match: 4})
	out := c.after(heartbeatPace)
	require.Len(t, bodies(out.Send, "b"), 1, "it may have room again")
	c.echo("b", 4)
	assert.Zero(t, c.Status().Peers[0].Hindered)
}

// The leader reports the latest time since when a member has lacked an entry: the time at which the leader
// appended the first entry that the member lacks.
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

// Under load, no heartbeat measures the round trip. Appends that are answered within an interval measure it
// instead. Otherwise, after one pause of a follower, a leader that is cut off much later could lead for a long
// time.
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
