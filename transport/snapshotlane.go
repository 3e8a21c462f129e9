package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// snapshotIdle is the time after which an unused snapshot lane is closed.
const snapshotIdle = 10 * time.Second

// snapshotLane is the third connection of a pair. Send dials it. If this lane ends, the pair stays open: the stream of a
// snapshot resumes on a new lane.
type snapshotLane struct {
	mu   sync.Mutex // held during a Send
	open atomic.Pointer[outbound]
	idle *time.Timer
}

// sendSnapshot writes the batch. It first dials the lane if the lane is not open.
func (p *pair) sendSnapshot(batch []raft.Message) error {
	if !p.enter() {
		return &NotConnectedError{Peer: p.member.ID, Err: p.err()}
	}
	defer p.served.Done()
	l := &p.snapshot
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open.Load()
	if o == nil {
		var err error
		if o, err = p.dialSnapshot(); err != nil {
			return &NotConnectedError{Peer: p.member.ID, Err: fmt.Errorf("the snapshot lane: %w", err)}
		}
	}
	l.idle.Stop()
	skipped, broken := o.send(batch, &p.t.counters.unsendable)
	l.idle.Reset(snapshotIdle)
	if broken != nil {
		p.endSnapshot(o, broken)
		p.t.counters.sendFailed.Add(1)
		return fmt.Errorf("transport: send: %w", broken)
	}
	if skipped != nil {
		p.t.warner.warn("a message cannot be sent", "lane", raft.LaneSnapshot, "error", skipped)
	}
	return skipped
}

// dialSnapshot opens the lane. It is called with snapshot.mu held.
func (p *pair) dialSnapshot() (*outbound, error) {
	if speaks, needs := p.hello.Protocol, frameSnapshotChunk.since(); speaks < needs {
		return nil, fmt.Errorf("%w: it needs version %d, and the peer speaks %d: upgrade the peer", ErrVersion, needs, speaks)
	}
	m := p.member
	m.Incarnation = p.hello.From.Incarnation
	s, err := p.t.dialLane(p.ctx, m, raft.LaneSnapshot)
	if err != nil {
		return nil, err
	}
	if !sameStart(p.hello, s.hello) {
		_ = s.conn.Close()
		return nil, fmt.Errorf("transport: %q has restarted since its other lanes were dialed", p.member.ID)
	}
	o := p.t.newOutbound(s)
	detach := context.AfterFunc(p.ctx, func() { _ = s.conn.Close() })
	p.snapshot.stopIdle()
	p.snapshot.open.Store(o)
	p.snapshot.idle = time.AfterFunc(snapshotIdle, func() { p.endSnapshot(o, nil) })
	p.served.Go(func() {
		defer detach()
		p.endSnapshot(o, p.read(s.reader))
	})
	return o, nil
}

// stopIdle stops the timer of the last lane, if there was one.
func (l *snapshotLane) stopIdle() {
	if l.idle != nil {
		l.idle.Stop()
	}
}

// endSnapshot closes the lane. The error is nil if the lane was idle.
func (p *pair) endSnapshot(o *outbound, why error) {
	if !p.snapshot.open.CompareAndSwap(o, nil) {
		return
	}
	_ = o.conn.Close() // its error would add nothing to why
	if why != nil && p.ctx.Err() == nil {
		p.t.countStream(why)
		p.t.warner.warn("the connection for snapshots ended", "peer", p.member.ID, "error", why)
	}
}
