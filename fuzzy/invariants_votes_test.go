package fuzzy

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// tooEarly lists actions and messages that come too early for a follower. In each case, the node named other is the leader.
var tooEarly = []stepBreach{
	{"N25", func(_ *checker, n, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.rested = n.seen.now - n.timeout() + 1
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
		return nil
	}},
	{"N25", func(_ *checker, n, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event { // it has just voted
		n.seen.rested = 0
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceVoteGranted}, {Kind: raft.TraceTimeout}}
		return nil
	}},
	{"N72", func(_ *checker, n, _ *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event { // it has just got its vote
		n.seen.enfranchised = n.seen.now - n.timeout() + 1
		n.seen.rested = n.seen.enfranchised
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceTimeout}}
		return nil
	}},
	{"N26", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // it hears a leader
		n.seen.heard = n.seen.now
		return preVote(n, other, before.Term, before.Last, out)
	}},
	{"N26", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.heard = 0
		return preVote(n, other, before.Term, raft.EntryID{Term: before.Last.Term, Index: before.Last.Index - 1}, out)
	}},
	{"N26", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		n.seen.heard = 0
		before.Term, n.status.Term = 9, 9
		return preVote(n, other, 7, raft.EntryID{Term: 9, Index: 1 << 20}, out)
	}},
	{"N16", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event { // nobody asked
		out.Write.Then = []raft.Message{*message(n, other, before.Term, raft.VoteReply{Granted: true})}
		return given(message(other, n, before.Term-1, raft.VoteRequest{Last: before.Last}))
	}},
}

// preVote makes n grant other a pre-vote.
func preVote(n, other *node, term raft.Term, last raft.EntryID, out *raft.Output) []raft.Event {
	id := raft.RPCID{StartCount: 1, Counter: 1 << 40}
	out.Send = []raft.Message{*message(n, other, term, raft.PreVoteReply{ID: id, Granted: true})}
	return given(message(other, n, term, raft.PreVoteRequest{ID: id, Last: last}))
}

func TestInvariants_OfVotesNoticeTheirBreach(t *testing.T) {
	for _, row := range tooEarly {
		c, other, n := running(t)
		before, out := n.status, raft.Output{WakeAt: n.seen.now + n.timeout()}
		n.seen.now = n.now().Mono
		events := row.breach(c.check, n, other, &before, &out)
		heard := n.seen.heard
		c.check.checkNotEarly(n, &before, &out)
		c.check.checkPreVotes(n, &before, events, &out, heard)
		c.check.checkReplies(n, &before, events, &out)
		expectBreach(t, c, row.rule)
	}
}

// The news that its leader has ended makes a member answer again the last request for a pre-vote that it has denied because of
// that leader, and no other request.
func TestInvariants_NewsAnswersTheDeniedAgain(t *testing.T) {
	for _, denied := range []bool{true, false} {
		c, other, n := running(t)
		before, again := n.status, raft.Output{}
		n.seen.now = n.now().Mono
		n.seen.news = n.seen.now
		deny := raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TracePreVoteDenied, Peer: other.id, Reason: raft.DeniedOldLog, ID: before.Last}}}
		if denied {
			deny.Trace[0].Reason = raft.DeniedHearsLeader
		}
		n.seen.recordDenied(preVote(n, other, before.Term, before.Last, &again), &deny)
		for i := range uint64(10) { // it hears the leader no longer, and grants these
			later := raft.PreVoteRequest{ID: raft.RPCID{StartCount: 1, Counter: 1<<40 + 1 + i}, Last: before.Last}
			n.seen.recordDenied(given(message(other, n, before.Term, later)), &raft.Output{})
		}
		c.check.checkPreVotes(n, &before, nil, &again, 0)
		if denied {
			require.Nil(t, c.failure)
		} else {
			expectBreach(t, c, "N26")
		}
	}
}

// If a leader may choose the target of a transfer, it chooses the voter with the longest log.
func TestInvariants_TheChoiceOfATargetIsChecked(t *testing.T) {
	for _, out := range []raft.Output{
		{Trace: []raft.TraceEvent{{Kind: raft.TraceTransfer}}},
		{Answers: []raft.Answer{{Kind: raft.AnswerRefused, Refusal: raft.RefusedNoTarget}}},
	} {
		c, n, _ := running(t)
		n.status.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
		n.seen.now = n.now().Mono
		best := c.check.fittest(n, &n.status, nil)
		require.True(t, best.able.some)
		n.status.Peers[0].Match = best.able.match - 1
		if len(out.Trace) > 0 {
			out.Trace[0].Peer = n.status.Peers[0].ID
		}
		c.check.checkChoice(n, &n.status, []raft.Event{raft.TransferRequested{To: "a"}}, &out, best)
		require.Nil(t, c.failure, "the caller chose the target")
		c.check.checkChoice(n, &n.status, []raft.Event{raft.TransferRequested{}}, &out, best)
		expectBreach(t, c, "G17")
	}
}

func TestInvariants_TimersInStepAreNoticed(t *testing.T) {
	c, n, other := running(t)
	c.profile.Node.OneSeed = true
	for i := range raft.Time(alikeMax + 1) {
		require.Nil(t, c.failure)
		c.check.checkTimeoutsDiffer(n, n.timeout()+i)
		c.check.checkTimeoutsDiffer(other, n.timeout()+i)
	}
	expectBreach(t, c, "N27")
}

// After a failed snapshot, a member may request to be woken for the next attempt. This time is not a drawn election timeout.
func TestInvariants_ThePauseAfterAFailedSnapshotIsNotDrawn(t *testing.T) {
	for _, failed := range []bool{false, true} {
		c, _, n := running(t)
		before, out := n.status, raft.Output{WakeAt: n.now().Mono + n.timeout()}
		n.seen.now, n.seen.heard, n.status.Successors = n.now().Mono, n.now().Mono, nil
		var events []raft.Event
		if failed {
			events = []raft.Event{raft.SnapshotTaken{Err: errors.New("the disk is full")}}
		}
		n.seen.recordEvents(n, &before, events)
		draws := c.check.draws
		c.check.checkElectionTimer(n, &before, &out)
		assert.Equal(t, failed, c.check.draws == draws)
		n.seen.recordMessages(n, &raft.Output{Keep: &raft.Keep{Take: &raft.Take{}}})
		c.check.checkElectionTimer(n, &before, &out)
		assert.Greater(t, c.check.draws, draws, "it tries again, so the pause has ended")
	}
}

// A member that gets the request to stop must answer every open request at once.
func TestInvariants_AMemberToldToStopAnswers(t *testing.T) {
	for _, row := range []struct {
		what   string
		closed bool
		ask    func(c *cluster, n *node) raft.RequestID
		answer raft.AnswerKind
		broken bool
	}{
		{"a read without an answer", false, func(c *cluster, n *node) raft.RequestID { return c.work.read(n, 0, 0) }, 0, true},
		{"a read that is refused", false, func(c *cluster, n *node) raft.RequestID { return c.work.read(n, 0, 0) }, raft.AnswerRefused, false},
		{"a write that is accepted alone", false, func(c *cluster, n *node) raft.RequestID { return c.work.write(n, 0, 1) }, raft.AnswerAccepted, true},
		{"a write after it was told", true, func(c *cluster, n *node) raft.RequestID { return c.work.write(n, 0, 1) }, raft.AnswerAccepted, true},
	} {
		c, n, _ := running(t)
		n.firstRequestID = len(c.work.requests)
		n.seen.closed = row.closed
		out := raft.Output{Answers: []raft.Answer{{RequestID: row.ask(c, n), Kind: row.answer}}}
		if row.answer == 0 {
			out.Answers = nil
		}
		c.check.checkClosing(n, []raft.Event{raft.Closing{}}, &out)
		if row.broken {
			expectBreach(t, c, "N28")
		} else {
			assert.Nil(t, c.failure, row.what)
		}
	}
}

// The profile injects the fault: processes get the request to stop while client requests are open.
func TestClose_IsPlayed(t *testing.T) {
	closed := 0
	for number := range uint64(40) {
		r, err := Run(Seed{"alone", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure)
		closed += r.ByFault[Close]
	}
	assert.Positive(t, closed)
}

// A voter may show in a step that it has lost acknowledged entries. If it shows this before the leader chooses a target, the
// leader must not choose it. If it shows this after the choice, the choice is correct.
func TestInvariants_AMemberThatShowsALossIsNoTarget(t *testing.T) {
	for _, row := range []struct {
		what  string
		shown func(target, shown raft.TraceEvent) []raft.TraceEvent
		holds bool
	}{
		{"once it was chosen", func(target, shown raft.TraceEvent) []raft.TraceEvent { return []raft.TraceEvent{target, shown} }, true},
		{"before", func(target, shown raft.TraceEvent) []raft.TraceEvent { return []raft.TraceEvent{shown, target} }, false},
	} {
		for _, others := range []bool{true, false} {
			c, n, _ := running(t)
			n.seen.now = n.now().Mono
			before, id := n.status, n.status.Peers[0].ID
			if !others {
				before.Peers = before.Peers[:1]
			}
			n.status.Peers = slices.Clone(before.Peers)
			n.status.Peers[0].State, n.status.Peers[0].Match = "stale", 0
			best := c.check.fittest(n, &before, nil)
			require.Equal(t, others, best.all.some)
			trace := row.shown(raft.TraceEvent{Kind: raft.TraceTransfer, Peer: id},
				raft.TraceEvent{Kind: raft.TraceStaleMember, Peer: id, Index: before.Peers[0].Match})
			c.check.checkChoice(n, &before, []raft.Event{raft.TransferRequested{}}, &raft.Output{Trace: trace}, best)
			if row.holds {
				assert.Nil(t, c.failure, row.what)
				continue
			}
			expectBreach(t, c, "G17")
		}
	}
}

// If all voters show a loss, the leader has no target.
func TestInvariants_WhenAllHaveLostTheirLogsThereIsNoTarget(t *testing.T) {
	c, n, _ := running(t)
	n.seen.now = n.now().Mono
	before := n.status
	n.status.Peers = slices.Clone(before.Peers)
	for i := range n.status.Peers {
		n.status.Peers[i].State = "stale"
	}
	out := raft.Output{Answers: []raft.Answer{{Kind: raft.AnswerRefused, Refusal: raft.RefusedNoTarget}}}
	c.check.checkChoice(n, &before, []raft.Event{raft.TransferRequested{}}, &out, c.check.fittest(n, &before, nil))
	assert.Nil(t, c.failure)
}

// A leader without room tries one voter after another. So any other leader ends such a transfer well.
func TestInvariants_AnUrgentTransferMayEndAtAnyOtherMember(t *testing.T) {
	c, lead, follower := running(t)
	c.check.leaders[lead.status.Term] = follower.peer()
	other := c.nodes[3-lead.index-follower.index].id
	c.check.checkTransferAnswer(lead, &request{to: other, urgent: true}, raft.Answer{Leader: follower.id})
	assert.Nil(t, c.failure)
}

// A leader transfers its leadership to a leaving voter only if the leader's own disk has stalled. No other voter may then
// have more entries than that disk.
func TestInvariants_AVoterThatIsLeavingIsTheLastChoice(t *testing.T) {
	for _, row := range []struct {
		what         string
		stalled      bool
		ahead, holds bool
	}{
		{"its disk has stalled", true, false, true},
		{"its disk works", false, false, false},
		{"another voter is ahead of its disk", true, true, false},
	} {
		c, n, follower := running(t)
		n.rule(jointWith(n))
		n.status.DiskStalled = row.stalled
		best := choice{all: fitness{match: n.status.Persisted, some: true}}
		if row.ahead {
			n.status.Persisted--
		}
		out := raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TraceTransfer, Peer: follower.id}}}
		c.check.checkChoice(n, &n.status, nil, &out, best)
		if row.holds {
			assert.Nil(t, c.failure, row.what)
			continue
		}
		expectBreach(t, c, "G15")
	}
}

// A voter may lack entries for a moment within the step, from one of its answers to the next. An answer of the target may show that it lacks none.
func TestInvariants_AnswersWithinAStepDecideWhoIsAble(t *testing.T) {
	for _, row := range []struct {
		what   string
		bodies []raft.Body // of the messages from the voter with the longest log, and from the target
		state  string
		holds  bool
	}{
		{"nothing arrives", []raft.Body{nil, nil}, "replicate", false},
		{"the other one refuses an append", []raft.Body{raft.AppendConflict{}, nil}, "replicate", true},
		{"the other one shows that an append is overdue", []raft.Body{raft.HeartbeatReply{}, nil}, "replicate", true},
		{"the other one acknowledges an append", []raft.Body{raft.AppendReply{}, nil}, "replicate", false},
		{"a target that lacks entries", []raft.Body{nil, nil}, "probe", false},
		{"a target that refuses an append", []raft.Body{raft.AppendConflict{}, raft.AppendConflict{}}, "probe", true},
	} {
		c, n, _ := running(t)
		n.seen.now = n.now().Mono
		n.status.Peers = slices.Clone(n.status.Peers)
		longest, target := &n.status.Peers[0], &n.status.Peers[1]
		before := n.status
		before.Peers = slices.Clone(n.status.Peers)
		before.Peers[1].Match, target.Match, target.State = longest.Match-1, longest.Match-1, row.state
		before.Peers[1].State = row.state
		events := []raft.Event{raft.TransferRequested{}}
		for i, body := range row.bodies {
			if body != nil {
				events = append(events, raft.Received{Message: raft.Message{From: peerOf(&n.status.Peers[i]), Body: body}})
			}
		}
		out := raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TraceTransfer, Peer: target.ID}}}
		c.check.checkChoice(n, &before, events, &out, c.check.fittest(n, &before, events))
		if row.holds {
			assert.Nil(t, c.failure, row.what)
			continue
		}
		expectBreach(t, c, "G17")
	}
}

// A leader that is about to end has the time of an election once it has told its target to campaign, however late that was.
func TestInvariants_ATransferEndsInTime(t *testing.T) {
	for _, row := range []struct {
		leaving bool
		told    raft.Time // before now
		holds   bool
	}{
		{false, 1, false},
		{true, 1, true},
		{true, 3, false},
	} {
		c, n, _ := running(t)
		c.work.requests = append(c.work.requests, request{leaving: row.leaving})
		w := &n.seen
		w.now = n.now().Mono
		w.transfer, w.since = raft.RequestID(len(c.work.requests)-1), w.now-600*n.timeout()
		w.toldUntil = w.now + (2-row.told)*n.timeout()
		c.check.checkTransferEnds(n)
		if row.holds {
			assert.Nil(t, c.failure)
			continue
		}
		expectBreach(t, c, "G15")
	}
}

// The wait for a leader that has ended, or has stepped down, does not begin again.
func TestInvariants_WhoFollowsNobodyDoesNotWait(t *testing.T) {
	c, lead, n := running(t)
	w, before := &n.seen, n.status
	n.status.Successors = []raft.Peer{lead.peer()}
	n.status.Span = n.timeout() / 2
	require.Greater(t, n.waitForLeader(&before), n.timeout())
	n.status.Leader = ""
	assert.Equal(t, n.timeout(), n.waitForLeader(&before))

	w.now = n.now().Mono
	w.heard, w.news = w.now, w.now
	w.rest = n.timeout()
	w.rested = w.now - w.rest
	out := raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TraceTimeout}}}
	c.check.checkNotEarly(n, &before, &out)
	require.Nil(t, c.failure, "the news came a moment ago")
	w.news = 0
	c.check.checkNotEarly(n, &before, &out)
	expectBreach(t, c, "N25")
}

// Several steps may fall on one time. The first one has judged the wait that it drew, with the voters that there were.
func TestInvariants_AWaitIsJudgedWhenItIsDrawn(t *testing.T) {
	for _, drawn := range []bool{false, true} {
		c, _, n := running(t)
		before, w := n.status, &n.seen
		n.status.Durable = n.hard
		w.now = n.now().Mono
		w.heard, w.beat, w.cause, w.wake = w.now, w.now, w.now, w.now+9*n.timeout()
		out := raft.Output{WakeAt: w.wake}
		if drawn {
			out.WakeAt++
		}
		c.check.checkElectionTimer(n, &before, &out)
		if !drawn {
			require.Nil(t, c.failure)
			continue
		}
		expectBreach(t, c, "N15")
	}
}

// A member with a much shorter election timeout than the leader's may end its leadership between two heartbeats.
func TestLiveness_AnImpatientMemberMayElectAnotherLeader(t *testing.T) {
	c, lead, n := running(t)
	assert.False(t, c.impatient(lead))
	n.faster = 4
	assert.True(t, c.impatient(lead))
}
