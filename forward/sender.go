package forward

import (
	"slices"

	"github.com/coxswain/raft"
)

// Sender numbers the requests of one start of a member, and keeps those that have no answer yet. Call Send just before the
// message leaves, in the order of the lane, and pass each message to one connection only: to the connection that is open, or
// to none.
type Sender struct {
	self       raft.Peer
	startCount uint64
	counter    uint64 // of the last request
	open       []sent // in the order of their counters
}

// sent is a request that has left.
type sent struct {
	counter uint64
	to      raft.Peer
}

// NewSender returns the sender of a member's present start.
func NewSender(self raft.Peer, startCount uint64) *Sender {
	return &Sender{self: self, startCount: startCount}
}

// Send returns the message for a request, with a counter of its own. deadline is the caller's; 0: it has none. ok is false
// once the deadline has passed: then nothing may leave, and nothing was carried out.
func (s *Sender) Send(now raft.Time, to Target, kind raft.ForwardKind, data []byte, deadline raft.Time) (m raft.Message, ok bool) {
	if deadline != 0 && deadline <= now {
		return raft.Message{}, false
	}
	f := raft.Forward{StartCount: s.startCount, Counter: s.counter + 1, ToStart: to.StartCount, Kind: kind, Data: data}
	if deadline != 0 {
		f.Left = deadline - now
	}
	s.counter++
	s.open = append(s.open, sent{s.counter, to.Peer})
	return raft.Message{From: s.self, To: to.Peer, Term: to.Term, Body: f}, true
}

// Answered takes an answer, and says what follows for the request with the counter of the answer. Only the receiver of a
// request answers it, and only once. Two members use the same counters, so an answer to another one is ignored.
func (s *Sender) Answered(m raft.Message, r raft.ForwardReply) Next {
	i, open := s.find(r.Counter)
	if !open || m.To != s.self || r.StartCount != s.startCount || s.open[i].to != m.From {
		return Ignore
	}
	s.open = slices.Delete(s.open, i, i+1)
	return next(r.Outcome)
}

// Lost returns the open requests to a peer, whose outcome is unknown from now on. Call it when the connection on which they
// left, or on which the answers come, has ended, and when another start of the peer is connected.
func (s *Sender) Lost(to raft.Peer) (unknown []uint64) {
	s.open = slices.DeleteFunc(s.open, func(one sent) bool {
		if one.to == to {
			unknown = append(unknown, one.counter)
		}
		return one.to == to
	})
	return unknown
}

// Forget drops a request whose caller waits no longer, or that did not leave. A later answer is ignored.
func (s *Sender) Forget(counter uint64) {
	if i, open := s.find(counter); open {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// Open returns the number of requests that have left and have no answer.
func (s *Sender) Open() int { return len(s.open) }

func (s *Sender) find(counter uint64) (int, bool) {
	return slices.BinarySearchFunc(s.open, counter, func(one sent, c uint64) int {
		switch {
		case one.counter < c:
			return -1
		case one.counter > c:
			return 1
		}
		return 0
	})
}
