package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coxswain/raft"
)

// Network connects members within one process, for tests. It loses messages only where a test has cut it. It does no I/O, and
// its goroutines wait only on channels and timers. So it works in a testing/synctest bubble, if it is created there. Its
// methods may be called from any goroutine.
type Network struct {
	mu       sync.Mutex
	members  map[endpoint]*Memory
	cuts     map[route]bool
	sessions map[*memorySession]struct{}
}

// endpoint identifies a transport by its address. If the transport has no address, endpoint identifies it by the id of its
// member.
type endpoint struct {
	id      raft.NodeID // "" if there is an address
	address string
}

// route is one direction between two members.
type route struct{ from, to raft.NodeID }

// errCut is the error of a dial or a connection between two members that are cut off from each other.
var errCut = errors.New("transport: the network is cut")

// errDisconnected is the error of a connection whose other side called Disconnect.
var errDisconnected = errors.New("transport: the peer has closed the connection")

// NewNetwork returns a network without members.
func NewNetwork() *Network {
	return &Network{
		members:  map[endpoint]*Memory{},
		cuts:     map[route]bool{},
		sessions: map[*memorySession]struct{}{},
	}
}

// Join returns the transport of a member that others find by its id, whatever address they dial. But if another member has
// joined at the dialed address with JoinAt, they find that member instead. If a member joins again, the new transport
// replaces the former one. The connections of the former transport break as if its process had been killed. Close the former
// transport nevertheless.
func (n *Network) Join(id raft.NodeID) *Memory { return n.join(id, endpoint{id: id}) }

// JoinAt returns the transport of a member that others find only at that address. It replaces a transport that has joined at
// the address before. So a member can move, and two incarnations of one id can run at two addresses. A cut between ids
// affects both incarnations.
func (n *Network) JoinAt(id raft.NodeID, address string) *Memory {
	return n.join(id, endpoint{address: address})
}

func (n *Network) join(id raft.NodeID, at endpoint) *Memory {
	m := &Memory{network: n, id: id, at: at, stop: make(chan struct{})}
	m.links = linker{
		dial: m.dial, pauseMin: 10 * time.Millisecond, pauseMax: time.Second,
		onFailure: func(raft.Member, bool, error) {},
	}
	n.mu.Lock()
	former := n.members[at]
	n.members[at] = m
	n.mu.Unlock()
	if former != nil {
		n.breakSessions(errNobodyListens, func(s *memorySession) bool { return s.from == former || s.to == former })
	}
	return m
}

// Cut cuts the network between two members in both directions. Their connections break at once. Until Heal, they cannot
// connect again.
func (n *Network) Cut(a, b raft.NodeID) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay drops messages from `from` to `to`. Messages from `to` still arrive on an open connection. A new connection is
// impossible in both directions.
func (n *Network) CutOneWay(from, to raft.NodeID) {
	n.mu.Lock()
	n.cuts[route{from, to}] = true
	n.mu.Unlock()
	n.breakSessions(errCut, func(s *memorySession) bool { return s.from.id == from && s.to.id == to })
}

// Heal undoes Cut and CutOneWay between two members in both directions; they redial at once.
func (n *Network) Heal(a, b raft.NodeID) {
	n.mu.Lock()
	delete(n.cuts, route{a, b})
	delete(n.cuts, route{b, a})
	n.mu.Unlock()
	n.wakeAll()
}

// HealAll undoes every cut.
func (n *Network) HealAll() {
	n.mu.Lock()
	clear(n.cuts)
	n.mu.Unlock()
	n.wakeAll()
}

// wakeAll ends all pauses before redials.
func (n *Network) wakeAll() {
	n.mu.Lock()
	members := make([]*Memory, 0, len(n.members))
	for _, m := range n.members {
		members = append(members, m)
	}
	n.mu.Unlock()
	for _, m := range members {
		m.links.wakeAll()
	}
}

func (n *Network) breakSessions(why error, which func(*memorySession) bool) {
	n.mu.Lock()
	var hit []*memorySession
	for s := range n.sessions {
		if which(s) {
			hit = append(hit, s)
		}
	}
	n.mu.Unlock()
	for _, s := range hit {
		s.close(why)
	}
}

// reach returns the transport at the member's address or, if there is none, the transport with the member's id. It returns an
// error if the network between the two members is cut in either direction.
func (n *Network) reach(from *Memory, m raft.Member) (*Memory, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.members[endpoint{address: m.Address}]
	if to == nil {
		to = n.members[endpoint{id: m.ID}]
	}
	if n.isCut(from.id, m.ID) || to != nil && n.isCut(from.id, to.id) {
		return nil, errCut
	}
	if to == nil || n.members[from.at] != from {
		return nil, errNobodyListens
	}
	return to, nil
}

// isCut reports whether the network between two members is cut in at least one direction. It is called with mu held.
func (n *Network) isCut(a, b raft.NodeID) bool { return n.cuts[route{a, b}] || n.cuts[route{b, a}] }

// Memory is a member's transport in a Network. It implements raft.Transport, raft.SnapshotCarrier,
// raft.ForwardCarrier and raft.WhoCarrier. Its methods may be called from any goroutine. It encodes and decodes messages, so that sender and receiver share no memory. Send calls the
// receiver's Handler.Receive, and returns after that call.
type Memory struct {
	network *Network
	id      raft.NodeID
	at      endpoint
	links   linker

	mu      sync.Mutex
	handler raft.Handler // nil until Start
	closed  bool
	stop    chan struct{}
	calls   sync.WaitGroup // calls of the Handler by other members
}

// Start implements raft.Transport. After Close it returns raft.ErrClosed.
func (m *Memory) Start(e raft.Handler) error {
	m.mu.Lock()
	switch {
	case m.closed:
		m.mu.Unlock()
		return raft.ErrClosed
	case m.handler != nil:
		m.mu.Unlock()
		return errors.New("transport: started twice")
	}
	m.handler = e
	m.links.start(e)
	m.mu.Unlock()
	m.network.wakeAll()
	return nil
}

// Connect implements raft.Transport. It is called after Start.
func (m *Memory) Connect(contacts []raft.Contact) { m.links.connect(contacts) }

// Disconnect implements raft.Transport.
func (m *Memory) Disconnect(p raft.Peer) {
	m.network.breakSessions(errDisconnected, func(s *memorySession) bool { return s.to == m && s.sender == p })
}

// AppendBytesMax implements raft.Transport. It returns 0, because Memory carries messages of any size.
func (m *Memory) AppendBytesMax() int { return 0 }

// ChunkBytesMax implements raft.SnapshotCarrier.
func (m *Memory) ChunkBytesMax() int { return chunkBytesMax }

// ForwardBytesMax implements raft.ForwardCarrier. Send returns once the peer has the messages, so ForwardLost is never called.
func (m *Memory) ForwardBytesMax() int { return FrameBytesMax - appendOverheadMax }

// Send implements raft.Transport. If it sends nothing because the peer is not connected, the error is a *NotConnectedError.
func (m *Memory) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	return m.links.send(to, lane, batch)
}

// Peer implements raft.Transport.
func (m *Memory) Peer(p raft.Peer) raft.PeerStatus { return m.links.peer(p) }

// Close implements raft.Transport. It must not be called from within a method of the Handler. It
// returns nil.
func (m *Memory) Close() error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.stop)
	}
	m.mu.Unlock()
	m.network.mu.Lock()
	if m.network.members[m.at] == m {
		delete(m.network.members, m.at)
	}
	m.network.mu.Unlock()
	m.links.close()
	m.network.breakSessions(errNobodyListens, func(s *memorySession) bool { return s.to == m })
	m.calls.Wait()
	return nil
}

// call runs f with the Handler. If the member is not started or is closed, call returns an error instead.
func (m *Memory) call(f func(e raft.Handler)) error {
	m.mu.Lock()
	if m.closed || m.handler == nil {
		m.mu.Unlock()
		return errNobodyListens
	}
	m.calls.Add(1)
	m.mu.Unlock()
	defer m.calls.Done()
	f(m.handler)
	return nil
}

// dial performs one handshake for both lanes.
func (m *Memory) dial(_ context.Context, peer raft.Member) (dialed, error) {
	to, err := m.network.reach(m, peer)
	if err != nil {
		return dialed{}, err
	}
	own := m.handler.Hello(peer.Peer())
	answer, err := to.answer(own)
	if err != nil {
		return dialed{}, err
	}
	if r := answer.rejection; r != nil {
		return dialed{}, &RejectedError{By: peer.Peer(), Rejection: *r}
	}
	if err := expected(peer.Peer(), answer.hello.From); err != nil {
		return dialed{}, err
	}
	if r := m.handler.Check(answer.hello); r != nil {
		return dialed{}, &RejectedError{By: own.From, Rejection: *r}
	}
	s := &memorySession{network: m.network, from: m, to: to, sender: own.From, gone: make(chan struct{})}
	to.links.readers.enter(own.From)
	caller, err := carried(own)
	if err == nil {
		err = m.network.register(s)
	}
	if err == nil {
		err = to.call(func(e raft.Handler) { e.Accepted(caller) })
	}
	if err != nil {
		s.close(err)
		return dialed{}, err
	}
	return dialed{session: s, hello: answer.hello}, nil
}

// answer is the acceptor's side of the handshake.
func (m *Memory) answer(h raft.Hello) (opening, error) {
	var reply opening
	var failed error
	err := m.call(func(e raft.Handler) {
		caller, err := carried(h)
		if err != nil {
			failed = err
			return
		}
		if r := e.Check(caller); r != nil {
			rejection, err := decodeRejection(encodeRejection(*r))
			reply, failed = opening{rejection: &rejection}, err
			return
		}
		reply.hello, failed = carried(e.Hello(caller.From))
	})
	return reply, errors.Join(err, failed)
}

// carried returns the hello that the other side receives if this member sends h.
func carried(h raft.Hello) (raft.Hello, error) {
	h, _, err := decodeHello(encodeHello(h, raft.LaneUrgent))
	h.Protocol = ours.max
	return h, err
}

// register adds a session. It returns an error if the network was cut or a side was closed during the handshake.
func (n *Network) register(s *memorySession) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isCut(s.from.id, s.to.id) {
		return errCut
	}
	if n.members[s.to.at] != s.to || n.members[s.from.at] != s.from {
		return errNobodyListens
	}
	n.sessions[s] = struct{}{}
	return nil
}

// memorySession holds all lanes from one member to another.
type memorySession struct {
	network  *Network
	from, to *Memory
	sender   raft.Peer // the peer that the handshake proved
	gone     chan struct{}
	once     sync.Once
	why      error // set before gone is closed
}

func (s *memorySession) broken() <-chan struct{} { return s.gone }
func (s *memorySession) err() error              { return s.why }

func (s *memorySession) close(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.gone)
		s.network.mu.Lock()
		delete(s.network.sessions, s)
		s.network.mu.Unlock()
		s.to.links.readers.leave(s.sender)
	})
}

// send passes the messages to the receiver as if the receiver had read them from a wire.
func (s *memorySession) send(_ raft.Lane, batch []raft.Message) error {
	s.to.links.readers.enter(s.sender)
	defer s.to.links.readers.leave(s.sender)
	select {
	case <-s.gone:
		return fmt.Errorf("transport: send: %w", s.why)
	default:
	}
	arrived := make([]raft.Message, 0, len(batch))
	var skipped error
	for _, m := range batch {
		frame, err := EncodeMessage(m)
		if err == nil {
			m, err = DecodeMessage(frame)
		}
		if err != nil {
			skipped = errors.Join(skipped, err)
			continue
		}
		if m.From != s.sender {
			err := fmt.Errorf("%w: %q", ErrWrongSender, m.From.ID)
			s.close(err)
			return err
		}
		arrived = append(arrived, m)
	}
	if len(arrived) == 0 {
		return skipped
	}
	if err := s.to.call(func(e raft.Handler) { e.Receive(s.sender, arrived) }); err != nil {
		return fmt.Errorf("transport: send: %w", err)
	}
	return skipped
}
