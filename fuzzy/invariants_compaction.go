package fuzzy

import "github.com/coxswain/raft"

// The invariants of compaction, and of the offers and streams that it causes.
//
//	N48  A leader begins to offer a snapshot to a follower only for two reasons. Either the follower's log has just failed the consistency check at the base of the leader's log, or an entry is too large for the follower. In the second case the snapshot covers that entry, and no append follows it. Only a leader streams. (§7)
//	N52  Within SnapshotHoldBytes, a leader compacts nothing that a member needs while it hears that member and the member keeps acknowledging. After a snapshot that it offers, it keeps as many bytes as that snapshot has, if they are more.
//	N53  nextIndex is above the base of the leader's log, and no append begins below the base.
//	N54  If an append begins at or below the base of its receiver's log, it matches there and is not refused.
//	N55  The bytes of a stream in flight stay within its window. A stream to a member that nobody reaches ends.
//	N57  A DurableFSM needs its snapshot file until it has synced the state.
//	N60  A request for a snapshot is granted after two conditions hold: a durable snapshot covers everything applied at the time of the request, and the log is as short as the tail allows.
//	L16  A snapshot is taken as soon as the policy calls for it. After a failure it is taken as soon as the pause is over. The log stays as short as the policy allows.

// checkCompaction checks a step.
func (k *checker) checkCompaction(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	if !k.c.profile.Snapshots.On {
		return
	}
	n.seen.policy.recordStep(n, before, events, out)
	k.checkCompletedFiles(n, events, out)
	k.checkSnapshotDue(n, out)
	n.seen.policy.recordWrite(out)
	k.checkAppendsBelowBase(n, before, events, out)
	if s := &n.status; s.Role == raft.Leader && before.Role == raft.Leader && before.Term == s.Term {
		k.checkOffers(n, before, events)
		k.checkOversized(n, before, events)
		k.checkOfferCovers(n, out)
		k.checkAboveBase(n, before, out)
		k.checkKept(n, before, out)
	}
}

// policyWitness records the facts on which a member's snapshot policy depends.
type policyWitness struct {
	hold     bool      // the latest Take asked for a frozen state
	failures int       // consecutive failures, not counting those of frozen states
	failed   raft.Time // time of the last such failure
	record   raft.Seq  // the latest write of a snapshot record
	durable  bool      // that write is durable
}

func (p *policyWitness) recordStep(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	superfluous := false // set if this very step installs a leader's snapshot: then the pause continues unchanged
	for _, e := range events {
		switch e := e.(type) {
		case raft.SnapshotArrived:
			superfluous = superfluous || out.Write.Log != nil && out.Write.Log.Reset
		case raft.Persisted:
			p.durable = p.durable || e.Seq >= p.record
		case raft.SnapshotTaken:
			switch {
			case superfluous || e.Take != before.Taking || e.Err != nil && p.hold:
			case e.Err == nil:
				p.failures = 0
			default:
				p.failures, p.failed = p.failures+1, n.seen.now
			}
		}
	}
}

func (p *policyWitness) recordWrite(out *raft.Output) {
	if out.Write.Snapshot != nil {
		p.record, p.durable = out.Write.Seq, false
	}
	if out.Keep != nil && out.Keep.Take != nil {
		p.hold = out.Keep.Take.Hold
	}
}

// pauseDoublings is the maximum number of times that the pause after a failed snapshot doubles. Initially the pause is
// one election timeout.
const pauseDoublings = 6

// checkSnapshotDue checks that a snapshot is taken if the number of entries calls for it.
func (k *checker) checkSnapshotDue(n *node, out *raft.Output) {
	s, p := &n.status, &n.seen.policy
	prevented := n.protocol() < 2 || n.doomed || out.Write.Mark != nil || n.seen.closed || s.Restoring != (raft.EntryID{}) ||
		out.Write.Snapshot != nil || p.record > 0 && !p.durable
	if p.failures > 0 && n.seen.now < p.failed+n.timeout()<<min(p.failures-1, pauseDoublings) {
		prevented = true
	}
	// A DurableFSM may know an entry that its member does not yet know to be committed. Entry 1 alone needs no snapshot.
	applying := max(n.applyTo.Index, out.Apply.Index)
	if prevented || s.Taking != (raft.EntryID{}) || applying <= max(n.seen.resumed, 1) {
		return
	}
	if lacking := applying - s.Snapshot.Index; lacking >= raft.Index(n.limits.SnapshotEntries) {
		k.broken("L16", "%s has applied %d entries since its snapshot of %v, but takes no other", n, lacking, s.Snapshot)
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		lacks := p.Oversized.Index > s.Snapshot.Index && p.Oversized.Index <= applying && !k.c.profile.Node.Durable
		if lacks && !p.Departing && !p.EarlierRelease && n.seen.now-p.LastHeard < n.timeout() {
			k.broken("L16", "%s takes no snapshot that covers %v, which is too large for %s", n, p.Oversized, k.c.title(peerOf(p)))
		}
	}
}

// checkAppendsBelowBase checks the appends that begin at or below the base. The entries there are committed. So only an
// append of a member that is not the leader can contradict them.
func (k *checker) checkAppendsBelowBase(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	for i := range out.Trace {
		if t := &out.Trace[i]; t.Kind == raft.TraceRefused && k.soundAppends(n, before, events, t.Peer) {
			k.broken("N54", "%s refuses an append of %s, which begins at or below %v: %s", n, t.Peer, before.Base, t.Text)
		}
	}
}

// soundAppends reports whether a peer's messages in a step are all sound appends. A sound append is of the present term, and
// begins with a committed entry at or below the base.
func (k *checker) soundAppends(n *node, before *raft.CoreStatus, events []raft.Event, from raft.NodeID) bool {
	some := false
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok || r.Message.From.ID != from {
			continue
		}
		m := &r.Message
		a, ok := m.Body.(raft.AppendRequest)
		i := a.Prev.Index
		if !ok || m.To != n.peer() || !n.concerns(m) || !includes(n.config(), m.From) || m.Term != n.status.Term ||
			i == 0 || i > before.Base.Index || k.canonical[i-1].id != a.Prev {
			return false
		}
		some = true
	}
	return some
}

// checkOffers checks the followers to which a leader begins to offer a snapshot.
func (k *checker) checkOffers(n *node, before *raft.CoreStatus, events []raft.Event) {
	s := &n.status
	for i := range s.Peers {
		p := &s.Peers[i]
		peer := peerOf(p)
		if was := progressOn(before, peer); p.State != "snapshot" || was != nil && was.State == "snapshot" {
			continue
		}
		failed := false
		for _, e := range events {
			if d, ok := e.(raft.SendDropped); ok && d.To == peer {
				failed = failed || d.Oversized.Index > 0 && n.holds(d.Oversized) && d.OversizedBytes > k.c.at(peer).carries()
			}
			if r, ok := e.(raft.Received); ok && r.Message.From == peer && r.Message.Term == s.Term {
				b, conflict := r.Message.Body.(raft.AppendConflict)
				failed = failed || conflict && b.Prev >= before.Base.Index && b.Prev <= s.Base.Index
			}
		}
		if !failed {
			k.broken("N48", "%s is to send %s a snapshot, whose log has not failed the check at %v", n, k.c.title(peerOf(p)), s.Base)
		}
	}
}

// checkOversized checks that a leader brings no append to a follower for which its next entry is too large. It judges only a
// step that handles nothing else: any other event may change what the leader knows about the follower before or after.
func (k *checker) checkOversized(n *node, before *raft.CoreStatus, events []raft.Event) {
	if len(events) != 1 {
		return
	}
	d, _ := events[0].(raft.SendDropped)
	was, is := progressOn(before, d.To), progressOn(&n.status, d.To)
	follows := was != nil && is != nil && was.State == "replicate" && is.State == "replicate" && is.Match <= d.Span.After
	if i := d.Oversized.Index; follows && i == d.Span.After+1 && i > n.status.Base.Index && n.holds(d.Oversized) {
		k.broken("N48", "%s continues to send %s entries after %d, but the next one is too large for it", n, k.c.title(d.To), is.Match)
	}
}

// checkOfferCovers checks the offers to followers for which an entry is too large. The offered snapshot must cover that
// entry.
func (k *checker) checkOfferCovers(n *node, out *raft.Output) {
	for i := range out.Send {
		m := &out.Send[i]
		offer, ok := m.Body.(raft.InstallSnapshot)
		if p := progressOn(&n.status, m.To); ok && p != nil && offer.Snapshot.ID.Index < p.Oversized.Index {
			k.broken("N48", "%s offers %s the snapshot of %v, but needs one that covers %v, which is too large for it", n, k.c.title(m.To), offer.Snapshot.ID, p.Oversized)
		}
	}
}

// checkAboveBase checks the indexes at which a leader's appends begin.
func (k *checker) checkAboveBase(n *node, before *raft.CoreStatus, out *raft.Output) {
	s := &n.status
	for i := range s.Peers {
		if p := &s.Peers[i]; p.State != "stale" && p.Next <= s.Base.Index {
			k.broken("N53", "%s sends %s entry %d next, but its log begins after %v", n, k.c.title(peerOf(p)), p.Next, s.Base)
		}
	}
	for i := range out.Send {
		a, ok := out.Send[i].Body.(raft.AppendRequest)
		if !ok || a.Prev.Index >= before.Base.Index {
			continue
		}
		if p := progressOn(s, out.Send[i].To); p != nil && p.State != "stale" { // a stale member is shown what it has lost, wherever that begins
			k.broken("N53", "%s sends %s an append after %v, but its log begins after %v", n, k.c.title(peerOf(p)), a.Prev, before.Base)
		}
	}
}

// checkKept checks that a leader keeps the entries that followers need. Because the core only estimates sizes, the check
// counts every entry with the size of the largest one.
func (k *checker) checkKept(n *node, before *raft.CoreStatus, out *raft.Output) {
	if out.Write.Base == nil {
		return
	}
	s, base := &n.status, out.Write.Base.ID.Index
	lowest, _ := n.bounds()
	for i := range s.Peers {
		p := &s.Peers[i]
		peer := peerOf(p)
		was := progressOn(before, peer)
		if was == nil || was.State != p.State || !includes(n.config(), peer) {
			continue
		}
		seen, from, hold, follows := n.seen.of(peer), p.Match, lowest.SnapshotHoldBytes, false
		switch p.State {
		case "replicate":
			follows = n.seen.now-was.LastHeard < n.timeout() && n.seen.now-seen.provedAt < holdTimeouts*n.timeout()
		case "snapshot":
			from, hold = p.Offered.Index, max(hold, int(seen.offer.Size))
			follows = p.Offered == was.Offered && seen.offer.ID == p.Offered && seen.offeredAt < n.seen.now
		}
		needed := int(s.Last.Index-from) * largest(n, before.Base.Index)
		if follows && from > 0 && from < base && needed <= hold {
			k.broken("N52", "%s compacts its log up to %d, but %s needs the entries after %d, %d bytes at most",
				n, base, k.c.title(peer), from, needed)
		}
	}
}

// holdTimeouts is the minimum time, in election timeouts, for which a leader keeps entries for a follower that stops
// acknowledging.
const holdTimeouts = 60

// checkStream checks a chunk that is about to be sent.
func (k *checker) checkStream(n *node, o *outStream, end int64) {
	if n.status.Role != raft.Leader {
		k.broken("N48", "%s streams a snapshot to %s, but does not lead", n, k.c.title(o.to))
	}
	acked, _ := o.Acknowledged()
	if window := int64(n.streamLimits().WindowBytes); end-acked > window {
		k.broken("N55", "%s has %d bytes in flight to %s, over the window of %d", n, end-acked, k.c.title(o.to), window)
	}
}

// checkSnapshotAnswer checks the answer to a request for a snapshot.
func (k *checker) checkSnapshotAnswer(n *node, r *request, a raft.Answer) {
	durable := n.disk.snapshot.ID.Index
	if k.c.profile.Node.Durable {
		durable = max(durable, n.savedUpTo())
	}
	if a.ID.Index < r.floor || a.ID.Index > durable {
		k.broken("N60", "%s answers a request for a snapshot up to %d with %v, but the durable one covers %d", n, r.floor, a.ID, durable)
	}
	// A leader may keep more entries for its followers, and may step down in this step. A DurableFSM itself determines the
	// entries that it needs. RecordOverheadBytes is the minimum size of a record. No log begins after entry 1 alone, because
	// entry 1 has no term.
	_, limits := n.bounds()
	kept := raft.Index(limits.SnapshotTailBytes/raft.RecordOverheadBytes) + 1
	if s := &n.status; k.leaders[s.Term] != n.peer() && n.seen.deposed != n.seen.now && !k.c.profile.Node.Durable && a.ID.Index > max(s.Base.Index, 1)+kept {
		k.broken("N60", "%s grants a request for a snapshot up to %v, but its log begins after %v; the tail has %d entries at most",
			n, a.ID, s.Base, kept)
	}
}

// checkLogLength checks at the end of the quiet that a member's log is as short as the policy allows. The bytes between two
// size marks are estimated. Entries that are not known to be committed do not count, because no member may compact them. A
// removed member may have many such entries.
func (k *checker) checkLogLength(n *node) {
	s, limits := &n.status, &n.limits
	if !k.c.profile.Snapshots.On || n.protocol() < 2 || n.seen.policy.failures > 0 || s.Taking != (raft.EntryID{}) || s.Commit <= s.Base.Index {
		return
	}
	entry := k.c.longestCommand() + raft.RecordOverheadBytes
	bytes := n.log[s.Commit-1].payload + uint64(s.Commit-s.Base.Index)*raft.RecordOverheadBytes
	if s.Base.Index > 0 {
		bytes -= n.log[s.Base.Index-1].payload
	}
	bound := 2*sizeMarkBytes + limits.SnapshotTailBytes + max(limits.SnapshotHoldBytes, int(s.SnapshotBytes)) + 2*limits.SnapshotEntries*entry
	if bytes > uint64(bound) {
		k.broken("L16", "%s keeps a log of %d bytes after %v, but its policy allows %d", n, bytes, s.Base, bound)
	}
}

// sizeMarkBytes is the distance between two size marks of a log.
const sizeMarkBytes = 64 << 10
