package transport

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

const (
	// flushBytes is how much is gathered before it is written; a buffer that grew beyond twice that
	// is not kept.
	flushBytes = 256 << 10
	// partBytes must get through within Options.WriteTimeout.
	partBytes = 128 << 10
	// directBytes and directBytesTLS: a record of at least this size is not copied into the buffer, but
	// written from where it is. TLS has no vectored write, so each such record costs a separate write.
	directBytes    = 4 << 10
	directBytesTLS = 64 << 10
)

// outbound is the connection of one lane to a peer.
type outbound struct {
	conn           net.Conn
	writeTimeout   time.Duration
	appendBytesMax int
	directBytes    int

	mu      sync.Mutex // held while writing
	sentAt  time.Time  // when something was sent last
	encoder *encoder
	buf     []byte
	uncut   int         // buf[uncut:] is not in pieces yet
	pieces  net.Buffers // of buf and of records, in order
}

// send writes the batch. Messages that cannot be encoded are left out; skipped is the first of their errors, and
// the connection stays usable. After an error in broken the stream is unusable.
func (o *outbound) send(batch []raft.Message, unsendable *atomic.Uint64) (skipped, broken error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// flush writes the pieces in parts. Each part that gets through extends the deadline.
func (o *outbound) flush() error {
	o.cut()
	var err error
	for rest := o.pieces; err == nil && len(rest) > 0; {
		o.sentAt = time.Now()
		if err = o.conn.SetWriteDeadline(o.sentAt.Add(o.writeTimeout)); err != nil {
			break
		}
		switch n := within(rest, partBytes); n {
		case 0:
			_, err = o.conn.Write(rest[0][:partBytes])
			rest[0] = rest[0][partBytes:]
		case 1:
			_, err = o.conn.Write(rest[0])
			rest = rest[1:]
		default:
			part := rest[:n] // WriteTo consumes its receiver
			_, err = part.WriteTo(o.conn)
			rest = rest[n:]
		}
	}
	clear(o.pieces)
	o.pieces, o.uncut, o.buf = o.pieces[:0], 0, o.buf[:0]
	if cap(o.buf) > 2*flushBytes {
		o.buf = nil
	}
	return err
}

// within returns how many of the first pieces fit into bytesMax bytes.
func within(pieces net.Buffers, bytesMax int) (n int) {
	for n < len(pieces) && len(pieces[n]) <= bytesMax {
		bytesMax -= len(pieces[n])
		n++
	}
	return n
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

// fail closes both lanes; the first reason is kept.
func (p *pair) fail(why error) {
	p.once.Do(func() {
		p.why = why
		for _, o := range p.lanes {
			_ = o.conn.Close() // its error would add nothing to why
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

// watch reads the connection of one lane, on which the peer sends nothing but beats, so that the end of the
// connection is noticed at once.
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
