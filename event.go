package raft

import "time"

// Time is a reading of a monotonic clock, in nanoseconds since an arbitrary start. Deadlines are Times. A Time
// has no meaning outside the process.
type Time time.Duration

// Now is the time at which Step is called. Mono drives deadlines; it must be above 0, which stands for "never",
// and must not fall from one Step to the next. Wall, in nanoseconds since 1970, only stamps entries; no rule of
// Raft reads it.
type Now struct {
	Mono Time
	Wall int64
}

// RequestID is the number by which a caller recognises the Answer to its request. It must not be used twice with
// one Core.
type RequestID uint64

// Seq numbers the writes of one Core from 1.
type Seq uint64

// Event is something that happened: one of the types of this file, and no other. Output says which of them a loop may
// leave out, and what that costs.
type Event interface{ event() }

// Received is a message that has arrived. The caller has checked that it came from Message.From.ID.
type Received struct{ Message Message }

// Persisted says that the write Seq, and all before it, are durable, and that their Then has left.
type Persisted struct{ Seq Seq }

// Applied says that the FSM has applied the log up to ID.
type Applied struct{ ID EntryID }

// Applying says that the FSM was given a batch of entries, the last of which is ID, at Since, and has not returned from
// Apply. It need not be reported for a batch that ends soon, but must be before CoreConfig.ApplyStallMax has passed: then
// the FSM counts as hanging, until an Applied that covers ID. A host that never reports it keeps a leader whose FSM hangs.
type Applying struct {
	ID    EntryID
	Since Time
}

// Proposal is one entry that a caller wants in the log: EntryCommand or EntryNoop. NewProposal copies the data
// into the buffer of the later record, which saves a copy then. A literal Proposal uses Data as it is.
type Proposal struct {
	RequestID RequestID
	Kind      EntryKind
	Data      []byte

	record []byte // the recordBuffer around Data, or nil
}

// NewProposal returns a proposal of a copy of data. The copy is made in the buffer of the entry's record, so that
// a command is copied only once between the caller and the disk or the network. It may only be proposed once,
// because the entry takes over the buffer.
func NewProposal(requestID RequestID, kind EntryKind, data []byte) Proposal {
	record, within := recordBuffer(data)
	return Proposal{RequestID: requestID, Kind: kind, Data: within, record: record}
}

// Proposed carries proposals, which the leader appends in this order.
type Proposed struct{ Proposals []Proposal }

// ReadRequested asks for an index at which a read is linearizable.
type ReadRequested struct{ RequestID RequestID }

// TransferRequested asks the leader to transfer its leadership to To or, if To is empty, to the voter with the
// longest log.
type TransferRequested struct {
	RequestID RequestID
	To        NodeID
}

// ChangeRequested asks the leader to change the members. It is answered by AnswerAccepted and, once the change has ended,
// by a second answer; or by AnswerRefused, or by AnswerChanged alone if the change has no effect. An answer that says what the
// configuration is waits for a round of heartbeats, as a read does. In a new term the first
// answer may take as long as it takes to commit an entry. The core keeps the slices of Change until the last answer.
type ChangeRequested struct {
	RequestID RequestID
	IfIndex   Index // the configuration in force must be that of this entry; 0: whatever it is
	Change    Change
}

// PeerUp says that a connection to the peer is up, and what the peer's handshake said.
type PeerUp struct {
	ID            NodeID
	Incarnation   Incarnation
	StartCount    uint64
	Uninitialized bool
	Protocol      uint16 // the version that the connection speaks, see Hello
	// AppendBytesMax is how many bytes of entry records one append to the peer carries; 0: as many as any CoreConfig
	// allows. It is the smaller of Hello.AppendBytesMax and what this member's own transport carries.
	AppendBytesMax int
}

// PeerLost says that the connection to the peer broke. Refused says that the peer's host answered, but no process
// listens there.
type PeerLost struct {
	Peer    Peer
	Refused bool
}

// SendDropped says that an append for the span (After, Last] to the peer was not sent: its queue was full, the log has
// been truncated since, or the first entry of the span is too large for the peer.
type SendDropped struct {
	To   Peer
	Span Span
	// Oversized is the first entry of the span if an append to the peer cannot carry even this one alone; the leader then
	// brings the peer a snapshot that covers it. OversizedBytes is the size of its record. Zero: there was another reason.
	Oversized      EntryID
	OversizedBytes int
}

// SnapshotRequested asks for a snapshot of what is applied, and for a log that is as short as SnapshotTailBytes and
// SnapshotHoldBytes allow. It is answered once the snapshot is durable; if one covers all that is applied already, at once.
type SnapshotRequested struct{ RequestID RequestID }

// SnapshotTaken answers Keep.Take of the entry Take. The snapshot's bytes are complete and synced, in the file
// Snapshot.File. If the Take says Sync, the file is zero, the DurableFSM has synced, and Snapshot.ID is what its Applied
// returns: the last command at or before Take, or the entry of the snapshot that it was restored from. If the Take says
// Hold, Snapshot.Held is set.
type SnapshotTaken struct {
	Take     EntryID
	Snapshot Snapshot // zero if Err is not nil
	Err      error    // it only appears in the trace
}

// SnapshotArrived says that the stream of Keep.Receive is here as a whole: checked, and synced in the file
// Snapshot.File.
type SnapshotArrived struct {
	From     Peer
	Snapshot Snapshot
}

// SnapshotSending says how many bytes of an offered snapshot the peer has so far. The leader keeps as many bytes of its log
// for the peer (see Limits.SnapshotHoldBytes), which matters for a frozen state, because its size is not known. A loop
// reports it as often as it likes.
type SnapshotSending struct {
	To    Peer
	File  SnapshotID
	Bytes int64
}

// SnapshotSent says that the stream of an offered snapshot has ended: the peer has it as a whole or, if Err is not nil,
// the stream was given up. A frozen state ends with its stream.
type SnapshotSent struct {
	To   Peer
	File SnapshotID
	Err  error // it only appears in the trace
}

// Closing says that the node is about to stop: the core answers every open request and refuses new ones.
type Closing struct{}

// Span is the entries (After, Last].
type Span struct{ After, Last Index }

func (Received) event()          {}
func (Persisted) event()         {}
func (Applied) event()           {}
func (Applying) event()          {}
func (Proposed) event()          {}
func (ReadRequested) event()     {}
func (TransferRequested) event() {}
func (ChangeRequested) event()   {}
func (PeerUp) event()            {}
func (PeerLost) event()          {}
func (SendDropped) event()       {}
func (SnapshotRequested) event() {}
func (SnapshotTaken) event()     {}
func (SnapshotArrived) event()   {}
func (SnapshotSending) event()   {}
func (SnapshotSent) event()      {}
func (Closing) event()           {}
