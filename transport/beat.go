package transport

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// beat is a frame without content. It shows that its sender is alive.
var beat = appendFrame(nil, frameBeat, nil, 0)

func writeBeat(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := conn.Write(beat)
	return err
}

// pulse decides when a transport sends beats on the connections that it dialed. Once an interval has passed since the last
// beat, the next Send triggers a beat. If nothing is sent, a beat is due a quarter of an interval later. This saves work: to
// wake a process is the main cost, and heartbeats wake all members at the same time anyway. A connection needs no beat if
// something was sent on it in the last quarter of an interval. So a working connection is never silent for more than one and
// a half intervals.
type pulse struct {
	interval time.Duration
	began    time.Time
	last     atomic.Int64  // last beat, as a time.Duration since began
	due      chan struct{} // capacity 1
}

func newPulse(interval time.Duration) *pulse {
	return &pulse{interval: interval, began: time.Now(), due: make(chan struct{}, 1)}
}

func (p *pulse) sinceLast() time.Duration {
	return time.Since(p.began) - time.Duration(p.last.Load())
}

// sent is called after each Send.
func (p *pulse) sent() {
	if p.sinceLast() >= p.interval {
		signal(p.due)
	}
}

// run calls beat whenever one is due, until stop is closed.
func (p *pulse) run(stop <-chan struct{}, beat func()) {
	latest := p.interval + p.interval/4
	timer := time.NewTimer(latest)
	defer timer.Stop()
	for {
		select {
		case <-p.due:
		case <-timer.C:
			if quiet := p.sinceLast(); quiet < latest {
				timer.Reset(latest - quiet)
				continue
			}
			timer.Reset(latest)
		case <-stop:
			return
		}
		p.last.Store(int64(time.Since(p.began)))
		beat()
	}
}

// keepBeating sends beats on all dialed connections until the transport is closed. Each peer has its own goroutine for its
// beats, so that a slow peer does not delay the beats of the others.
func (t *TCP) keepBeating() {
	var beats sync.WaitGroup
	defer beats.Wait()
	t.pulse.run(t.stop, func() {
		for _, s := range t.links.sessions() {
			beats.Go(func() { s.(*pair).beat(t.pulse.interval / 4) })
		}
	})
}

// beat writes a beat on each lane that needs one. The urgent lane comes first, because writes on the others may
// have to wait.
func (p *pair) beat(lately time.Duration) {
	for _, o := range p.lanes {
		if err := o.beat(lately); err != nil {
			p.fail(err)
		}
	}
	for _, lane := range lanes[raft.LaneSnapshot:] {
		if o := p.side(lane).open.Load(); o != nil {
			if err := o.beat(lately); err != nil {
				p.endSide(lane, o, err)
			}
		}
	}
}

// beat writes a beat, unless something was sent within the last `lately`, or is being sent now. On a slow link the beat waits
// for room, like a message.
func (o *outbound) beat(lately time.Duration) error {
	if !o.mu.TryLock() {
		return nil
	}
	defer o.mu.Unlock()
	if time.Since(o.sentAt) < lately {
		return nil
	}
	o.sentAt = time.Now()
	return writeBeat(o.conn, o.writeTimeout)
}

// answeringReader reads from a connection that this member accepted. When bytes arrive, it answers with a beat, at most once
// per half interval. It needs no timer, because the caller is never silent for long. The beat costs little, because both
// processes are awake anyway.
type answeringReader struct {
	deadlineReader
	interval     time.Duration // 0: it does not answer
	writeTimeout time.Duration
	answered     time.Time
}

func (r *answeringReader) Read(b []byte) (int, error) {
	n, err := r.deadlineReader.Read(b)
	if n == 0 || err != nil || r.interval == 0 {
		return n, err
	}
	if now := time.Now(); now.Sub(r.answered) >= r.interval/2 {
		r.answered = now
		err = writeBeat(r.conn, r.writeTimeout)
	}
	return n, err
}

// deadlineReader reads from a connection. A read fails if nothing arrives within timeout; if timeout is 0, there is no limit.
type deadlineReader struct {
	conn    net.Conn
	timeout time.Duration
}

// Read waits at most twice, each time for half of the timeout. If a process was stopped for a while, it finds that its
// deadline has passed, although bytes have arrived. The second wait reads these bytes.
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
