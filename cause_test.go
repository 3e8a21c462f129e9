package raft_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// elect makes this pre-candidate or candidate of abcde the leader, 3 ms later.
func (c *core) elect() raft.CoreStatus {
	c.t.Helper()
	if c.Leadership().Role == raft.PreCandidate {
		c.grantPreVote("c")
		c.grantPreVote("d")
	}
	require.Equal(c.t, raft.Candidate, c.Leadership().Role)
	c.persist()
	c.now += 3 * ms
	c.receive("c", c.Leadership().Term, raft.VoteReply{Granted: true})
	out := c.receive("d", c.Leadership().Term, raft.VoteReply{Granted: true})
	require.Contains(c.t, traced(out), raft.TraceLeader)
	s := c.Status()
	for _, event := range out.Trace {
		if event.Kind == raft.TraceLeader {
			assert.Equal(c.t, s.TookOver, event.Text)
			assert.Contains(c.t, event.String(), ": take over "+s.TookOver)
		}
	}
	return s
}

// A leader says why it took over, and how long that took.
func TestCause_OfALeadership(t *testing.T) {
	for _, row := range []struct {
		about string
		loses func(*core)
		cause raft.Cause
		words string
	}{
		{"news", func(c *core) { c.news("b") }, raft.CauseNews, "3ms after the process of b had ended"},
		{"no timeout comes first", func(c *core) { c.news("b"); c.after(100 * ms) }, raft.CauseNews, "103ms after the process of b had ended"},
		{"silence", func(c *core) { c.after(electionTimeout) }, raft.CauseSilence, "after b was silent for 153ms"},
		{"a leader that is heard again after the news", func(c *core) {
			c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("cda"), Span: span})
			c.news("b")
			c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("a"), Span: span})
			c.after(electionTimeout)
		}, raft.CauseSilence, "after b was silent for 153ms"},
		{"a leader that steps down", func(c *core) { c.receive("b", 2, raft.SteppedDown{}); c.step() }, raft.CauseSteppedDown, "3ms after b had stepped down"},
		{"a transfer", func(c *core) { c.receive("b", 2, raft.TimeoutNow{}) }, raft.CauseTransfer, "by a transfer from b"},
	} {
		c := behind(t, "a")
		row.loses(c)
		s := c.elect()
		assert.Equal(t, row.cause, s.Cause, row.about)
		assert.Equal(t, row.words, s.TookOver, row.about)
	}

	c := restart(t, membersNamed("abcde"), raft.HardState{Term: 2}, 2)
	c.timeout()
	s := c.elect()
	assert.Equal(t, raft.CauseSilence, s.Cause)
	assert.Equal(t, "because it knew no leader", s.TookOver)

	for c.Leadership().Role == raft.Leader { // without a quorum, it steps down
		c.timeout()
	}
	assert.Empty(t, c.Status().TookOver)
	c.timeout()
	s = c.elect()
	assert.Equal(t, raft.CauseSteppedDown, s.Cause)
	assert.Contains(t, s.TookOver, "after a had stepped down")
}

// A transfer from a leader with a lower priority is a takeover, unless the caller has named the target.
func TestCause_OfATakeover(t *testing.T) {
	for _, row := range []struct {
		own, other raft.Priority
		named      bool
		cause      raft.Cause
		words      string
	}{
		{5, 1, false, raft.CauseTakeover, "by a transfer from b, whose priority is lower"},
		{1, raft.PriorityNever, false, raft.CauseTakeover, "by a transfer from b, whose priority is lower"},
		{5, 1, true, raft.CauseTransfer, "by a transfer from b"},
		{1, 5, false, raft.CauseTransfer, "by a transfer from b"},
	} {
		members := membersNamed("abcde")
		members[0].Priority, members[1].Priority = row.own, row.other
		c := restart(t, members, raft.HardState{Term: 2}, 2)
		c.receive("b", 2, raft.Heartbeat{})
		c.receive("b", 2, raft.TimeoutNow{Named: row.named})
		s := c.elect()
		assert.Equal(t, row.cause, s.Cause, row.words)
		assert.Equal(t, row.words, s.TookOver)
	}
}

// A member that has just been started may be in back-off. The leader knows that only from its answer to a heartbeat.
func TestTakeover_WaitsForTheTargetsReport(t *testing.T) {
	members := membersNamed("abc")
	members[0].Priority, members[1].Priority = raft.PriorityNever, raft.PriorityNever
	c := restart(t, members, raft.HardState{Term: 1}, 1)
	for c.Leadership().Role != raft.PreCandidate {
		c.timeout()
	}
	c.grantPreVote("b")
	c.persist()
	c.receive("b", 2, raft.VoteReply{Granted: true})
	require.True(t, c.Status().Caretaker)
	c.persist()
	match := c.Status().Last.Index
	for _, other := range []raft.NodeID{"b", "c"} {
		out := c.receive(other, 2, raft.AppendReply{Match: match})
		assert.NotContains(t, traced(out), raft.TraceTakeover, "c may be in back-off")
	}
	report := raft.HeartbeatReply{Round: c.beat, Match: match, Backoff: 5 * electionTimeout}
	assert.NotContains(t, traced(c.receive("c", 2, report)), raft.TraceTakeover, "c is in back-off")
	c.after(heartbeatPace)
	assert.Contains(t, traced(c.receive("c", 2, raft.HeartbeatReply{Round: c.beat, Match: match})), raft.TraceTakeover)
}
