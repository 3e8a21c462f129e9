package raft

import (
	"fmt"
	"time"
)

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
	case LaneUrgent:
		return "urgent"
	case LaneBulk:
		return "bulk"
	case LaneSnapshot:
		return "snapshot"
	}
	return fmt.Sprintf("lane %d", uint8(l))
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
	// dials them again and again, with growing, jittered pauses, until they are no longer named. Two contacts with one
	// id and different incarnations are two peers, with a connection each. If a contact names the incarnation to which
	// an open contact of its id is connected, it takes over that connection, which does not break.
	Connect(contacts []Contact)
	// Disconnect closes the connections that the peer has dialed, and no others. The peer may dial again, and Check
	// decides about it anew. It returns at once.
	Disconnect(p Peer)
	// Send hands the messages, in order, to the connection of that lane to that peer, or, if no contact names its
	// incarnation, to that of an open contact which is connected to it. With incarnation 0, it is the connection of the
	// open contact, whoever answered. Never is it a connection to another incarnation. Send blocks no longer than
	// the transport's write deadline. For each Peer and lane, one goroutine calls it. An error says that some or
	// all of the messages did not leave.
	Send(to Peer, lane Lane, batch []Message) error
	// AppendBytesMax returns how many bytes of entry records one append message may carry, in both directions; 0: as many
	// as any Config allows. node.Start calls it before Start, and refuses a Config that may need more, because such an
	// append would fail again and again. The node says it in its Hello, and sends no peer more than the peer has said.
	AppendBytesMax() int
	// Peer returns the state of the connection on which Send would send to that peer.
	Peer(p Peer) PeerStatus
	// Close closes every connection and waits for the transport's goroutines. It is idempotent. No method of the
	// Handler is called after it has returned.
	Close() error
}

// Contact is a peer that a Transport dials. If Incarnation is 0, the contact is open: whoever answers under the id is the
// peer. That is for a peer whose incarnation is not known yet: before the bootstrap, or while it is being added. Do not
// name one process by an open contact and by one with its incarnation at the same time: their connections would replace
// each other.
type Contact struct {
	Member
	// Addresses are where to dial the peer, "host:port", tried one after the other in this order. One that has worked is
	// tried first until Connect names another one at the front. Member.Address is not dialed unless it is among them.
	Addresses []string
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
	Address   string        // of the connection, or where the peer was dialed last; "" if it never was
	Err       error         // why it is not connected, or why the last connection broke; nil if none was tried
	RoundTrip time.Duration // of the last handshake; 0 if none
}

// Handler receives what a Transport reports; the node implements it. Its methods may be called from any goroutine.
//
// Calls of Up, Lost and Rejected about one contact come one after the other, in the order in which things happened: between
// two calls of Up for a contact comes a Lost for the first of them, also if an open contact is answered by another
// incarnation the second time. Calls about different contacts come in any order, and at the same time. So when Connect
// names another incarnation of an id instead of the one that is connected, Up of the new one may come before Lost of
// the former: a Handler tells them apart by the incarnation.
//
// They do not block, except Check, and of their arguments they keep only the messages and the lineage. Of a SnapshotChunk
// they keep no bytes: a transport may reuse them.
type Handler interface {
	// Hello returns what this member says first on a connection to that peer; its incarnation is 0 if it is not known.
	Hello(to Peer) Hello
	// Check decides about a peer by its Hello. Both sides of a connection call it before they accept anything else
	// on that connection. It may wait for the disk, for up to 1.5 s; it returns at once when the node ends. If the
	// Rejection is not nil, the connection is closed; a side that has accepted it sends the Rejection first.
	Check(h Hello) *Rejection
	// Up reports that the urgent and the bulk lane to the peer are connected.
	Up(h Hello)
	// Accepted reports that this member has accepted a connection that the peer dialed: its messages may follow. It may
	// be called for each of several connections to the peer, or only for the first.
	Accepted(h Hello)
	// Lost reports that a connection to the peer broke, or could not be made at any of its addresses. refused says that
	// its host, or each of them, answered, but no process listens there. If the incarnation is 0, an open contact was
	// dialed in vain; a connection breaks under the incarnation that Up reported.
	Lost(p Peer, refused bool)
	// Rejected reports that the dialed peer has rejected this member; by is the contact, so its incarnation may be 0.
	Rejected(by Peer, r Rejection)
	// Receive takes messages that have arrived from that peer. It drops messages for which it has no room, and
	// messages that name another sender.
	Receive(from Peer, batch []Message)
}
