package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// checkOffice checks a leader's knowledge about the other members, and the leader's use of it. It checks N13, N18 and N75,
// and in the leader's first step also G8.
func (k *checker) checkOffice(n *node, before *raft.CoreStatus) {
	s, w := &n.status, &n.seen
	stillLeads := before.Role == raft.Leader && before.Term == s.Term
	heard := n.agreed(func(p raft.Peer) bool {
		seen := w.of(p)
		window := max(n.timeout(), min(2*seen.roundTrip, waitsMax*n.timeout()))
		return p == n.peer() || w.now-seen.heard < window
	})
	if !stillLeads {
		w.led = w.now
	}
	// The voters of a new leader or a new configuration have time to answer. They have this time even if one of them proves
	// to be stale meanwhile.
	began := max(w.led, w.inOffice.since)
	fresh := began > 0 && w.now-began < n.timeout()
	if !heard.reached() && w.now > w.toldUntil && !fresh {
		k.broken("N13", "%s leads term %d, but has heard only %v in the allowed time", n, s.Term, heard)
	}
	if !stillLeads {
		granted := n.agreed(func(p raft.Peer) bool { return p == n.peer() || w.votes.has(p) })
		if !granted.reached() {
			k.broken("G8", "%s leads term %d, but was granted only the votes of %v", n, s.Term, granted)
		}
	}
	k.checkCommitsAll(n, before)
	for i := range s.Peers {
		p := &s.Peers[i]
		peer := peerOf(p)
		proved := w.of(peer).proved
		if p.Match > proved || p.Next <= p.Match {
			k.broken("N18", "%s takes %d of %s for its own, the next is %d; %d was acknowledged in term %d",
				n, p.Match, k.c.title(peerOf(p)), p.Next, proved, s.Term)
		}
		if was := progressOn(before, peer); stillLeads && was != nil && p.Match < was.Match && p.State != "stale" {
			k.c.fail(Safety, "N18", "%s: what matches at %s falls from %d to %d", n, k.c.title(peerOf(p)), was.Match, p.Match)
		}
	}
}

// checkCommitsAll checks N75. Entries of an earlier term do not count (§5.4.2). So the first entry to check follows both the
// commit index and the end of the log at the election. Acknowledgements that arrive later do not justify an earlier commit.
func (k *checker) checkCommitsAll(n *node, before *raft.CoreStatus) {
	s, w := &n.status, &n.seen
	next := max(s.Commit, w.office) + 1
	held := quorum(n.config(), func(p raft.Peer) bool {
		if p == n.peer() {
			return s.Persisted >= next
		}
		progress := progressOn(s, p)
		return progress != nil && progress.Match >= next
	})
	if next <= n.last() && held.reached() {
		k.broken("N75", "%s has committed only up to %d in term %d, but %v hold entry %d", n, s.Commit, s.Term, held, next)
	}
	if s.Commit <= before.Commit || s.Commit <= w.office {
		return
	}
	had := n.agreed(func(p raft.Peer) bool {
		return p == n.peer() && s.Persisted >= s.Commit || w.of(p).proved >= s.Commit
	})
	if !had.reached() {
		k.broken("N75", "%s has committed up to %d in term %d, but only %v have acknowledged that", n, s.Commit, s.Term, had)
	}
}

// checkReadsServed checks that a quorum has confirmed each read that a leader serves.
func (k *checker) checkReadsServed(n *node, out *raft.Output) {
	for i := range out.Answers {
		if a := &out.Answers[i]; a.Kind == raft.AnswerReadSafe {
			k.checkReadConfirmed(n, reading{requestID: a.RequestID})
		}
	}
	for _, list := range [2][]raft.Message{out.Send, out.Write.Then} {
		for i := range list {
			if b, ok := list[i].Body.(raft.ReadReply); ok && b.OK {
				k.checkReadConfirmed(n, reading{from: list[i].To, id: b.ID})
			}
		}
	}
}

func (k *checker) checkReadConfirmed(n *node, r reading) {
	floor, known := n.seen.reads[r]
	if !known && r.requestID > 0 {
		k.broken("G13", "%s serves request %d, which nobody requested of it as the leader of term %d", n, r.requestID, n.status.Term)
	}
	if !known {
		return
	}
	if r.requestID > 0 {
		delete(n.seen.reads, r) // the request for a forwarded read may arrive again, late
	}
	answered := n.agreed(func(p raft.Peer) bool {
		return p == n.peer() || floor.Less(n.seen.of(p).echoed)
	})
	if !answered.reached() {
		k.broken("G13", "%s serves a read that only %v have confirmed", n, answered)
	}
}

// checkTransfer checks a transfer.
func (k *checker) checkTransfer(n *node, events []raft.Event, out *raft.Output) {
	s, w := &n.status, &n.seen
	open := w.transfer
	w.transferMax = max(w.transferMax, transferMax(n))
	for i := range out.Answers {
		a := &out.Answers[i]
		if open > 0 && a.Kind == raft.AnswerAccepted {
			k.broken("G15", "%s takes a proposal during a transfer of its leadership", n)
		}
		if a.RequestID == w.transfer {
			w.transfer, open = 0, 0 // the leader may accept proposals after that answer
		}
	}
	for _, e := range events {
		t, ok := e.(raft.TransferRequested)
		if ok && !slices.ContainsFunc(out.Answers, func(a raft.Answer) bool { return a.RequestID == t.RequestID }) {
			w.transfer, w.since, w.transferMax = t.RequestID, w.now, transferMax(n)
			if r := k.c.work.request(t.RequestID); r != nil {
				r.term = s.Term
				k.checkTermOf(n, r, s.Term)
			}
		}
	}
	for i := range out.Send {
		k.checkTimeoutNow(n, s, &out.Send[i])
	}
	for i := range out.Write.Then {
		k.checkTimeoutNow(n, s, &out.Write.Then[i])
	}
	k.checkTransferEnds(n)
}

// transferMax returns how long a transfer may take. The host ends its work within WorkStopMax. Then the target may catch up for a
// timeout and four acknowledgements, and win its election in two timeouts and four acknowledgements more.
func transferMax(n *node) raft.Time {
	return 3*n.timeout() + 8*slowestAck(n) + raft.Time(n.c.profile.Node.WorkStopMax)
}

// checkTransferEnds checks that a transfer ends in time. A leader that is about to end may tell a target with the whole log to
// campaign as late as it likes. From then on, it waits for the outcome.
func (k *checker) checkTransferEnds(n *node) {
	w := &n.seen
	if w.transfer == 0 || w.now-w.since < w.transferMax {
		return
	}
	if r := k.c.work.request(w.transfer); r != nil && r.leaving && w.now < w.toldUntil {
		return
	}
	k.broken("G15", "%s has been transferring its leadership for %v", n, time.Duration(w.now-w.since))
}

// fitness is the highest match index among a leader's voters. some is false if no voter counts.
type fitness struct {
	match raft.Index
	some  bool
}

// add counts a voter.
func (f *fitness) add(p *raft.PeerProgress) { *f = fitness{max(f.match, p.Match), true} }

// choice is what a leader may choose from: the fitness of all voters, of those that are no standbys, and of those whose
// effective priority is above 0.
type choice struct{ all, leads, able fitness }

// able reports whether a leader takes a voter's priority for what its configuration says (docs/elections-in-raft.md): the voter
// has reported that nothing hinders it, and it does not lack entries for long.
func (n *node) able(s *raft.CoreStatus, p *raft.PeerProgress) bool {
	return n.unhindered(s, p) && (p.State == "replicate" || p.Match >= s.Last.Index)
}

// unhindered reports the same, whether the leader sends the voter everything or looks for the place at which the logs agree.
func (n *node) unhindered(s *raft.CoreStatus, p *raft.PeerProgress) bool {
	late := p.LagsSince > 0 && n.seen.now-p.LagsSince >= n.timeout()
	reported := n.seen.of(peerOf(p)).echoed != raft.RPCID{}
	return reported && !late && p.Hindered == 0 && p.Backoff <= 0 && n.priority(s, peerOf(p)) > 0
}

// priority returns the priority of a peer as a member sees it.
func (n *node) priority(s *raft.CoreStatus, p raft.Peer) int {
	if m := member(&s.Config, p); m != nil && !n.preferences.NoPriorities {
		return m.Priority.Number()
	}
	return 1
}

// fittest returns the highest match indexes that a leader knew before a step. It counts the voters that the leader has heard
// recently, except those that show a loss of acknowledged entries in the step. A voter that becomes or ceases to be able in the
// step does not count as able. It may also cease and become able again, for example if it refuses an append.
func (k *checker) fittest(n *node, before *raft.CoreStatus, events []raft.Event) (f choice) {
	w := &n.seen
	if before.Role != raft.Leader || w.term != before.Term {
		return f
	}
	for i := range before.Peers {
		p := &before.Peers[i]
		peer := peerOf(p)
		if now := progressOn(&n.status, peer); now != nil && now.State == "stale" {
			continue
		}
		if !votesOn(&before.Config, peer) || p.Match == 0 || w.now-w.of(peer).heard >= n.timeout() {
			continue
		}
		f.all.add(p)
		if n.priority(before, peer) > 0 && n.priority(&n.status, peer) > 0 {
			f.leads.add(p)
		}
		if now := progressOn(&n.status, peer); now != nil && n.able(before, p) && n.able(&n.status, now) && !unsettles(events, peer) {
			f.able.add(p)
		}
	}
	return f
}

// unsettles reports whether an event of a step may make the leader look for the place at which its log and the peer's agree.
func unsettles(events []raft.Event, peer raft.Peer) bool {
	return slices.ContainsFunc(events, func(e raft.Event) bool {
		switch e := e.(type) {
		case raft.PeerLost:
			return e.Peer == peer
		case raft.Received:
			switch e.Message.Body.(type) {
			case raft.AppendConflict, raft.HeartbeatReply:
				return e.Message.From == peer
			}
		}
		return false
	})
}

// answers reports whether a message of the peer arrives in a step.
func answers(events []raft.Event, peer raft.Peer) bool {
	return slices.ContainsFunc(events, func(e raft.Event) bool {
		r, received := e.(raft.Received)
		return received && r.Message.From == peer
	})
}

// checkChoice checks the target of a transfer if the leader may choose the target. The messages of the step itself can only
// improve the choice. The exception is a target that shows a loss of acknowledged entries after the leader has chosen it.
func (k *checker) checkChoice(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output, fittest choice) {
	asked := false
	for _, e := range events {
		t, ok := e.(raft.TransferRequested)
		if asked = asked || ok; ok && t.To != "" {
			return
		}
	}
	for i := range out.Trace {
		if out.Trace[i].Kind == raft.TraceTransfer {
			k.checkTarget(n, out.Trace[i].Peer, out.Trace[i+1:], fittest.all)
			if !n.status.FSMHangs { // see N85
				k.checkPreferred(n, before, events, out.Trace[i].Peer, asked, fittest)
			}
		}
	}
	for i := range out.Answers {
		if fittest.leads.some && out.Answers[i].Refusal == raft.RefusedNoTarget {
			k.broken("G17", "%s finds nobody to transfer to, but hears a voter with %d entries", n, fittest.leads.match)
		}
	}
}

// checkPreferred checks that a leader prefers able voters. If there is none, or none that is ahead of a stalled disk, it chooses
// any voter that is no standby. Only a leader that cannot do its work chooses a standby. An answer may make the target able, and
// a later one in the same step may undo that.
func (k *checker) checkPreferred(n *node, before *raft.CoreStatus, events []raft.Event, target raft.NodeID, asked bool, fittest choice) {
	match, able, standby := raft.Index(0), false, true
	for i := range n.status.Peers { // its id may occur twice
		p := &n.status.Peers[i]
		if p.ID != target {
			continue
		}
		was := progressOn(before, peerOf(p))
		match, able = max(match, p.Match), able || n.able(&n.status, p) || was != nil && n.able(before, was)
		able = able || n.unhindered(&n.status, p) && answers(events, peerOf(p))
		standby = standby && n.priority(&n.status, peerOf(p)) == 0 && n.priority(before, peerOf(p)) == 0
		if was != nil {
			match = max(match, was.Match)
		}
	}
	best, named := fittest.all, "another"
	switch {
	case fittest.able.some && (asked || fittest.able.match > n.status.Persisted):
		best, named = fittest.able, "one that nothing hinders"
		k.c.holds(able, "G17", "%s transfers its leadership to %s, but nothing hinders another voter", n, target)
	case able:
		return // it has become able in this step
	case asked:
		best = fittest.leads
		k.c.holds(!standby, "G17", "%s transfers its leadership to %s, a standby, although nobody has named it", n, target)
	}
	if match < best.match {
		k.broken("G17", "%s transfers its leadership to %s, which has %d entries; %s has %d", n, target, match, named, best.match)
	}
}

// checkTarget checks a target that a leader has chosen; later is the trace after the choice. A leader may choose a leaving
// voter only if the leader's own disk has stalled. It must then hear no other voter with more entries than that disk.
func (k *checker) checkTarget(n *node, target raft.NodeID, later []raft.TraceEvent, fittest fitness) {
	stale, leaving := true, true
	for i := range n.status.Peers { // its id may occur twice
		if p := &n.status.Peers[i]; p.ID == target {
			stale = stale && p.State == "stale"
			leaving = leaving && !votesOn(n.config(), peerOf(p))
		}
	}
	for _, e := range later {
		if e.Kind == raft.TraceStaleMember && e.Peer == target {
			stale = false
		}
	}
	if stale {
		k.broken("G17", "%s transfers its leadership to %s, which has shown that it has lost its log", n, target)
	}
	if s := &n.status; leaving && !s.FSMHangs && (!s.DiskStalled || fittest.match > s.Persisted) {
		k.broken("G15", "%s transfers its leadership to %s, which is leaving, although it has another choice", n, target)
	}
}

// slowestAck returns the longest time that any member took for an acknowledgement.
func slowestAck(n *node) (slowest raft.Time) {
	for i := range n.status.Peers {
		slowest = max(slowest, n.status.Peers[i].SlowestAck)
	}
	return min(slowest, waitsMax*n.timeout())
}

func (k *checker) checkTimeoutNow(n *node, s *raft.CoreStatus, m *raft.Message) {
	if _, ok := m.Body.(raft.TimeoutNow); !ok {
		return
	}
	// Another transfer may follow one that was given up, so each TimeoutNow is checked.
	k.checkOwesNothing(n)
	k.checkWorkEnded(n)
	w := &n.seen
	k.recordEffect(n, w.transfer)
	w.toldUntil = max(w.toldUntil, w.now+2*n.timeout()+4*slowestAck(n))
	w.told = s.TransferringUntil
	mayLead := votesOn(n.config(), m.To) || w.transfer == 0 && votes(n.config(), m.To) // its own choice: see checkTarget
	k.c.holds(mayLead, "G15", "%s transfers its leadership to %s, which is not a voter, or will soon not be one", n, k.c.title(m.To))
	if p := progressOn(s, m.To); p != nil {
		k.c.holds(p.Match == s.Last.Index, "G15", "%s transfers its leadership to %s, which has only %d of %d entries", n, k.c.title(peerOf(p)), p.Match, s.Last.Index)
	}
}

// checkSettled checks the answers that end a proposal: H4 and N11.
func (k *checker) checkSettled(n *node, out *raft.Output) {
	applying := max(n.applyTo.Index, out.Apply.Index, restoring(out))
	for i := range out.Answers {
		a := &out.Answers[i]
		switch i := a.ID.Index; a.Kind {
		case raft.AnswerNotApplied:
			replaced := i > 0 && i <= k.committed() && k.canonical[i-1].id != a.ID
			if !replaced {
				k.broken("H4", "%s says that %v is not applied, but no other entry is committed there", n, a.ID)
			}
		case raft.AnswerUnknown:
			if r := k.c.work.request(a.RequestID); r != nil && r.kind == changeRequest {
				continue // its entry may be applied, while the change may still have to end
			}
			_, there := at(n.log, i)
			isApplying := there && i > 0 && i <= applying && n.log[i-1].entry.ID() == a.ID
			if isApplying {
				k.broken("N11", "%s says that the outcome of %v is unknown, but applies it", n, a.ID)
			}
		}
	}
}
