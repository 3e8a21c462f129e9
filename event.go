package raft

import "time"

// Time is a reading of a monotonic clock, in nanoseconds since a start that differs per process. Deadlines are Times.
type Time time.Duration

// Now is the time of a Step. No rule of Raft depends on Wall.
type Now struct {
	Mono Time  // above 0, which means "never", and never below that of the previous Step
	Wall int64 // nanoseconds since 1970, for the stamps of entries
}

// RequestID matches an Answer to its request. One Core gets each only once.
type RequestID uint64

// Seq numbers the writes of one Core from 1.
type Seq uint64

// Event is one of the event types of this package. docs/architecture.md says which of them a loop may leave out.
type Event interface{ event() }

// Received is a message. The loop has checked that Message.From.ID sent it.
type Received struct{ Message Message }

// Persisted says that all writes up to Seq are durable and their Then is sent.
type Persisted struct{ Seq Seq }

// Applied says that the FSM has applied the log up to ID.
type Applied struct{ ID EntryID }

// Applying says that the FSM got the batch up to ID at Since, and has not returned. A loop must report it before
// ApplyStallMax has passed. After that, the FSM counts as hanging until Applied covers ID.
type Applying struct {
	ID    EntryID
	Since Time
}

// Proposal is one EntryCommand, EntryNoop or EntrySession for the log. A literal one uses Data as it is; see NewProposal.
type Proposal struct {
	RequestID RequestID
	Term      Term // the leader appends it in this term alone, and refuses it in another one; 0: any
	Kind      EntryKind
	Data      []byte

	record []byte // the recordBuffer around Data, or nil
}

// NewProposal returns a proposal with a copy of data in the buffer of the entry's record: the only copy on the way to disk
// and network. Propose it only once, because the entry takes the buffer.
func NewProposal(requestID RequestID, kind EntryKind, data []byte) Proposal {
	record, within := recordBuffer(data)
	return Proposal{RequestID: requestID, Kind: kind, Data: within, record: record}
}

// Proposed carries proposals, which the leader appends in this order.
type Proposed struct{ Proposals []Proposal }

// ReadRequested asks for an index at which a read is linearizable.
type ReadRequested struct{ RequestID RequestID }

// TransferRequested asks the leader to transfer its leadership. The leader accepts no proposals meanwhile, and first waits
// until it has applied those that it has accepted, so that the outcome of none is unknown.
type TransferRequested struct {
	RequestID RequestID
	Term      Term   // as in Proposal
	To        NodeID // "": the voter with the longest log
	Urgent    bool   // this member can apply nothing more: do not wait for the proposals, and To does not rule out takeovers
	Leaving   bool   // this member is about to end: if the proposals are not applied in time, wait no longer for them
}

// ChangeRequested asks the leader to change the members. It is answered by AnswerRefused, by AnswerChanged alone if it has no
// effect, or by AnswerAccepted and a second answer when the change ends. An answer about the present configuration waits for
// a round of heartbeats, like a read. In a new term, the first answer waits for a committed entry. The core keeps the slices
// of Change until the last answer.
type ChangeRequested struct {
	RequestID RequestID
	Term      Term  // as in Proposal
	IfIndex   Index // refuse unless the configuration in force is that of this entry; 0: any
	Change    Change
}

// PeerUp says that the peer is connected, and what its handshake said.
type PeerUp struct {
	ID             NodeID
	Incarnation    Incarnation
	StartCount     uint64
	Uninitialized  bool
	Protocol       uint16 // of the connection, see Hello
	AppendBytesMax int    // of the records in one append, the lower of both sides' limits; 0: any CoreConfig's
}

// PeerLost says that the connection to the peer broke, or that a dial failed.
type PeerLost struct {
	Peer    Peer
	Refused bool // news that its process has ended, see Handler.Lost: what it sent before precedes this event
}

// SendDropped says that an append for the span was not sent. The queue was full, the log was truncated, or its first entry is
// too large for the peer.
type SendDropped struct {
	To             Peer
	Span           Span
	Oversized      EntryID // the first entry, if no append carries it: the peer needs a snapshot that covers it; zero: another reason
	OversizedBytes int     // of that entry's record
}

// SnapshotRequested asks for a snapshot of what is applied, and for a log as short as the Limits allow. It is answered once
// a snapshot that covers everything applied is durable.
type SnapshotRequested struct{ RequestID RequestID }

// SnapshotTaken answers the Take of an entry. Snapshot is zero with Err. After Take.Sync, its File is zero, and its ID is what
// DurableFSM.Applied returns: the last command at or before Take, or the restored entry.
type SnapshotTaken struct {
	Take     EntryID
	Snapshot Snapshot // its file complete and synced; Held after Take.Hold
	Err      error    // only appears in the trace
}

// SnapshotArrived says that a stream is complete, checked and synced.
type SnapshotArrived struct {
	From     Peer
	Snapshot Snapshot
}

// SnapshotSending says how many Bytes of an offered snapshot the peer has. The leader keeps as many of its log, which matters
// if a frozen state's size is unknown.
type SnapshotSending struct {
	To    Peer
	File  SnapshotID
	Bytes int64
}

// SnapshotSent says that an offered stream, with its frozen state, has ended.
type SnapshotSent struct {
	To   Peer
	File SnapshotID
	Err  error // why it was given up, for the trace; nil: the peer has all of it
}

// LimitsChanged puts other limits in force in place of CoreConfig.Limits, see Limits. A limit of zero means its default. The
// limits must be ones that CoreConfig.Validate accepts.
type LimitsChanged struct{ Limits Limits }

// InitialGiven gives a running member its list of initial members. From this event on, the member behaves as if it had been
// started with the list as CoreConfig.Initial, whose rules apply; CoreConfig.NewCluster is required. The event has no effect
// if the member belongs to a cluster, or has a list already. Status().Config is the list in force.
type InitialGiven struct{ Initial Configuration }

// Heard tells a member that belongs to no cluster, and holds no entry 1 of one, that a cluster of its name exists. Until the core
// ends, it bootstraps no cluster and tells every bootstrapper so: it sends no probe, counts no answer to an earlier one, and
// answers no probe as uninitialized. It still takes entry 1, because an answer may be under way, and it still joins a cluster.
// Nothing of it is stored. The event has no effect on any other member. See docs/decisions/0045.
type Heard struct {
	Cluster ClusterID // zero: not known
	From    NodeID    // the member that told it; required
}

// Closing: the core answers every open request, and refuses later ones.
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
func (LimitsChanged) event()     {}
func (InitialGiven) event()      {}
func (Heard) event()             {}
func (Closing) event()           {}
