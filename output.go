package raft

import "slices"

// This file holds what a Step asks its caller to do, and what is durable here, on which its messages depend.

// Output is what the caller must do after a Step. A loop may process the fields in this order; each says what may
// overlap. Slices in an Output belong to the receiver.
//
// Requests are the caller's choice. Of the other events, a loop may leave out these: nothing that is acknowledged is lost
// without them, and no read is stale. What it costs is time:
//
//   - PeerUp: what was lost with the connection is repeated only when heartbeats are answered again. A member that waits
//     longer between elections, because answers were late, goes on doing so, for up to 128 election timeouts. Do not
//     leave it out while members run an earlier release: without its Protocol, all of them are taken to speak the newest one, and
//     are sent snapshots, and changes of the members, that they cannot read.
//   - PeerLost, SendDropped: an append that was lost is repeated only once the follower has answered heartbeats for an
//     election timeout, or for up to eight if its disk was slow, and has not acknowledged it. A transfer whose
//     TimeoutNow was lost ends at its deadline.
//   - SnapshotSent: an acknowledgement that was lost is asked for an election timeout later. After a stream that has failed,
//     the same file is offered every election timeout, even if it is damaged, instead of the newest one after growing
//     pauses. Do not leave it out if the FSM is a DurableFSM: a frozen state ends with it, and until then no other
//     follower is sent one.
//   - SnapshotSending: a leader drops entries that the follower of a frozen state needs next, and has to begin again. A
//     change of the members gives up a new member whose stream takes longer than the change's patience.
//   - Applying: a leader whose FSM hangs leads on, and nobody takes over.
//
// What a Handshake decides is no event, and is needed for safety: without its rules, nobody notices that a disk is an
// older image of itself. Such a member may vote twice in one term, and lacks what it has acknowledged. A loop may do without
// only where no disk can go back, as in a simulation. An emptied disk shows without them: it has another incarnation, and
// messages for the former one do not count.
type Output struct {
	// Send holds messages that may leave at once, and may be lost, duplicated or reordered.
	Send []Message
	// Write is one durable step; empty iff its Seq is 0.
	Write Write
	// Config is the configuration in force. It is given when it changes, because one was loaded, appended or installed
	// with a snapshot, or because a truncation has restored the one before; and again when a configuration becomes
	// committed. It says whom to dial. Nil: neither.
	Config *Configuration
	// Restore names a snapshot whose record is durable here: the FSM becomes this one, before Apply. No entry at or
	// below it is applied any more. Applied{Restore.ID} reports that it is done. Nil: nothing to restore.
	Restore *Snapshot
	// Apply names an entry that is committed and durable here: apply the log up to it, in order, once. Zero:
	// nothing new.
	Apply EntryID
	// Keep says what to do with snapshots. Nil: nothing.
	Keep *Keep
	// Answers answer requests.
	Answers []Answer
	// WakeAt is the latest time for the next Step, with or without events.
	WakeAt Time
	// Trace holds the decisions of this Step, as data. Nothing depends on them.
	Trace []TraceEvent
}

// Keep says what to do with snapshots besides writing and restoring them.
type Keep struct {
	Take    *Take    // answered by SnapshotTaken; nil: take none
	Receive *Receive // take in this stream, instead of an earlier one; nil: go on as before
	Stop    []Peer   // end the streams to these peers
	// Discard names files to delete: no record names them, and no offer of this member. Give back a frozen state among them
	// before a Take of the same Output freezes another one.
	Discard []SnapshotID
}

// Take asks for a snapshot of the state in which Base.ID is the last entry applied, neither more nor less. That entry
// is the Apply of this Output, or was that of an earlier one and is the last entry that was ever named. A reset of the log
// voids a Take that has not begun: see LogWrite.Reset.
type Take struct {
	Base
	Sync bool // call DurableFSM.Sync instead: there are no bytes
	Hold bool // freeze the state and keep it in memory for one stream: there is no file
}

// Receive says that the peer offers this snapshot, and will stream its bytes.
type Receive struct {
	From     Peer
	Snapshot Snapshot
}

// Write is one durable step. Writes are made in the order issued. A crash may leave any prefix of a write, in the
// order Mark, then Hard and Snapshot together, then Base, then Log, and of Log any prefix of its entries; every such
// prefix is a legal state. Once a write is durable its Then is sent, and after that Persisted{Seq} is stepped, which
// acknowledges all earlier writes too. Queued writes may be merged as long as no later one carries Mark, Hard, Snapshot
// or Base.
type Write struct {
	Seq  Seq
	Mark *Mark      // comes first; nil = none. The member ends once it is durable
	Hard *HardState // term and vote, together or not at all; nil = untouched
	// Snapshot replaces the recorded snapshot, whose bytes are complete and synced before. A zero File records that
	// no bytes count any longer. Nil = untouched.
	Snapshot *Snapshot
	// Base says that the log begins behind it from now on. The entries up to it may be deleted later. Nil = untouched.
	Base *Base
	Log  *LogWrite // nil = untouched
	// Commit is a hint that is stored along with the rest. It is never a reason to sync.
	Commit Index
	// Then holds messages that promise what this write makes durable: their term, a vote, or the log. They may only
	// leave after it. A write that has nothing but Then keeps its place in the order, and needs no sync.
	Then []Message
}

// ChangesStore reports whether anything in the write must become durable.
func (w *Write) ChangesStore() bool {
	return w.Mark != nil || w.Hard != nil || w.Snapshot != nil || w.Base != nil || w.Log != nil
}

// HardState is what Figure 2 calls persistent state, besides the log: currentTerm and votedFor.
type HardState struct {
	Term Term
	Vote Peer // zero: none in this term
}

// LogWrite drops every entry above After.Index, then appends Entries. After is an entry of the log or, before the
// first entry, the log's start.
type LogWrite struct {
	After   EntryID
	Entries []Entry
	// Reset drops the whole log first. The log then begins behind After, which need not be an entry of it. A core only
	// resets the log in a Write whose Snapshot has After as its last entry: the Base of that snapshot is then the log's. So a
	// Storage that is no SnapshotStorage has no log to reset.
	//
	// A reset voids every Apply and every Take of earlier Outputs that is not done yet: their entries are gone. A loop that
	// does them later must drop them, and reports nothing about them, when it gets this Output, before the write. What
	// it has done, or has begun, it may still report. Restore follows once the write is durable.
	Reset bool
	// Generation is the log's generation from now on. Every truncation raises it. It is not stored.
	Generation uint64
}

// step is the state of the running Step, from which its Output is built, and what the next Step needs of it.
type step struct {
	running bool
	wakeAt  Time // WakeAt of the last Output
	closing bool // Closing has been stepped
	out     Output
	sends   []outgoing
	hard    HardState         // as of the last write issued
	lost    []pendingProposal // of a leader that stepped down or was closed in this step
	// lostChanges are the changes of the members that such a leader had begun.
	lostChanges []acceptedChange
}

// outgoing is a message, and what must be durable before it may leave.
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

// release sorts the messages of this step: those that only depend on what is durable already go into Send, the
// others into Write.Then.
//
//	"Before responding to RPCs, a server must update its persistent state on stable storage."
//	(Figure 2; dissertation §3.8)
//
// A step that has passed several terms drops the messages of the earlier ones: the votes and terms that they
// depend on are never written.
func (c *Core) release() {
	out := &c.step.out
	for i := range c.step.sends {
		o, left := &c.step.sends[i], len(c.step.sends)-i
		durable := o.message.Term <= c.disk.hard.Term && o.match <= c.disk.persisted &&
			(!o.vote || c.disk.hard == c.hard)
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

// issueWrite numbers this step's write, if there is anything in it.
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
	// The hint only covers entries that earlier writes made durable, so that it is right whatever prefix of this
	// write a crash leaves. It excludes what only a DurableFSM reports as committed, because after a restart the
	// two could not be told apart (see contradiction).
	w.Commit = min(c.log.told, c.disk.persisted)
	w.Seq = c.disk.issue(c.now.Mono, w, mark)
}

// disk records what is durable here, and the writes that are not durable yet.
type disk struct {
	hard HardState
	// persisted is the end of the longest prefix of the present log that is durable here.
	persisted Index
	mark      *Mark // nil: none. It may not be durable yet
	// lossReport, with MarkStaleImage, is the answer that tells the leader that acknowledged entries are lost.
	lossReport AppendConflict
	snapshot   Snapshot     // the recorded one; zero: none
	replaced   []SnapshotID // files whose record is gone; they may still be on their way to a follower
	seq        Seq          // of the last write issued
	pending    []pendingWrite
	endedAt    Time   // when a write last ended; 0: none has
	took       recent // how long the latest writes kept the disk busy
}

// pendingWrite is a write that is not known to be durable yet.
type pendingWrite struct {
	seq    Seq
	issued Time
	hard   *HardState
	// snapshot is the record of a snapshot that it makes durable.
	snapshot *Snapshot
	try      bool // it changes nothing
	// mark is the (leader's term, index) up to which the log is durable once this write is. A later
	// truncation lowers its index, so that entries that were overwritten do not count as durable.
	mark EntryID
}

// truncated records that the log has been truncated: the entries above after are gone.
func (d *disk) truncated(after Index) {
	d.persisted = min(d.persisted, after)
	for i := range d.pending {
		d.pending[i].mark.Index = min(d.pending[i].mark.Index, after)
	}
}

// issue numbers a write and records what it will make durable. A write that makes no term, no snapshot and no entries
// durable is not pending.
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

// busySince returns when the disk began the oldest pending write; there must be one. Time that the write
// spent waiting for an earlier one does not count.
func (d *disk) busySince() Time { return max(d.pending[0].issued, d.endedAt) }

// onPersisted records that a write, and all writes before it, are durable.
func (c *Core) onPersisted(seq Seq) {
	before := c.disk.hard
	c.disk.acknowledge(seq, c.now.Mono)
	assert(c.disk.persisted <= c.log.Last.Index, "what is durable is in the log")
	if c.disk.hard == c.hard && c.disk.hard != before {
		c.onVoteDurable()
	}
	c.onRecordPersisted()
	c.onBootstrapPersisted()
}
