package fuzzy

import (
	"errors"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of a leader whose members change, and of the members that come and go.
//
//	N65  A leader sends messages to the members of its configuration. To a removed member it sends only the messages from which the member learns about its removal, for at most ten election timeouts after the removal is committed.
//	N66  A leader without a vote in a committed configuration transfers its leadership and steps down within the bound of a transfer. No leader steps down because of a configuration that is not committed. (§6)
//	N67  A learner becomes a voter only if it has caught up. This means that the leader hears it, and that it has acknowledged the end of the leader's log of at most two rounds earlier. (dissertation §4.2.1)
//	N68  When a joint configuration begins, the leader hears a majority of the new voters, or the request has named the others.
//	N70  A member knows that it was removed exactly if an entry that it knows to be committed has removed it, and it has not joined again since. It ignores only candidates that such an entry has removed.
//	N72  A member that gets a vote, or is to get one, waits for a whole election timeout before it campaigns.

// officeWitness records a leader's actions for members that come and go.
type officeWitness struct {
	lasts    []lastAt    // lengths of its log at some times, oldest first
	gone     []departure // members that were removed
	votedOut raft.Time   // when it learned that a configuration without its vote is committed; 0: never
	despite  []raft.NodeID
	since    raft.Time    // when the configuration last changed; 0: not in this term
	stepped  [2]raft.Time // times of the running step and the one before it
}

// lastAt is the last index of a leader's log from some time on.
type lastAt struct {
	at   raft.Time
	last raft.Index
}

// departure is the removal of a member by the entry at an index.
type departure struct {
	peer  raft.Peer
	index raft.Index
	known raft.Time // when the leader learned that the removal is committed; 0: not yet
	since raft.Time // when it first sent a heartbeat after that, from which the limit counts; 0: not yet
}

// Limits of what a leader's witness remembers.
const (
	lastsMax       = 256    // entries of lasts
	departTimeouts = 10 + 1 // election timeouts for which a removed member is served; one more is for timers
)

// checkMembers checks a leader after a step, and records the effects of its configuration. It is called after the witness has
// taken the events of the step.
func (k *checker) checkMembers(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	o, l := &w.inOffice, configured(n.log)
	changes := k.c.profile.Members.on() || k.c.profile.Node.Versions > 0 || k.c.profile.Leases.Duration > 0 || k.c.profile.Sessions.Chance > 0
	if !changes || l == nil {
		return
	}
	k.checkRemoved(n, before, out)
	if s.Role != raft.Leader {
		k.checkResignation(n, before, out)
		if before.Role != raft.Leader { // in this step it may have told the members that it steps down
			*o = officeWitness{}
		}
		return
	}
	stillLeads := before.Role == raft.Leader && before.Term == s.Term
	if !stillLeads {
		*o = officeWitness{}
		o.recordRemovalsSince(l, before.Commit) // its commit index may have risen in the step
	}
	if n.configBefore != nil && waits(&n.configBefore.Configuration) && stillLeads {
		k.checkWaiting(n, before, out)
	}
	if l != n.configBefore && stillLeads {
		o.since = w.now
		k.checkSessionsBegin(n, l)
		w.recordGained(n)
		k.checkPromotion(n, l, out)
		o.recordRemovals(l)
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		if p.CatchUp.Round > 0 {
			w.of(peerOf(p)).recordRound(p)
		}
		if stillLeads && p.CatchUp.Ready && !w.hears(n, peerOf(p)) {
			k.broken("N67", "%s takes %s for caught up, but does not hear it", n, k.c.title(peerOf(p)))
		}
	}
	if len(o.lasts) == 0 || o.lasts[len(o.lasts)-1].last < s.Last.Index {
		o.lasts = append(o.lasts[max(0, len(o.lasts)-lastsMax):], lastAt{w.now, s.Last.Index})
	}
	for i := range o.gone {
		d := &o.gone[i]
		if d.known == 0 && d.index <= s.Commit {
			d.known = w.now
		}
		if d.since == 0 && d.known > 0 && w.now-d.known >= n.timeout()/2 {
			d.since = w.now
		}
	}
	o.stepped = [2]raft.Time{w.now, o.stepped[0]}
	for i := range out.Trace {
		if out.Trace[i].Kind == raft.TraceVotelessTransfer && l.index > s.Commit {
			k.broken("N66", "%s transfers its leadership in term %d because of the configuration of entry %d, which is not committed", n, s.Term, l.index)
		}
	}
	k.checkVotedOut(n, l)
}

// recordRemovalsSince records the members that the configurations after an index have removed, oldest first.
func (o *officeWitness) recordRemovalsSince(l *loggedConfig, i raft.Index) {
	if l.before != nil && l.index > i {
		o.recordRemovalsSince(l.before, i)
		o.recordRemovals(l)
	}
}

// recordRemovals records the members that a configuration removes.
func (o *officeWitness) recordRemovals(l *loggedConfig) {
	o.gone = slices.DeleteFunc(o.gone, func(d departure) bool { return includes(&l.Configuration, d.peer) })
	for i := range l.before.Members {
		if p := l.before.Members[i].Peer(); !includes(&l.Configuration, p) {
			o.gone = append(o.gone, departure{peer: p, index: l.index})
		}
	}
}

// recordGained records the members that a leader's configuration has gained.
func (w *witness) recordGained(n *node) {
	slowest := raft.Time(0)
	for i := range w.peers {
		slowest = max(slowest, w.peers[i].roundTrip)
	}
	for _, m := range n.config().Members {
		if p := w.of(m.Peer()); p.asked == nil {
			p.heard, p.movedAt, p.roundTrip, p.asked = max(p.heard, w.now), w.now, max(p.roundTrip, slowest), map[raft.RPCID]raft.Time{}
		}
	}
}

// hears reports whether a leader has heard a member within the time that N13 allows.
func (w *witness) hears(n *node, p raft.Peer) bool {
	seen := w.of(p)
	return p == n.peer() || w.now-seen.heard < max(n.timeout(), min(2*seen.roundTrip, waitsMax*n.timeout()))
}

// checkPromotion checks a joint configuration that a leader has just appended.
func (k *checker) checkPromotion(n *node, l *loggedConfig, out *raft.Output) {
	w := &n.seen
	for i := range out.Answers {
		if r := k.c.work.request(out.Answers[i].RequestID); r != nil && r.kind == changeRequest && out.Answers[i].Kind == raft.AnswerAccepted {
			w.inOffice.despite = r.change.Despite
		}
	}
	if len(l.Outgoing) == 0 || l.term != n.status.Term {
		return
	}
	heard := 0
	voters := votersOf(&l.Configuration)
	for _, p := range voters {
		if w.hears(n, p) || slices.Contains(w.inOffice.despite, p.ID) {
			heard++
		}
		if !slices.Contains(l.Outgoing, p) {
			k.checkCaughtUp(n, p)
		}
	}
	if heard < majority(len(voters)) {
		k.broken("N68", "%s begins the joint configuration of entry %d, but hears only %d of the %d new voters", n, l.index, heard, len(voters))
	}
}

// checkCaughtUp checks a learner that becomes a voter. The recent acknowledgements may no longer include the one that ended
// the learner's last round.
func (k *checker) checkCaughtUp(n *node, p raft.Peer) {
	w := &n.seen
	slowest := slices.Max(w.of(p).slowest[:])
	if progress := progressOn(&n.status, p); progress != nil {
		slowest = max(slowest, progress.SlowestAck)
	}
	round := max(n.timeout(), min(2*slowest, waitsMax*n.timeout()))
	must := raft.Index(0)
	for _, l := range w.inOffice.lasts {
		if l.at <= w.now-2*round {
			must = l.last
		}
	}
	if proved := w.of(p).proved; proved < must || proved == 0 {
		k.broken("N67", "%s makes %s a voter, which has acknowledged only %d; two rounds of %v ago the log ended at %d",
			n, k.c.title(p), proved, time.Duration(round), must)
	}
	if !w.hears(n, p) {
		k.broken("N67", "%s makes %s a voter, but does not hear it", n, k.c.title(p))
	}
}

// checkVotedOut checks a leader that has no vote.
func (k *checker) checkVotedOut(n *node, l *loggedConfig) {
	s, w := &n.status, &n.seen
	o := &w.inOffice
	if slept := o.stepped[0] - o.stepped[1]; o.votedOut > 0 && o.stepped[1] > 0 && slept > n.timeout() {
		o.votedOut += slept // a leader steps more often, so its process was paused
	}
	switch {
	case votes(&l.Configuration, n.peer()):
		o.votedOut = 0
	case o.votedOut == 0 && l.index <= s.Commit && s.Commit > n.earlier(s.Term): // it has committed an entry of its own term, too
		o.votedOut = w.now
	case o.votedOut > 0 && w.now-o.votedOut > transferMax(n):
		k.broken("N66", "%s still leads term %d %v after it learned that the configuration of entry %d, in which it has no vote, is committed",
			n, s.Term, time.Duration(w.now-o.votedOut), l.index)
	}
}

// checkResignation checks a leader that has just stepped down without a change of its term.
func (k *checker) checkResignation(n *node, before *raft.CoreStatus, out *raft.Output) {
	was, s := n.configBefore, &n.status
	if before.Role != raft.Leader || s.Term != before.Term || was == nil || votes(&was.Configuration, n.peer()) || was.index <= s.Commit ||
		before.TransferringUntil > 0 || n.doomed || out.Write.Mark != nil {
		return
	}
	for i := range out.Trace {
		switch out.Trace[i].Kind {
		case raft.TraceQuorumLost, raft.TraceDiskStalled, raft.TraceTransfer:
			return
		}
	}
	k.broken("N66", "%s steps down in term %d because of the configuration of entry %d, which is not committed", n, s.Term, was.index)
}

// checkReceiver checks that a leader may send a message to its receiver.
func (k *checker) checkReceiver(n *node, m *raft.Message) {
	w := &n.seen
	if !k.c.profile.Members.on() || includes(n.config(), m.To) {
		return
	}
	i := slices.IndexFunc(w.inOffice.gone, func(d departure) bool { return d.peer == m.To })
	if i < 0 {
		k.broken("N65", "%s sends %T to %s, which is not a member", n, m.Body, k.c.title(m.To))
		return
	}
	d := w.inOffice.gone[i]
	// The end of this time causes no step. So the messages of the next step may be late.
	if d.since > 0 && w.inOffice.stepped[1]-d.since > departTimeouts*n.timeout() {
		k.broken("N65", "%s sends %T to %s, %v after its removal was committed", n, m.Body, k.c.title(m.To), time.Duration(w.now-d.since))
	}
	switch b := m.Body.(type) {
	case raft.InstallSnapshot, raft.TimeoutNow:
		k.broken("N65", "%s sends %T to %s, which was removed", n, m.Body, k.c.title(m.To))
	case raft.AppendRequest:
		if b.Last.Index > d.index {
			k.broken("N65", "%s sends %s entries up to %d, but entry %d has removed it", n, k.c.title(m.To), b.Last.Index, d.index)
		}
	}
}

// checkRemoved checks the member's report about its own removal, and that it ignores only candidates that were removed.
func (k *checker) checkRemoved(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, at := &n.status, raft.Index(0)
	var removed []raft.Removal
	if s.Commit > 0 {
		removed = n.log[s.Commit-1].config.Removed
	}
	for _, r := range removed {
		if r.Peer == n.peer() {
			at = r.Index
		}
	}
	if before.Commit > 0 { // a removal may be forgotten in this step
		removed = slices.Concat(removed, n.log[before.Commit-1].config.Removed)
	}
	for _, e := range out.Trace {
		if e.Reason == raft.DeniedRemoved && !slices.ContainsFunc(removed, func(r raft.Removal) bool { return r.Peer.ID == e.Peer }) {
			k.broken("N70", "%s ignores the request of %s for a vote, whose removal is not committed", n, e.Peer)
		}
	}
	knows := s.Removed == at && !addedBehind(configured(n.log), n.peer(), at)
	if s.Removed != 0 && !knows || s.Removed == 0 && at > 0 && !k.addedAgain(n.peer(), at) {
		k.broken("N70", "%s says that entry %d has removed it; by the entries that it knows to be committed, it is %d", n, s.Removed, at)
	}
}

// addedBehind reports whether a log's newest configuration names a peer again, after the entry that removed the peer.
func addedBehind(l *loggedConfig, p raft.Peer, at raft.Index) bool {
	return l != nil && l.index > at && includes(&l.Configuration, p)
}

// addedAgain reports whether the log of any member holds a configuration that names a peer again, after the entry that
// removed the peer.
func (k *checker) addedAgain(p raft.Peer, at raft.Index) bool {
	return at > 0 && slices.ContainsFunc(k.c.nodes, func(n *node) bool {
		for l := configured(n.log); l != nil; l = l.before {
			if addedBehind(l, p, at) {
				return true
			}
		}
		return false
	})
}

// checkStartRemoved checks that a start is refused if the disk's member knew about its removal. It reports whether the start
// was refused.
func (k *checker) checkStartRemoved(n *node, err error) bool {
	d, at := &n.disk, raft.Index(0)
	if i := min(int(max(d.commit, d.base.ID.Index, d.saved.applied.Index, d.snapshot.ID.Index)), len(d.log)); i > 0 {
		for _, r := range d.log[i-1].config.Removed {
			if r.Peer == n.peer() {
				at = r.Index
			}
		}
	}
	if addedBehind(configured(d.log), n.peer(), at) {
		at = 0
	}
	var removed *raft.RemovedError
	refused := errors.As(err, &removed)
	if refused != (at > 0) || refused && removed.Index != at {
		k.broken("N70", "%s is started: %v; by the committed entries on its disk, entry %d has removed it", n, err, at)
	}
	n.ended = n.ended || refused
	return refused
}

// endIfRemoved ends the process of a member that knows about its removal. It waits until the leader has the member's
// acknowledgement.
func (n *node) endIfRemoved() {
	if n.status.Removed > 0 && n.removedIn != n.life+1 {
		n.removedIn = n.life + 1
		n.later(n.c.profile.ElectionTimeout, event{kind: evEnd})
	}
}

// toldRemoval ends a process whose member learns in a handshake that the entry by has removed it; by is 0 if no entry has.
// After disks have lost acknowledged entries, that entry may be committed in the place of another one. In this case the
// teller must know the entry.
func (n *node) toldRemoval(teller *node, by raft.Index) {
	if by == 0 || n.removedIn == n.life+1 {
		return
	}
	k := n.c.check
	removed := int(by) <= len(k.canonical) && slices.Contains(k.canonical[by-1].slot.config.Removed, raft.Removal{Peer: n.peer(), Index: by})
	removed = removed || n.c.lostToDisks() && teller.knowsRemoved(n.peer())
	n.c.holds(removed, "I8", "%s is told that entry %d has removed it, which is not true", n, by)
	n.removedIn = n.life + 1
	n.removal = removalTold{n.disk.incarnation, by}
	n.later(1, event{kind: evEnd, a: 1})
}

// endRemoved ends the process of a removed member. It does not if the member's log reported the removal, and the member has
// since learned that it has joined again. A report in a handshake (told) always ends the process. Sometimes the process is
// started again, as by a supervisor.
func (n *node) endRemoved(told bool) {
	if !told && n.status.Removed == 0 {
		n.removedIn = 0
		return
	}
	n.c.faulted("%s ends: it was removed", n.name())
	if n.crash(); n.random.Coin() {
		n.restartIn(n.random.Exponential(n.c.profile.ElectionTimeout))
		return
	}
	n.ended = true
}

// knows reports whether a member counts the messages of a peer. A member counts the peers in its configuration, and in the
// configuration before the running step. A leader also counts removed members that it still serves.
func (n *node) knows(p raft.Peer) bool {
	if includes(n.config(), p) || n.configBefore != nil && includes(&n.configBefore.Configuration, p) {
		return true
	}
	return n.seen.inOffice.removes(p)
}

// removes reports whether a leader still counts a removed member. Either the leader has removed it, or the leader did not
// know at its election that the removal was committed.
func (o *officeWitness) removes(p raft.Peer) bool {
	return slices.ContainsFunc(o.gone, func(d departure) bool { return d.peer == p })
}

// joinsLater reports whether a member initially belongs to no cluster and is not in the cluster's first configuration. Such a
// member may get a term from a leader before it gets the first entry.
func (k *checker) joinsLater(n *node) bool {
	return k.c.profile.Members.on() && len(k.canonical) > 0 && !includes(&k.canonical[0].slot.config.Configuration, n.peer())
}
