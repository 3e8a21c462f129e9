package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/coxswain/raft"
)

// TCP is the transport of real clusters. Each member dials two connections to each peer that Connect names: one for the
// urgent lane and one for the bulk lane. When it sends a snapshot, or forwards a caller's request or answers one, it dials a
// further connection for that lane, and closes it once it is idle. A member sends messages only on the connections that it
// dialed. It receives messages only on the connections that it accepted. TCP implements raft.Transport, raft.SnapshotCarrier,
// raft.ForwardCarrier and raft.WhoCarrier. Its methods may be called from any goroutine.
type TCP struct {
	links     linker
	options   Options
	listener  net.Listener
	connector DialFunc
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error)
	counters  counters
	warner    *warner
	pulse     *pulse
	waiting   waiting
	turns     *turns
	questions questions

	mu         sync.Mutex
	started    bool
	closed     bool
	stop       chan struct{}
	named      map[raft.Peer]bool // in the last call of Connect
	inbounds   map[inboundKey]*inbound
	registered uint64 // inbound connections registered so far
	serving    sync.WaitGroup
}

var lanes = [...]raft.Lane{raft.LaneUrgent, raft.LaneBulk, raft.LaneSnapshot, raft.LaneForward}

// inboundKey identifies an inbound connection: a peer has one for each lane.
type inboundKey struct {
	peer raft.Peer
	lane raft.Lane
}

// Listen listens on addr, "host:port", and returns a transport. The transport begins to work when Start is called. Listen
// returns the error of Options.Validate, or an *InsecureError for an address beyond loopback without TLS. If it cannot listen
// on the address, it returns a *ListenError.
func Listen(addr string, opts Options) (*TCP, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, resolved string, _ syscall.RawConn) error {
		return opts.checkAddress(resolved)
	}}
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		if insecure := (*InsecureError)(nil); errors.As(err, &insecure) {
			return nil, insecure
		}
		return nil, &ListenError{Address: addr, Err: err}
	}
	t, err := New(listener, nil, opts)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return t, nil
}

// New returns a transport that uses the given listener and dial function. It is for shared ports and for networks other than
// TCP. If the error is nil, the transport owns the listener and closes it. If dial is nil, the transport dials TCP. With
// Options.TLS or TLSSource, the transport itself adds TLS to accepted and to dialed connections. New returns the error of
// Options.Validate, or an *InsecureError.
func New(listener net.Listener, dial DialFunc, opts Options) (*TCP, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if err := opts.checkAddress(listener.Addr().String()); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	t := &TCP{
		options: opts, listener: listener, connector: dial, lookup: net.DefaultResolver.LookupNetIP, warner: newWarner(opts.Logger),
		pulse: newPulse(opts.beatInterval()),
		stop:  make(chan struct{}), inbounds: map[inboundKey]*inbound{}, turns: newTurns(),
		waiting:   waiting{countMax: opts.HandshakesMax, homes: map[raft.Peer][]netip.Addr{}},
		questions: questions{of: map[string]*asker{}},
	}
	if dial == nil {
		t.connector = t.dialTCP
	}
	t.links = linker{
		dial: t.dialPair, pauseMin: opts.RedialMin, pauseMax: opts.RedialMax, onFailure: t.onFailure,
	}
	return t, nil
}

// Addr returns the listener's address.
func (t *TCP) Addr() net.Addr { return t.listener.Addr() }

// Start implements raft.Transport. After Close it returns raft.ErrClosed.
func (t *TCP) Start(e raft.Handler) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return raft.ErrClosed
	}
	if t.started {
		return errors.New("transport: started twice")
	}
	t.started = true
	t.links.start(e)
	t.serving.Go(func() { t.accept(e) })
	t.serving.Go(t.keepBeating)
	return nil
}

// Connect implements raft.Transport. It is called after Start.
func (t *TCP) Connect(contacts []raft.Contact) {
	named := make(map[raft.Peer]bool, len(contacts))
	for _, c := range contacts {
		named[c.Peer()] = true
	}
	t.mu.Lock()
	t.named = named
	t.mu.Unlock()
	t.waiting.keepOnly(named)
	t.links.connect(contacts)
}

// Disconnect implements raft.Transport.
func (t *TCP) Disconnect(p raft.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeInbounds(p)
}

// AppendBytesMax implements raft.Transport. It returns the part of Options.FrameBytesMax that is left for
// entries.
func (t *TCP) AppendBytesMax() int { return t.options.FrameBytesMax - appendOverheadMax }

// ChunkBytesMax implements raft.SnapshotCarrier.
func (t *TCP) ChunkBytesMax() int { return chunkBytesMax }

// ForwardBytesMax implements raft.ForwardCarrier.
func (t *TCP) ForwardBytesMax() int { return t.AppendBytesMax() }

// Send implements raft.Transport. If it sends nothing because the peer is not connected, the error is a *NotConnectedError.
// If it leaves out a message that exceeds the limit of either side, the error matches ErrOversized. If the peer's release
// does not know the message, the error matches ErrVersion. Any other error means that the connection broke; on LaneSnapshot
// and LaneForward, perhaps only the connection of that lane.
func (t *TCP) Send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	defer t.pulse.sent()
	return t.links.send(to, lane, batch)
}

// Peer implements raft.Transport.
func (t *TCP) Peer(p raft.Peer) raft.PeerStatus { return t.links.peer(p) }

// Close implements raft.Transport. It must not be called from within a method of the Handler. It returns the
// listener's error.
func (t *TCP) Close() error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	t.mu.Unlock()
	var err error
	if first {
		close(t.stop)
		err = t.listener.Close() // first of all, so that each peer that redials at once is refused
	}
	t.mu.Lock()
	t.waiting.closeAll()
	for _, in := range t.inbounds {
		_ = in.conn.Close()
	}
	t.mu.Unlock()
	t.links.close()
	t.serving.Wait()
	return err
}

// Stats returns the present counts.
func (t *TCP) Stats() Stats {
	s := t.counters.stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Inbound, s.Handshakes = len(t.inbounds), t.waiting.size()
	return s
}

// handlerReports reports whether the Handler hears of this error, because it is a rejection. The Handler logs a rejection
// once, with its remedy. So the transport does not log the rejection at each dial.
func handlerReports(err error) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected)
}

// onFailure counts and logs that a peer is not connected.
func (t *TCP) onFailure(m raft.Member, wasOpen bool, err error) {
	if wasOpen {
		t.counters.lost.Add(1)
	} else {
		t.counters.dialFailed.Add(1)
	}
	if handlerReports(err) {
		return
	}
	t.warner.warnOf(m.ID, "peer is not connected", "address", m.Address, "error", err)
}

// countStream counts why a connection ended. It is called for connections on which this member reads frames.
func (t *TCP) countStream(err error) {
	switch {
	case errors.Is(err, ErrOversized):
		t.counters.oversized.Add(1)
	case errors.Is(err, ErrMalformed):
		t.counters.malformed.Add(1)
	case errors.Is(err, ErrWrongSender):
		t.counters.wrongSender.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.counters.silent.Add(1)
	}
}
