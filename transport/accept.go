package transport

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coxswain/raft"
)

// receiveMax bounds the messages of one call of Handler.Receive.
const receiveMax = 64

// inbound is a connection on which this member receives. Its handshake is finished.
type inbound struct {
	conn       net.Conn
	peer       raft.Peer
	startCount uint64
	lane       raft.Lane
	number     uint64 // order of registration
}

func (in *inbound) key() inboundKey { return inboundKey{in.peer, in.lane} }

// accept accepts until the listener is closed.
func (t *TCP) accept(e raft.Handler) {
	pause := t.options.RedialMin
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || t.isClosing() {
				return
			}
			// There are no file descriptors left, or the caller has already closed the connection. Later calls of Accept may
			// succeed.
			t.counters.acceptFailed.Add(1)
			t.warner.warn("accept failed", "error", err)
			t.sleep(pause)
			pause = min(2*pause, t.options.RedialMax)
			continue
		}
		pause = t.options.RedialMin
		t.counters.accepted.Add(1)
		hasten(conn)
		if c := t.enter(conn); c != nil {
			t.serving.Go(func() { t.serverHandshake(e, c) })
		}
	}
}

// sleep waits for the pause, or until the transport is closed.
func (t *TCP) sleep(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.stop:
	}
}

func (t *TCP) isClosing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// enter adds a connection to the connections with an unfinished handshake. It returns nil if the transport is closed.
func (t *TCP) enter(conn net.Conn) *caller {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.Close()
		return nil
	}
	c, crowded := t.waiting.enter(conn)
	if crowded {
		t.counters.crowded.Add(1)
	}
	return c
}

// serverHandshake answers the handshake of an inbound connection. If the handshake succeeds, it serves the connection until
// the connection ends.
func (t *TCP) serverHandshake(e raft.Handler, c *caller) {
	defer func() { _ = c.Close() }()
	in, f, err := t.answer(e, c)
	if in == nil {
		linger(c.Conn)
	}
	c.gone()
	if err != nil {
		if !t.isClosing() && !handlerReports(err) {
			t.warner.warn("inbound connection was not accepted", "remote", c.RemoteAddr(), "error", err)
		}
		return
	}
	if in == nil {
		return
	}
	defer t.unregister(in)
	err = t.receive(e, in, f)
	if t.isClosing() || isSide(in.lane) && err == io.EOF { // the caller closes a side lane that is idle
		return
	}
	t.countStream(err)
	t.warner.warn("inbound connection ended", "peer", in.peer.ID, "lane", in.lane, "error", err)
	if in.lane == raft.LaneForward {
		t.forwardLost(in.peer)
	}
}

// answer is the acceptor's side of the handshake. If the caller only asked who is here, and was answered, answer returns nil
// for in.
func (t *TCP) answer(e raft.Handler, c *caller) (*inbound, *frameReader, error) {
	conn, err := t.secure(c)
	if err != nil {
		return nil, nil, err
	}
	source := &answeringReader{deadlineReader: deadlineReader{conn: conn}, writeTimeout: t.options.WriteTimeout}
	f := newFrameReader(source, t.options.FrameBytesMax)
	caller, err := readOpening(f)
	if err == nil && (caller.rejection != nil || caller.reply != nil) {
		err = fmt.Errorf("%w: the caller begins with an answer", ErrMalformed)
	}
	if err != nil {
		return nil, nil, t.reject(e, conn, caller, err)
	}
	if caller.who != nil {
		return nil, nil, t.answerWho(e, conn, *caller.who)
	}
	in := &inbound{conn: conn, peer: caller.hello.From, startCount: caller.hello.StartCount, lane: caller.lane}
	if err := t.check(e, conn, caller.hello, in); err != nil {
		return nil, nil, t.sendRejection(conn, err)
	}
	reply := opening{versions: ours, hello: t.hello(in.peer), lane: in.lane}
	_, err = conn.Write(reply.encode())
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		t.counters.handshakeCut.Add(1)
		t.unregister(in)
		return nil, nil, err
	}
	f.trickleTimeout = 2 * t.options.WriteTimeout
	source.timeout = idleTimeout(reply.hello, caller.hello)
	if in.lane != raft.LaneBulk { // beats on the urgent lane show that the bulk lane is alive, too
		source.interval = t.pulse.interval
	}
	if in.lane == raft.LaneUrgent {
		t.links.hear(in.peer)
		e.Accepted(caller.hello)
	}
	return in, f, nil
}

// secure waits for the caller's first byte and, with TLS, finishes the TLS handshake.
func (t *TCP) secure(c *caller) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(t.options.HandshakeTimeout)); err != nil {
		return nil, err
	}
	err := c.await()
	if err != nil && !t.options.secured() {
		t.counters.handshakeCut.Add(1)
		return nil, fmt.Errorf("transport: handshake: %w", err)
	}
	if !t.options.secured() {
		return c, nil
	}
	var secure *tls.Conn
	config, failed := t.options.presentTLS()
	if err = cmp.Or(err, failed); err == nil {
		secure = tls.Server(c, inboundTLS(config, nil))
		err = c.handshakeTLS(secure, t.turns)
	}
	if err != nil {
		t.counters.tlsFailed.Add(1)
		return nil, fmt.Errorf("transport: TLS handshake: %w", explainTLS(err, config))
	}
	c.reach(stageProven)
	return secure, nil
}

// reject ends a handshake if this member cannot read the caller's opening. If the caller has begun in our protocol, reject
// sends it the reason.
func (t *TCP) reject(e raft.Handler, conn net.Conn, caller opening, err error) error {
	if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrOversized) && !errors.Is(err, ErrVersion) {
		t.counters.handshakeCut.Add(1)
		return fmt.Errorf("transport: handshake: %w", err)
	}
	t.countStream(err)
	if caller.versions == (versions{}) {
		return err
	}
	reason := raft.RejectMalformed
	if errors.Is(err, ErrVersion) {
		reason = raft.RejectVersion
	}
	own := e.Hello(raft.Peer{})
	return t.sendRejection(conn, &RejectedError{By: own.From, Rejection: raft.Rejection{
		Reason: reason, From: own.From, VersionsMin: ours.min, VersionsMax: ours.max, Detail: err.Error(),
	}})
}

// errCrowded reports that the number of inbound connections has reached Options.InboundMax.
var errCrowded = errors.New("transport: too many inbound connections")

// check decides whether to accept a caller, and registers its connection if it does.
func (t *TCP) check(e raft.Handler, conn net.Conn, h raft.Hello, in *inbound) error {
	own := e.Hello(h.From)
	if err := t.identify(conn, h.ClusterName, h.From.ID); err != nil {
		return &RejectedError{By: own.From, Rejection: raft.Rejection{
			Reason: raft.RejectCertificate, From: own.From, Detail: err.Error(),
		}}
	}
	if r := e.Check(h); r != nil {
		return &RejectedError{By: own.From, Rejection: *r}
	}
	t.links.readers.enter(in.peer)
	err := t.register(own, in)
	if err != nil {
		t.links.readers.leave(in.peer)
	}
	return err
}

// register makes in the only connection of its peer and lane. It replaces an older connection, because this member may not
// have noticed the end of that connection yet. If the older connection belongs to a later start of the same disk, register
// rejects in.
func (t *TCP) register(own raft.Hello, in *inbound) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return raft.ErrClosed
	}
	older := t.inbounds[in.key()]
	if older == nil && len(t.inbounds) >= t.options.InboundMax {
		t.counters.crowded.Add(1)
		if !t.isNamed(in.peer) || !t.closeStranger() {
			return errCrowded
		}
	}
	if older != nil && in.startCount < older.startCount {
		return &RejectedError{By: own.From, Rejection: raft.Rejection{
			Reason: raft.RejectStaleStart, From: own.From, Cluster: own.Cluster, Term: own.Term,
			Detail: fmt.Sprintf("start %d of %q is connected, and this is start %d", older.startCount, in.peer.ID, in.startCount),
		}}
	}
	if older != nil {
		_ = older.conn.Close()
		t.counters.replaced.Add(1)
	}
	t.registered++
	in.number = t.registered
	t.inbounds[in.key()] = in
	return nil
}

// isNamed reports whether Connect names the peer, or has an open contact with the peer's id. It is called with mu held.
func (t *TCP) isNamed(p raft.Peer) bool { return t.named[p] || t.named[raft.Peer{ID: p.ID}] }

// closeStranger makes room for a member that Connect names. It finds the oldest connection of a caller that Connect does not
// name, and closes all connections of that caller. It returns false if there is no such caller. It is called with mu held.
func (t *TCP) closeStranger() bool {
	var oldest *inbound
	for _, in := range t.inbounds {
		if !t.isNamed(in.peer) && (oldest == nil || in.number < oldest.number) {
			oldest = in
		}
	}
	if oldest == nil {
		return false
	}
	t.closeInbounds(oldest.peer)
	return true
}

// closeInbounds closes all connections of a caller. It is called with mu held.
func (t *TCP) closeInbounds(p raft.Peer) {
	for _, lane := range lanes {
		key := inboundKey{p, lane}
		if in := t.inbounds[key]; in != nil {
			_ = in.conn.Close()
			delete(t.inbounds, key)
		}
	}
}

// unregister is the reverse of register. When a caller's urgent or bulk connection ends, unregister also closes the caller's
// other connections. So the caller learns that one of its connections has died. When a side lane ends, the others stay open.
// A caller always dials its urgent connection first. So the numbers show which connections belong to the same pair, and which
// belong to a later pair.
func (t *TCP) unregister(in *inbound) {
	defer t.links.readers.leave(in.peer)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inbounds[in.key()] != in {
		return // it was replaced
	}
	delete(t.inbounds, in.key())
	if isSide(in.lane) {
		return
	}
	for _, lane := range lanes {
		other := t.inbounds[inboundKey{in.peer, lane}]
		if other != nil && (lane == raft.LaneUrgent) == (other.number < in.number) {
			_ = other.conn.Close()
		}
	}
}

// receive passes the messages of a connection to the Handler until the connection ends.
func (t *TCP) receive(e raft.Handler, in *inbound, f *frameReader) error {
	d := newDecoder()
	batch := make([]raft.Message, 0, receiveMax)
	for {
		h, frame, err := f.next()
		if err != nil {
			return err
		}
		if h.kind != frameBeat {
			m, err := d.message(h, frame)
			if err != nil {
				return err
			}
			if m.From != in.peer {
				return fmt.Errorf("%w: %q (%v) on a connection of %q (%v)",
					ErrWrongSender, m.From.ID, m.From.Incarnation, in.peer.ID, in.peer.Incarnation)
			}
			batch = append(batch, m)
		}
		// The next frame may overwrite the bytes of a chunk, so the Handler gets a chunk before the next read.
		if len(batch) == 0 || len(batch) < receiveMax && h.kind != frameSnapshotChunk && f.buffered() {
			continue
		}
		e.Receive(in.peer, batch)
		clear(batch)
		batch = batch[:0]
	}
}

// linger closes our direction of the connection. Then it reads all that the caller still sends, until the caller has read our
// last answer and closed the connection. If we closed both directions while bytes of the caller are unread, the system could
// reset the connection before the caller reads that answer.
func linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, listBytesMax) // within HandshakeTimeout
	}
}

// sendRejection returns err. If err has a rejection, sendRejection first counts it and sends it to the caller.
func (t *TCP) sendRejection(conn net.Conn, err error) error {
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		return err
	}
	t.counters.reject(rejected.Rejection.Reason)
	if _, failed := conn.Write((opening{versions: ours, rejection: &rejected.Rejection}).encode()); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}
