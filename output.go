package raft

import "slices"

// This file holds what a Step asks its caller to do. It also holds what is durable here, because the messages of a Step
// depend on it.

// Output is what the caller must do after a Step, in this order. docs/architecture.md has the whole contract, and says what
// may overlap. The caller owns its slices.
type Output struct {
	Lease   LeaderLease    // in force from now on, until the next Output: publish it before anything else of this Output; zero: none
	Send    []Message      // may leave at once, and be lost, duplicated or reordered
	Write   Write          // one durable step; empty iff its Seq is 0
	Config  *Configuration // in force, which says whom to dial; given when it changes or is committed; nil: neither
	Restore *Snapshot      // durably recorded: restore it before Apply, skip entries up to it, step Applied{ID}; nil: none
	Apply   EntryID        // committed and durable: apply the log up to it, in order, once; zero: nothing new
	Keep    *Keep          // what to do with snapshots; nil: nothing
	Answers []Answer
	Fresh   Freshness    // proved about this member's state, and true for ever; zero: nothing new
	WakeAt  Time         // the latest time for the next Step, with or without events
	Trace   []TraceEvent // the decisions of this Step; nothing depends on them
}

// Keep says what to do with snapshots besides writing and restoring them.
type Keep struct {
	Take    *Take        // answered by SnapshotTaken; nil: none
	Receive *Receive     // a stream to take instead of any earlier one; nil: as before
	Stop    []Peer       // end the streams to these peers
	Discard []SnapshotID // delete these files, which nothing names; release frozen states before another Take freezes one
}

// Take asks for a snapshot of the state with exactly the entries up to Base.ID applied: the last entry that an Apply ever named.
// LogWrite.Reset voids a Take that has not begun.
type Take struct {
	Base
	Sync bool // call DurableFSM.Sync instead: there are no bytes
	Hold bool // keep the frozen state in memory for one stream: there is no file
}

// Receive says that the peer offers this snapshot and will stream its bytes.
type Receive struct {
	From     Peer
	Snapshot Snapshot
}

// Write is one durable step. Writes are made in the order issued. A crash may leave any prefix of one, in the order Mark,
// Hard with Snapshot, Base, Log by entries; each prefix is legal. Once a Write is durable, send its Then; then step
// Persisted{Seq}, which acknowledges all earlier writes too. Queued writes may be merged as long as no later one has Mark,
// Hard, Snapshot or Base.
type Write struct {
	Seq      Seq
	Mark     *Mark      // nil: none; the member ends once it is durable
	Hard     *HardState // term and vote, together or not at all; nil: untouched
	Snapshot *Snapshot  // the new recorded snapshot, its bytes synced before; zero File: no bytes count; nil: untouched
	Base     *Base      // the log begins behind it now, and the entries up to it may be deleted; nil: untouched
	Log      *LogWrite  // nil: untouched
	Commit   Index      // a hint to store with the rest, never a reason to sync
	Then     []Message  // promises of what this write makes durable; a write of Then alone keeps its turn, without a sync
}

// ChangesStore reports whether the write must become durable.
func (w *Write) ChangesStore() bool {
	return w.Mark != nil || w.Hard != nil || w.Snapshot != nil || w.Base != nil || w.Log != nil
}

// HardState is Figure 2's persistent state besides the log. In a cluster with priorities, it also holds how often a member
// has lost its leadership: see preference.go.
type HardState struct {
	Term    Term  // currentTerm
	Vote    Peer  // votedFor; zero: none in this term
	Leading bool  // it leads this term; a start that finds it has lost the leadership
	Losses  uint8 // of its leadership, against its will, since ten minutes without one; at most 7
	Lease   Time  // the longest promise that it may have given a leader (see Promise); 0: none
	// Cluster is the one that the member belongs to, if it was recovered from another one, which entry 1 then names; zero:
	// entry 1 or the log's base tells.
	Cluster ClusterID
}

// sameVote reports whether the two are about the same term and vote.
func (h HardState) sameVote(other HardState) bool {
	return h.Term == other.Term && h.Vote == other.Vote
}

// voteDurable reports whether the present term and vote are durable.
func (c *Core) voteDurable() bool { return c.disk.hard.sameVote(c.hard) }

// LogWrite drops every entry above After.Index, then appends Entries. A Reset, only for a SnapshotStorage, first drops the
// whole log, which then begins after After, the entry of the Write's Snapshot. It voids earlier Applies and Takes that have
// not begun: see docs/architecture.md.
type LogWrite struct {
	After      EntryID // in the log, or the start of the log
	Entries    []Entry
	Reset      bool
	Generation uint64 // of the log from now on, raised by every truncation; not stored
}

// step is the state of the running Step, from which the core builds the Output. It also keeps what the next Step needs of
// this one.
type step struct {
	running bool
	wakeAt  Time // WakeAt of the last Output
	closing bool // Closing has been stepped
	out     Output
	sends   []outgoing
	hard    HardState         // as of the last write issued
	lost    []pendingProposal // of a leader that stepped down or was closed in this step
	// lostChanges are the changes of the members that such a leader has begun.
	lostChanges []acceptedChange
}

// outgoing is a message, with what must be durable before the message may leave.
type outgoing struct {
	message Message
	vote    bool  // the vote of its term
	match   Index // the log up to here
}

// send sends a message that waits only until its term is durable.
func (c *Core) send(to Peer, body Body) {
	c.emit(outgoing{message: c.message(to, body)})
}

// promiseVote sends a message that may only leave once the vote of this term is durable.
func (c *Core) promiseVote(to Peer, body Body) {
	c.emit(outgoing{message: c.message(to, body), vote: true})
}

// promiseLog sends a message that may only leave once the log is durable up to match.
func (c *Core) promiseLog(to Peer, body Body, match Index) {
	c.emit(outgoing{message: c.message(to, body), match: match})
}

func (c *Core) emit(o outgoing) { c.step.sends = append(c.step.sends, o) }

func (c *Core) message(to Peer, body Body) Message {
	return Message{From: c.self, To: to, Cluster: c.cluster(), Term: c.hard.Term, Body: body}
}

// release sorts the messages of this step. A message goes into Send if it depends only on what is durable already. All others
// go into Write.Then.
//
//	"Before responding to RPCs, a server must update its persistent state on stable storage."
//	(Figure 2; dissertation §3.8)
//
// If a step has passed several terms, release drops the messages of the earlier ones. The votes and terms that those messages
// depend on are never written.
func (c *Core) release() {
	out := &c.step.out
	for i := range c.step.sends {
		o, left := &c.step.sends[i], len(c.step.sends)-i
		durable := o.message.Term <= c.disk.hard.Term && o.match <= c.disk.persisted &&
			(!o.vote || c.voteDurable())
		switch {
		case o.message.Term < c.hard.Term:
		case durable:
			out.Send = append(slices.Grow(out.Send, left), o.message)
		default:
			out.Write.Then = append(slices.Grow(out.Write.Then, left), o.message)
		}
	}
	clear(c.step.sends)
	c.step.sends = c.step.sends[:0]
}

// issueWrite numbers this step's write, unless the write is empty.
func (c *Core) issueWrite() {
	w := &c.step.out.Write
	tries := c.leader != nil && c.leader.triesDisk
	if c.hard != c.step.hard || tries {
		hard := c.hard
		w.Hard, c.step.hard = &hard, hard
	}
	if tries {
		c.leader.triesDisk = false
	}
	if !w.ChangesStore() && len(w.Then) == 0 {
		return
	}
	mark := EntryID{Term: c.hard.Term}
	if w.Log != nil {
		mark.Index = c.log.Last.Index
	}
	// The hint covers only entries that earlier writes made durable. So it is right for every prefix of this write that a
	// crash may leave. It excludes entries that only a DurableFSM reports as committed, because after a restart the two kinds
	// could not be distinguished (see contradiction).
	w.Commit = min(c.log.provenCommit, c.disk.persisted)
	w.Seq = c.disk.issue(c.now.Mono, w, mark)
}

// disk records what is durable here, and the writes that are not durable yet.
type disk struct {
	hard HardState
	// persisted is the end of the longest prefix of the present log that is durable here.
	persisted Index
	mark      *Mark // nil: none. It may not be durable yet
	// lossReport, set with MarkStaleImage, is the reply that tells the leader that acknowledged entries are lost.
	lossReport AppendConflict
	snapshot   Snapshot     // the recorded one; zero: none
	replaced   []SnapshotID // files whose record is gone; they may still be on their way to a follower
	seq        Seq          // last write issued
	pending    []pendingWrite
	endedAt    Time   // when a write last ended; 0: none has
	took       recent // how long the latest writes kept the disk busy
}

// pendingWrite is a write that is not yet known to be durable.
type pendingWrite struct {
	seq    Seq
	issued Time
	hard   *HardState
	// snapshot is the snapshot record that this write makes durable.
	snapshot *Snapshot
	try      bool // it changes nothing
	// mark is the (leader's term, index) up to which the log is durable once this write is durable. A later truncation lowers
	// the index, so that overwritten entries do not count as durable.
	mark EntryID
}

// truncated records that the log has been truncated: the entries above after are gone.
func (d *disk) truncated(after Index) {
	d.persisted = min(d.persisted, after)
	for i := range d.pending {
		d.pending[i].mark.Index = min(d.pending[i].mark.Index, after)
	}
}

// issue numbers a write and records what it will make durable. If a write makes no term, no snapshot and no entries durable,
// it does not count as pending.
func (d *disk) issue(now Time, w *Write, mark EntryID) Seq {
	d.seq++
	if w.Hard != nil || w.Snapshot != nil || mark.Index > 0 {
		try := w.Hard != nil && *w.Hard == d.hard && w.Snapshot == nil && mark.Index == 0
		d.pending = append(d.pending, pendingWrite{d.seq, now, w.Hard, w.Snapshot, try, mark})
	}
	return d.seq
}

func (d *disk) acknowledge(seq Seq, now Time) {
	assert(seq <= d.seq, "only writes that were issued become durable")
	n := 0
	if len(d.pending) > 0 && d.pending[0].seq <= seq {
		if took := now - d.busySince(); !d.pending[0].try || took > d.took.max() {
			d.took.add(took) // a small write that is quick does not say that larger ones are
		}
		d.endedAt = now
	}
	for n < len(d.pending) && d.pending[n].seq <= seq {
		w := d.pending[n]
		if w.hard != nil {
			assert(w.hard.Term >= d.hard.Term, "the durable term never decreases")
			assert(w.mark.Term <= w.hard.Term, "no entry is newer than the durable term")
			d.hard = *w.hard
		}
		if w.snapshot != nil {
			if (d.snapshot.File != SnapshotID{}) {
				d.replaced = append(d.replaced, d.snapshot.File)
			}
			d.snapshot = *w.snapshot
		}
		d.persisted = max(d.persisted, w.mark.Index)
		n++
	}
	d.pending = append(d.pending[:0], d.pending[n:]...)
}

// idle reports whether nothing is being written.
func (d *disk) idle() bool { return len(d.pending) == 0 }

// busySince returns the time at which the disk began the oldest pending write. There must be a pending write. The time that
// the write spent waiting for an earlier one does not count.
func (d *disk) busySince() Time { return max(d.pending[0].issued, d.endedAt) }

// onPersisted records that a write, and all writes before it, are durable.
func (c *Core) onPersisted(seq Seq) {
	before := c.disk.hard
	c.disk.acknowledge(seq, c.now.Mono)
	assert(c.disk.persisted <= c.log.Last.Index, "what is durable is in the log")
	if c.voteDurable() && !before.sameVote(c.disk.hard) {
		c.onVoteDurable()
	}
	c.onRecordPersisted()
	c.onBootstrapPersisted()
}
