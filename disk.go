package raft

import "slices"

// disk is what is known to be durable here.
type disk struct {
	hard HardState
	// persisted is the end of the longest prefix of the present log that a persisted write wrote.
	persisted Index
	mark      *Mark // nil: none. It may not be durable yet
	// confession is the answer that tells the leader of a lost acknowledgement, with MarkStaleImage.
	confession AppendConflict
	seq        Seq // of the last write issued
	pending    []pendingWrite
	endedAt    Time   // when a write last ended; 0: none has
	took       recent // how long the disk was at each of them
}

// pendingWrite is a write that is not known to be durable yet.
type pendingWrite struct {
	seq    Seq
	issued Time
	hard   *HardState
	// mark is the (leader's term, index) up to which the log is durable once this write is. A later
	// truncation lowers its index: entries that were overwritten are acknowledged by nobody.
	mark EntryID
}

// truncated takes into account that the entries above after are no part of the log any more.
func (d *disk) truncated(after Index) {
	d.persisted = min(d.persisted, after)
	for i := range d.pending {
		d.pending[i].mark.Index = min(d.pending[i].mark.Index, after)
	}
}

// issue numbers a write and remembers what it will make durable, if that is anything.
func (d *disk) issue(now Time, hard *HardState, mark EntryID) Seq {
	d.seq++
	if hard != nil || mark.Index > 0 {
		d.pending = append(d.pending, pendingWrite{d.seq, now, hard, mark})
	}
	return d.seq
}

func (d *disk) acknowledge(seq Seq, now Time) {
	assert(seq <= d.seq, "only writes that were issued become durable")
	n := 0
	if len(d.pending) > 0 && d.pending[0].seq <= seq {
		d.took.add(now - d.busySince())
		d.endedAt = now
	}
	for n < len(d.pending) && d.pending[n].seq <= seq {
		w := d.pending[n]
		if w.hard != nil {
			assert(w.hard.Term >= d.hard.Term, "the durable term never decreases")
			assert(w.mark.Term <= w.hard.Term, "no entry is newer than the durable term")
			d.hard = *w.hard
		}
		d.persisted = max(d.persisted, w.mark.Index)
		n++
	}
	d.pending = append(d.pending[:0], d.pending[n:]...)
}

// busySince is when the disk began with the oldest pending write, of which there is one: what waited
// behind another has not kept it busy.
func (d *disk) busySince() Time { return max(d.pending[0].issued, d.endedAt) }

// onPersisted learns that a write, and all before it, are durable.
func (c *Core) onPersisted(seq Seq) {
	before := c.disk.hard
	c.disk.acknowledge(seq, c.now.Mono)
	assert(c.disk.persisted <= c.log.Last.Index, "what is durable is in the log")
	if c.disk.hard == c.hard && c.disk.hard != before {
		c.onVoteDurable()
	}
	c.onFoundingPersisted()
}

// send sends a message that promises nothing; like every message it waits until its term is durable.
func (c *Core) send(to Peer, body Body) {
	c.emit(outgoing{message: c.message(to, body)})
}

// promiseVote sends a message that stands on the vote of this term.
func (c *Core) promiseVote(to Peer, body Body) {
	c.emit(outgoing{message: c.message(to, body), vote: true})
}

// promiseLog sends a message that stands on the log being durable up to match.
func (c *Core) promiseLog(to Peer, body Body, match Index) {
	c.emit(outgoing{message: c.message(to, body), match: match})
}

func (c *Core) emit(o outgoing) { c.step.sends = append(c.step.sends, o) }

func (c *Core) message(to Peer, body Body) Message {
	return Message{From: c.self, To: to, Cluster: c.cluster(), Term: c.hard.Term, Body: body}
}

// release sorts the messages of this step: what is durable already leaves in Send, the rest waits in
// Write.Then.
//
//	"Before responding to RPCs, a server must update its persistent state on stable storage."
//	(Figure 2; dissertation §3.8)
//
// A step that passed several terms says nothing in the earlier ones: their promises were never
// written down as such.
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
	if c.hard != c.step.hard {
		hard := c.hard
		w.Hard, c.step.hard = &hard, hard
	}
	if !w.ChangesStore() && len(w.Then) == 0 {
		return
	}
	mark := EntryID{Term: c.hard.Term}
	if w.Log != nil {
		mark.Index = c.log.Last.Index
	}
	// Only what earlier writes made durable: whatever prefix of this one a crash leaves, the entries up
	// to the hint are the committed ones. And only what leaders have told: a later life could not tell it
	// from what the FSM alone says (see contradiction).
	w.Commit = min(c.log.told, c.disk.persisted)
	w.Seq = c.disk.issue(c.now.Mono, w.Hard, mark)
}

// finish completes the Output.
func (c *Core) finish() Output {
	if c.leader != nil {
		c.lead()
	}
	c.handOut()
	c.settle()
	c.release()
	c.issueWrite()
	out := c.step.out
	out.WakeAt = c.wakeAt()
	c.step.wakeAt = out.WakeAt
	c.step.out = Output{}
	c.step.running = false
	c.checkStep(&out)
	return out
}

// handOut lets the FSM apply what is committed and durable here:
//
//	"If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine
//	(§5.3)." (Figure 2)
func (c *Core) handOut() {
	safe := min(c.log.commit, c.disk.persisted)
	if safe <= c.log.handed || c.marked() {
		return
	}
	c.log.handed = safe
	c.step.out.Apply = c.log.id(safe)
	if c.leader != nil {
		c.leader.handedOut(safe)
	}
}
