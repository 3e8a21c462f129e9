package raft_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

const span = 12 * ms

// peersNamed returns the peer of each letter.
func peersNamed(ids string) (peers []raft.Peer) {
	for _, m := range membersNamed(ids) {
		peers = append(peers, m.Peer())
	}
	return peers
}

// behind returns a member a of abcde that follows b in term 2. b has named its successors, in this order.
func behind(t *testing.T, successors ...raft.NodeID) *core {
	t.Helper()
	c := restart(t, membersNamed("abcde"), raft.HardState{Term: 2}, 2)
	var list []raft.Peer
	for _, id := range successors {
		list = append(list, peer(id))
	}
	c.receive("b", 2, raft.Heartbeat{Successors: list, Span: span})
	require.Equal(t, raft.NodeID("b"), c.Leadership().Leader)
	return c
}

func (c *core) news(of raft.NodeID) raft.Output {
	return c.step(raft.PeerLost{Peer: peer(of), Refused: true})
}

// campaignsAfter checks how long this member waits, from now on, before it asks for pre-votes.
func (c *core) campaignsAfter(d raft.Time) {
	c.t.Helper()
	assert.NotContains(c.t, traced(c.after(d-1)), raft.TracePreCampaign, "too early")
	assert.Contains(c.t, traced(c.after(1)), raft.TracePreCampaign)
}

// delay = base + rank × span: base is the election timeout, or 0 with news.
func TestSuccessors_EachWaitsForThoseBeforeIt(t *testing.T) {
	for _, row := range []struct {
		about string
		list  []raft.NodeID
		rank  raft.Time
	}{
		{"the first successor", []raft.NodeID{"a", "c"}, 0},
		{"the second one", []raft.NodeID{"c", "a"}, 1},
		{"a voter that is not in the list comes after it", []raft.NodeID{"d", "e"}, 2},
		{"and after other such voters with a lower id", []raft.NodeID{"e"}, 1},
	} {
		c := behind(t, row.list...)
		c.campaignsAfter(electionTimeout + row.rank*span)

		c = behind(t, row.list...)
		c.after(20 * ms)
		if c.news("b"); row.rank > 0 {
			c.campaignsAfter(row.rank * span)
		}
		assert.Equal(t, raft.PreCandidate, c.Leadership().Role, row.about)
	}
}

func TestSuccessors_AListCountsOnlyInTheTermThatSentIt(t *testing.T) {
	c := behind(t, "c", "d", "e", "a")
	c.receive("c", 3, raft.Heartbeat{})
	c.persist()
	assert.Empty(t, c.Status().Successors)
	assert.Greater(t, c.out.WakeAt, c.now+electionTimeout, "it is drawn")
	assert.LessOrEqual(t, c.out.WakeAt, c.now+2*electionTimeout)
}

// An election is over within its span, so a member that has campaigned in vain need not wait for an election timeout.
func TestSuccessors_AnAttemptThatFailsIsRepeatedSoon(t *testing.T) {
	c := behind(t, "a")
	c.campaignsAfter(electionTimeout)
	assert.GreaterOrEqual(t, c.out.WakeAt, c.now+2*span)
	assert.LessOrEqual(t, c.out.WakeAt, c.now+6*span)

	voter := behind(t, "c")
	voter.now += electionTimeout
	voter.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
	voter.persist()
	assert.GreaterOrEqual(t, voter.out.WakeAt, voter.now+2*span, "it gives its candidate time")
	assert.LessOrEqual(t, voter.out.WakeAt, voter.now+6*span)
}

// If answers take much longer than when the leader measured the span, the answer to an early attempt comes after many more.
func TestSuccessors_AnAttemptIsRememberedUntilItsAnswerComes(t *testing.T) {
	c := behind(t, "a")
	c.campaignsAfter(electionTimeout)
	for round, asked := c.round, c.now; ; c.timeout() {
		if c.now-asked >= 60*electionTimeout {
			c.receive("c", 2, raft.PreVoteReply{ID: round})
			break
		}
	}
	assert.Equal(t, 64*electionTimeout, c.wait())
}

// The leader may have another configuration. A member never campaigns at full speed.
func TestSuccessors_ATinySpanIsRaised(t *testing.T) {
	c := behind(t, "a")
	c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("ca"), Span: 1})
	c.campaignsAfter(electionTimeout + electionTimeout/15)
	assert.GreaterOrEqual(t, c.out.WakeAt, c.now+2*electionTimeout/15)
}

func TestSuccessors_BadListsHaveNoEffect(t *testing.T) {
	many := peersNamed("abcdefghijklmnop")
	for about, h := range map[string]raft.Heartbeat{
		"it names its sender":  {Successors: peersNamed("ab"), Span: span},
		"it names one twice":   {Successors: append(peersNamed("ac"), peersNamed("c")...), Span: span},
		"it is too long":       {Successors: many, Span: span},
		"the span is negative": {Successors: peersNamed("c"), Span: -1},
	} {
		c := behind(t, "c", "a")
		out := c.receive("b", 2, h)
		assert.Contains(t, traced(out), raft.TraceRefused, about)
		assert.Equal(t, []raft.Peer{peer("c"), peer("a")}, c.Status().Successors, about)
		assert.Equal(t, raft.NodeID("b"), c.Leadership().Leader, "%s: it is a heartbeat all the same", about)
	}

	c := behind(t, "c")
	c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("az"), Span: span})
	assert.Equal(t, peersNamed("c"), c.Status().Successors, "it names a stranger")
	c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("a"), Span: span})
	assert.Equal(t, peersNamed("a"), c.Status().Successors, "the receiver may be the only one that is left")
}

func TestSuccessors_CanBeSwitchedOff(t *testing.T) {
	cfg := coreConfig()
	cfg.Preferences.NoSuccessors = true
	c := begin(t, cfg, storedBehind(t, 2, id(1, 2), 2))
	c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("a"), Span: span})
	assert.Empty(t, c.Status().Successors)
	assert.Greater(t, c.out.WakeAt, c.now+electionTimeout)
}

// successorsSent returns what the heartbeats of a step to a member say.
func successorsSent(out raft.Output, to raft.NodeID) []raft.Heartbeat {
	var list []raft.Heartbeat
	for _, b := range bodies(out.Send, to) {
		if h, ok := b.(raft.Heartbeat); ok {
			list = append(list, h)
		}
	}
	return list
}

// The leader names those that it has heard in the last round and that are not behind. A change must last for two rounds.
func TestSuccessors_TheLeaderNamesThoseThatCouldTakeOver(t *testing.T) {
	c := replicating(t, 2, 1)
	match := c.Status().Last.Index
	round := func(ids string) raft.Output {
		for _, m := range membersNamed(ids) {
			c.echo(m.ID, match)
		}
		return c.after(heartbeatPace)
	}
	out := round("bc")
	require.Equal(t, peersNamed("bc"), successorsSent(out, "b")[0].Successors, "the first list needs no second round")
	assert.GreaterOrEqual(t, successorsSent(out, "b")[0].Span, electionTimeout/15)

	assert.Equal(t, peersNamed("bc"), successorsSent(round("c"), "c")[0].Successors, "b was silent for one round")
	assert.Equal(t, peersNamed("bc"), successorsSent(round("bc"), "c")[0].Successors, "and is back")
	round("c")
	assert.Equal(t, peersNamed("c"), successorsSent(round("c"), "c")[0].Successors, "b is silent for two rounds")

	hindered := raft.HeartbeatReply{Round: c.beat, Match: match, Hindered: raft.HinderedStalled}
	c.receive("c", 2, hindered)
	round("b")
	hindered.Round = c.beat
	c.receive("c", 2, hindered)
	assert.Equal(t, peersNamed("b"), successorsSent(round("b"), "b")[0].Successors, "the disk of c has stalled")
}

// A leader names a removed member no more, from the moment at which it appends the configuration without it.
func TestSuccessors_ARemovedMemberIsNone(t *testing.T) {
	c := replicating(t, 2, 1)
	c.echo("b", c.Status().Last.Index)
	c.echo("c", c.Status().Last.Index)
	c.after(heartbeatPace)
	require.Equal(t, peersNamed("bc"), c.Status().Successors)
	c.change(remove("c"))
	assert.Equal(t, peersNamed("b"), c.Status().Successors)
}

// A voter that lacks nothing could take over, although its connection broke. In an idle cluster, no append shows that it is back.
func TestSuccessors_AVoterWhoseConnectionBrokeStaysOne(t *testing.T) {
	c := replicating(t, 2, 1)
	match := c.Status().Last.Index
	for range 4 {
		c.step(raft.PeerLost{Peer: peer("b")})
		c.echo("b", match)
		c.echo("c", match)
		assert.Equal(t, peersNamed("bc"), successorsSent(c.after(heartbeatPace), "c")[0].Successors)
	}
}

// The heartbeat itself may compact entries that a follower lacks. That follower needs a snapshot and could not take over.
func TestSuccessors_AFollowerThatTheHeartbeatLeavesBehindIsNone(t *testing.T) {
	c := compactedLeader(t, func(cfg *raft.CoreConfig) { cfg.SnapshotHoldBytes = 1 })
	out := c.commits(8)
	c.step(raft.SnapshotTaken{Take: id(17, 3), Snapshot: raft.Snapshot{Base: out.Keep.Take.Base, File: fileOf(2), Size: 1 << 12, Sum: 7}})
	c.persist()
	c.receive("b", 3, raft.AppendConflict{Prev: c.Status().Base.Index, Hint: id(3, 1)})
	require.Equal(t, id(17, 3), c.progress("b").Offered)
	out = c.commits(8)
	taken(c, out.Keep.Take, 3)
	c.persist()
	require.LessOrEqual(t, c.Status().Base.Index, raft.Index(17), "it keeps what b needs after the snapshot")

	for range 32 {
		c.propose(strings.Repeat("x", 200))
	}
	c.echo("c", 25)
	c.now = max(c.now, c.out.WakeAt)
	out = c.receive("b", 3, raft.AppendReply{Match: 17})
	require.Equal(t, "probe", c.progress("b").State, "the log has grown beyond what is kept for b")
	require.NotEmpty(t, successorsSent(out, "c"))
	assert.Equal(t, peersNamed("c"), c.Status().Successors)
}

// A busy follower hears of other successors, too.
func TestSuccessors_ABusyFollowerHearsOfAChange(t *testing.T) {
	c := replicating(t, 2, 1)
	told := false
	for range 6 { // b is busy, and c is silent
		c.echo("b", c.Status().Last.Index)
		c.propose("x")
		c.persist()
		c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
		for _, h := range successorsSent(c.after(heartbeatPace/2), "b") {
			told = told || slices.Equal(h.Successors, peersNamed("b"))
		}
		c.receive("b", 2, raft.AppendReply{Match: c.Status().Last.Index})
		for _, h := range successorsSent(c.after(heartbeatPace/2), "b") {
			told = told || slices.Equal(h.Successors, peersNamed("b"))
		}
	}
	assert.True(t, told)
}

func TestNews_AVoterWithTheSameNewsGrantsAPreVote(t *testing.T) {
	c := behind(t, "c", "a")
	ask := func(candidate raft.NodeID) raft.PreVoteReply {
		out := c.receive(candidate, 2, raft.PreVoteRequest{Last: id(9, 2)})
		require.Len(t, bodies(out.Send, candidate), 1)
		return bodies(out.Send, candidate)[0].(raft.PreVoteReply)
	}
	reply := ask("c")
	assert.False(t, reply.Granted, "without the news, it hears its leader")
	assert.Equal(t, raft.NodeID("b"), reply.Leader)
	c.news("b")
	assert.True(t, ask("c").Granted)
}

// The news also lifts stickiness for the request for a vote in the next term.
func TestNews_AVoterWithTheSameNewsVotes(t *testing.T) {
	c := behind(t, "c", "a")
	c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
	assert.EqualValues(t, 2, c.Leadership().Term, "without the news, it hears its leader")
	c.news("b")
	c.receive("c", 3, raft.VoteRequest{Last: id(9, 2)})
	assert.EqualValues(t, 3, c.Leadership().Term)
	c.persist()
	assert.Equal(t, peer("c"), c.Status().Durable.Vote)
}

func TestNews_RaisesNoTermByItself(t *testing.T) {
	c := behind(t, "a")
	c.news("b")
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
	assert.EqualValues(t, 2, c.Leadership().Term)
	assert.Empty(t, c.out.Write)
}

// Anything that the leader still sends ends the news. A message of another member does not, even if it carries that term.
func TestNews_EndsWhenTheLeaderIsHeardAgain(t *testing.T) {
	c := behind(t, "c", "a")
	c.news("b")
	assert.True(t, c.Status().LeaderGone)
	c.receive("d", 2, raft.PreVoteRequest{Last: id(1, 1)})
	assert.True(t, c.Status().LeaderGone)
	c.receive("b", 2, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
	assert.False(t, c.Status().LeaderGone)
	c.campaignsAfter(electionTimeout + span)
}

func TestNews_OfOthersHasNoEffect(t *testing.T) {
	for about, event := range map[string]raft.Event{
		"of a member that does not lead":       raft.PeerLost{Peer: peer("c"), Refused: true},
		"of another incarnation of the leader": raft.PeerLost{Peer: raft.Peer{ID: "b", Incarnation: 9}, Refused: true},
		"a connection that only broke":         raft.PeerLost{Peer: peer("b")},
	} {
		c := behind(t, "a")
		c.step(event)
		assert.False(t, c.Status().LeaderGone, about)
		assert.Equal(t, raft.Follower, c.Leadership().Role, about)
	}
	cfg := coreConfig()
	cfg.Preferences.NoNews = true
	c := begin(t, cfg, storedBehind(t, 2, id(1, 2), 2))
	c.receive("b", 2, raft.Heartbeat{Successors: peersNamed("a"), Span: span})
	c.news("b")
	assert.False(t, c.Status().LeaderGone, "it is switched off")
}

// Without a list, members that have lost their leader draw among as many spans as there are voters.
func TestNews_WithoutAList(t *testing.T) {
	c := restart(t, membersNamed("abcde"), raft.HardState{Term: 2}, 2)
	c.receive("b", 2, raft.Heartbeat{})
	c.news("b")
	if c.Leadership().Role == raft.Follower {
		assert.LessOrEqual(t, c.out.WakeAt, c.now+5*electionTimeout/15)
	}
}

// News never makes a member wait longer.
func TestNews_DoesNotPostpone(t *testing.T) {
	c := behind(t, "c", "d", "e", "a")
	c.after(electionTimeout + 3*span - 5*ms)
	c.news("b")
	c.campaignsAfter(5 * ms)
}
