package node

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

const (
	// sendBatchMax bounds the messages of one Transport.Send.
	sendBatchMax = 256
	// sendersMax bounds the number of peers that have senders: the members of a configuration, and as many again for members
	// that are being added or removed.
	sendersMax = 2 * raft.MembersMax
)

// senders holds one sender for each peer and lane. The senders of a peer start with the first message to the peer. This
// member also answers a peer that its own configuration does not name, because that peer may already be a voter.
type senders struct {
	node *Node

	mu    sync.Mutex
	peers map[raft.Peer]*[2]*sender
	ended bool
}

func newSenders(n *Node) *senders {
	return &senders{node: n, peers: make(map[raft.Peer]*[2]*sender)}
}

// send queues the messages. It never blocks. The loop and the writer call it.
func (s *senders) send(messages []raft.Message) {
	if len(messages) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		if _, offer := m.Body.(raft.InstallSnapshot); offer {
			s.node.streamer.offered(m)
		}
		if r, ok := m.Body.(raft.HeartbeatReply); ok && s.node.roomWatch.trouble.get() != nil {
			r.Hindered |= raft.HinderedNoRoom
			m.Body = r
		}
		to := s.sender(m.To, laneOf(m))
		if to == nil || !to.enqueue(m) {
			s.node.dropped(m, &s.node.counters.droppedQueueFull, nil)
		}
	}
}

// laneOf returns the lane of the sender that takes the message. The streamer sends on the snapshot lane itself.
func laneOf(m raft.Message) raft.Lane { return min(m.Lane(), raft.LaneBulk) }

func (s *senders) sender(to raft.Peer, lane raft.Lane) *sender {
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

// retain ends the senders to all other peers.
func (s *senders) retain(keep func(raft.Peer) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, both := range s.peers {
		if !keep(p) {
			s.end(p, both)
		}
	}
}

// close ends all senders. Each goroutine returns once its pending Transport.Send has returned.
func (s *senders) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for p, both := range s.peers {
		s.end(p, both)
	}
}

func (s *senders) end(p raft.Peer, both *[2]*sender) {
	for _, one := range both {
		close(one.stop)
	}
	delete(s.peers, p)
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

// sender is a goroutine that moves messages from a bounded queue to one connection. It merges waiting appends and fills
// in their entries, so that the loop need not.
type sender struct {
	node *Node
	to   raft.Peer
	lane raft.Lane
	stop chan struct{}

	mu    sync.Mutex
	queue queue[raft.Message]
}

func newSender(n *Node, to raft.Peer, lane raft.Lane) *sender {
	return &sender{
		node: n, to: to, lane: lane, stop: make(chan struct{}), queue: queue[raft.Message]{signal: newSignal()},
	}
}

func (s *sender) enqueue(m raft.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.offer(m, s.node.cfg.SendQueueMax)
}

func (s *sender) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.len()
}

func (s *sender) run() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.queue.signal:
			runtime.Gosched() // see Node.loop
			if taken := s.take(); len(taken) > 0 {
				s.deliver(taken)
			}
		}
	}
}

// take removes the first messages from the queue and returns them. It returns none if the sender is ending.
func (s *sender) take() []raft.Message {
	select {
	case <-s.stop:
		return nil
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.queue.waiting()
	taken := slices.Clone(waiting[:min(len(waiting), sendBatchMax)])
	s.queue.drop(len(taken))
	return taken
}

// deliver sends the messages in order, in batches of about AppendBytesMax. No append exceeds the limit that the peer has
// announced. Otherwise the peer would close both connections, again and again.
func (s *sender) deliver(taken []raft.Message) {
	said, _ := s.node.identity.announcedBy(s.to)
	most, takes := s.node.limits().AppendBytesMax, s.node.appendLimitTo(said.settings)
	batch, bytes := make([]raft.Message, 0, len(taken)), 0
	s.node.entries.Deliver(taken, most, takes, func(m raft.Message) {
		batch = append(batch, m)
		bytes += entryBytes(m)
		if bytes >= most {
			s.flush(batch)
			batch, bytes = make([]raft.Message, 0, len(taken)+1), 0
		}
	}, s.unfilled)
	s.flush(batch)
}

// unfilled drops an append if its entries no longer exist, or if its first entry is too large for the peer. If the entries
// exist but cannot be read, unfilled ends the node.
func (s *sender) unfilled(m raft.Message, err error) {
	counter := &s.node.counters.droppedStale
	switch {
	case errors.Is(err, pipeline.ErrOversized):
		counter = &s.node.counters.droppedOversized
	case !errors.Is(err, raft.ErrNotStored) && !errors.Is(err, pipeline.ErrStale):
		s.node.fail(&StorageError{Op: "read", Err: err})
	}
	s.node.dropped(m, counter, err)
}

// flush sends one batch. If the transport fails, the appends in it are reported to the core.
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
		s.node.dropped(m, &s.node.counters.droppedSend, err)
	}
}

// dropped counts a message that was not sent. If the message is an append, dropped reports it to the core. why is nil if the
// queue was full.
func (n *Node) dropped(m raft.Message, counter *atomic.Uint64, why error) {
	counter.Add(1)
	if e, appends := pipeline.Dropped(m, why); appends {
		n.post(e)
	}
}
