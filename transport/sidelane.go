package transport

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// sideIdle is the time after which an unused side lane is closed.
const sideIdle = 10 * time.Second

// sideLane is a connection of a pair that Send dials when it is needed: for snapshots, or for callers' requests. If it ends,
// the pair stays open. The stream of a snapshot resumes on a new lane; what was lost of requests is lost.
type sideLane struct {
	mu   sync.Mutex // held during a Send
	open atomic.Pointer[outbound]
	idle *time.Timer
}

func isSide(lane raft.Lane) bool { return lane >= raft.LaneSnapshot }

func (p *pair) side(lane raft.Lane) *sideLane { return &p.sides[lane-raft.LaneSnapshot] }

// laneSince returns the first protocol version that has the side lane.
func laneSince(lane raft.Lane) uint16 {
	if lane == raft.LaneForward {
		return frameForward.since()
	}
	return frameSnapshotChunk.since()
}

// sendSide writes the batch. It first dials the lane if the lane is not open.
func (p *pair) sendSide(lane raft.Lane, batch []raft.Message) error {
	if !p.enter() {
		return &NotConnectedError{Peer: p.member.ID, Err: p.err()}
	}
	defer p.served.Done()
	l := p.side(lane)
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open.Load()
	if o == nil {
		var err error
		if o, err = p.dialSide(lane); err != nil {
			return &NotConnectedError{Peer: p.member.ID, Err: fmt.Errorf("the %v lane: %w", lane, err)}
		}
	}
	l.idle.Stop()
	skipped, broken := o.send(batch, &p.t.counters.unsendable)
	l.idle.Reset(sideIdle)
	if broken != nil {
		p.endSide(lane, o, broken)
		p.t.counters.sendFailed.Add(1)
		return fmt.Errorf("transport: send: %w", broken)
	}
	if skipped != nil {
		p.t.warner.warnOf(p.member.ID, "a message cannot be sent", "lane", lane, "error", skipped)
	}
	return skipped
}

// dialSide opens the lane. It is called with the lane's mu held.
func (p *pair) dialSide(lane raft.Lane) (*outbound, error) {
	if speaks, needs := p.hello.Protocol, laneSince(lane); speaks < needs {
		return nil, fmt.Errorf("%w: it needs version %d, and the peer speaks %d: upgrade the peer", ErrVersion, needs, speaks)
	}
	m := p.member
	m.Incarnation = p.hello.From.Incarnation
	s, err := p.t.dialLane(p.ctx, m, p.address, lane)
	if err != nil {
		return nil, err
	}
	if !sameStart(p.hello, s.hello) {
		_ = s.conn.Close()
		return nil, fmt.Errorf("transport: %q has restarted since its other lanes were dialed", p.member.ID)
	}
	p.t.counters.sidesDialed.Add(1)
	o, l := p.t.newOutbound(s), p.side(lane)
	detach := context.AfterFunc(p.ctx, func() { _ = s.conn.Close() })
	l.stopIdle()
	l.open.Store(o)
	l.idle = time.AfterFunc(sideIdle, func() { l.closeIdle(o) })
	p.served.Go(func() {
		defer detach()
		p.endSide(lane, o, p.read(s.reader))
	})
	return o, nil
}

// stopIdle stops the timer of the last lane, if there was one.
func (l *sideLane) stopIdle() {
	if l.idle != nil {
		l.idle.Stop()
	}
}

// closeIdle closes a lane that is not in use.
func (l *sideLane) closeIdle(o *outbound) {
	if !l.mu.TryLock() {
		return // a Send has begun; it starts the timer again
	}
	defer l.mu.Unlock()
	if l.open.CompareAndSwap(o, nil) {
		_ = o.conn.Close()
	}
}

// endSide closes a lane that has ended.
func (p *pair) endSide(lane raft.Lane, o *outbound, why error) {
	if !p.side(lane).open.CompareAndSwap(o, nil) {
		return
	}
	_ = o.conn.Close() // its error would add nothing to why
	if p.ctx.Err() != nil {
		return // Lost follows
	}
	p.t.counters.sidesLost.Add(1)
	p.t.countStream(why)
	p.t.warner.warnOf(p.member.ID, "a connection ended", "lane", lane, "error", why)
	if lane == raft.LaneForward {
		p.t.forwardLost(p.hello.From)
	}
}

// forwardLost reports to a raft.ForwardHandler that a forward lane broke.
func (t *TCP) forwardLost(p raft.Peer) {
	if e, ok := t.links.handler.(raft.ForwardHandler); ok {
		e.ForwardLost(p)
	}
}
