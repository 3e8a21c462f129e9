package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/coxswain/raft"
)

// turnKey is the key of the number of rounds that a link has dialed in vain. It decides which IP address comes first.
type turnKey struct{}

// dialTCP is the default DialFunc. It resolves names anew for each dial. A name may have several IP addresses. Each attempt, and
// each dial after a vain round, begins with another one. So one that does not answer, or accepts without an answer, does not
// keep the transport from the others.
func (t *TCP) dialTCP(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, resolved string, _ syscall.RawConn) error {
		if p, ok := ctx.Value(peerKey{}).(raft.Peer); ok {
			t.waiting.dialing(p, resolved)
		}
		return t.options.checkAddress(resolved)
	}}
	turn, _ := ctx.Value(turnKey{}).(int)
	return hedged(ctx, func(ctx context.Context, attempt int) (conn net.Conn, failed error) {
		hosts, err := t.resolved(ctx, address)
		if err != nil {
			return nil, err
		}
		for i := range hosts {
			conn, err := d.DialContext(ctx, "tcp", hosts[(turn+attempt+i)%len(hosts)]) // TCP_NODELAY is on by default
			if err == nil {
				return conn, nil
			}
			if failed == nil || nobodyListens(failed) {
				failed = err
			}
		}
		return nil, failed
	})
}

// resolved returns the address with each IP address of its host.
func (t *TCP) resolved(ctx context.Context, address string) (all []string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return []string{address}, nil // the dialer knows what that means
	}
	ips, err := t.lookup(ctx, "ip", host)
	for _, ip := range ips {
		all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return all, err
}

// dialPair dials the urgent lane of a peer and then the bulk lane. It finishes the handshake of each lane. All lanes of a pair go
// to one address, for which Resolve is asked once: a second answer of it may be another address, where the peer is not.
func (t *TCP) dialPair(ctx context.Context, m raft.Member) (dialed, error) {
	p := &pair{t: t, member: m}
	p.ctx, p.cancel = context.WithCancelCause(context.WithValue(context.Background(), turnKey{}, ctx.Value(turnKey{})))
	var d dialed
	var readers [len(p.lanes)]*frameReader
	for _, lane := range []raft.Lane{raft.LaneUrgent, raft.LaneBulk} {
		handshaken, err := t.dialLane(ctx, m, d.address, lane)
		d.address = handshaken.address
		if err == nil && lane == raft.LaneBulk && !sameStart(d.hello, handshaken.hello) {
			_ = handshaken.conn.Close()
			err = fmt.Errorf("transport: %q restarted between the handshakes of its two lanes", m.ID)
		}
		if err != nil {
			if lane == raft.LaneBulk {
				_ = p.lanes[raft.LaneUrgent].conn.Close()
			}
			p.cancel(err)
			return dialed{address: d.address}, err
		}
		d.hello, d.roundTrip = handshaken.hello, handshaken.roundTrip
		p.lanes[lane], readers[lane] = t.newOutbound(handshaken), handshaken.reader
	}
	d.session, p.hello, p.address = p, d.hello, d.address
	t.counters.dialed.Add(1)
	for _, f := range readers {
		p.served.Go(func() { p.watch(f) })
	}
	p.served.Go(func() { p.beat(0) }) // the urgent lane was silent while the bulk lane was dialed
	return d, nil
}

func sameStart(a, b raft.Hello) bool { return a.From == b.From && a.StartCount == b.StartCount }

func (t *TCP) newOutbound(s handshaken) *outbound {
	o := &outbound{
		conn: s.conn, writeTimeout: t.options.WriteTimeout, limits: t.limitsTo(s.hello),
		directBytes: directBytes, encoder: &encoder{},
	}
	if t.options.secured() {
		o.directBytes = directBytesTLS
	}
	return o
}

// limitsTo returns the limits of messages to a peer: an append must not exceed the limit of either side.
func (t *TCP) limitsTo(peer raft.Hello) limits {
	l := limits{t.options.FrameBytesMax, peer.Protocol}
	if takes := peer.AppendBytesMax; takes > 0 && takes < l.appendBytesMax-appendOverheadMax {
		l.appendBytesMax = takes + appendOverheadMax
	}
	return l
}

// handshaken is a connection whose handshake is finished.
type handshaken struct {
	address   string // where the peer was dialed, even if the dial failed
	conn      net.Conn
	reader    *frameReader
	hello     raft.Hello // the peer's
	roundTrip time.Duration
}

// dialLane connects one lane and finishes its handshake. If at is "", it resolves the member's address.
func (t *TCP) dialLane(ctx context.Context, m raft.Member, at string, lane raft.Lane) (handshaken, error) {
	address, conn, err := t.dialMember(ctx, m, at)
	if err != nil {
		return handshaken{address: address}, err
	}
	hasten(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	s, err := t.greet(conn, m, lane)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return handshaken{address: address}, err
	}
	s.address = address
	return s, nil
}

// dialMember connects to a member within DialTimeout. If at is "", it resolves the member's address first.
func (t *TCP) dialMember(ctx context.Context, m raft.Member, at string) (address string, conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.options.DialTimeout)
	defer cancel()
	address = cmp.Or(at, m.Address)
	if t.options.Resolve != nil && at == "" {
		if address, err = t.options.Resolve(ctx, m); err != nil {
			return m.Address, nil, fmt.Errorf("transport: resolve %q: %w", m.ID, err)
		}
	}
	conn, err = t.connector(context.WithValue(ctx, peerKey{}, m.Peer()), address)
	return address, conn, err
}

// greet is the caller's side of the handshake.
func (t *TCP) greet(conn net.Conn, m raft.Member, lane raft.Lane) (handshaken, error) {
	if err := conn.SetDeadline(time.Now().Add(t.options.HandshakeTimeout)); err != nil {
		return handshaken{}, err
	}
	conn, config, err := t.secureDialed(conn)
	if err != nil {
		return handshaken{}, fmt.Errorf("transport: TLS handshake with %q: %w", m.ID, err)
	}
	own := t.hello(m.Peer())
	began := time.Now()
	if _, err := conn.Write((opening{versions: ours, hello: own, lane: lane}).encode()); err != nil {
		return handshaken{}, err
	}
	source := &deadlineReader{conn: conn}
	f := newFrameReader(source, t.options.FrameBytesMax)
	answer, err := readOpening(f)
	if err != nil {
		t.countStream(err)
		if err == io.EOF {
			err = fmt.Errorf("it closed the connection without an answer%s: %w", tlsHint, err)
		}
		return handshaken{}, fmt.Errorf("transport: handshake with %q: %w", m.ID, explainTLS(err, config))
	}
	s := handshaken{conn: conn, reader: f, hello: answer.hello, roundTrip: time.Since(began)}
	if err := t.judge(conn, m.Peer(), own, answer); err != nil {
		return handshaken{}, err
	}
	if lane != raft.LaneBulk { // the acceptor sends no beats on the bulk lane, which ends with the urgent lane
		source.timeout = idleTimeout(own, answer.hello)
	}
	return s, conn.SetDeadline(time.Time{})
}

// secureDialed finishes the TLS handshake of a dialed connection, if the transport uses TLS. Otherwise the configuration is nil.
func (t *TCP) secureDialed(conn net.Conn) (net.Conn, *tls.Config, error) {
	if !t.options.secured() {
		return conn, nil, nil
	}
	config, err := t.options.presentTLS()
	if err != nil {
		return nil, nil, err
	}
	secure := tls.Client(conn, outboundTLS(config))
	if err := secure.Handshake(); err != nil {
		return nil, nil, explainTLS(err, config)
	}
	return secure, config, nil
}

// judge decides whether the answer to our hello is acceptable.
func (t *TCP) judge(conn net.Conn, dialed raft.Peer, own raft.Hello, answer opening) error {
	if r := answer.rejection; r != nil {
		// A rejection can make this member mark itself wiped. So only a rejection by a member of our cluster may count.
		if err := t.identify(conn, own.ClusterName, r.From.ID); err != nil {
			return err
		}
		return &RejectedError{By: dialed, Rejection: *r}
	}
	if answer.who != nil || answer.reply != nil {
		return fmt.Errorf("%w: it answers a handshake with a frame of another exchange", ErrMalformed)
	}
	h := answer.hello
	if err := expected(dialed, h.From); err != nil {
		return err
	}
	if err := t.identify(conn, h.ClusterName, h.From.ID); err != nil {
		return err
	}
	if r := t.links.handler.Check(h); r != nil {
		return &RejectedError{By: own.From, Rejection: *r}
	}
	return nil
}

// expected returns an error if the peer that answered is not the dialed one.
func expected(dialed, answered raft.Peer) error {
	if answered.ID != dialed.ID || dialed.Incarnation != 0 && answered != dialed {
		return &WrongMemberError{Dialed: dialed, Answered: answered}
	}
	return nil
}

// identify checks, if the connection uses TLS, that the peer's certificate belongs to the member with this id.
func (t *TCP) identify(conn net.Conn, cluster string, id raft.NodeID) error {
	secure, ok := conn.(*tls.Conn)
	if !ok || !t.options.secured() {
		return nil
	}
	state := secure.ConnectionState()
	if t.options.VerifyPeer != nil && state.VerifiedChains == nil { // crypto/tls keeps only chains that it verified itself
		config, err := t.options.presentTLS()
		if err == nil {
			state.VerifiedChains, err = verifyChain(state, config)
		}
		if err != nil {
			return &CertificateError{Member: id, Err: err}
		}
	}
	return t.options.verifyIdentity(cluster, id, state)
}
