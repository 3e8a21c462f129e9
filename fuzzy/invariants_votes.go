package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of timers and votes that come too early, and of a closing node.
//
//	N25  A member campaigns no sooner than one election timeout after any of these events: it heard its leader, campaigned, started, or made its vote durable in a term without a known leader. It waits longer by the span of an election for each successor that its leader has named before it. After it has campaigned or voted, two such spans are enough. The exceptions are that its leader has stepped down, and the news that its leader's process has ended. (§5.2)
//	N26  A member grants a pre-vote under the same rule as a vote: the candidate's log is at least as up to date. It grants none while it hears a leader. (dissertation §9.6)
//	N27  Members that are started with the same seed draw different election timeouts.
//	N63  After a member has heard the leader of a term, the member does not deny a pre-vote because of its durable vote in that term.
//	N28  A member whose node closes answers all open requests at once, and accepts no more.

// checkNotEarly checks that an election timer did not fire too soon. A step handles its events before its timers, so the
// messages of this step count as heard.
func (k *checker) checkNotEarly(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	if before.Role == raft.Leader && s.Role != raft.Leader {
		w.deposed = w.now
	}
	if w.heard == w.now && w.news != w.now || before.Role == raft.Leader {
		w.rests(n.waitForLeader(before))
	}
	if len(s.Successors) == 0 {
		w.rest = min(w.rest, n.timeout()) // a list counts no longer than its term
	}
	durable := !sameVote(s.Durable, before.Durable) && sameVote(s.Durable, n.hard) && s.Durable.Vote != (raft.Peer{})
	if durable && w.leads == (raft.Peer{}) {
		w.rests(n.waitForElection()) // from now on the candidate has time to win with this vote
	}
	if was := n.configBefore; was != nil && needs(n.config(), n.peer()) && !needs(&was.Configuration, n.peer()) {
		w.rests(n.waitForLeader(before))
		w.enfranchised = w.now
	}
	if w.freed == w.now {
		w.rested = min(w.rested, w.now-w.rest) // it may campaign now, and a repeated message delays nothing
	}
	for i := range out.Trace {
		switch out.Trace[i].Kind {
		case raft.TracePreVoteDenied:
			if n.hung(before) && out.Trace[i].Reason == raft.DeniedOldLog {
				w.rested = min(w.rested, w.now-w.rest) // it may campaign now: see N86
			}
		case raft.TraceTimeout:
			if w.enfranchised > 0 && w.now-w.enfranchised < n.timeout() && w.rested == w.enfranchised {
				k.broken("N72", "%s stands for election in term %d, %v after it got its vote, or was named as a future voter", n, s.Term, time.Duration(w.now-w.enfranchised))
			}
			if w.now-w.rested < w.rest {
				k.broken("N25", "%s stands for election in term %d after only %v", n, s.Term, time.Duration(w.now-w.rested))
			}
		case raft.TraceNews:
			if w.news == w.now {
				w.rested = min(w.rested, w.now-w.rest)
			}
		case raft.TraceSteppedDown: // its leader has stepped down, so there is no leader to wait for
			w.rested = min(w.rested, w.now-w.rest)
		case raft.TraceVoteGranted, raft.TracePreCampaign, raft.TraceCampaign:
			w.rests(n.waitForElection())
		}
	}
}

// rests records that the member now waits for at least so long before it campaigns.
func (w *witness) rests(wait raft.Time) { w.rested, w.rest = w.now, wait }

// waitForLeader returns the least time for which a member waits for its leader. Its configuration may change in the step. While
// it follows nobody, no list counts.
func (n *node) waitForLeader(before *raft.CoreStatus) raft.Time {
	if s := &n.status; s.Role == raft.Follower && s.Leader != "" {
		rank := min(n.rank(n.config()), n.rank(&before.Config))
		return n.timeout() + raft.Time(rank)*min(s.Span, n.timeout())
	}
	return n.timeout()
}

// waitMost returns the longest time for which a member may wait for its leader, or for the election in which it has campaigned
// or voted. wait is the wait of its elections.
func (n *node) waitMost(before *raft.CoreStatus, wait raft.Time) raft.Time {
	rank := max(n.rank(n.config()), n.rank(&before.Config))
	return max(2*wait, wait+raft.Time(rank)*wait)
}

// waitForElection returns the least time for which a member waits for the election in which it has campaigned or voted.
func (n *node) waitForElection() raft.Time {
	if span := n.status.Span; span > 0 {
		return min(2*span, n.timeout())
	}
	return n.timeout()
}

// rank returns a member's place among the successors that its leader has named. The voters that are not named come after
// them. It returns 0 if the leader has named none.
func (n *node) rank(config *raft.Configuration) int {
	list := n.status.Successors
	if i := slices.Index(list, n.peer()); i >= 0 || len(list) == 0 {
		return max(i, 0)
	}
	rank := len(list)
	for _, m := range config.Members {
		p := m.Peer()
		first := p.ID < n.id || p.ID == n.id && p.Incarnation < n.disk.incarnation
		if first && config.VotesIn(p) != 0 && p != n.seen.leads && !slices.Contains(list, p) {
			rank++
		}
	}
	return rank
}

// checkPreVotes checks N26. heard is the time at which the member last heard the leader before the step.
func (k *checker) checkPreVotes(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output, heard raft.Time) {
	s, w := &n.status, &n.seen
	cut := out.Write.Log != nil && out.Write.Log.After.Index < before.Last.Index
	follows := before.Leader != "" && heard > 0 && w.now-heard < n.timeout() && w.news != w.now
	same := s.Term == before.Term && s.Leader == before.Leader && s.Role == before.Role
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			grant, ok := list[i].Body.(raft.PreVoteReply)
			if !ok || !grant.Granted {
				continue
			}
			if same && (follows || s.Role == raft.Leader) {
				k.broken("N26", "%s, which hears %s, grants %s a pre-vote", n, s.Leader, k.c.title(list[i].To))
			}
			term, asked := asks(events, list[i].To, grant.ID)
			if term == 0 && w.news == w.now { // it answers again what it has denied
				term, asked = asks(w.denied, list[i].To, grant.ID)
			}
			if !cut && older(asked, before.Last) || term+1 < before.Term {
				k.broken("N26", "%s, in term %d with a log up to %v, grants %s a pre-vote in term %d with a log up to %v",
					n, before.Term, before.Last, k.c.title(list[i].To), term, asked)
			}
		}
	}
}

// checkUnbound checks N63. leads is the leader that the member had heard in its term before the step.
func (k *checker) checkUnbound(n *node, before *raft.CoreStatus, out *raft.Output, leads raft.Peer) {
	s := &n.status
	if leads == (raft.Peer{}) || s.Term != before.Term || !sameVote(before.Durable, n.hard) {
		return
	}
	for i := range out.Trace {
		if e := &out.Trace[i]; e.Kind == raft.TracePreVoteDenied && e.Reason == raft.DeniedBound {
			k.broken("N63", "%s treats its vote in term %d as binding, although it has heard %s lead it", n, s.Term, k.c.title(leads))
		}
	}
}

// asks finds the pre-vote request that a grant answers. It returns the request's term and the end of the candidate's log. It
// returns term 0 if there is no such request.
func asks(events []raft.Event, from raft.Peer, id raft.RPCID) (raft.Term, raft.EntryID) {
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok || r.Message.From != from {
			continue
		}
		if b, ok := r.Message.Body.(raft.PreVoteRequest); ok && b.ID == id {
			return r.Message.Term, b.Last
		}
	}
	return 0, raft.EntryID{}
}

// timersMax is the number of timers that are compared, and alikeMax is the number of pairs that may be equal by chance. Among
// 300 draws from 150 million nanoseconds, three are equal once in a hundred million runs.
const (
	timersMax = 300
	alikeMax  = 2
)

// checkTimeoutsDiffer compares an election timeout with the timeouts of other lives, in runs in which all lives start with
// one seed.
func (k *checker) checkTimeoutsDiffer(n *node, timeout raft.Time) {
	if !k.c.profile.Node.OneSeed || len(k.timers) >= timersMax {
		return
	}
	if k.timers == nil {
		k.timers = map[raft.Time]life{}
	}
	this := life{n.index, n.life}
	if other, drawn := k.timers[timeout]; drawn && other != this {
		if k.alike++; k.alike > alikeMax {
			k.broken("N27", "%s draws an election timeout of %v, as %s did; this is repetition number %d", n, timeout, k.c.nodes[other.node], k.alike)
		}
	}
	k.timers[timeout] = this
}

// life is one life of a member.
type life struct {
	node  int
	count uint32
}

// checkClosing checks a member whose node closes. It checks every step from the one in which the member learns this.
func (k *checker) checkClosing(n *node, events []raft.Event, out *raft.Output) {
	told := slices.ContainsFunc(events, func(e raft.Event) bool {
		_, closing := e.(raft.Closing)
		return closing
	})
	was := n.seen.closed
	if n.seen.closed = was || told; !n.seen.closed {
		return
	}
	final := map[raft.RequestID]bool{}
	for i := range out.Answers {
		a := &out.Answers[i]
		if was && a.Kind == raft.AnswerAccepted {
			k.broken("N28", "%s accepts request %d after it was told to stop", n, a.RequestID)
		}
		final[a.RequestID] = final[a.RequestID] || a.Kind != raft.AnswerAccepted
	}
	if told {
		k.checkAllClosed(n, final, max(n.applyTo.Index, out.Apply.Index, restoring(out)))
	}
}

// checkAllClosed checks that every open request has an answer, except the requests that the applier will answer.
func (k *checker) checkAllClosed(n *node, final map[raft.RequestID]bool, applying raft.Index) {
	for _, a := range n.accepted {
		if k.c.work.requests[a.requestID].kind == readRequest || a.id.Index <= applying {
			final[a.requestID] = true
		}
	}
	for i := n.firstRequestID; i < len(k.c.work.requests); i++ {
		r, t := &k.c.work.requests[i], raft.RequestID(i)
		open := r.state == unanswered || r.state == acceptedOnly
		if r.node == n && r.life == n.life && open && !final[t] {
			k.broken("N28", "%s was told to stop, but does not answer request %d (state %d)", n, t, r.state)
		}
	}
}
