package fuzzy

import (
	"errors"
	"slices"
	"time"

	"github.com/coxswain/raft"
)

// The invariants of a leader whose members change, and of the members that come and go.
//
//	N65  A leader sends to the members of its configuration, and to those that were removed only what they need to learn that, and no longer than ten election timeouts after that is committed.
//	N66  A leader without a vote in a committed configuration hands over and steps down within the bound of a transfer, and none steps down because of one that is not committed. (§6)
//	N67  A learner becomes a voter only if it has caught up: it is heard, and acknowledged what the leader had two rounds earlier at most. (dissertation §4.2.1)
//	N68  When a joint configuration begins, a majority of the new voters is heard, or the request has named the others.
//	N70  A member knows that it was removed exactly if an entry that it knows to be committed has removed it, and it has not joined again behind that.
//	N72  A member that gets a vote, or is to get one, waits for a whole election timeout before it campaigns.

// officeWitness records what a leader does about members that come and go.
type officeWitness struct {
	lasts    []lastAt    // how long its log was, oldest first
	gone     []departure // members that were removed
	votedOut raft.Time   // when it knew that a configuration is committed in which it has no vote; 0: never
	despite  []raft.NodeID
	since    raft.Time    // when the configuration last changed; 0: not in this term
	stepped  [2]raft.Time // when the running step and the one before it were made
}

// lastAt is the last index of a leader's log from a time on.
type lastAt struct {
	at   raft.Time
	last raft.Index
}

// departure is the removal of a member by the entry at an index.
type departure struct {
	peer  raft.Peer
	index raft.Index
	known raft.Time // when the leader knew that it is committed; 0: not yet
	since raft.Time // when it has sent a heartbeat since, from which on the time counts; 0: not yet
}

// Limits of what a leader's witness remembers.
const (
	lastsMax       = 256    // how long the log was
	departTimeouts = 10 + 1 // for how many election timeouts a removed member is served; one more is for timers
)

// members checks a leader after a step, and records what its configuration does. It is called once the witness has taken
// the events of the step.
func (k *checker) members(n *node, before *raft.CoreStatus, out *raft.Output) {
	s, w := &n.status, &n.seen
	o, l := &w.inOffice, configured(n.log)
	if !k.c.profile.Members.on() || l == nil {
		return
	}
	k.removed(n)
	if s.Role != raft.Leader {
		k.resigns(n, before, out)
		if before.Role != raft.Leader { // it may have told the members in this step that it steps down
			*o = officeWitness{}
		}
		return
	}
	goesOn := before.Role == raft.Leader && before.Term == s.Term
	if !goesOn {
		*o = officeWitness{}
		o.departsSince(l, before.Commit) // its commit index may have risen in the step
	}
	if l != n.configBefore && goesOn {
		o.since = w.now
		w.follows(n)
		k.promotes(n, l, out)
		o.departs(l)
	}
	for i := range s.Peers {
		if p := &s.Peers[i]; p.CatchUp.Round > 0 {
			w.of(peerOf(p)).catchesUp(p)
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
			k.broken("N66", "%s hands over in term %d because of the configuration of entry %d, which is not committed", n, s.Term, l.index)
		}
	}
	k.votedOut(n, l)
}

// departsSince records whom the configurations behind an index have removed, the oldest first.
func (o *officeWitness) departsSince(l *loggedConfig, i raft.Index) {
	if l.before != nil && l.index > i {
		o.departsSince(l.before, i)
		o.departs(l)
	}
}

// departs records whom a configuration removes.
func (o *officeWitness) departs(l *loggedConfig) {
	o.gone = slices.DeleteFunc(o.gone, func(d departure) bool { return includes(&l.Configuration, d.peer) })
	for i := range l.before.Members {
		if p := l.before.Members[i].Peer(); !includes(&l.Configuration, p) {
			o.gone = append(o.gone, departure{peer: p, index: l.index})
		}
	}
}

// follows records the members that a leader's configuration has gained.
func (w *witness) follows(n *node) {
	slowest := raft.Time(0)
	for i := range w.peers {
		slowest = max(slowest, w.peers[i].roundTrip)
	}
	for _, m := range n.config().Members {
		if p := w.of(m.Peer()); p.asked == nil {
			p.heard, p.roundTrip, p.asked = max(p.heard, w.now), max(p.roundTrip, slowest), map[raft.RPCID]raft.Time{}
		}
	}
}

// hears reports whether a leader has heard a member in the time of N13.
func (w *witness) hears(n *node, p raft.Peer) bool {
	seen := w.of(p)
	return p == n.peer() || w.now-seen.heard < max(n.timeout(), min(2*seen.roundTrip, waitsMax*n.timeout()))
}

// promotes checks a joint configuration that a leader has appended in this step.
func (k *checker) promotes(n *node, l *loggedConfig, out *raft.Output) {
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
			k.caughtUp(n, p)
		}
	}
	if heard < majority(len(voters)) {
		k.broken("N68", "%s begins the joint configuration of entry %d, and hears %d of the %d new voters", n, l.index, heard, len(voters))
	}
}

// caughtUp checks a learner that becomes a voter. Its last round may have been judged by an acknowledgement that is none of the
// recent ones any more.
func (k *checker) caughtUp(n *node, p raft.Peer) {
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
		k.broken("N67", "%s makes %s a voter, which has acknowledged %d; two rounds of %v ago the log ended at %d",
			n, k.c.title(p), proved, time.Duration(round), must)
	}
	if !w.hears(n, p) {
		k.broken("N67", "%s makes %s a voter, and does not hear it", n, k.c.title(p))
	}
}

// votedOut checks a leader that has no vote.
func (k *checker) votedOut(n *node, l *loggedConfig) {
	s, w := &n.status, &n.seen
	o := &w.inOffice
	if slept := o.stepped[0] - o.stepped[1]; o.votedOut > 0 && o.stepped[1] > 0 && slept > n.timeout() {
		o.votedOut += slept // a leader steps more often, so its process has paused
	}
	switch {
	case votes(&l.Configuration, n.peer()):
		o.votedOut = 0
	case o.votedOut == 0 && l.index <= s.Commit && s.Commit > n.earlier(s.Term): // it has committed an entry of its own term, too
		o.votedOut = w.now
	case o.votedOut > 0 && w.now-o.votedOut > 3*n.timeout()+8*slowestAck(n):
		k.broken("N66", "%s still leads term %d, %v after it knew that the configuration of entry %d is committed, in which it has no vote",
			n, s.Term, time.Duration(w.now-o.votedOut), l.index)
	}
}

// resigns checks a leader that has just stepped down in its term.
func (k *checker) resigns(n *node, before *raft.CoreStatus, out *raft.Output) {
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

// sendsTo checks whom a leader sends what.
func (k *checker) sendsTo(n *node, m *raft.Message) {
	w := &n.seen
	if !k.c.profile.Members.on() || includes(n.config(), m.To) {
		return
	}
	i := slices.IndexFunc(w.inOffice.gone, func(d departure) bool { return d.peer == m.To })
	if i < 0 {
		k.broken("N65", "%s sends %T to %s, which is no member", n, m.Body, k.c.title(m.To))
		return
	}
	d := w.inOffice.gone[i]
	// The end of that time is no reason for a step, so what leaves with the next one may be late.
	if d.since > 0 && w.inOffice.stepped[1]-d.since > departTimeouts*n.timeout() {
		k.broken("N65", "%s sends %T to %s, %v after its removal was committed", n, m.Body, k.c.title(m.To), time.Duration(w.now-d.since))
	}
	switch b := m.Body.(type) {
	case raft.InstallSnapshot, raft.TimeoutNow:
		k.broken("N65", "%s sends %T to %s, which was removed", n, m.Body, k.c.title(m.To))
	case raft.AppendRequest:
		if b.Last.Index > d.index {
			k.broken("N65", "%s sends %s entries up to %d, and %d has removed it", n, k.c.title(m.To), b.Last.Index, d.index)
		}
	}
}

// removed checks what a member says of its own removal.
func (k *checker) removed(n *node) {
	s, at := &n.status, raft.Index(0)
	if s.Commit > 0 {
		for _, r := range n.log[s.Commit-1].config.Removed {
			if r.Peer == n.peer() {
				at = r.Index
			}
		}
	}
	knows := s.Removed == at && !addedBehind(configured(n.log), n.peer(), at)
	if s.Removed != 0 && !knows || s.Removed == 0 && at > 0 && !k.addedAgain(n.peer(), at) {
		k.broken("N70", "%s says that entry %d has removed it; by what it knows to be committed that is %d", n, s.Removed, at)
	}
}

// addedBehind reports whether a configuration behind the entry that has removed a peer names it, and none has removed it since.
func addedBehind(l *loggedConfig, p raft.Peer, at raft.Index) bool {
	return l != nil && l.index > at && includes(&l.Configuration, p)
}

// addedAgain reports whether the log of any member holds a configuration behind that entry that names the peer.
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

// startsRemoved checks a start on the disk of a member that knew that it was removed: it is refused. It reports whether
// the start has ended there.
func (k *checker) startsRemoved(n *node, err error) bool {
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
		k.broken("N70", "%s is started: %v; by what its disk holds as committed entry %d has removed it", n, err, at)
	}
	n.ended = n.ended || refused
	return refused
}

// endIfRemoved ends the process of a member that knows that it was removed, but not before the leader has its
// acknowledgement.
func (n *node) endIfRemoved() {
	if n.status.Removed > 0 && n.removedIn != n.life+1 {
		n.removedIn = n.life + 1
		n.later(n.c.profile.ElectionTimeout, event{kind: evEnd})
	}
}

// toldRemoval ends a process whose member is told in a handshake that an entry has removed it; 0: none has. Once disks have
// lost what was acknowledged, the entry may be committed in the place of another one. Then who tells it must know it.
func (n *node) toldRemoval(teller *node, by raft.Index) {
	if by == 0 || n.removedIn == n.life+1 {
		return
	}
	k := n.c.check
	removed := int(by) <= len(k.canonical) && slices.Contains(k.canonical[by-1].slot.config.Removed, raft.Removal{Peer: n.peer(), Index: by})
	removed = removed || n.c.lostToDisks() && teller.knowsRemoved(n.peer())
	n.c.holds(removed, "I8", "%s is told that entry %d has removed it, which is not so", n, by)
	n.removedIn = n.life + 1
	n.later(1, event{kind: evEnd, a: 1})
}

// endRemoved ends that process, unless its log, and not a handshake, has told it of the removal, and it has learned since that
// it has joined again. Sometimes it is started again, as by a supervisor.
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

// knows reports whether a member counts what somebody says: a member of its configuration, of the one before the running
// step or, on a leader, somebody who was removed and is still served.
func (n *node) knows(p raft.Peer) bool {
	if includes(n.config(), p) || n.configBefore != nil && includes(&n.configBefore.Configuration, p) {
		return true
	}
	return n.seen.inOffice.removes(p)
}

// removes reports whether a leader has removed a member, or did not know at its election that its removal was committed.
func (o *officeWitness) removes(p raft.Peer) bool {
	return slices.ContainsFunc(o.gone, func(d departure) bool { return d.peer == p })
}

// joinsLater reports whether a member belongs to no cluster at first and was not there when the cluster began, so that a
// leader may bring it a term before the first entry.
func (k *checker) joinsLater(n *node) bool {
	return k.c.profile.Members.on() && len(k.canonical) > 0 && !includes(&k.canonical[0].slot.config.Configuration, n.peer())
}
