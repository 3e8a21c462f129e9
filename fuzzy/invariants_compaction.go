package fuzzy

import "github.com/coxswain/raft"

// The invariants of compaction, and of the offers and streams that follow from it.
//
//	N48  A leader begins to offer a snapshot only to a follower whose log has just failed the consistency check at the base of the leader's log, or for which an entry is too large, which the snapshot then covers; and only a leader streams. (§7)
//	N52  A leader compacts nothing that a member needs which is heard and goes on acknowledging, within SnapshotHoldBytes.
//	N53  nextIndex is above the base of the leader's log, and no append begins below that.
//	N54  An append that begins at or below the base of its receiver's log matches there, and is not refused.
//	N55  The bytes of a stream that are on their way stay within its window.
//	N57  A DurableFSM needs its snapshot file until it has synced the state.
//	N60  A request for a snapshot is granted once a durable one covers all that was applied when it was made, and the log is as short as the tail allows.
//	L16  A snapshot is taken as soon as the policy calls for it, after a failure as soon as the pause is over, and the log stays as short as the policy allows.

// compaction checks a step.
func (k *checker) compaction(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	if !k.c.profile.Snapshots.On {
		return
	}
	n.seen.policy.takes(n, before, events, out)
	k.due(n, out)
	n.seen.policy.says(out)
	k.matchesBelow(n, before, events, out)
	if s := &n.status; s.Role == raft.Leader && before.Role == raft.Leader && before.Term == s.Term {
		k.offersOnly(n, before, events)
		k.offersEnough(n, out)
		k.above(n, before, out)
		k.keepsFor(n, before, out)
	}
}

// policyWitness records what a member's policy for snapshots goes by.
type policyWitness struct {
	hold     bool      // the latest Take was for a frozen state
	failures int       // in a row, of snapshots that are not frozen states
	failed   raft.Time // when the last of them failed
	record   raft.Seq  // the latest write of a record
	durable  bool      // that one is durable
}

func (p *policyWitness) takes(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	superfluous := false // since a snapshot from a leader is installed in this very step: the pause goes on as it was
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

func (p *policyWitness) says(out *raft.Output) {
	if out.Write.Snapshot != nil {
		p.record, p.durable = out.Write.Seq, false
	}
	if out.Keep != nil && out.Keep.Take != nil {
		p.hold = out.Keep.Take.Hold
	}
}

// pauseDoublings is how often the pause after a snapshot that failed doubles at most. At first it is an election timeout.
const pauseDoublings = 6

// due checks that a snapshot is taken if the number of entries calls for it.
func (k *checker) due(n *node, out *raft.Output) {
	s, p := &n.status, &n.seen.policy
	prevented := n.protocol() < 2 || n.doomed || out.Write.Mark != nil || n.seen.closed || s.Restoring != (raft.EntryID{}) ||
		out.Write.Snapshot != nil || p.record > 0 && !p.durable
	if p.failures > 0 && n.seen.now < p.failed+n.timeout()<<min(p.failures-1, pauseDoublings) {
		prevented = true
	}
	// What a DurableFSM alone remembers may not be committed as far as its member knows.
	applying := max(n.applyTo.Index, out.Apply.Index)
	if prevented || s.Taking != (raft.EntryID{}) || applying <= n.seen.resumed {
		return
	}
	if lacking := applying - s.Snapshot.Index; lacking >= raft.Index(k.c.profile.Limits.SnapshotEntries) {
		k.broken("L16", "%s has applied %d entries behind its snapshot of %v, and takes none", n, lacking, s.Snapshot)
	}
}

// matchesBelow checks the appends that begin at or below the base. What is there is committed, so only an append of a
// member that is not the leader contradicts it.
func (k *checker) matchesBelow(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	for i := range out.Trace {
		if t := &out.Trace[i]; t.Kind == raft.TraceRefused && k.sound(n, before, events, t.Peer) {
			k.broken("N54", "%s refuses an append of %s, which begins at or below %v: %s", n, t.Peer, before.Base, t.Text)
		}
	}
}

// sound reports whether a peer has sent nothing in a step but appends of the present term that begin with a committed
// entry at or below the base.
func (k *checker) sound(n *node, before *raft.CoreStatus, events []raft.Event, from raft.NodeID) bool {
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

// offersOnly checks which followers a leader begins to offer a snapshot to.
func (k *checker) offersOnly(n *node, before *raft.CoreStatus, events []raft.Event) {
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

// offersEnough checks that a follower for which an entry is too large is offered a snapshot that covers it.
func (k *checker) offersEnough(n *node, out *raft.Output) {
	for i := range out.Send {
		m := &out.Send[i]
		offer, ok := m.Body.(raft.InstallSnapshot)
		if p := progressOn(&n.status, m.To); ok && p != nil && offer.Snapshot.ID.Index < p.Oversized.Index {
			k.broken("N48", "%s offers %s the snapshot of %v, and %v is too large for it", n, k.c.title(m.To), offer.Snapshot.ID, p.Oversized)
		}
	}
}

// above checks where a leader's appends begin.
func (k *checker) above(n *node, before *raft.CoreStatus, out *raft.Output) {
	s := &n.status
	for i := range s.Peers {
		if p := &s.Peers[i]; p.State != "stale" && p.Next <= s.Base.Index {
			k.broken("N53", "%s sends %s entry %d next, and its log begins behind %v", n, k.c.title(peerOf(p)), p.Next, s.Base)
		}
	}
	for i := range out.Send {
		a, ok := out.Send[i].Body.(raft.AppendRequest)
		if !ok || a.Prev.Index >= before.Base.Index {
			continue
		}
		if p := progressOn(s, out.Send[i].To); p != nil && p.State != "stale" { // a stale member is shown what it has lost, wherever that is
			k.broken("N53", "%s sends %s an append behind %v, and its log begins behind %v", n, k.c.title(peerOf(p)), a.Prev, before.Base)
		}
	}
}

// keepsFor checks that a leader keeps what followers need. The core estimates sizes, so every entry counts as the largest.
func (k *checker) keepsFor(n *node, before *raft.CoreStatus, out *raft.Output) {
	if out.Write.Base == nil {
		return
	}
	s, base := &n.status, out.Write.Base.ID.Index
	for i := range s.Peers {
		p := &s.Peers[i]
		peer := peerOf(p)
		was := progressOn(before, peer)
		follows := includes(n.config(), peer) && was != nil && p.State == "replicate" && was.State == "replicate" && n.seen.now-was.LastHeard < n.timeout()
		needed := int(s.Last.Index-p.Match) * largest(n, before.Base.Index)
		if follows && p.Match > 0 && p.Match < base && n.seen.now-n.seen.of(peer).provedAt < holdTimeouts*n.timeout() &&
			needed <= k.c.profile.Limits.SnapshotHoldBytes {
			k.broken("N52", "%s compacts its log up to %d, and %s needs the entries behind %d, %d bytes at most",
				n, base, k.c.title(peerOf(p)), p.Match, needed)
		}
	}
}

// holdTimeouts is for how many election timeouts at least entries are held for a follower that acknowledges no more.
const holdTimeouts = 60

// streams checks a chunk that leaves.
func (k *checker) streams(n *node, o *outStream, end int64) {
	if n.status.Role != raft.Leader {
		k.broken("N48", "%s streams a snapshot to %s, and does not lead", n, k.c.title(o.to))
	}
	acked, _ := o.Acknowledged()
	if window := int64(k.c.profile.streamLimits().WindowBytes); end-acked > window {
		k.broken("N55", "%s has %d bytes on their way to %s, over the window of %d", n, end-acked, k.c.title(o.to), window)
	}
}

// granted checks the answer to a request for a snapshot.
func (k *checker) granted(n *node, r *request, a raft.Answer) {
	durable := n.disk.snapshot.ID.Index
	if k.c.profile.Node.Durable {
		durable = max(durable, n.savedUpTo())
	}
	if a.ID.Index < r.floor || a.ID.Index > durable {
		k.broken("N60", "%s answers a request for a snapshot up to %d with %v, and the durable one covers %d", n, r.floor, a.ID, durable)
	}
	// A leader may keep more for its followers, and a DurableFSM says itself what it needs. A record has so many bytes at
	// least. No log begins behind entry 1 alone, which is of no term.
	kept := raft.Index(k.c.profile.Limits.SnapshotTailBytes/raft.RecordOverheadBytes) + 1
	if s := &n.status; s.Role != raft.Leader && !k.c.profile.Node.Durable && a.ID.Index > max(s.Base.Index, 1)+kept {
		k.broken("N60", "%s grants a request for a snapshot up to %v, and its log begins behind %v; the tail has %d entries at most",
			n, a.ID, s.Base, kept)
	}
}

// short checks at the end of the quiet that a member's log is as short as the policy allows. What lies between two size
// marks of a log is estimated. What is not known to be committed does not count, since nobody could compact it: a member that
// was removed may have much of that.
func (k *checker) short(n *node) {
	s, limits := &n.status, &k.c.profile.Limits
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
		k.broken("L16", "%s keeps a log of %d bytes behind %v, and its policy allows %d", n, bytes, s.Base, bound)
	}
}

// sizeMarkBytes is the distance of two size marks of a log.
const sizeMarkBytes = 64 << 10
