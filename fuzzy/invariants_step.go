package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// The invariants of a step: what a member may do in response to its events.
//
//	N12  The term rises only to the term of a message, or by one for a campaign. Pre-votes or a TimeoutNow must have called for the campaign. A stranger raises the term only if it is a leader, or if its log deserves a vote. (Figure 2)
//	N13  A leader has heard a quorum within an election timeout or two round trips, whichever is longer, unless it has just requested another member to campaign. (dissertation §6.2)
//	N14  A member that reports that it hears a leader has heard a leader of its term within an election timeout. (dissertation §4.2.3)
//	N15  A voter that hears no leader and votes for nobody campaigns within two of its waits, which are drawn anew each time. If a member sleeps through its timer, it restarts the timer, but only once until it hears a leader. (§5.2)
//	N16  A vote answers a request of its term, from a candidate whose log is at least as up to date. Once a member has heard the leader of a term, it votes for no other member in that term. (§5.4.1)
//	N17  An acknowledgement answers an append or an offer of its own term, or the arrival of a snapshot that the leader of its term has offered, and names the last entry of that append or snapshot. What replies to heartbeats report does not fall in a term, unless a snapshot has replaced the log. (§5.3)
//	N18  The follower has acknowledged matchIndex in this term. matchIndex never falls unless the follower is stale. nextIndex is above matchIndex. (Figure 2)
//	N19  A core refuses messages that are not meant for it, and changes no message that it is given.
//	N20  The log holds the span of an append as long as both have the same generation.
//	N21  A member never uses an RPC id twice, even after a restart.
//	N75  At the end of a step, a leader has committed the entries that it knows a quorum to hold. It commits an entry of its own term as soon as a quorum has acknowledged the entry, and never before. (Figure 2)
//	N31  An election wait above one election timeout is less than twice this member's slowest attempt, at most 64 election timeouts, and ends when its term commits or, after that, when it hears the leader.
//
// checkConversation checks these rules after each step. The exception is N20, which checkSpan checks when a sender fills an
// append. It also checks N38, parts of G16, and parts of the following. G8: a leader has received its votes. G13: a leader
// serves a read only once a quorum has answered a heartbeat that left after the read was requested (dissertation §6.4). G15:
// TimeoutNow goes to a voter with the whole log, no proposal is accepted meanwhile, and a transfer takes at most a few
// election timeouts and acknowledgements (dissertation §3.10). N12: a pre-vote raises no term (§9.6), nor does a vote request
// raise the term of a member that hears a leader (§4.2.3).
//
// A new invariant of a step needs a line in the list above (TestRules_AreThoseThatAreChecked compares the list with the names
// in the code), a check called by checkConversation, and a row in invariants_step_test.go that breaks it by hand (in
// invariants_test.go if checkConversation does not check it). It also needs a mutant in zoo/catalogue_*.go that breaks it in
// the library. k.c.holds takes the condition that must hold; k.broken reports a breach that an if has found.

// checkConversation checks a step against its events.
func (k *checker) checkConversation(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	heard := n.seen.heard
	if n.seen.gone {
		heard = 0
	}
	leads, fittest := n.seen.leads, k.fittest(n, before, events)
	n.seen.recordEvents(n, before, events)
	k.checkTermRise(n, before, events, out, heard)
	k.checkStamps(n, events, out)
	k.checkMembers(n, before, out)
	k.checkHangs(n, before, out)
	k.checkElectionTimer(n, before, out)
	k.checkNotEarly(n, before, out)
	k.checkPreVotes(n, before, events, out, heard)
	n.seen.recordDenied(events, out)
	k.checkWait(n, before, out)
	k.checkPatience(n, before, events, out)
	k.checkMayWork(n)
	k.checkReplies(n, before, events, out)
	k.checkLoyalty(n, before, out, leads)
	k.checkUnbound(n, before, out, leads)
	k.checkRefusals(n, before, events, out)
	k.checkBootstraps(n, before, out)
	k.checkHeard(n, before, events, out)
	if s := &n.status; s.Role == raft.Leader {
		k.checkOffice(n, before)
		if before.Role == raft.Leader && before.Term == s.Term {
			k.checkReadsServed(n, out)
		}
		n.seen.dropAnswered(out)
		k.checkTransfer(n, events, out)
		k.checkChoice(n, before, events, out, fittest)
		k.checkTransferForStall(n, events, out)
		k.checkTakeover(n, before, out)
		k.checkSuccessors(n, before)
	} else {
		n.seen.transfer = 0
	}
	k.checkLosses(n, before, events, out)
	k.checkMessageIDs(n, out)
	if out.Write.Seq > 0 {
		pair := []raft.Write{{}, out.Write} // as a slow disk merges a write with one before it
		merged, parts := pipeline.MergeWrites(pair)
		k.checkMerge(n, pair[:parts], &merged)
	}
}

// checkMessageIDs records the messages of a step, and checks their ids.
func (k *checker) checkMessageIDs(n *node, out *raft.Output) {
	n.seen.recordMessages(n, out)
	if n.seen.reused {
		k.broken("N21", "%s reuses an id from before its last start", n)
	}
	if n.seen.persisted {
		k.broken("N38", "%s still retries a read request to its leader, %v after the first", n, time.Duration(n.seen.now-n.seen.inquired))
	}
}

func (n *node) timeout() raft.Time { return raft.Time(n.c.profile.ElectionTimeout / n.faster) }

// checkTermRise checks N12. heard is the time at which the member last heard the leader before the step.
func (k *checker) checkTermRise(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output, heard raft.Time) {
	s, w := &n.status, &n.seen
	if s.Term == before.Term {
		return
	}
	hears := before.Role == raft.Leader || before.Leader != "" && heard > 0 && w.now-heard < n.timeout()
	reach, told := before.Term, false
	for _, e := range events {
		if a, ok := e.(raft.SnapshotArrived); ok && before.Uninitialized && k.leaders[s.Term] == a.From {
			reach = max(reach, s.Term) // the term of the offer, which an uninitialized member adopts with the snapshot
		}
		if lost, ok := e.(raft.PeerLost); ok && lost.Refused && lost.Peer.ID == before.Leader {
			hears = hears && n.preferences.NoNews
		}
		r, ok := e.(raft.Received)
		if !ok {
			continue
		}
		m, raises := &r.Message, true
		switch b := m.Body.(type) {
		case raft.PreVoteRequest:
			raises = false
		case raft.PreVoteReply:
			raises = !b.Granted
		case raft.VoteRequest:
			raises = b.Transfer || !hears
		case raft.SteppedDown:
			hears = hears && (m.From.ID != before.Leader || m.Term != before.Term)
		case raft.TimeoutNow:
			told = told || m.Term >= before.Term
			hears = hears && !told
		}
		if raises && m.Term > reach && n.heeds(before, m, out) {
			reach, hears = m.Term, false
		}
	}
	if n.hard.Vote != n.peer() {
		k.c.holds(s.Term <= reach, "N12", "%s: the term rises from %d to %d, but nothing justifies more than %d",
			n, before.Term, s.Term, reach)
		return
	}
	granted := n.agreed(func(p raft.Peer) bool { return w.preVotes.has(p) || p == n.peer() })
	called := told || granted.reached() || before.Term == 0
	k.c.holds(s.Term <= reach+1 && called, "N12", "%s stands in term %d after %d, with the pre-votes of %v",
		n, s.Term, before.Term, granted)
	w.preVotes = nil
}

// heeds reports whether a message may raise the term. Any message of a member may raise it. If the member does not know the
// sender, only a leader's message or a vote request with an up-to-date log may raise it.
func (n *node) heeds(before *raft.CoreStatus, m *raft.Message, out *raft.Output) bool {
	if includes(n.config(), m.From) || includes(&before.Config, m.From) {
		return true
	}
	switch b := m.Body.(type) {
	case raft.AppendRequest, raft.Heartbeat, raft.InstallSnapshot:
		return true
	case raft.VoteRequest:
		cut := out.Write.Log != nil && out.Write.Log.After.Index < before.Last.Index
		return cut || !older(b.Last, before.Last)
	}
	return false
}

// older reports whether a log that ends with a is less up to date than a log that ends with b.
func older(a, b raft.EntryID) bool { return a.Term < b.Term || a.Term == b.Term && a.Index < b.Index }

// checkElectionTimer checks the timer of an election.
func (k *checker) checkElectionTimer(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	leads, begins := s.Role == raft.Leader || before.Role == raft.Leader, false
	for i := range out.Trace {
		switch event := &out.Trace[i]; event.Kind {
		case raft.TraceVoteGranted, raft.TracePreCampaign, raft.TraceCampaign:
			w.cause, begins = w.now, true
		case raft.TracePreVoteGranted, raft.TraceSteppedDown:
			w.cause = w.now // the running wait may become longer or shorter, but no other one begins
		case raft.TraceLeader:
			leads = true
		case raft.TraceVoteDenied, raft.TracePreVoteDenied:
			hears := leads || !(w.gone && w.news != w.now) && w.beat > 0 && w.reign >= before.Term && w.now-w.beat < n.timeout()
			if event.Reason == raft.DeniedHearsLeader && !hears {
				k.broken("N14", "%s tells %s that it hears a leader of term %d, but has heard none for %v", n, event.Peer,
					before.Term, time.Duration(w.now-w.beat))
			}
		}
	}
	slept := w.now - w.wake
	late := slept > n.timeout()/2
	if late && w.slept { // it has already restarted its timer once
		w.cause, late = min(w.now, w.cause+slept), false
	}
	w.slept = (w.slept || late && before.Role != raft.Leader) && w.beat != w.now
	able := !n.doomed && out.Write.Mark == nil && s.Suspected == (raft.Peer{}) && s.Term > 0 && votes(n.config(), n.peer())
	if leads || late || !able || before.Term == 0 || !sameVote(s.Durable, n.hard) || s.Election.Wait > before.Election.Wait {
		w.cause = w.now
	}
	if w.late == w.now && w.prompt == w.now && s.Election.Wait == n.timeout() {
		w.cause = w.now // one reply has lengthened the wait, and another one in the same step has reset it
	}
	if w.waits = max(w.waits, s.Election.Wait); w.cause == w.now {
		w.waits = max(s.Election.Wait, before.Election.Wait)
	}
	limit := max(n.waitMost(before, w.waits), n.disk.hard.Lease) // a promise may outlast the timeout, see checkDrawn
	// Late messages of a leader that has stepped down begin no wait, although they may name other successors.
	beats := w.beat == w.now
	if beats && s.Leader == "" { // heard and resigned in one step: the successors that it named cannot be seen any more
		limit = max(limit, w.limit, w.waits*raft.Time(1+len(n.config().Members)))
	} else if !beats && !begins {
		limit = max(limit, w.limit) // the wait began behind a leader that had named its successors
	}
	w.limit = limit
	if s.FSMHangs || n.standsBack() {
		limit += 3 * w.waits // see N86
	}
	if w.now-w.cause > limit {
		k.broken("N15", "%s has heard nobody for %v, but does not stand for election", n, time.Duration(w.now-w.cause))
	}
	drawn := w.heard == w.now && out.WakeAt != w.wake // an earlier step at the same time may have drawn it, with other voters
	if able && !w.failed && drawn && s.Role == raft.Follower && n.priority(s, n.peer()) > 0 && sameVote(s.Durable, n.hard) && s.Election.Wait == n.timeout() {
		k.checkDrawn(n, before, out.WakeAt-w.now)
	}
}

// sameVote reports whether two hard states are about the same term and vote.
func sameVote(a, b raft.HardState) bool { return a.Term == b.Term && a.Vote == b.Vote }

// waitsMax is the longest wait, in election timeouts.
const waitsMax = 64

// checkWait checks the length of a member's wait for a leader, or for the replies to its own election attempts.
func (k *checker) checkWait(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	for i := range out.Trace {
		if event := &out.Trace[i]; event.Kind == raft.TraceCampaign {
			w.attempts.stood[event.Term] = w.now
		}
	}
	wait := s.Election.Wait
	if wait > n.timeout() && (wait > waitsMax*n.timeout() || wait >= 2*w.attempts.took) {
		k.broken("N31", "%s waits for %v, but its slowest attempt took only %v", n,
			time.Duration(wait), time.Duration(w.attempts.took))
	}
	if i := s.Commit; i > before.Commit && i <= raft.Index(len(n.log)) && n.log[i-1].entry.Term == s.Term && wait > n.timeout() {
		k.broken("N31", "%s still waits for %v although its term has committed", n, time.Duration(wait))
	}
	quiet := s.Suspected == (raft.Peer{}) && !n.doomed && w.late != w.now
	if i := before.Commit; quiet && w.heard == w.now && i > 0 && n.log[i-1].entry.Term == s.Term && wait > n.timeout() {
		k.broken("N31", "%s still waits for %v although it hears the leader of its term, which has committed", n, time.Duration(wait))
	}
	if wait < before.Election.Wait { // a term has committed, a link has returned, or a quorum has answered promptly
		w.attempts.forget(w.now, wait == n.timeout())
	}
}

// drawsMin is the number of election timeouts that the checker needs to see whether they are random.
const drawsMin = 40

// checkDrawn checks a newly drawn election timeout. It ignores shorter timers, because they belong to client requests, and those
// that may be the end of a promise. A member that has restarted with a shorter timeout still promises as much as before.
func (k *checker) checkDrawn(n *node, before *raft.CoreStatus, timeout raft.Time) {
	if timeout < n.timeout() || timeout <= n.disk.hard.Lease || n.status.FSMHangs {
		return
	}
	if timeout > n.waitMost(before, n.timeout()) {
		k.broken("N15", "%s draws an election timeout of %v", n, timeout)
	}
	if len(n.status.Successors) > 0 {
		return // it is not drawn
	}
	k.checkTimeoutsDiffer(n, timeout)
	if k.draws++; k.draws == 1 {
		k.shortest, k.longest = timeout, timeout
	}
	k.shortest, k.longest = min(k.shortest, timeout), max(k.longest, timeout)
	if k.draws >= drawsMin && k.longest-k.shortest <= n.timeout()/4 {
		k.broken("N15", "%d election timeouts are all from %v to %v", k.draws, k.shortest, k.longest)
	}
}

// checkReplies checks the votes and acknowledgements in both lists of messages. They must answer events of the step, in the
// order of these events.
func (k *checker) checkReplies(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	cut := out.Write.Log != nil && out.Write.Log.After.Index < before.Last.Index
	installs := out.Write.Log != nil && out.Write.Log.Reset
	if installs || n.seen.reportedIn != n.status.Term {
		n.seen.reported, n.seen.reportedIn = 0, n.status.Term
	}
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		from := 0
		for i := range list {
			answer := &list[i]
			switch b := answer.Body.(type) {
			case raft.VoteReply:
				if b.Granted && !cut {
					k.checkVoteDeserved(n, before, answer, events)
				}
			case raft.AppendReply:
				for from < len(events) && !k.proves(n, events[from], answer, b.Match) {
					from++
				}
				if from >= len(events) {
					k.broken("N17", "%s acknowledges %d to %s in term %d, but no append justifies that", n, b.Match, k.c.title(answer.To), answer.Term)
				}
				from++
			case raft.HeartbeatReply:
				if b.Match < n.seen.reported && b.Wall != 0 && !installs { // without a clock, it carries only the term
					k.broken("N17", "%s reports %d to %s, but has reported %d in term %d", n, b.Match, k.c.title(answer.To), n.seen.reported, answer.Term)
				}
				if !installs {
					n.seen.reported = max(n.seen.reported, b.Match)
				}
			}
		}
	}
}

// proves reports whether an event justifies an acknowledgement. The bytes of a snapshot may come from an earlier leader. Then
// the present leader offers the snapshot and gets the acknowledgement.
func (k *checker) proves(n *node, e raft.Event, answer *raft.Message, match raft.Index) bool {
	if a, ok := e.(raft.SnapshotArrived); ok {
		leader, led := k.leaders[answer.Term]
		offered := n.seen.offered[offering{answer.To, a.Snapshot.File}]
		return led && leader == answer.To && offered == a.Snapshot.ID && offered.Index == match
	}
	r, ok := e.(raft.Received)
	if !ok || r.Message.From != answer.To || r.Message.Term != answer.Term {
		return false
	}
	if s, ok := r.Message.Body.(raft.InstallSnapshot); ok {
		return s.Snapshot.ID.Index == match
	}
	a, ok := r.Message.Body.(raft.AppendRequest)
	return ok && a.Last.Index == match
}

// checkVoteDeserved checks that a granted vote was requested and deserved. The step may have appended entries before the
// vote, but it may not have truncated any.
func (k *checker) checkVoteDeserved(n *node, before *raft.CoreStatus, grant *raft.Message, events []raft.Event) {
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok || r.Message.From != grant.To || r.Message.Term != grant.Term {
			continue
		}
		if b, ok := r.Message.Body.(raft.VoteRequest); ok {
			k.c.holds(!older(b.Last, before.Last), "N16", "%s, whose log ends at %v, votes for %s, whose log ends at %v",
				n, before.Last, k.c.title(grant.To), b.Last)
			return
		}
	}
	k.broken("N16", "%s votes for %s in term %d, without a request", n, k.c.title(grant.To), grant.Term)
}

// checkLoyalty checks a member that has heard the leader of its term before this step. In that term the member may vote only
// for that leader.
func (k *checker) checkLoyalty(n *node, before *raft.CoreStatus, out *raft.Output, leads raft.Peer) {
	if leads == (raft.Peer{}) {
		return
	}
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			if b, ok := list[i].Body.(raft.VoteReply); ok && b.Granted && list[i].Term == before.Term && list[i].To != leads {
				k.broken("N16", "%s votes for %s in term %d, although it has heard %s lead it", n, k.c.title(list[i].To), before.Term, k.c.title(leads))
			}
		}
	}
}

// checkRefusals checks that messages for others cause only a trace event. It also checks that the core changes no message.
func (k *checker) checkRefusals(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	strays := 0
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok {
			continue
		}
		if n.strange(before, &r.Message) {
			strays++
		}
		if a, ok := r.Message.Body.(raft.AppendRequest); ok {
			if !whole(&a) {
				k.broken("N19", "%s changes an append that it was given, up to %v", n, a.Last)
			}
		}
	}
	for i := range out.Trace {
		if out.Trace[i].Kind == raft.TraceRefused {
			strays--
		}
	}
	if strays > 0 {
		k.broken("N19", "%s takes %d messages that are meant for others", n, strays)
	}
}

// strange reports whether a message is for another node or incarnation, or from another cluster.
func (n *node) strange(before *raft.CoreStatus, m *raft.Message) bool {
	nowhere := raft.ClusterID{}
	switch m.Body.(type) {
	case raft.BootstrapProbe:
		return m.To.ID != n.id || m.To.Incarnation != 0 && m.To != n.peer()
	case raft.BootstrapProbeReply, raft.BootstrapRequest, raft.BootstrapReply:
		return m.To != n.peer() // the core compares clusters itself for a bootstrap message
	}
	ours := n.status.Cluster
	foreign := m.Cluster != nowhere && m.Cluster != ours && ours != nowhere && ours == before.Cluster
	return m.To != n.peer() || foreign
}

// whole reports whether an append has exactly the entries that it names.
func whole(a *raft.AppendRequest) bool {
	last := a.Prev
	for i := range a.Entries {
		id := a.Entries[i].ID()
		if id.Index != last.Index+1 || id.Term < last.Term {
			return false
		}
		last = id
	}
	return last == a.Last
}

// checkBootstraps checks entry 1. An uninitialized member accepts entry 1 only if the member was started with the same list.
// A bootstrapper writes it only after all members have answered the present probe that they are uninitialized. A member that
// gets its first term together with its first entries takes them from a leader, in no bootstrap.
func (k *checker) checkBootstraps(n *node, before *raft.CoreStatus, out *raft.Output) {
	l := out.Write.Log
	if l == nil || n.status.Term > 0 || len(l.Entries) == 0 {
		return
	}
	k.c.holds(!before.Uninitialized || n.given.SameList(n.status.Config), "G16",
		"%s takes part in a bootstrap with another list of members than its own", n)
	if n.status.Bootstrapper != n.peer() {
		return
	}
	for _, m := range n.status.Config.Members {
		uninitialized := m.Peer() == n.peer() || n.seen.uninitialized.has(m.Peer())
		k.c.holds(uninitialized, "G16", "%s bootstraps a cluster before %s has answered its probe", n, k.c.title(m.Peer()))
	}
}

// checkSpan checks an append that a sender is about to fill.
func (k *checker) checkSpan(n *node, r *raft.AppendRequest) {
	if !n.holds(r.Prev) || !n.holds(r.Last) {
		k.broken("N20", "%s sends entries from %v to %v, which are not in its log of generation %d", n, r.Prev, r.Last, r.Generation)
	}
}

func (n *node) holds(id raft.EntryID) bool {
	i := int(id.Index)
	return i == 0 || i <= len(n.log) && n.log[i-1].entry.ID() == id
}
