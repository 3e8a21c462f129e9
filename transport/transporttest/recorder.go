package transporttest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft"
)

// patience bounds every wait. It is long, so that a test fails only if the event never happens.
const patience = time.Minute

// resendAfter is how long a test waits before it resends a message that may have been lost.
const resendAfter = 100 * time.Millisecond

// EventKind names a method of the Handler. The event is a call of that method.
type EventKind string

// The kinds of events.
const (
	EventUp       EventKind = "up"
	EventAccepted EventKind = "accepted"
	EventLost     EventKind = "lost"
	EventRejected EventKind = "rejected"
	EventReceived EventKind = "received"
	EventChecked  EventKind = "checked"

	EventForwardLost EventKind = "forward lost"
)

// Event is one call of a Recorder's method.
type Event struct {
	Kind      EventKind
	Peer      raft.Peer      // its incarnation may be 0 in EventLost and EventRejected
	Hello     raft.Hello     // EventUp, EventAccepted, EventChecked
	Refused   bool           // EventLost
	Rejection raft.Rejection // EventRejected
	Message   raft.Message   // EventReceived, one event each
}

// Recorder is a raft.ForwardHandler and a raft.WhoHandler that records its calls. Like a node, it checks three parts of a peer's Hello: the cluster name, and
// the member id and incarnation that the peer expects.
type Recorder struct {
	// Self is the hello that Hello returns. Hello also fills in Expected. Set Self before Start.
	Self raft.Hello
	// Open makes Hello leave the incarnation of every peer open. A node does this before its cluster has a term.
	Open bool
	// Judge, if not nil, replaces the rules of Check.
	Judge func(h raft.Hello) *raft.Rejection
	// Held blocks Receive until the test closes this channel, like a stuck node. Receive blocks for batches with a message
	// that Holds accepts. If Holds is nil, Receive blocks for all batches. Nil: Receive does not block.
	Held  chan struct{}
	Holds func(m raft.Message) bool
	// Answer, if not nil, answers Who. Otherwise the answer says what Self says.
	Answer func(ctx context.Context, q raft.Who) (raft.WhoReply, error)

	mu      sync.Mutex
	events  []Event
	changed chan struct{} // capacity 1
}

// NewRecorder returns the Handler of a member of the cluster "test" with incarnation 1 and start 1.
func NewRecorder(id raft.NodeID) *Recorder {
	return &Recorder{
		Self: raft.Hello{
			ClusterName: "test", From: raft.Peer{ID: id, Incarnation: 1}, StartCount: 1, Lineage: raft.Lineage{{Count: 1, Nonce: 1}},
			Address: string(id) + ":1", ElectionTimeout: 150 * time.Millisecond,
		},
		changed: make(chan struct{}, 1),
	}
}

// Hello implements raft.Handler.
func (r *Recorder) Hello(to raft.Peer) raft.Hello {
	h := r.Self
	h.Expected = to
	if r.Open {
		h.Expected.Incarnation = 0
	}
	return h
}

// Check implements raft.Handler.
func (r *Recorder) Check(h raft.Hello) *raft.Rejection {
	r.record(Event{Kind: EventChecked, Peer: h.From, Hello: h})
	if r.Judge != nil {
		return r.Judge(h)
	}
	self := r.Self.From
	switch {
	case h.ClusterName != r.Self.ClusterName:
		return &raft.Rejection{Reason: raft.RejectClusterName, From: self}
	case h.Expected.ID != self.ID:
		return &raft.Rejection{Reason: raft.RejectWrongID, From: self}
	case h.Expected.Incarnation != 0 && h.Expected.Incarnation != self.Incarnation:
		return &raft.Rejection{Reason: raft.RejectWrongIncarnation, From: self}
	}
	return nil
}

// Up implements raft.Handler.
func (r *Recorder) Up(h raft.Hello) { r.record(Event{Kind: EventUp, Peer: h.From, Hello: h}) }

// Accepted implements raft.Handler.
func (r *Recorder) Accepted(h raft.Hello) {
	r.record(Event{Kind: EventAccepted, Peer: h.From, Hello: h})
}

// Lost implements raft.Handler.
func (r *Recorder) Lost(p raft.Peer, refused bool) {
	r.record(Event{Kind: EventLost, Peer: p, Refused: refused})
}

// ForwardLost implements raft.ForwardHandler.
func (r *Recorder) ForwardLost(p raft.Peer) { r.record(Event{Kind: EventForwardLost, Peer: p}) }

// Rejected implements raft.Handler.
func (r *Recorder) Rejected(by raft.Peer, rejection raft.Rejection) {
	r.record(Event{Kind: EventRejected, Peer: by, Rejection: rejection})
}

// Who implements raft.WhoHandler.
func (r *Recorder) Who(ctx context.Context, q raft.Who) (raft.WhoReply, error) {
	if r.Answer != nil {
		return r.Answer(ctx, q)
	}
	s := r.Self
	return raft.WhoReply{
		From: s.From, ClusterName: s.ClusterName, Cluster: s.Cluster, Term: s.Term, Bootstrapper: s.Bootstrapper, Address: s.Address,
	}, nil
}

// Receive implements raft.Handler.
func (r *Recorder) Receive(from raft.Peer, batch []raft.Message) {
	if r.Held != nil && (r.Holds == nil || slices.ContainsFunc(batch, r.Holds)) {
		<-r.Held
	}
	for _, m := range batch {
		if c, ok := m.Body.(raft.SnapshotChunk); ok { // a transport may reuse its bytes
			c.Data = slices.Clone(c.Data)
			m.Body = c
		}
		r.record(Event{Kind: EventReceived, Peer: from, Message: m})
	}
}

func (r *Recorder) record(e Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Count returns how many events are recorded. It does not count the events that Await has returned or dropped.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Await returns the next event that the condition accepts, and drops the events before it. Only one goroutine
// at a time may wait.
func (r *Recorder) Await(t *testing.T, what string, accept func(Event) bool) Event {
	t.Helper()
	e, ok := r.await(patience, accept)
	if !ok {
		t.Fatalf("%s: %s did not happen within %v", r.Self.From.ID, what, patience)
	}
	return e
}

func (r *Recorder) await(wait time.Duration, accept func(Event) bool) (Event, bool) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		if e, ok := r.take(accept); ok {
			return e, true
		}
		select {
		case <-r.changed:
		case <-deadline.C:
			return Event{}, false
		}
	}
}

func (r *Recorder) take(accept func(Event) bool) (Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.events {
		if accept(e) {
			r.events = r.events[i+1:]
			return e, true
		}
	}
	return Event{}, false
}

// AwaitUp waits for a call of Up for any incarnation of the peer.
func (r *Recorder) AwaitUp(t *testing.T, peer raft.NodeID) Event {
	t.Helper()
	return r.Await(t, "up of "+string(peer), func(e Event) bool { return e.Kind == EventUp && e.Peer.ID == peer })
}

// AwaitLost waits for a call of Lost for any incarnation of the peer with that value of refused.
func (r *Recorder) AwaitLost(t *testing.T, peer raft.NodeID, refused bool) Event {
	t.Helper()
	return r.Await(t, "loss of "+string(peer), func(e Event) bool {
		return e.Kind == EventLost && e.Peer.ID == peer && e.Refused == refused
	})
}

// AwaitRejected waits for a call of Rejected by any incarnation of the peer.
func (r *Recorder) AwaitRejected(t *testing.T, peer raft.NodeID) Event {
	t.Helper()
	return r.Await(t, "rejection by "+string(peer), func(e Event) bool {
		return e.Kind == EventRejected && e.Peer.ID == peer
	})
}

// AwaitMessages waits for count messages and returns them in the order in which they arrived.
func (r *Recorder) AwaitMessages(t *testing.T, count int) []raft.Message {
	t.Helper()
	messages := make([]raft.Message, 0, count)
	for len(messages) < count {
		e := r.Await(t, "a message", func(e Event) bool { return e.Kind == EventReceived })
		messages = append(messages, e.Message)
	}
	return messages
}

// Discard drops the events that the condition accepts.
func (r *Recorder) Discard(accept func(Event) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = slices.DeleteFunc(r.events, accept)
}
