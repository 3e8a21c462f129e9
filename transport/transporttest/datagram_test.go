package transporttest_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
)

const (
	greetEvery     = 20 * time.Millisecond
	silenceMax     = 300 * time.Millisecond
	datagramMax    = 60 << 10
	datagramAppend = 32 << 10
)

// The first byte of a datagram is its type.
const (
	isHello byte = iota
	isAnswer
	isMessage
)

// datagrams is an example of a different transport. Each hello, answer and message is a datagram on loopback. A peer that
// answers hellos counts as up. A silent peer counts as lost.
type datagrams struct {
	socket  *net.UDPConn
	handler raft.Handler
	ending  chan struct{}
	tasks   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	peers   map[raft.Peer]*datagramPeer
	callers map[string]raft.Peer // whose hello was accepted, by address
	left    []raft.Peer          // connected, but no longer named: their loss is reported late, as raft.Handler allows
}

// datagramPeer is a contact that Connect named.
type datagramPeer struct {
	addresses []*net.UDPAddr
	address   *net.UDPAddr // where the peer answered last
	hello     raft.Hello   // of the peer's present start
	heard     time.Time
	status    raft.PeerStatus
}

func (d *datagrams) Start(e raft.Handler) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return raft.ErrClosed
	}
	d.handler = e
	d.tasks.Go(d.read)
	d.tasks.Go(d.greet)
	return nil
}

func (d *datagrams) Connect(contacts []raft.Contact) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.reportLeft() // one of them may be named again
	}
	named := map[raft.Peer]*datagramPeer{}
	for _, c := range contacts {
		if self := d.handler.Hello(c.Peer()).From; d.closed || self == c.Peer() || c.Incarnation == 0 && self.ID == c.ID {
			continue
		}
		p := &datagramPeer{}
		anyone := raft.Peer{ID: c.ID}
		if known := d.peers[c.Peer()]; known != nil {
			p = known
		} else if open := d.peers[anyone]; open != nil && open.status.Connected && open.hello.From == c.Peer() {
			p = open
			delete(d.peers, anyone)
		}
		p.addresses = nil
		for _, address := range c.Addresses {
			if resolved, err := net.ResolveUDPAddr("udp", address); err == nil {
				p.addresses = append(p.addresses, resolved)
			}
		}
		named[c.Peer()] = p
	}
	for contact, p := range d.peers {
		if named[contact] == nil && p.status.Connected && !d.closed {
			d.left = append(d.left, p.hello.From)
		}
	}
	d.peers = named
}

// reportLeft is called with d.mu held.
func (d *datagrams) reportLeft() {
	for _, p := range d.left {
		d.handler.Lost(p, false)
	}
	d.left = nil
}

func (d *datagrams) Disconnect(p raft.Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.callers, func(_ string, caller raft.Peer) bool { return caller == p }) // p greets again
}

// find returns the contact for messages to the peer: the peer's own contact, or an open contact that may be the peer.
func (d *datagrams) find(p raft.Peer) *datagramPeer {
	of := d.peers[p]
	if of == nil {
		of = d.peers[raft.Peer{ID: p.ID}]
	}
	if of != nil && of.status.Connected && p.Incarnation != 0 && of.hello.From != p {
		return nil
	}
	return of
}

func (d *datagrams) Send(to raft.Peer, _ raft.Lane, batch []raft.Message) error {
	d.mu.Lock()
	p := d.find(to)
	up := p != nil && p.status.Connected && !d.closed
	var address *net.UDPAddr
	if up {
		address = p.address
	}
	d.mu.Unlock()
	if !up {
		return fmt.Errorf("%q is not up", to.ID)
	}
	var failed error
	for _, m := range batch {
		frame, err := transport.EncodeMessage(m)
		if err == nil && len(frame) > datagramMax {
			err = transport.ErrOversized
		}
		if err == nil {
			err = d.write(address, isMessage, frame)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (d *datagrams) write(to *net.UDPAddr, what byte, b []byte) error {
	_, err := d.socket.WriteToUDP(append([]byte{what}, b...), to)
	return err
}

func (d *datagrams) AppendBytesMax() int { return datagramAppend }

func (d *datagrams) Peer(peer raft.Peer) raft.PeerStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.find(peer); p != nil {
		return p.status
	}
	return raft.PeerStatus{}
}

func (d *datagrams) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.ending)
		_ = d.socket.Close() // its error does not matter: datagrams may be lost
	}
	d.mu.Unlock()
	d.tasks.Wait()
	return nil
}

// greet repeatedly sends a hello to every peer, and notices which peers are silent.
func (d *datagrams) greet() {
	tick := time.NewTicker(greetEvery)
	defer tick.Stop()
	for ticks := 0; ; ticks++ {
		select {
		case <-d.ending:
			return
		case <-tick.C:
		}
		d.mu.Lock()
		if ticks%10 == 0 {
			d.reportLeft()
		}
		for contact, p := range d.peers {
			if p.status.Connected && time.Since(p.heard) > silenceMax {
				d.lose(contact, p, errors.New("it is silent"))
			}
			for _, address := range p.addresses {
				_ = d.write(address, isHello, transport.EncodeHello(d.handler.Hello(contact))) // it may be lost, too
			}
		}
		d.mu.Unlock()
	}
}

// lose is called with d.mu held.
func (d *datagrams) lose(contact raft.Peer, p *datagramPeer, why error) {
	if p.status.Connected {
		contact = p.hello.From
	}
	p.status = raft.PeerStatus{Err: why}
	d.handler.Lost(contact, false)
}

func (d *datagrams) read() {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := d.socket.ReadFromUDP(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n == 0 {
			continue
		}
		d.mu.Lock()
		what, b := buffer[0], append([]byte(nil), buffer[1:n]...)
		switch {
		case d.closed:
		case what == isHello:
			d.onHello(from, b)
		case what == isAnswer:
			d.onAnswer(from, b)
		case what == isMessage:
			d.onMessage(from, b)
		}
		d.mu.Unlock()
	}
}

func (d *datagrams) onHello(from *net.UDPAddr, b []byte) {
	h, refusal, err := transport.DecodeOpening(b)
	if err != nil || refusal != nil {
		return
	}
	if r := d.handler.Check(h); r != nil {
		delete(d.callers, from.String())
		_ = d.write(from, isAnswer, transport.EncodeRejection(*r))
		return
	}
	if d.callers[from.String()] != h.From {
		d.callers[from.String()] = h.From
		d.handler.Accepted(h)
	}
	_ = d.write(from, isAnswer, transport.EncodeHello(d.handler.Hello(h.From)))
}

func (d *datagrams) onAnswer(from *net.UDPAddr, b []byte) {
	for contact, p := range d.peers {
		if !slices.ContainsFunc(p.addresses, func(a *net.UDPAddr) bool { return a.String() == from.String() }) {
			continue
		}
		h, refusal, err := transport.DecodeOpening(b)
		switch {
		case refusal != nil && !p.status.Connected:
			p.status.Err = refusal
			d.handler.Rejected(contact, *refusal)
		case err != nil || refusal != nil || h.From.ID != contact.ID || contact.Incarnation != 0 && h.From != contact:
			d.answeredOtherwise(contact, p, h)
		default:
			d.onHelloOf(contact, p, from, h)
		}
	}
}

// answeredOtherwise handles an answer of a peer that is not the dialed one. The dialed peer may be at another of its
// addresses.
func (d *datagrams) answeredOtherwise(contact raft.Peer, p *datagramPeer, h raft.Hello) {
	if !p.status.Connected {
		p.status.Err = fmt.Errorf("%q answers in its place", h.From.ID)
		if len(p.addresses) == 1 {
			d.handler.Lost(contact, false)
		}
	}
}

// onHelloOf handles the answer of the dialed peer. If it has already checked this start of the peer, it does not check it
// again.
func (d *datagrams) onHelloOf(contact raft.Peer, p *datagramPeer, from *net.UDPAddr, h raft.Hello) {
	p.heard = time.Now()
	if p.status.Connected && p.hello.From == h.From && p.hello.StartCount == h.StartCount {
		return
	}
	if r := d.handler.Check(h); r != nil {
		d.lose(contact, p, r)
		return
	}
	if p.status.Connected {
		d.lose(contact, p, errors.New("it was started again"))
	}
	p.hello, p.address, p.status = h, from, raft.PeerStatus{Connected: true, Address: from.String()}
	d.handler.Up(h)
	d.reportLeft()
}

// onMessage accepts a message only from an accepted caller, and only if the message names this caller as its sender.
func (d *datagrams) onMessage(from *net.UDPAddr, b []byte) {
	m, err := transport.DecodeMessage(b)
	if caller := d.callers[from.String()]; err == nil && caller.ID != "" && m.From == caller {
		d.handler.Receive(caller, []raft.Message{m})
	}
}

// loopback holds the addresses of the datagram transports of one test.
type loopback struct{ addresses map[raft.NodeID]string }

func (l *loopback) New(t *testing.T, id raft.NodeID) raft.Transport {
	bind, known := l.addresses[id]
	if !known {
		bind = "127.0.0.1:0"
	}
	address, err := net.ResolveUDPAddr("udp", bind)
	require.NoError(t, err)
	socket, err := net.ListenUDP("udp", address)
	require.NoError(t, err)
	l.addresses[id] = socket.LocalAddr().String()
	return &datagrams{
		socket: socket, ending: make(chan struct{}), peers: map[raft.Peer]*datagramPeer{}, callers: map[string]raft.Peer{},
	}
}

func (l *loopback) Address(id raft.NodeID) string { return l.addresses[id] }

// This transport has no connections, and its messages may be lost or overtake each other. It keeps the rest of the contract.
// So the checks and the codecs do not depend on transport.TCP.
func TestDatagrams_KeepTheContract(t *testing.T) {
	transporttest.Run(t, transporttest.Harness{
		Network: func(*testing.T) transporttest.Network { return &loopback{addresses: map[raft.NodeID]string{}} },
		Profile: transporttest.Profile{Connectionless: true, Unordered: true},
	})
}
