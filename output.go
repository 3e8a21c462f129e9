package raft

// Output is what a Step wants done. The fields stand in the order in which a loop may honour them;
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
	// Answers to tickets.
	Answers []Answer
	// WakeAt is when to Step again at the latest, with or without events.
	WakeAt Time
	// Notes are decisions, as data. Nothing depends on them.
	Notes []Note
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

// AnswerKind says how a ticket went.
type AnswerKind uint8

// The answers to a ticket.
const (
	// AnswerAccepted: the proposal is in the leader's log at ID. A second answer follows,
	// AnswerNotApplied or AnswerUnknown, unless ID is applied.
	AnswerAccepted AnswerKind = 1
	// AnswerRefused: not applied and never will be; Refusal says why, Leader who to ask.
	AnswerRefused AnswerKind = 2
	// AnswerNotApplied: another entry was committed in place of the accepted one, which never will be.
	AnswerNotApplied AnswerKind = 3
	// AnswerUnknown: leadership ended while the entry was outstanding; it may or may not be applied.
	AnswerUnknown AnswerKind = 4
	// AnswerReadSafe: a read is linearizable once ID.Index is applied here.
	AnswerReadSafe AnswerKind = 5
	// AnswerTransferred: Leader leads now.
	AnswerTransferred AnswerKind = 6
)

// RefusalKind says why a request was refused.
type RefusalKind uint8

// The reasons of AnswerRefused.
const (
	RefusedNotLeader    RefusalKind = 1 // this member does not lead; Answer.Leader does, if known
	RefusedTransferring RefusalKind = 2 // leadership is on its way to Answer.Leader
	RefusedOverloaded   RefusalKind = 3 // a limit of CoreConfig is reached: try again later
	RefusedClosing      RefusalKind = 4 // the node stops
	RefusedNoTarget     RefusalKind = 5 // a transfer to nobody, or to one that is no voter or not heard
	RefusedTimedOut     RefusalKind = 6 // the transfer or the read did not end within its bound
	RefusedTooLarge     RefusalKind = 7 // the proposal is over the limit
	RefusedStalled      RefusalKind = 8 // the leader's disk stands still, and nobody could take over yet
)

// Answer answers a ticket. Every ticket is answered.
type Answer struct {
	Ticket  Ticket
	Kind    AnswerKind
	ID      EntryID     // AnswerAccepted; AnswerReadSafe: the index alone
	Refusal RefusalKind // AnswerRefused
	Leader  NodeID      // who to ask instead, if known
}
