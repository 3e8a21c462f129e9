package forward

import "github.com/coxswain/raft"

// PeersMax bounds the incarnations of senders that a Receiver remembers for its whole life, in number. Peers that are no
// members take half of the places at most. A peer without a place gets no answer.
const PeersMax = 16 * raft.MembersMax

// Receiver decides about the requests that arrive at one start of a member. It lives as long as that start, whatever its
// role and its term.
type Receiver struct {
	self       raft.Peer
	startCount uint64
	limits     Limits
	peers      map[raft.Peer]*from
}

// Limits bound what one sender may have open at a receiver.
type Limits struct {
	Requests int // in number
	Bytes    int // of Data: one more request is taken below it, whatever its size
}

// from is what a receiver remembers of one incarnation of a sender.
type from struct {
	startCount uint64 // the latest
	counter    uint64 // the highest that was seen from that start
	open       int    // requests that are being carried out, of any start
	bytes      int    // of their Data
}

// State is what the receiver's member knows when a request arrives.
type State struct {
	Term            raft.Term          // in which this member leads; 0: it does not lead
	Transferring    bool               // this leader is transferring its leadership, or the node is ending
	Committed       raft.Configuration // the newest configuration that is known to be committed; zero: none is yet
	InForce         raft.Configuration // the newest configuration, committed or not
	NoForward       bool               // this member takes no requests of others
	NoRemoteChanges bool               // this member takes no changes of others, only proposals
}

// Verdict is the decision about a request.
type Verdict uint8

const (
	Silent       Verdict = iota // no answer: the message is not for this start, or its counter was seen before
	CarryOut                    // carry it out in the term of the message, send its outcome, and call Finish
	NotLeader                   // not applied: this member does not lead, or not in the term of the message
	Pending                     // not applied: the configuration that names the sender is not known to be committed yet
	Transferring                // not applied: this leader is transferring its leadership
	Late                        // not applied: the caller's deadline has passed
	Off                         // refused: this member takes no requests of others
	Stranger                    // refused: no configuration of this leader names the sender
	NoChanges                   // refused: this member takes no changes of others
	Overloaded                  // refused: the sender has too much open
	Malformed                   // refused: this release does not know what the request asks for
)

// Outcome returns the outcome to send for a verdict other than Silent and CarryOut.
func (v Verdict) Outcome() raft.ForwardOutcome {
	switch v {
	case NotLeader, Pending, Transferring, Late:
		return raft.ForwardNotApplied
	case Off, Stranger, NoChanges, Overloaded, Malformed:
		return raft.ForwardRefused
	}
	return raft.ForwardUnknown
}

// NewReceiver returns the receiver of a member's present start.
func NewReceiver(self raft.Peer, startCount uint64, limits Limits) *Receiver {
	return &Receiver{self: self, startCount: startCount, limits: limits, peers: make(map[raft.Peer]*from)}
}

// Receive decides about a request. It records the counter before it decides anything else, so that no second message with
// that counter is ever answered. The caller has checked that Message.From sent it.
func (r *Receiver) Receive(m raft.Message, f raft.Forward, now State) Verdict {
	if m.To != r.self || f.ToStart != r.startCount {
		return Silent
	}
	_, member := now.Committed.Peer(m.From)
	p := r.peer(m.From, member)
	if p == nil || !p.raise(f.StartCount, f.Counter) {
		return Silent
	}
	switch {
	case now.NoForward:
		return Off
	case now.Term == 0 || m.Term != now.Term:
		return NotLeader
	case !member:
		if _, named := now.InForce.Peer(m.From); named {
			return Pending
		}
		return Stranger
	case f.Kind < raft.ForwardPropose || f.Kind > raft.ForwardSession:
		return Malformed
	case now.NoRemoteChanges && (f.Kind == raft.ForwardChange || f.Kind == raft.ForwardTransfer):
		return NoChanges
	case now.Transferring:
		return Transferring
	case f.Left < 0:
		return Late
	case p.open >= r.limits.Requests || p.bytes >= r.limits.Bytes:
		return Overloaded
	}
	p.open++
	p.bytes += len(f.Data)
	return CarryOut
}

// Finish ends a request that was carried out, whatever its outcome. It makes room for another one of the sender.
func (r *Receiver) Finish(m raft.Message, f raft.Forward) {
	p := r.peers[m.From]
	p.open--
	p.bytes -= len(f.Data)
}

// Open returns the number of a peer's requests that are being carried out.
func (r *Receiver) Open(p raft.Peer) int {
	if known := r.peers[p]; known != nil {
		return known.open
	}
	return 0
}

// peer returns what is remembered of a sender. It returns nil if there is no place for a sender that is not known yet.
func (r *Receiver) peer(p raft.Peer, member bool) *from {
	known := r.peers[p]
	if known == nil && (len(r.peers) < PeersMax/2 || member && len(r.peers) < PeersMax) {
		known = &from{}
		r.peers[p] = known
	}
	return known
}

// raise records a counter. It reports false if the counter, or a higher one, was seen before, or if a later start of the
// sender was: an earlier one has ended, and nobody waits for its answers.
func (p *from) raise(startCount, counter uint64) bool {
	if startCount < p.startCount || startCount == p.startCount && counter <= p.counter {
		return false
	}
	p.startCount, p.counter = startCount, counter
	return true
}

// Answer returns the message that answers a request.
func (r *Receiver) Answer(m raft.Message, f raft.Forward, term raft.Term, reply raft.ForwardReply) raft.Message {
	reply.StartCount, reply.Counter = f.StartCount, f.Counter
	return raft.Message{From: r.self, To: m.From, Cluster: m.Cluster, Term: term, Body: reply}
}
