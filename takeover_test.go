package raft_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

const (
	second = 1000 * ms
	never  = raft.PriorityNever
	office = 10 * second // how long a leader leads before it transfers its leadership for a priority
)

type (
	priorities = map[raft.NodeID]raft.Priority
	reports    = map[raft.NodeID]raft.HeartbeatReply
)

// ready are the reports of b and c that nothing hinders them.
var ready = reports{"b": {}, "c": {}}

// prioritized returns a member a of abc with these priorities, which restarts in term 1. Its log ends with entry 2.
func prioritized(t *testing.T, of priorities, hard raft.HardState) *core {
	t.Helper()
	members := membersNamed("abc")
	for i := range members {
		members[i].Priority = of[members[i].ID]
	}
	hard.Term = 1
	return restart(t, members, hard, 1)
}

// office makes a member the leader of term 2. All hold its no-op.
func (c *core) takesOffice() *core {
	c.t.Helper()
	c.electedBy("b")
	require.Equal(c.t, raft.Leader, c.Leadership().Role)
	c.hold("bc")
	return c
}

// leads lets time pass, while the other members answer each heartbeat, and returns the trace events of that time. A member
// whose report has a match that is not 0 lacks the entries behind it.
func (c *core) leads(d raft.Time, of reports) (events []raft.TraceEventKind) {
	for end := c.now + d; c.now < end && c.Leadership().Role == raft.Leader; {
		events = append(events, traced(c.after(min(heartbeatPace, end-c.now)))...)
		for _, id := range slices.Sorted(maps.Keys(of)) {
			r := of[id]
			r.Round = c.beat
			if r.Match == 0 {
				r.Match = c.Status().Last.Index
			}
			events = append(events, traced(c.receive(id, c.Leadership().Term, r))...)
		}
		events = append(events, traced(c.persist())...)
	}
	return events
}

// target returns the member to which a takeover is running; "" if none is.
func (c *core) target() raft.NodeID {
	out := c.propose("x")
	if len(out.Answers) == 1 && out.Answers[0].Refusal == raft.RefusedTransferring {
		return out.Answers[0].Leader
	}
	return ""
}

func TestTakeover_AfterTenSecondsToTheHighestPriority(t *testing.T) {
	c := prioritized(t, priorities{"a": 2, "b": 5, "c": 9}, raft.HardState{}).takesOffice()
	assert.NotContains(t, c.leads(office-2*heartbeatPace, ready), raft.TraceTakeover, "too early")
	assert.Contains(t, c.leads(3*heartbeatPace, ready), raft.TraceTakeover)
	assert.Equal(t, raft.NodeID("c"), c.target())

	c = prioritized(t, priorities{"a": 5, "b": 5, "c": 2}, raft.HardState{}).takesOffice()
	assert.NotContains(t, c.leads(3*office, ready), raft.TraceTakeover, "an equal priority is not higher")
}

func TestTakeover_OnlyByAMemberThatIsReady(t *testing.T) {
	for about, of := range map[string]reports{
		"it has no room":            {"b": {}, "c": {Hindered: raft.HinderedNoRoom}},
		"its disk has stalled":      {"b": {}, "c": {Hindered: raft.HinderedStalled}},
		"its FSM hangs":             {"b": {}, "c": {Hindered: raft.HinderedFSM}},
		"it has lost its office":    {"b": {}, "c": {Backoff: second}},
		"it is silent":              {"b": {}},
		"it lacks entries for long": {"b": {}, "c": {Match: 3}},
	} {
		c := prioritized(t, priorities{"c": 9}, raft.HardState{}).takesOffice()
		c.propose("x")
		c.persist()
		c.receive("b", 2, raft.AppendReply{Match: 4})
		assert.NotContains(t, c.leads(2*office, of), raft.TraceTakeover, about)
		events := traced(c.acknowledge("c"))
		assert.Contains(t, append(events, c.leads(2*office, ready)...), raft.TraceTakeover, "%s no longer", about)
	}
}

func TestTakeover_TheNextPriorityTakesOverIfTheHighestCannot(t *testing.T) {
	c := prioritized(t, priorities{"b": 5, "c": 9}, raft.HardState{}).takesOffice()
	c.leads(office+heartbeatPace, reports{"b": {}, "c": {Backoff: second}})
	assert.Equal(t, raft.NodeID("b"), c.target())
}

func TestTakeover_IsRepeatedAfterTenSeconds(t *testing.T) {
	c := prioritized(t, priorities{"c": 9}, raft.HardState{}).takesOffice()
	require.Contains(t, c.leads(office+heartbeatPace, ready), raft.TraceTakeover)
	events := c.leads(office-2*heartbeatPace, ready) // c does not campaign
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.NotContains(t, events, raft.TraceTakeover)
	assert.Contains(t, c.leads(3*heartbeatPace, ready), raft.TraceTakeover)
}

func TestTakeover_CanBeSwitchedOff(t *testing.T) {
	members := membersNamed("abc")
	members[2].Priority = 9
	stored := raft.Stored{Incarnation: peer("a").Incarnation, StartCount: 3, Hard: raft.HardState{Term: 1}}
	require.NoError(t, stored.Log.Observe(bootstrapEntry(members)))
	cfg := coreConfig()
	cfg.Preferences.NoPriorities = true
	c := begin(t, cfg, stored).takesOffice()
	assert.NotContains(t, c.leads(3*office, ready), raft.TraceTakeover)
	assert.True(t, c.Status().Durable.Leading, "others may go by the priorities")
}

// A standby leads as a caretaker until it has committed an entry and another voter is ready.
func TestStandby_TransfersAsSoonAsItCan(t *testing.T) {
	c := prioritized(t, priorities{"a": never, "b": never}, raft.HardState{}).takesOffice()
	assert.True(t, c.Status().Caretaker)
	assert.NotContains(t, c.leads(second, reports{"b": {}, "c": {Backoff: second}}), raft.TraceTakeover, "b is a standby, too")
	assert.Contains(t, c.leads(2*heartbeatPace, ready), raft.TraceTakeover)
	assert.Equal(t, raft.NodeID("c"), c.target())
}

// A learner cannot take over from a caretaker, although every learner counts as one of priority 1.
func TestStandby_NoLearnerTakesOver(t *testing.T) {
	members := membersNamed("abcd")
	members[0].Priority, members[1].Priority, members[3].Kind = never, never, raft.Learner
	c := restart(t, members, raft.HardState{Term: 1}, 1).takesOffice()
	assert.NotContains(t, c.leads(2*office, reports{"b": {}, "d": {}}), raft.TraceTakeover)
	assert.Contains(t, c.leads(2*heartbeatPace, reports{"b": {}, "c": {}, "d": {}}), raft.TraceTakeover)
	assert.Equal(t, raft.NodeID("c"), c.target())
}

func TestStandby_ALeaderThatBecomesOneTransfersAtOnce(t *testing.T) {
	for _, named := range []bool{false, true} {
		c := prioritized(t, priorities{"b": 5}, raft.HardState{}).takesOffice()
		c.leads(2*heartbeatPace, ready)
		if named { // c does not campaign
			c.transferTo("c")
			c.leads(second, ready)
			require.Empty(t, c.target())
			c.hold("bc")
		}
		p := never
		c.change(raft.Change{Update: []raft.Update{{Peer: peer("a"), Priority: &p}}})
		c.leads(heartbeatPace, ready)
		c.hold("bc")
		c.leads(2*heartbeatPace, ready)
		assert.Equal(t, raft.NodeID("b"), c.target(), "an earlier transfer by name no longer matters: %v", named)
	}
}

// A transfer to a member that the caller names rules out a takeover, also by the leader that did not get rid of its leadership.
func TestTakeover_NotAfterATransferByName(t *testing.T) {
	c := prioritized(t, priorities{"c": 9}, raft.HardState{}).takesOffice()
	c.leads(2*heartbeatPace, ready)
	c.transferTo("b")
	events := c.leads(3*office, ready)
	require.Equal(t, raft.Leader, c.Leadership().Role)
	assert.NotContains(t, events, raft.TraceTakeover, "in the old term")

	for _, named := range []bool{true, false} {
		c := prioritized(t, priorities{"a": never}, raft.HardState{})
		c.receive("b", 1, raft.Heartbeat{})
		c.receive("b", 1, raft.TimeoutNow{Named: named})
		c.persist()
		c.receive("c", 2, raft.VoteReply{Granted: true})
		require.Equal(t, raft.Leader, c.Leadership().Role)
		c.hold("bc")
		if events := c.leads(3*office, ready); named {
			assert.NotContains(t, events, raft.TraceTakeover, "a standby that was named leads")
		} else {
			assert.Contains(t, events, raft.TraceTakeover)
		}
	}
}

// A leader without room tries one voter after another. So the voter that it names, perhaps a standby, leads no longer than needed.
func TestTakeover_AlsoAfterATransferForLackOfRoom(t *testing.T) {
	c := prioritized(t, priorities{"b": never, "c": 9}, raft.HardState{}).takesOffice()
	c.leads(2*heartbeatPace, ready)
	c.step(raft.TransferRequested{RequestID: requestIDOfTheTests, To: "b", Urgent: true})
	assert.Equal(t, []raft.Message{{From: peer("a"), To: peer("b"), Cluster: c.Status().Cluster, Term: 2, Body: raft.TimeoutNow{}}}, c.out.Send)
	assert.Contains(t, c.leads(2*office, ready), raft.TraceTakeover, "it still leads, and c should")
}

// The votes may arrive after the candidate has given up. The transfer by name counts all the same, and nothing was lost.
func TestTakeover_AfterALateElectionByName(t *testing.T) {
	c := prioritized(t, priorities{"a": never}, raft.HardState{})
	c.receive("b", 1, raft.Heartbeat{})
	c.receive("b", 1, raft.TimeoutNow{Named: true})
	c.persist()
	c.timeout()
	require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	c.receive("c", 2, raft.VoteReply{Granted: true})
	require.Equal(t, raft.Leader, c.Leadership().Role)
	c.hold("bc")
	assert.NotContains(t, c.leads(3*office, ready), raft.TraceTakeover)
	assert.Zero(t, c.Status().Durable.Losses)
}

// losesOffice makes a leader lose its leadership, because it hears nobody.
func (c *core) losesOffice() {
	for c.Leadership().Role == raft.Leader {
		c.after(heartbeatPace)
	}
	c.persist()
}

func TestBackoff_DoublesWithEachLoss(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{})
	for i, want := range []raft.Time{10, 20, 40, 80, 160, 320, 600, 600} {
		c.takesOffice()
		require.True(t, c.Status().Durable.Leading)
		c.losesOffice()
		hard := c.Status().Durable
		assert.False(t, hard.Leading)
		assert.EqualValues(t, min(i+1, 7), hard.Losses)
		assert.Equal(t, want*second, c.Status().Backoff)
	}
}

func TestBackoff_IsReportedAndEnds(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{Losses: 2})
	backoff := func() raft.Time {
		out := c.receive("b", 1, raft.Heartbeat{Round: raft.RPCID{StartCount: 1, Counter: 1}})
		return bodies(out.Send, "b")[0].(raft.HeartbeatReply).Backoff
	}
	assert.Equal(t, 20*second, backoff(), "a restart begins it anew")
	c.now += 15 * second
	assert.Equal(t, 5*second, backoff())
	c.now += 5 * second
	assert.Zero(t, backoff())
	c.now += 600*second - ms
	backoff()
	c.persist()
	assert.EqualValues(t, 2, c.Status().Durable.Losses)
	c.now += ms
	backoff()
	c.persist()
	assert.Zero(t, c.Status().Durable.Losses, "it is forgotten ten minutes after its end")
}

func TestBackoff_ACrashOfALeaderCounts(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{Leading: true, Losses: 1})
	c.persist()
	assert.Equal(t, raft.HardState{Term: 1, Losses: 2}, c.Status().Durable)
	assert.Equal(t, 20*second, c.Status().Backoff)
	c = prioritized(t, nil, raft.HardState{Leading: true})
	c.persist()
	assert.Equal(t, raft.HardState{Term: 1}, c.Status().Durable, "nobody has a priority any more")
}

// givesUpTo lets a leader tell another member to campaign, which then wins.
func (c *core) givesUpTo(id raft.NodeID) {
	require.Contains(c.t, c.toldToCampaign(), id)
	c.receive(id, 3, raft.VoteRequest{Last: c.Status().Last, Transfer: true})
	c.persist()
	c.receive(id, 3, raft.Heartbeat{})
	c.persist()
}

func TestBackoff_APlannedTransferIsNoLoss(t *testing.T) {
	for about, begin := range map[string]func(c *core){
		"by name":   func(c *core) { c.transferTo("b") },
		"by nobody": func(c *core) { c.transferTo("") },
		"at its end": func(c *core) {
			c.step(raft.TransferRequested{RequestID: requestIDOfTheTests, Leaving: true})
		},
		"a takeover": func(c *core) {
			for c.target() == "" {
				c.leads(office, ready)
				c.hold("bc")
				c.step(raft.Applied{ID: c.Status().Last})
			}
		},
	} {
		c := prioritized(t, priorities{"b": 5}, raft.HardState{}).takesOffice()
		c.leads(2*heartbeatPace, ready)
		c.step(raft.Applied{ID: c.Status().Last})
		begin(c)
		for range 10 {
			if len(c.toldToCampaign()) == 0 {
				c.hold("bc")
				c.after(heartbeatPace / 5)
			}
		}
		c.givesUpTo("b")
		assert.Zero(t, c.Status().Durable.Losses, about)
	}
}

// A leader that begins a transfer because it lacks room, or because its disk has stalled, has lost its leadership.
func TestBackoff_ATransferOfALeaderThatCannotLeadIsALoss(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{}).takesOffice()
	c.leads(2*heartbeatPace, ready)
	c.step(raft.TransferRequested{RequestID: requestIDOfTheTests, To: "b", Urgent: true})
	c.givesUpTo("b")
	assert.EqualValues(t, 1, c.Status().Durable.Losses, "no room")

	c = prioritized(t, priorities{"a": 5}, raft.HardState{}).takesOffice()
	c.leads(2*heartbeatPace, ready)
	c.propose("x")
	for range 30 {
		c.after(heartbeatPace)
		c.acknowledge("bc")
		if c.echo("b", 4); len(c.toldToCampaign()) > 0 {
			break
		}
		c.echo("c", 4)
	}
	c.givesUpTo("b")
	assert.EqualValues(t, 1, c.Status().Durable.Losses, "a stalled disk")
}

// A member that was told to campaign, and does not win, counts that as a loss.
func TestBackoff_ATimeoutNowThatDoesNotWinCounts(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{})
	c.receive("b", 1, raft.Heartbeat{})
	c.receive("b", 1, raft.TimeoutNow{})
	c.persist()
	c.timeout()
	assert.Zero(t, c.Status().Durable.Losses, "it may still win")
	c.receive("c", 3, raft.Heartbeat{})
	c.persist()
	assert.EqualValues(t, 1, c.Status().Durable.Losses)
	assert.Equal(t, 10*second, c.Status().Backoff)
}

// The process of a leader that has closed ends in good order.
func TestBackoff_CloseIsNoLoss(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{}).takesOffice()
	c.step(raft.Closing{})
	c.persist()
	assert.Equal(t, raft.HardState{Term: 2, Vote: peer("a")}, c.Status().Durable)
	c.losesOffice()
	assert.Zero(t, c.Status().Durable.Losses)
}

func TestBackoff_NothingIsWrittenWithoutPriorities(t *testing.T) {
	c := prioritized(t, nil, raft.HardState{}).takesOffice()
	assert.Equal(t, raft.HardState{Term: 2, Vote: peer("a")}, c.Status().Durable)
	c.losesOffice()
	assert.Equal(t, raft.HardState{Term: 2, Vote: peer("a")}, c.Status().Durable)
	assert.Zero(t, c.Status().Backoff)
}

// A record of losses that is not durable yet neither holds back a pre-vote nor delays an attempt.
func TestBackoff_ItsWriteDelaysNothing(t *testing.T) {
	c := prioritized(t, priorities{"a": 5}, raft.HardState{}).takesOffice()
	for c.Leadership().Role == raft.Leader {
		c.after(heartbeatPace)
	}
	require.NotNil(t, c.out.Write.Hard)
	out := c.receive("b", 2, raft.PreVoteRequest{Last: c.Status().Last})
	assert.True(t, bodies(out.Send, "b")[0].(raft.PreVoteReply).Granted)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

func TestStandby_CampaignsThreeWaitsLater(t *testing.T) {
	c := prioritized(t, priorities{"a": never}, raft.HardState{})
	c.receive("b", 1, raft.Heartbeat{Successors: peersNamed("c"), Span: span})
	c.campaignsAfter(4*electionTimeout + span)
}

// Perhaps nobody else can win.
func TestStandby_CampaignsSoonAfterItHasDeniedAShorterLog(t *testing.T) {
	c := prioritized(t, priorities{"a": never}, raft.HardState{})
	c.receive("b", 1, raft.Heartbeat{Successors: peersNamed("c"), Span: span})
	c.after(electionTimeout)
	c.receive("c", 1, raft.PreVoteRequest{Last: id(1, 0)})
	assert.LessOrEqual(t, c.out.WakeAt, c.now+span)
	c.timeout()
	assert.Equal(t, raft.PreCandidate, c.Leadership().Role)
}

// Several standbys get the request at the same time. If both campaigned at once, they would split the vote, again and again.
func TestStandby_WhoseWaitIsOverDrawsATime(t *testing.T) {
	c := prioritized(t, priorities{"a": never}, raft.HardState{})
	c.receive("b", 1, raft.Heartbeat{Successors: peersNamed("c"), Span: span})
	c.timeout()
	require.Equal(t, raft.PreCandidate, c.Leadership().Role)
	c.after(6 * span) // from now on, it waits only because it is a standby
	out := c.receive("c", 1, raft.PreVoteRequest{Last: id(1, 0)})
	assert.NotContains(t, traced(out), raft.TracePreCampaign)
	assert.Contains(t, traced(c.after(span)), raft.TracePreCampaign)
}

// A leader whose only other voters are standbys transfers to one of them only if it is named.
func TestStandby_IsATargetOnlyIfNamed(t *testing.T) {
	c := prioritized(t, priorities{"b": never, "c": never}, raft.HardState{}).takesOffice()
	c.leads(2*heartbeatPace, ready)
	assert.Empty(t, c.Status().Successors)
	assert.Equal(t, raft.RefusedNoTarget, c.transferTo("").Answers[0].Refusal)
	c.transferTo("c")
	assert.Equal(t, raft.NodeID("c"), c.target())
}
