package raft

import (
	"errors"
	"fmt"
	"time"
)

// Lane separates messages that may be large from urgent ones, by connections.
type Lane uint8

const (
	LaneUrgent   Lane = 0 // heartbeats, votes, rounds, bootstrap
	LaneBulk     Lane = 1 // appends and their replies, offers of snapshots and the progress of their streams
	LaneSnapshot Lane = 2 // the bytes of snapshots, on a SnapshotCarrier only
	LaneForward  Lane = 3 // callers' requests to the leader and the answers, on a ForwardCarrier only
)

func (l Lane) String() string {
	switch l {
	case LaneUrgent:
		return "urgent"
	case LaneBulk:
		return "bulk"
	case LaneSnapshot:
		return "snapshot"
	case LaneForward:
		return "forward"
	}
	return fmt.Sprintf("lane %d", uint8(l))
}

// Transport moves messages between members. Package transport has two, TCP and memory; transport/transporttest tests another
// one's contract. It may lose, duplicate and reorder messages, but must not forge or damage them.
//
// The node owns the Transport once node.Start has returned nil, and closes it. Connect and Disconnect return at once.
type Transport interface {
	// Start begins to accept and to dial. It is called once.
	Start(e Handler) error
	// Connect replaces the list of peers, which are dialed repeatedly, with growing, jittered pauses. Two incarnations of one id
	// are two peers, with a connection each. A contact that names the incarnation to which an open contact of its id is
	// connected takes over that connection, which does not break.
	Connect(contacts []Contact)
	// Disconnect closes only connections that the peer has dialed. The peer may dial again, and Check decides anew.
	Disconnect(p Peer)
	// Send sends the messages, in order, on that lane to that peer. If no contact names its incarnation, the open contact
	// connected to it gets them, but never another incarnation. Incarnation 0 means any answerer of the open contact. It
	// blocks for at most the transport's write deadline. One goroutine per Peer and lane calls it. An error says that some or
	// all of the messages did not leave; none did if it matches ErrNotSent.
	Send(to Peer, lane Lane, batch []Message) error
	// AppendBytesMax returns how many bytes of records one append carries in either direction; 0: any Config's. node.Start
	// calls it before Start, and refuses a Config that needs more. The node says it in its Hello, and heeds the peer's.
	AppendBytesMax() int
	// Peer returns the state of the connection on which Send would send to that peer.
	Peer(p Peer) PeerStatus
	// Close closes every connection and waits for its goroutines: no later call of the Handler. It is idempotent.
	Close() error
}

// ErrNotSent is matched by an error of Transport.Send after which no byte of the messages has left. So nothing that they ask
// for can happen.
var ErrNotSent = errors.New("raft: nothing was sent")

// Contact is a peer to dial. Incarnation 0 makes it open, for a peer whose incarnation is not known yet, before the bootstrap
// or while it is added: any incarnation that answers is the peer. Do not name one process both by an open contact and by one
// with its incarnation: their connections would replace each other.
type Contact struct {
	Member
	Addresses []string // "host:port" to dial, in order; one that has worked comes first until Connect puts another in front
}

// SnapshotCarrier is a Transport with a separate lane for snapshots, so that they delay no append; without it, chunks of up
// to 64 KiB use LaneBulk. Send may dial the lane, and its end is not reported to the Handler. Send must not keep a chunk's
// bytes, because the caller reuses them. A wrapper must forward the method.
type SnapshotCarrier interface {
	Transport
	// ChunkBytesMax returns how many bytes of a snapshot one message may carry; 0 without a lane for snapshots.
	ChunkBytesMax() int
}

// ForwardCarrier is a Transport with a separate lane for Forwards and ForwardReplies, so that they delay no message of the
// consensus. Send may dial the lane. If it returns an error, some or all of the messages did not leave, as on the other
// lanes; an error that matches transport.ErrVersion says that the peer's release does not know the lane. If the lane breaks
// later, a ForwardHandler hears of it. A wrapper must forward the method.
type ForwardCarrier interface {
	Transport
	// ForwardBytesMax returns how many bytes of Data one Forward or ForwardReply may carry; 0 without a lane for them. A peer
	// may accept less: Send then returns an error and leaves the message out.
	ForwardBytesMax() int
}

// PeerStatus is a transport's view of a peer.
type PeerStatus struct {
	Connected bool
	Address   string        // of the connection, or where the peer was dialed last; "": never
	Err       error         // why it is not connected, or why the last connection broke; nil: none was tried
	RoundTrip time.Duration // of the last handshake; 0: none
	// RefusedFor is the time between the first and the last of the dials that each of the known addresses has refused, because
	// nobody listens there, with no other dial between them. Time in which this side did not dial, because its process was
	// paused, does not count: after a gap of more than 1.5 s it begins again. 0: the last dial was not refused, or is longer ago.
	RefusedFor time.Duration
}

// Handler receives what a Transport reports; the node implements it. Any goroutine may call it. Only Check may block. A
// Handler keeps only the messages and the lineage of its arguments, and no bytes of a SnapshotChunk, which a transport may
// reuse.
//
// Up, Lost and Rejected for one contact come in order. Between two Ups, even of different incarnations behind an open
// contact, comes a Lost of the first. Calls for different contacts may come in any order, and at the same time. When Connect
// replaces an incarnation, the new one's Up may precede the former one's Lost.
type Handler interface {
	// Hello returns what this member says first to that peer. If the peer's incarnation is unknown, it is 0.
	Hello(to Peer) Hello
	// Check decides about a peer before either side accepts anything else on the connection. It may wait for the disk, for
	// up to 1.5 s, but not once the node ends. After a Rejection the connection is closed; the accepting side sends it first.
	Check(h Hello) *Rejection
	// Up reports that the urgent and the bulk lane to the peer are connected.
	Up(h Hello)
	// Accepted reports a connection that the peer dialed, before its messages. Further connections may be reported too.
	Accepted(h Hello)
	// Lost reports that a connection broke, under the incarnation of Up. Or no address could be dialed, with incarnation 0
	// for an open contact. refused is news that the peer's process has ended. It follows the Lost of a connection that this
	// side did not close, at most once: each address refused the next dial, and no connection from that incarnation is open.
	// All that the peer sent was passed to Receive before; only a connection opened after the news brings more.
	Lost(p Peer, refused bool)
	// Rejected reports that the dialed peer has rejected this member. by is the contact: its incarnation may be 0.
	Rejected(by Peer, r Rejection)
	// Receive takes messages from that peer. It drops messages for which it has no room, or with another sender.
	Receive(from Peer, batch []Message)
}

// ForwardHandler is a Handler that hears of broken forward lanes. A ForwardCarrier calls ForwardLost if its Handler has it.
type ForwardHandler interface {
	Handler
	// ForwardLost reports that a forward lane broke, in either direction: Forwards that Send took for that peer, or
	// ForwardReplies that the peer's Send took, may be lost. All that arrived was passed to Receive before. A lane that is
	// closed because it was idle loses nothing and is not reported. The pair may stay connected. If it breaks, too, Lost and
	// ForwardLost come in any order.
	ForwardLost(p Peer)
}
