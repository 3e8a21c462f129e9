package raft_test

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func moment(start uint64, at raft.Time) raft.Moment { return raft.Moment{StartCount: start, At: at} }

// answers makes a follower answer the last round, with a time on its clock.
func (c *core) answers(follower raft.NodeID, at raft.Moment) raft.Output {
	match := c.Status().Last.Index
	return c.receive(follower, c.Leadership().Term, raft.HeartbeatReply{Round: c.beat, Match: match, Moment: at})
}

// proved returns what a leader proves to a follower in an output.
func proved(out raft.Output, to raft.NodeID) []raft.Freshness {
	var all []raft.Freshness
	for _, b := range bodies(out.Send, to) {
		if h, is := b.(raft.Heartbeat); is && h.Fresh != (raft.Freshness{}) {
			all = append(all, h.Fresh)
		}
	}
	return all
}

// "The leader saves its current commit index ... It issues a new round of heartbeats and waits for their acknowledgments from a
// majority of the cluster." (dissertation §6.4) A time is returned once a round is confirmed that began after the time came,
// with the commit index at the beginning of that round.
func TestAge_NeedsARoundThatBeganAfterTheTimeCame(t *testing.T) {
	c := replicating(t, 2, 1)
	out := c.answers("b", moment(7, 100))
	assert.Empty(t, proved(out, "b"), "the round that it answers began before")
	c.after(heartbeatPace)
	began := c.now

	c.propose("x")
	c.persist()
	c.receive("b", 2, raft.AppendReply{Match: 4, Moment: moment(7, 150)})
	require.EqualValues(t, 4, c.Status().Commit)
	c.now += 3
	out = c.answers("c", moment(9, 5000))
	assert.Equal(t, []raft.Freshness{{Since: moment(7, 100), Index: 3}}, proved(out, "b"), "not the time that came during the round, nor its commit")
	assert.Empty(t, proved(out, "c"), "its first time has just come")
	assert.Equal(t, raft.Freshness{Since: moment(3, began), Index: 3}, out.Fresh, "the leader's own state")
	assert.Empty(t, proved(c.answers("b", moment(7, 160)), "b"), "once")

	c.after(heartbeatPace)
	out = c.answers("b", moment(7, 200))
	assert.Equal(t, []raft.Freshness{{Since: moment(7, 160), Index: 4}}, proved(out, "b"))
	assert.Equal(t, []raft.Freshness{{Since: moment(9, 5000), Index: 4}}, proved(out, "c"))
}

// A round that nobody has confirmed yet stays under way: an answer to a later round confirms it, too.
func TestAge_ALateConfirmationProvesTheTimesBeforeItsRound(t *testing.T) {
	c := replicating(t, 2, 1)
	c.answers("b", moment(7, 100))
	c.after(heartbeatPace)
	began := c.now
	c.after(heartbeatPace)
	out := c.answers("c", moment(9, 1))
	assert.Equal(t, []raft.Freshness{{Since: moment(7, 100), Index: 3}}, proved(out, "b"))
	assert.Equal(t, began, out.Fresh.Since.At)
}

// "If the leader has not yet marked an entry from its current term committed, it waits until it has done so." (dissertation §6.4)
func TestAge_NothingIsProvedBeforeTheFirstCommitOfTheTerm(t *testing.T) {
	c := leaderOf(t, "abc", 2, 1)
	c.persist()
	for range 3 {
		c.receive("b", 2, raft.HeartbeatReply{Round: c.beat, Moment: moment(7, 100)})
		assert.Zero(t, c.out.Fresh)
		assert.Empty(t, proved(c.out, "b"))
		c.after(heartbeatPace)
	}
	c.receive("b", 2, raft.AppendReply{Match: 3})
	assert.Zero(t, c.out.Fresh, "the round began before")
	c.after(heartbeatPace)
	out := c.answers("b", moment(7, 200))
	assert.Equal(t, []raft.Freshness{{Since: moment(7, 100), Index: 3}}, proved(out, "b"))
}

// A follower that restarts begins to count its time anew, while times of its earlier start may still come.
func TestAge_TheLatestTimeIsOneOfTheLatestStart(t *testing.T) {
	c := replicating(t, 2, 1)
	c.answers("b", moment(7, 9000))
	c.answers("b", moment(8, 10))
	c.answers("b", moment(7, 9500))
	c.answers("b", moment(8, 5))
	c.after(heartbeatPace)
	assert.Equal(t, []raft.Freshness{{Since: moment(8, 10), Index: 3}}, proved(c.answers("c", raft.Moment{}), "b"))
}

func TestAge_ASingleMemberProvesItsOwn(t *testing.T) {
	c := leaderOf(t, "a", 2, 1)
	c.persist()
	out := c.after(heartbeatPace)
	assert.Equal(t, raft.Freshness{Since: moment(3, c.now), Index: 3}, out.Fresh)
}

// A member of an earlier release does not know ages: it is sent none, and a leader of one is sent no times.
func TestAge_AnEarlierReleaseIsSentNothingNew(t *testing.T) {
	earlier := raft.PeerUp{ID: "b", Incarnation: peer("b").Incarnation, Protocol: raft.ProtocolSessions - 1}
	c := replicating(t, 2, 1)
	c.step(earlier)
	c.answers("b", moment(7, 100))
	c.after(heartbeatPace)
	out := c.answers("c", moment(9, 100))
	assert.Empty(t, proved(out, "b"))
	assert.NotZero(t, out.Fresh)

	f := follower(t, 2, 1, 1)
	f.step(earlier)
	reply := f.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 4, Counter: 9}}).Send[0].Body.(raft.HeartbeatReply)
	assert.Zero(t, reply.Moment)
	f.append("b", 2, id(3, 1), 0, 2)
	assert.Zero(t, f.out.Write.Then[0].Body.(raft.AppendReply).Moment)
}

// A follower takes what the leader returns, if it is a time of this start.
func TestAge_AFollowerTakesTheTimesOfItsStart(t *testing.T) {
	c := follower(t, 2, 1, 1)
	c.receive("b", 2, raft.Heartbeat{})
	sent := func(f raft.Freshness) raft.Freshness { return c.receive("b", 2, raft.Heartbeat{Fresh: f}).Fresh }
	fresh := raft.Freshness{Since: moment(3, c.now-10), Index: 9}
	assert.Equal(t, fresh, sent(fresh), "the index may be beyond its log")
	assert.Zero(t, sent(raft.Freshness{Since: moment(2, c.now-10), Index: 9}), "a time of an earlier start")
	assert.Zero(t, sent(raft.Freshness{Since: moment(4, c.now-10), Index: 9}), "of a later one")
	assert.Zero(t, sent(raft.Freshness{}))

	assert.Zero(t, sent(raft.Freshness{Since: moment(3, c.now+1), Index: 9}))
	require.Len(t, c.out.Trace, 1)
	assert.Equal(t, "it returns a time that has not come yet", c.out.Trace[0].Text)

	older := raft.Freshness{Since: moment(3, c.now-20), Index: 7}
	out := c.step(c.from("b", 2, raft.Heartbeat{Fresh: fresh}), c.from("b", 2, raft.Heartbeat{Fresh: older}))
	assert.Equal(t, fresh, out.Fresh, "the latest one of a step")
}

// At an idle leader as under load, a follower's time comes back after a heartbeat interval and a round trip.
func TestAge_IsAHeartbeatIntervalAndARoundTrip(t *testing.T) {
	const oneWay = ms
	for _, load := range []bool{false, true} {
		c := replicating(t, 2, 1)
		var ages []raft.Time
		for end := c.now + 20*heartbeatPace; c.now < end; {
			beat := c.beat
			c.after(ms)
			if load {
				c.propose("x")
				c.persist()
				c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
			}
			if c.beat == beat {
				continue
			}
			sent := moment(7, c.now+oneWay)
			c.now += 2 * oneWay
			for _, f := range proved(c.answers("b", sent), "b") {
				ages = append(ages, c.now+oneWay-f.Since.At)
			}
		}
		require.GreaterOrEqual(t, len(ages), 18, "under load: %v", load)
		for _, age := range ages {
			assert.LessOrEqual(t, age, heartbeatPace+4*oneWay, "under load: %v", load)
		}
	}
}
