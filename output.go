package raft

import "slices"

// Output is what a Step wants done. The fields stand in the order in which a loop may process them;
// what may overlap is said at each. Slices in an Output belong to the receiver.
type Output struct {
	// Send may leave at once, be lost, doubled or reordered.
	Send []Message
	// Write is one durable step; empty iff its Seq is 0.
	Write Write
	// Config is in force from now on (appended, rolled back or loaded): whom to dial. Nil: unchanged.
	Config *Configuration
	// Apply is committed and durable here: apply up to it, in order, once. Zero: nothing new.
	Apply EntryID
	// Answers to requests.
	Answers []Answer
	// WakeAt is when to Step again at the latest, with or without events.
	WakeAt Time
	// Trace are decisions, as data. Nothing depends on them.
	Trace []TraceEvent
}

// Write is one durable step. Writes are made in the order issued; a crash may leave a prefix of
// Mark, Hard, Log of each, Log itself a prefix of its entries, and every such prefix is a legal state.
// When a write is durable its Then leaves, and then Persisted{Seq} is stepped; that acknowledges all
// writes before it too. Queued writes may be merged as long as no later one carries Mark or Hard.
type Write struct {
	Seq  Seq
	Mark *Mark      // a verdict about the store, before everything else; nil = none. The member ends with it
	Hard *HardState // term and vote, together or not at all; nil = untouched
	Log  *LogWrite  // nil = untouched
	// Commit is a hint that rides along, never a reason to sync.
	Commit Index
	// Then are promises: they leave only once this write is durable. A write with nothing but Then
	// keeps its place in the order and needs no sync.
	Then []Message
}

// ChangesStore reports whether anything in the write must become durable.
func (w *Write) ChangesStore() bool { return w.Mark != nil || w.Hard != nil || w.Log != nil }

// HardState is what Figure 2 calls persistent state, besides the log: currentTerm and votedFor.
type HardState struct {
	Term Term
	Vote Peer // zero: none in this term
}

// LogWrite drops every entry above After.Index, then appends Entries. After is an entry of the log, or where
// the log begins.
type LogWrite struct {
	After   EntryID
	Entries []Entry
	// Reset drops the whole log first, which then begins behind After, whatever that is.
	Reset bool
	// Generation of the log from now on: every truncation raises it. It is not stored.
	Generation uint64
}

// step is what a Step gathers before it becomes an Output.
type step struct {
	running bool
	wakeAt  Time // promised by the last Step
	closing bool // Closing was stepped
	out     Output
	sends   []outgoing
	hard    HardState // as of the last write issued
	lost    []pendingProposal
}

// outgoing is a message with what must be durable before it may leave.
type outgoing struct {
	message Message
	vote    bool  // the vote of its term
	match   Index // the log up to here
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
