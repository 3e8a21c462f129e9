package raft

import "time"

// Lane separates messages that may be large from messages that must not wait.
type Lane uint8

// The lanes. Each is a separate connection.
const (
	LaneUrgent Lane = 0 // heartbeats, votes, rounds, bootstrap
	LaneBulk   Lane = 1 // appends and their replies, offers of snapshots and the progress of their streams
	// LaneSnapshot carries the bytes of snapshots. Only a SnapshotCarrier has it.
	LaneSnapshot Lane = 2
)

func (l Lane) String() string {
	switch l {
	case LaneBulk:
		return "bulk"
	case LaneSnapshot:
		return "snapshot"
	}
	return "urgent"
}

// Transport moves messages between members. Package transport has two, TCP and memory; package
// transport/transporttest tests whether another one keeps the contract. A Transport may lose, duplicate and
// reorder messages; it must not forge or damage them.
//
// The node owns the Transport once node.Start has returned nil, and closes it.
type Transport interface {
	// Start begins to accept and to dial. It is called once.
	Start(e Handler) error
	// Connect names the peers to dial from now on, instead of those named before. It returns at once. The transport
	// dials them again and again, with growing, jittered pauses, until they are no longer named.
	Connect(peers []Member)
	// Send hands the messages, in order, to the connection of that lane. It blocks no longer than
	// the transport's write deadline. For each peer and lane, one goroutine calls it. An error says that some or
	// all of the messages did not leave.
	Send(to NodeID, lane Lane, batch []Message) error
	// AppendBytesMax returns how many bytes of entry records one append message may carry; 0: as many as any Config
	// allows. node.Start calls it before Start, and refuses a Config that may need more, because such an append
	// would fail again and again.
	AppendBytesMax() int
	// Peer returns the state of the connection to a peer.
	Peer(id NodeID) PeerStatus
	// Close closes every connection and waits for the transport's goroutines. It is idempotent. No method of the
	// Handler is called after it has returned.
	Close() error
}

// SnapshotCarrier is a Transport with a lane of its own for the bytes of snapshots, so that a transfer delays no append.
// The lane need not be connected before something is sent on it, and its end is not reported to the Handler: other
// messages go on. Send may dial it, and keeps no bytes of a chunk once it has returned: its caller reuses them. Without
// this interface, chunks of at most 64 KiB travel on LaneBulk. A type that wraps a Transport must pass the method on.
type SnapshotCarrier interface {
	Transport
	// ChunkBytesMax returns how many bytes of a snapshot one message may carry; 0: the transport has no such lane.
	ChunkBytesMax() int
}

// PeerStatus is a transport's view of a peer.
type PeerStatus struct {
	Connected bool
	Err       error         // why it is not connected, or why the last connection broke; nil if none was tried
	RoundTrip time.Duration // of the last handshake; 0 if none
}

// Handler receives what a Transport reports; the node implements it. Its methods may be called from any goroutine.
// They do not block, except Check, and of their arguments they keep only the messages and the lineage. Of a SnapshotChunk
// they keep no bytes: a transport may reuse them.
type Handler interface {
	// Hello returns what this member says first on a connection to that peer.
	Hello(to NodeID) Hello
	// Check decides about a peer by its Hello. Both sides of a connection call it before they accept anything else
	// on that connection. It may wait for the disk, for up to 1.5 s; it returns at once when the node ends. If the
	// Rejection is not nil, the connection is closed; a side that has accepted it sends the Rejection first.
	Check(h Hello) *Rejection
	// Up reports that the urgent and the bulk lane to the peer are connected.
	Up(h Hello)
	// Lost reports that a connection to the peer broke, or could not be made. refused says that the peer's host
	// answered, but no process listens there.
	Lost(id NodeID, refused bool)
	// Rejected reports that the peer has rejected this member.
	Rejected(by NodeID, r Rejection)
	// Receive takes messages that have arrived from that peer. It drops messages for which it has no room, and
	// messages that name another sender.
	Receive(from NodeID, batch []Message)
}
