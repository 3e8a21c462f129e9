package raft

// Note is a decision of the core, as data; String renders it. Nothing depends on notes.
type Note struct {
	Kind NoteKind
	Term Term
	Peer NodeID
	ID   EntryID
	Text string
}

// NoteKind says what was decided.
type NoteKind uint8
