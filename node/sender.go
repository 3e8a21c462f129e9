package node

import (
	"errors"
	"sync"

	"github.com/coxswain/raft"
)

const (
	// sendBatchMax bounds the messages of one Transport.Send.
	sendBatchMax = 256
	// sendersMax bounds the peers that are talked to at once: the members of a configuration and as
	// many that are on their way in or out.
	sendersMax = 2 * raft.MembersMax
)

// senders is one sender for each peer and lane. A peer that no configuration names yet may already be
// a voter, so that its messages are answered, too: its senders begin with the first message to it.
type senders struct {
	node *Node

	mu    sync.Mutex
	peers map[raft.NodeID]*[2]*sender
	ended bool
}

func newSenders(n *Node) *senders {
	return &senders{node: n, peers: make(map[raft.NodeID]*[2]*sender)}
}

// send queues the messages. It is called by the loop and by the writer, and never blocks.
func (s *senders) send(messages []raft.Message) {
	if len(messages) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		to := s.sender(m.To.ID, laneOf(m))
		if to == nil || !to.enqueue(m) {
			s.node.dropped(m, &s.node.counters.droppedQueueFull)
		}
	}
}

func laneOf(m raft.Message) raft.Lane {
	if m.Bulk() {
		return raft.LaneBulk
	}
	return raft.LaneUrgent
}

func (s *senders) sender(to raft.NodeID, lane raft.Lane) *sender {
	if s.ended {
		return nil
	}
	both := s.peers[to]
	if both == nil {
		if len(s.peers) >= sendersMax {
			return nil
		}
		both = &[2]*sender{}
		for l := range both {
			both[l] = newSender(s.node, to, raft.Lane(l))
			s.node.wg.Go(both[l].run)
		}
		s.peers[to] = both
	}
	return both[lane]
}

// retain ends the senders to peers that the configuration does not name.
func (s *senders) retain(c raft.Configuration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, both := range s.peers {
		if _, ok := c.Member(id); !ok {
			s.end(id, both)
		}
	}
}

// close ends them all; their goroutines end once the transport lets go of them.
func (s *senders) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for id, both := range s.peers {
		s.end(id, both)
	}
}

func (s *senders) end(id raft.NodeID, both *[2]*sender) {
	for _, one := range both {
		close(one.stop)
	}
	delete(s.peers, id)
}

// depth returns how many messages wait for all peers together.
func (s *senders) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, both := range s.peers {
		n += both[0].depth() + both[1].depth()
	}
	return n
}

// sender is one goroutine that moves messages from a bounded queue to one connection. It fills in the
// entries of appends, off the loop, and merges what waits.
type sender struct {
	node *Node
	to   raft.NodeID
	lane raft.Lane
	wake chan struct{} // capacity 1
	stop chan struct{}

	mu    sync.Mutex
	queue []raft.Message
}

func newSender(n *Node, to raft.NodeID, lane raft.Lane) *sender {
	return &sender{node: n, to: to, lane: lane, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

func (s *sender) enqueue(m raft.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= s.node.cfg.SendQueueMax {
		return false
	}
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

func (s *sender) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

func (s *sender) run() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		}
		for taken := s.take(); len(taken) > 0; taken = s.take() {
			s.deliver(taken)
		}
	}
}

// take takes the first messages of the queue, or none if the sender is to end.
func (s *sender) take() []raft.Message {
	select {
	case <-s.stop:
		return nil
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), sendBatchMax)
	if n == 0 {
		return nil
	}
	taken := make([]raft.Message, n)
	copy(taken, s.queue)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	return taken
}

// deliver sends the messages in order, in batches of about AppendBytesMax.
func (s *sender) deliver(taken []raft.Message) {
	batch := make([]raft.Message, 0, len(taken))
	bytes := 0
	for len(taken) > 0 {
		m, n := joinAppends(taken)
		taken = taken[n:]
		for more := true; more; {
			var piece raft.Message
			piece, m, more = s.fill(m)
			if piece.Body == nil {
				break // dropped, and reported
			}
			batch = append(batch, piece)
			bytes += entryBytes(piece)
			if bytes >= s.node.cfg.AppendBytesMax {
				s.flush(batch)
				batch, bytes = make([]raft.Message, 0, len(taken)+1), 0
			}
		}
	}
	s.flush(batch)
}

// joinAppends returns the first message and 1; or, if it begins a row of appends each of which goes
// on where the one before ends, one append for the whole row and its length.
func joinAppends(messages []raft.Message) (raft.Message, int) {
	first := messages[0]
	joined, ok := first.Body.(raft.AppendRequest)
	n := 1
	for ok && n < len(messages) {
		next, isAppend := messages[n].Body.(raft.AppendRequest)
		goesOn := isAppend && next.Prev == joined.Last && next.Generation == joined.Generation
		if !goesOn || !sameSender(messages[n], first) {
			break
		}
		joined.Last = next.Last
		joined.Commit = max(joined.Commit, next.Commit)
		n++
	}
	if n > 1 {
		first.Body = joined
	}
	return first, n
}

// sameSender reports whether everything but the bodies is equal.
func sameSender(a, b raft.Message) bool {
	a.Body, b.Body = nil, nil
	return a == b
}

// fill puts entries into an append, as many as one message may carry, and returns what is left of
// its span as another one. Other messages pass. A piece without a body was dropped.
func (s *sender) fill(m raft.Message) (piece, rest raft.Message, more bool) {
	a, ok := m.Body.(raft.AppendRequest)
	if !ok {
		return m, raft.Message{}, false
	}
	n := s.node
	var entries []raft.Entry
	var err error
	if n.tail.generationNow() == a.Generation && a.Prev.Index < a.Last.Index {
		entries, err = n.entries.read(raft.Span{After: a.Prev.Index, Last: a.Last.Index}, n.cfg.AppendBytesMax)
	}
	if err != nil && !errors.Is(err, raft.ErrNotStored) {
		n.fail(&raft.StorageError{Op: "read", Err: err})
	}
	// What was read is of the log that the core meant only if no truncation came before the end.
	if err != nil || n.tail.generationNow() != a.Generation {
		n.dropped(m, &n.counters.droppedStale)
		return raft.Message{}, raft.Message{}, false
	}
	last := a.Prev
	if len(entries) > 0 {
		last = entries[len(entries)-1].ID()
	}
	if last != a.Last && last.Index >= a.Last.Index {
		n.dropped(m, &n.counters.droppedStale)
		return raft.Message{}, raft.Message{}, false
	}
	piece, rest = m, m
	piece.Body = raft.AppendRequest{Prev: a.Prev, Last: last, Commit: a.Commit, Acknowledged: a.Acknowledged, Entries: entries, Generation: a.Generation}
	rest.Body = raft.AppendRequest{Prev: last, Last: a.Last, Commit: a.Commit, Acknowledged: a.Acknowledged, Entries: nil, Generation: a.Generation}
	return piece, rest, last != a.Last
}

// flush sends one batch. An append that did not leave is reported, whatever the reason.
func (s *sender) flush(batch []raft.Message) {
	if len(batch) == 0 {
		return
	}
	err := guarded(func() error { return s.node.transport.Send(s.to, s.lane, batch) })
	if err == nil {
		s.node.counters.sent(batch)
		return
	}
	for _, m := range batch {
		s.node.dropped(m, &s.node.counters.droppedSend)
	}
}
