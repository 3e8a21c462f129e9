package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

const (
	// flushBytes is how much is gathered before it is written; a buffer that grew beyond twice that
	// is not kept.
	flushBytes = 256 << 10
	// directBytes and directBytesTLS: a record of at least this size is not copied into the buffer,
	// but written from where it lies. Under TLS, which has no vectored write, each such record costs
	// a write of its own.
	directBytes    = 4 << 10
	directBytesTLS = 64 << 10
)

// beat is the frame that says that its sender lives.
var beat = appendFrame(nil, frameBeat, nil, 0)

// outbound is the connection of one lane to a peer.
type outbound struct {
	conn           net.Conn
	writeTimeout   time.Duration
	appendBytesMax int
	directBytes    int
	busy           atomic.Bool // something was sent since the last beat fell due

	mu      sync.Mutex // held while writing
	encoder *encoder
	buf     []byte
	uncut   int         // where the part of buf begins that is not in pieces yet
	pieces  net.Buffers // of buf and of records, in order
}

// send writes the batch. Messages that cannot be encoded are left out; skipped is the first of their
// errors and leaves the connection intact, while after a broken one the stream is of no more use.
func (o *outbound) send(batch []raft.Message, unsendable *atomic.Uint64) (skipped, broken error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy.Store(true)
	if err := o.conn.SetWriteDeadline(time.Now().Add(o.writeTimeout)); err != nil {
		return nil, err
	}
	for _, m := range batch {
		if err := o.gather(m); err != nil {
			unsendable.Add(1)
			if skipped == nil {
				skipped = err
			}
		}
		if len(o.buf) >= flushBytes {
			if err := o.flush(); err != nil {
				return skipped, err
			}
		}
	}
	return skipped, o.flush()
}

// gather appends one message to what the next flush writes.
func (o *outbound) gather(m raft.Message) error {
	buf, entries, err := o.encoder.message(o.buf, m, o.appendBytesMax)
	if err != nil {
		return err
	}
	o.buf = buf
	for _, e := range entries {
		record := e.Record()
		if len(record) < o.directBytes {
			o.buf = append(o.buf, record...)
			continue
		}
		o.cut()
		o.pieces = append(o.pieces, record)
	}
	return nil
}

// cut makes what was appended to buf since the last cut a piece. The piece stays valid when buf
// grows: growing copies, and leaves the old bytes where they are.
func (o *outbound) cut() {
	if o.uncut < len(o.buf) {
		o.pieces = append(o.pieces, o.buf[o.uncut:len(o.buf):len(o.buf)])
		o.uncut = len(o.buf)
	}
}

func (o *outbound) flush() error {
	o.cut()
	var err error
	switch len(o.pieces) {
	case 0:
	case 1:
		_, err = o.conn.Write(o.pieces[0])
	default:
		rest := o.pieces // WriteTo consumes its receiver
		_, err = rest.WriteTo(o.conn)
	}
	clear(o.pieces)
	o.pieces, o.uncut, o.buf = o.pieces[:0], 0, o.buf[:0]
	if cap(o.buf) > 2*flushBytes {
		o.buf = nil
	}
	return err
}

// beat says that this member lives, unless something was sent since the last time or is being sent
// just now. On a slow link it waits, like a message, until there is room for it.
func (o *outbound) beat() error {
	if o.busy.Swap(false) || !o.mu.TryLock() {
		return nil
	}
	defer o.mu.Unlock()
	return writeBeat(o.conn, o.writeTimeout)
}

func writeBeat(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := conn.Write(beat)
	return err
}

// keepBeating calls beat at every interval, until it fails or the connection is gone. Each connection
// has a goroutine for it: one that is slow delays the beats of no other.
func keepBeating(interval time.Duration, gone <-chan struct{}, beat func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-gone:
			return nil
		}
		if err := beat(); err != nil {
			return err
		}
	}
}

// pair is both lanes to a peer: the session of a TCP link.
type pair struct {
	t     *TCP
	lanes [2]*outbound
	gone  chan struct{}
	once  sync.Once
	why   error // set before gone is closed
	wg    sync.WaitGroup
}

func (p *pair) broken() <-chan struct{} { return p.gone }
func (p *pair) err() error              { return p.why }

// fail takes both lanes down; the first reason stands.
func (p *pair) fail(why error) {
	p.once.Do(func() {
		p.why = why
		for _, o := range p.lanes {
			_ = o.conn.Close() // nothing is left to be told
		}
		close(p.gone)
	})
}

func (p *pair) close(why error) {
	p.fail(why)
	p.wg.Wait()
}

func (p *pair) send(lane raft.Lane, batch []raft.Message) error {
	skipped, broken := p.lanes[lane].send(batch, &p.t.counters.unsendable)
	if broken != nil {
		p.fail(broken)
		p.t.counters.sendFailed.Add(1)
		return fmt.Errorf("transport: send: %w", broken)
	}
	if skipped != nil {
		p.t.warner.warn("a message cannot be sent", "lane", lane, "error", skipped)
	}
	return skipped
}

func (p *pair) keepBeating(o *outbound) {
	if err := keepBeating(p.t.options.beatInterval(), p.gone, o.beat); err != nil {
		p.fail(err)
	}
}

// watch reads the connection of one lane, on which the peer says nothing but that it lives, so that
// its end is noticed at once.
func (p *pair) watch(f *frameReader) {
	for {
		h, _, err := f.next()
		if err == nil && h.kind != frameBeat {
			err = fmt.Errorf("%w: type %d on a connection that we dialed", ErrMalformed, h.kind)
		}
		if err != nil {
			p.t.countStream(err)
			p.fail(err)
			return
		}
	}
}

// deadlineReader reads from a connection that must not be silent for longer than timeout, if that is
// not 0.
type deadlineReader struct {
	conn    net.Conn
	timeout time.Duration
}

// Read waits twice for half of the timeout. When this process was stopped for a while it finds that a
// deadline has passed, although bytes have arrived: it looks once more.
func (r *deadlineReader) Read(b []byte) (int, error) {
	if r.timeout == 0 {
		return r.conn.Read(b)
	}
	n, err := r.readWithin(b, r.timeout/2)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return r.readWithin(b, r.timeout/2)
	}
	return n, err
}

func (r *deadlineReader) readWithin(b []byte, timeout time.Duration) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	return r.conn.Read(b)
}
