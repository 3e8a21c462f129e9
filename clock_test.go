package raft_test

import (
	"math"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	minute   = int64(time.Minute)
	tenYears = 10 * 365 * 24 * int64(time.Hour)
)

// stamped proposes a command and returns the time stamp of its entry.
func (c *core) stamped() int64 {
	c.t.Helper()
	out := c.step(raft.Proposed{Proposals: []raft.Proposal{{RequestID: 1, Kind: raft.EntryCommand, Data: []byte("x")}}})
	require.NotNil(c.t, out.Write.Log)
	return out.Write.Log.Entries[len(out.Write.Log.Entries)-1].Time
}

// ledWith returns a leader that has heard answers to heartbeats from the other voters. clocks says, for each voter from b on,
// how far the voter's wall clock is ahead of true time. own says the same for this member's wall clock. True time is this
// member's monotonic time.
func ledWith(t *testing.T, own int64, clocks ...int64) *core {
	voters := "abcde"[:len(clocks)+1]
	c := leaderOf(t, voters, 2)
	c.wall = own
	c.persist()
	for i, ahead := range clocks {
		other := raft.NodeID(voters[i+1 : i+2])
		c.receive(other, 2, raft.HeartbeatReply{Round: c.beat, Match: 1, Wall: int64(c.now) + ahead})
	}
	return c
}

// A stamp is the leader's wall clock, but at most a minute ahead of the median of the voters' clocks. With an
// even number of clocks, the median is the lower of the two middle ones.
func TestStamp_FollowsTheMedianOfTheVoters(t *testing.T) {
	for _, row := range []struct {
		rule   string
		own    int64
		clocks []int64
		want   int64 // stamp minus true time
	}{
		{"all clocks are right", 0, []int64{0, 0}, 0},
		{"a single voter has only its own clock", tenYears, nil, tenYears},
		{"a leader that is years ahead is held to a minute", tenYears, []int64{0, 0}, minute},
		{"a leader that is less than a minute ahead is believed", minute - 1, []int64{0, 0}, minute - 1},
		{"a leader that is years behind repeats the highest stamp", -tenYears, []int64{0, 0}, 0},
		{"a follower that is years ahead does not matter", 0, []int64{tenYears, 0}, 0},
		{"a follower that is years behind does not matter", 0, []int64{-tenYears, 0}, 0},
		{"leader and one of four others are years ahead", tenYears, []int64{tenYears, 0, 0, 0}, minute},
		{"of two clocks the lower one counts", tenYears, []int64{0}, minute},
		{"of four clocks the lower one in the middle counts", tenYears, []int64{tenYears, 0, 0}, minute},
		{"a voter of an earlier release reports no clock", tenYears, []int64{0, math.MinInt64}, minute},
		{"an impossible clock is not believed", tenYears, []int64{math.MaxInt64, 0}, minute},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := ledWith(t, row.own, row.clocks...)
			// The no-op got its stamp at the present time, before any clock was wrong. Stamps never fall, so the next stamp
			// cannot be lower.
			assert.Equal(t, int64(c.now)+max(0, row.want), c.stamped())
		})
	}
}

// The votes report the clocks of a quorum. So not even the stamp of the first entry of a term depends on a single clock.
func TestStamp_ANewLeaderHasTheClocksOfItsVoters(t *testing.T) {
	c := candidateOf(t, "abc", 2)
	c.wall = tenYears
	c.persist()
	out := c.receive("b", 2, raft.VoteReply{Granted: true, Wall: int64(c.now)})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	noop := out.Write.Log.Entries[0]
	assert.Equal(t, int64(c.now)+minute, noop.Time)
}

// Between two reports, the estimate of another member's clock advances with our monotonic time, not with our
// wall clock.
func TestStamp_AClockGoesOnWhileItIsNotHeard(t *testing.T) {
	c := ledWith(t, tenYears, 0, 0)
	first := c.stamped()
	c.now += 3 * ms
	c.wall += tenYears
	assert.Equal(t, first+int64(3*ms), c.stamped())
}

// Stamps never fall along the log, whatever the clocks show. They are never below the stamps of an earlier leader.
func TestStamp_NeverFalls(t *testing.T) {
	c := ledWith(t, 0, 0, 0)
	last := int64(0)
	for i, jump := range []int64{0, tenYears, -2 * tenYears, minute, -minute, tenYears, 0} {
		c.wall = jump
		c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Match: 1, Wall: int64(c.now) - jump})
		got := c.stamped()
		assert.GreaterOrEqual(t, got, last, "jump %d", i)
		last = got
	}
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 1}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(membersNamed("a"))))
	require.NoError(t, stored.Log.Observe(raft.Entry{Index: 2, Term: 1, Kind: raft.EntryNoop, Time: tenYears}))
	alone := begin(t, coreConfig(), stored)
	alone.timeout()
	alone.persist()
	require.Equal(t, raft.Leader, alone.Leadership().Role)
	assert.Equal(t, tenYears, alone.stamped())
}

// Replies carry their sender's wall clock.
func TestStamp_RepliesCarryTheClock(t *testing.T) {
	c := follower(t, 1, 1)
	c.wall = tenYears
	out := c.receive("b", 2, raft.VoteRequest{Last: id(9, 1)})
	assert.Equal(t, []raft.Message{c.to("b", raft.VoteReply{Granted: true, Wall: int64(c.now) + tenYears})}, out.Write.Then)
	c.persist()
	out = c.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
	assert.Equal(t, []raft.Message{c.to("b", raft.HeartbeatReply{
		Round: raft.RPCID{StartCount: 1, Counter: 1}, Wall: int64(c.now) + tenYears,
	})}, out.Send)
}

// A bootstrapper whose clock is years ahead would freeze the stamps of the cluster with its first entry.
func TestStamp_OfTheBootstrap(t *testing.T) {
	c, probe := bootstrapper(t)
	c.wall = tenYears
	var out raft.Output
	for _, other := range []raft.NodeID{"b", "c"} {
		reply := uninitializedWith(probe, "abc")
		reply.Wall = int64(c.now)
		out = c.answerProbe(other, reply)
	}
	require.NotNil(t, out.Write.Log)
	assert.Equal(t, int64(c.now)+minute, out.Write.Log.Entries[0].Time)
}
