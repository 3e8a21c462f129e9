package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

const (
	// flushBytes is the number of bytes to gather before a write. If a buffer grows beyond twice that size, it is released
	// after the write.
	flushBytes = 256 << 10
	// partBytes is the number of bytes that must be written within Options.WriteTimeout.
	partBytes = 128 << 10
	// directBytes and directBytesTLS are the smallest sizes of a record that is not copied into the buffer, but written
	// directly from its own memory. TLS has no vectored write, so with TLS each such record costs a separate write.
	directBytes    = 4 << 10
	directBytesTLS = 64 << 10
)

// outbound is the connection of one lane to a peer.
type outbound struct {
	conn         net.Conn
	writeTimeout time.Duration
	limits       limits
	directBytes  int

	mu      sync.Mutex // held while writing
	sentAt  time.Time  // last write
	encoder *encoder
	buf     []byte
	uncut   int         // buf[uncut:] is not in pieces yet
	pieces  net.Buffers // parts of buf and of tails, in order
}

// send writes the batch. If a message cannot be encoded, send leaves it out. skipped is the first error of such messages; the
// connection remains usable. If broken is not nil, the connection is unusable.
func (o *outbound) send(batch []raft.Message, unsendable *atomic.Uint64) (skipped, broken error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range batch {
		buf, rest, err := o.encoder.message(o.buf, m, o.limits)
		if err != nil {
			unsendable.Add(1)
			if skipped == nil {
				skipped = err
			}
			continue
		}
		o.buf = buf
		if err := o.gather(rest); err != nil {
			return skipped, err
		}
	}
	return skipped, o.flush()
}

// gather appends the tail of a frame to the bytes of the next flush. It flushes whenever enough bytes have gathered, even
// within a frame. So the buffer stays small, however long the frame is.
func (o *outbound) gather(rest tail) error {
	for i := range rest.entries {
		o.add(rest.entries[i].Record())
		if len(o.buf) >= flushBytes {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	if rest.isData {
		o.add(rest.data)
		o.buf = rest.appendSum(o.buf)
	}
	if len(o.buf) >= flushBytes {
		return o.flush()
	}
	return nil
}

// add appends bytes. It does not copy them if they are many.
func (o *outbound) add(b []byte) {
	if len(b) < o.directBytes {
		o.buf = append(o.buf, b...)
		return
	}
	o.cut()
	o.pieces = append(o.pieces, b)
}

// cut makes a piece of the bytes that were appended to buf since the last cut. If buf grows later, its bytes are copied and
// the old bytes stay in place. So the piece remains valid.
func (o *outbound) cut() {
	if o.uncut < len(o.buf) {
		o.pieces = append(o.pieces, o.buf[o.uncut:len(o.buf):len(o.buf)])
		o.uncut = len(o.buf)
	}
}

// flush writes the pieces in parts. After each part it extends the deadline.
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

// pair is the session of a TCP link: the urgent and the bulk lane to a peer and, if open, its side lanes.
type pair struct {
	t      *TCP
	member raft.Member // as it was dialed: its incarnation may be 0, which means any
	hello  raft.Hello  // the peer's
	// address is where all lanes are dialed.
	address string
	lanes   [2]*outbound
	ctx     context.Context // ends with the pair
	cancel  context.CancelCauseFunc

	sides [2]sideLane // snapshot, forward

	mu     sync.Mutex
	ended  bool // close was called
	served sync.WaitGroup
}

func (p *pair) broken() <-chan struct{} { return p.ctx.Done() }
func (p *pair) err() error              { return context.Cause(p.ctx) }

// fail closes all lanes. It keeps only the first reason.
func (p *pair) fail(why error) {
	p.cancel(why) // closes the side lanes, too
	for _, o := range p.lanes {
		_ = o.conn.Close() // its error would add nothing to why
	}
}

func (p *pair) close(why error) {
	p.fail(why)
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.served.Wait()
	for i := range p.sides {
		p.sides[i].stopIdle()
	}
}

// enter counts a goroutine, or a call of the Handler, for which close must wait. p.served.Done ends it. enter returns false
// if close was already called.
func (p *pair) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.served.Add(1)
	}
	return !p.ended
}

func (p *pair) send(lane raft.Lane, batch []raft.Message) error {
	if isSide(lane) {
		return p.sendSide(lane, batch)
	}
	skipped, broken := p.lanes[lane].send(batch, &p.t.counters.unsendable)
	if broken != nil {
		p.fail(broken)
		p.t.counters.sendFailed.Add(1)
		return fmt.Errorf("transport: send: %w", broken)
	}
	if skipped != nil {
		p.t.warner.warnOf(p.member.ID, "a message cannot be sent", "lane", lane, "error", skipped)
	}
	return skipped
}

// watch reads the connection of one lane until it ends, and then ends the pair.
func (p *pair) watch(f *frameReader) {
	err := p.read(f)
	p.t.countStream(err)
	p.fail(err)
}

// read reads a connection to notice its end at once. The peer sends only beats on this connection.
func (p *pair) read(f *frameReader) error {
	for {
		h, _, err := f.next()
		if err != nil {
			return err
		}
		if h.kind != frameBeat {
			return fmt.Errorf("%w: type %d on a connection that we dialed", ErrMalformed, h.kind)
		}
	}
}
