package raft

import "time"

// Time is a reading of a clock that never falls, in nanoseconds since an arbitrary start. Deadlines
// are made of it; it means nothing outside the process.
type Time time.Duration

// Now says what time it is when Step is called: Mono drives deadlines, is above 0, which stands for
// "never", and must not fall from one Step to the next; Wall, in nanoseconds since 1970, only stamps
// entries, and no rule reads it.
type Now struct {
	Mono Time
	Wall int64
}

// RequestID is the caller's name for one request; the core hands it back in an Answer. Requests are never
// reused within the life of a Core.
type RequestID uint64

// Seq numbers the writes of one Core from 1.
type Seq uint64

// Event is something that happened: one of the types of this file, and no other.
type Event interface{ event() }

// Received is a message that has arrived. The transport has checked that it came from
// Message.From.ID.
type Received struct{ Message Message }

// Persisted says that the write Seq, and all before it, are durable, and that their Then has left.
type Persisted struct{ Seq Seq }

// Applied says that the FSM has applied the log up to ID.
type Applied struct{ ID EntryID }

// Proposal is one entry that somebody wants in the log: EntryCommand or EntryNoop. NewProposal copies the
// data into the room of a record, which saves a copy later; one without it takes the Data as it is.
type Proposal struct {
	RequestID RequestID
	Kind      EntryKind
	Data      []byte

	record []byte // the recordBuffer around Data, or nil
}

// NewProposal returns a proposal of a copy of data, made where the entry's record will be, so that a command
// is copied once on its way from the caller to the disk and the wire. It may be proposed once: the entry takes
// its room.
func NewProposal(requestID RequestID, kind EntryKind, data []byte) Proposal {
	record, within := recordBuffer(data)
	return Proposal{RequestID: requestID, Kind: kind, Data: within, record: record}
}

// Proposed brings proposals in, to be appended in this order.
type Proposed struct{ Proposals []Proposal }

// ReadRequested asks for an index at which a read is linearizable.
type ReadRequested struct{ RequestID RequestID }

// TransferRequested asks the leader to transfer leadership to To, or, if To is empty, to the voter that is
// best placed.
type TransferRequested struct {
	RequestID RequestID
	To        NodeID
}

// PeerUp says that a connection to the peer stands, and what its handshake told.
type PeerUp struct {
	ID            NodeID
	Incarnation   Incarnation
	StartCount    uint64
	Uninitialized bool
	Protocol      uint16 // the version that the connection speaks, see Hello
}

// PeerLost says that the connection to the peer broke; Refused, that its host answered and nobody
// listened there.
type PeerLost struct {
	ID      NodeID
	Refused bool
}

// SendDropped says that an append for the span (After, Last] to the peer did not leave: its queue
// was full, or the span was truncated meanwhile.
type SendDropped struct {
	To   NodeID
	Span Span
}

// Closing says that the node is about to stop: every open request is answered, and no new one taken.
type Closing struct{}

// Span is the entries (After, Last].
type Span struct{ After, Last Index }

func (Received) event()          {}
func (Persisted) event()         {}
func (Applied) event()           {}
func (Proposed) event()          {}
func (ReadRequested) event()     {}
func (TransferRequested) event() {}
func (PeerUp) event()            {}
func (PeerLost) event()          {}
func (SendDropped) event()       {}
func (Closing) event()           {}
