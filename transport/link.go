package transport

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// session is the open connection to a peer: the pair of the urgent and the bulk lane, and the snapshot lane, which need
// not be open.
type session interface {
	send(lane raft.Lane, batch []raft.Message) error
	// broken is closed when either lane of the pair has ended; then err returns the reason.
	broken() <-chan struct{}
	err() error
	// close closes all lanes and waits for the goroutines that serve them.
	close(why error)
}

// dialed is what a successful dial returns.
type dialed struct {
	session   session
	hello     raft.Hello
	roundTrip time.Duration
}

// linker holds the links of one transport. A link keeps one peer connected, and redials it when the connection
// ends. The two transports of this package differ in how they dial.
type linker struct {
	dial     func(ctx context.Context, m raft.Member) (dialed, error)
	pauseMin time.Duration // before the first redial
	pauseMax time.Duration
	// onFailure counts and logs that an open connection broke (stood), or that a dial failed.
	onFailure func(m raft.Member, stood bool, err error)

	mu      sync.Mutex
	handler raft.Handler // nil until start
	links   map[raft.NodeID]*link
	leaving map[raft.NodeID]<-chan struct{} // links that are ending; a new link to the same peer waits for its predecessor
	closed  bool
	wg      sync.WaitGroup
}

// link is one peer. Only its goroutine calls Up, Lost and Rejected for the peer, so that these calls are in
// order.
type link struct {
	l      *linker
	id     raft.NodeID
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // of capacity 1: ends any pause
	heard  chan struct{} // of capacity 1: ends a pause after a dial that failed
	redial chan struct{} // of capacity 1: the address has changed

	session atomic.Pointer[session] // nil while not connected

	mu     sync.Mutex
	member raft.Member
	status raft.PeerStatus
}

func (l *linker) start(e raft.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handler = e
	l.links = map[raft.NodeID]*link{}
	l.leaving = map[raft.NodeID]<-chan struct{}{}
}

// connect replaces the list of peers to dial. A peer whose address is unchanged keeps its connection.
func (l *linker) connect(peers []raft.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.handler == nil {
		return
	}
	named := map[raft.NodeID]bool{}
	for _, m := range peers {
		named[m.ID] = true
		if k := l.links[m.ID]; k != nil {
			k.readdress(m)
		} else {
			l.add(m)
		}
	}
	for id, k := range l.links {
		if !named[id] {
			k.cancel()
			delete(l.links, id)
			l.leaving[id] = k.done
		}
	}
	for id, done := range l.leaving {
		select {
		case <-done:
			delete(l.leaving, id)
		default:
		}
	}
}

// add starts a link. It is called with mu held.
func (l *linker) add(m raft.Member) {
	ctx, cancel := context.WithCancel(context.Background())
	k := &link{
		l: l, id: m.ID, member: m, cancel: cancel, done: make(chan struct{}),
		wake: make(chan struct{}, 1), heard: make(chan struct{}, 1), redial: make(chan struct{}, 1),
	}
	l.links[m.ID] = k
	predecessor := l.leaving[m.ID]
	delete(l.leaving, m.ID)
	l.wg.Go(func() {
		defer close(k.done)
		defer cancel()
		if predecessor != nil {
			<-predecessor // it was cancelled; wait until it has made its last calls of the handler
		}
		k.run(ctx, l.handler)
	})
}

func (l *linker) link(id raft.NodeID) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.links[id]
}

func (l *linker) send(to raft.NodeID, lane raft.Lane, batch []raft.Message) error {
	k := l.link(to)
	if k == nil {
		return &NotConnectedError{Peer: to}
	}
	s := k.session.Load()
	if s == nil {
		return &NotConnectedError{Peer: to, Err: k.peer().Err}
	}
	return (*s).send(lane, batch)
}

// sessions returns the open sessions.
func (l *linker) sessions() (all []session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		if s := k.session.Load(); s != nil {
			all = append(all, *s)
		}
	}
	return all
}

func (l *linker) peer(id raft.NodeID) raft.PeerStatus {
	if k := l.link(id); k != nil {
		return k.peer()
	}
	return raft.PeerStatus{}
}

// hear reports that a peer has connected to this member: it is up, and a dial of it may succeed now.
func (l *linker) hear(id raft.NodeID) {
	if k := l.link(id); k != nil {
		signal(k.heard)
	}
}

// wakeAll ends the pauses of the links that wait to redial.
func (l *linker) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		signal(k.wake)
	}
}

// close ends every link and waits for them. It is idempotent.
func (l *linker) close() {
	l.mu.Lock()
	l.closed = true
	for _, k := range l.links {
		k.cancel()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

func (l *linker) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is pending already
	}
}

// run dials until the link is cancelled. A list of peers may name this member too: it has no link
// to itself.
func (k *link) run(ctx context.Context, e raft.Handler) {
	if e.Hello(k.id).From.ID == k.id {
		return
	}
	pause := k.l.pauseMin
	for ctx.Err() == nil {
		select {
		case <-k.redial: // target returns the new address already
		default:
		}
		d, err := k.l.dial(ctx, k.target())
		if err != nil {
			if ctx.Err() == nil {
				k.failed(e, err)
				k.wait(ctx, jittered(pause), k.heard)
			}
			pause = min(2*pause, k.l.pauseMax)
			continue
		}
		began := time.Now()
		k.serve(ctx, e, d)
		// Redial at once after a connection that lasted for a while: the outcome tells a peer that has
		// ended (nobody listens) from one that only lost the connection. After a connection that broke
		// early the pauses grow, even if the peer was heard: two members that break each other's
		// connections must not go on doing so forever.
		if time.Since(began) >= k.l.pauseMax {
			pause = k.l.pauseMin
			continue
		}
		k.wait(ctx, jittered(pause), nil)
		pause = min(2*pause, k.l.pauseMax)
	}
}

// jittered returns between half of the pause and all of it, so that members do not dial in step.
func jittered(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause/2+1)
}

// wait waits for the pause to end, or for a reason to end it early.
func (k *link) wait(ctx context.Context, pause time.Duration, heard <-chan struct{}) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.wake:
	case <-heard:
	case <-k.redial:
	case <-ctx.Done():
	}
}

// serve keeps a session until it breaks, the peer's address changes or the link ends.
func (k *link) serve(ctx context.Context, e raft.Handler, d dialed) {
	k.setStatus(raft.PeerStatus{Connected: true, RoundTrip: d.roundTrip})
	k.session.Store(&d.session)
	e.Up(d.hello)
	why := ErrRemoved
	select {
	case <-d.session.broken():
		why = d.session.err()
	case <-k.redial:
	case <-ctx.Done():
	}
	k.session.Store(nil)
	k.setStatus(raft.PeerStatus{Err: why, RoundTrip: d.roundTrip})
	d.session.close(why)
	if k.l.isClosed() {
		return
	}
	k.l.onFailure(k.target(), true, why)
	e.Lost(k.id, false)
}

// failed reports a failed dial to the handler.
func (k *link) failed(e raft.Handler, err error) {
	k.setStatus(raft.PeerStatus{Err: err})
	k.l.onFailure(k.target(), false, err)
	if r, ok := refusedBy(err, k.id); ok {
		e.Rejected(k.id, r)
		return
	}
	e.Lost(k.id, nobodyListens(err))
}

func (k *link) target() raft.Member {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.member
}

func (k *link) readdress(m raft.Member) {
	k.mu.Lock()
	moved := k.member.Address != m.Address
	k.member = m
	k.mu.Unlock()
	if moved {
		signal(k.redial)
	}
}

func (k *link) peer() raft.PeerStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// setStatus sets the status. If s has no round trip, that of the last handshake is kept.
func (k *link) setStatus(s raft.PeerStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.RoundTrip == 0 {
		s.RoundTrip = k.status.RoundTrip
	}
	k.status = s
}
