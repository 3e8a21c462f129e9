package raft

import "time"

// Lane separates what may be large from what must not wait.
type Lane uint8

// The lanes; each is a connection of its own.
const (
	LaneUrgent Lane = 0 // heartbeats, votes, rounds, bootstrap
	LaneBulk   Lane = 1 // appends and their replies
)

func (l Lane) String() string {
	if l == LaneBulk {
		return "bulk"
	}
	return "urgent"
}

// Transport moves messages between members. Package transport has two: TCP and memory;
// transport/transporttest proves that another one keeps the contract. It may lose, double and
// reorder messages; it must not forge or damage them.
//
// The node owns the Transport once Start returned nil, and closes it.
type Transport interface {
	// Start begins to accept and to dial. It is called once.
	Start(e Handler) error
	// Connect says whom to dial from now on, in place of the ones before; it returns at once. The
	// transport redials them, with growing, jittered pauses, until they are no longer named.
	Connect(peers []Member)
	// Send hands the messages, in order, to the connection of that lane. It blocks no longer than
	// the transport's write deadline. Each peer and lane has one goroutine that calls it. An error
	// says that some or all of them did not leave.
	Send(to NodeID, lane Lane, batch []Message) error
	// AppendBytesMax is how many bytes of entry records one append message may carry here; 0: as many
	// as any Config allows. Start refuses a Config that may need more: such an append would be sent
	// again and again. It is asked before Start.
	AppendBytesMax() int
	// Peer says how the connection to a peer is.
	Peer(id NodeID) PeerStatus
	// Close closes every connection, waits for the transport's goroutines, and is idempotent. No
	// method of the Handler is called after it returned.
	Close() error
}

// PeerStatus is a transport's view of a peer.
type PeerStatus struct {
	Connected bool
	Err       error         // why it is not, or why it last broke; nil if it never was tried
	RoundTrip time.Duration // of the last handshake; 0 if none
}

// Handler is what a Transport talks to: the node. Its methods may be called from any goroutine, do
// not block, Check apart, and keep nothing of their arguments but the messages and the lineage.
type Handler interface {
	// Hello is what this member says of itself to that peer.
	Hello(to NodeID) Hello
	// Check decides about a peer by its Hello, on either side of a connection, before anything else of
	// that connection is taken. It may wait for the disk, for up to 1.5 s; it returns at once when the
	// node ends. A non-nil Rejection is sent to the peer, if this side accepted the connection, and the
	// connection is closed.
	Check(h Hello) *Rejection
	// Up says that both lanes to the peer stand.
	Up(h Hello)
	// Lost says that a connection to the peer broke, or could not be made; refused, that its host
	// answered and nobody listened.
	Lost(id NodeID, refused bool)
	// Rejected says that the peer refused this member.
	Rejected(by NodeID, r Rejection)
	// Receive takes messages that have arrived from that peer. It drops what it has no room for, and
	// what claims to be from somebody else.
	Receive(from NodeID, batch []Message)
}
