package transport

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// session is the open connection to a peer. It consists of the pair of the urgent and the bulk lane, and of side lanes, which
// may be closed.
type session interface {
	send(lane raft.Lane, batch []raft.Message) error
	// broken returns a channel that is closed when the urgent or the bulk lane has ended. After that, err returns the reason.
	broken() <-chan struct{}
	err() error
	// close closes all lanes and waits for the goroutines that serve them.
	close(why error)
}

// dialed is what a successful dial returns.
type dialed struct {
	address   string // where the peer was dialed, even if the dial failed; "": at its own address
	session   session
	hello     raft.Hello
	roundTrip time.Duration
}

// linker holds the links of one transport. A link keeps one peer connected: when the connection ends, the link dials again.
// The two transports of this package dial in different ways.
type linker struct {
	// dial dials the member at m.Address. If m.Incarnation is 0, the peer may be any incarnation of m.ID that answers.
	dial     func(ctx context.Context, m raft.Member) (dialed, error)
	pauseMin time.Duration // before the first redial
	pauseMax time.Duration
	// onFailure counts and logs a failure. If wasOpen is true, an open connection broke; otherwise, a dial failed.
	onFailure func(m raft.Member, wasOpen bool, err error)
	readers   readers

	mu      sync.Mutex
	handler raft.Handler // nil until start
	links   map[raft.Peer]*link
	leaving map[raft.NodeID][]<-chan struct{} // links that are ending; a new link to the same id waits for them
	closed  bool
	wg      sync.WaitGroup
}

// link is one contact. Only its goroutine calls Up, Lost and Rejected for the peer, so these calls are in
// order.
type link struct {
	l      *linker
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{} // capacity 1: ends any pause
	heard  chan struct{} // capacity 1: ends a pause after a failed dial
	redial chan struct{} // capacity 1: the address in use is no longer named

	open atomic.Pointer[dialed] // the session; nil while not connected

	mu      sync.Mutex
	contact raft.Contact
	round   round
	status  raft.PeerStatus
}

// breach is the end of a connection that this member did not close.
type breach struct {
	peer raft.Peer // zero: none
	at   time.Time
}

// lastsPauses is how many pauses a connection lasts after which the next pause is the shortest again. A connection that ends
// within one pause doubles it: each of two members that break each other's connections does that to one of them. If a network
// resets connections again and again, they last longer than the pauses, and the leader is heard.
const lastsPauses = 4

// endingPause is the first pause of the redials of a process that is ending.
const endingPause = 250 * time.Microsecond

// mayEnd reports whether the peer may be ending: Linux may close a killed process's connections before its listener. In
// between, dials connect, and then break.
func (b breach) mayEnd(all []error) bool {
	return b.peer != (raft.Peer{}) && slices.ContainsFunc(all, cutOff) && time.Since(b.at) < readersWait
}

func (l *linker) start(e raft.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handler = e
	l.links = map[raft.Peer]*link{}
	l.leaving = map[raft.NodeID][]<-chan struct{}{}
}

// connect replaces the list of peers to dial. If the list still names the address to which a peer is connected, the
// connection stays open.
func (l *linker) connect(contacts []raft.Contact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.handler == nil {
		return
	}
	named := map[raft.Peer]bool{}
	for _, c := range contacts {
		named[c.Peer()] = true
		l.adopt(c)
	}
	for p, k := range l.links {
		if !named[p] {
			k.cancel()
			delete(l.links, p)
			l.leaving[p.ID] = append(l.leaving[p.ID], k.done)
		}
	}
	for _, c := range contacts {
		if k := l.links[c.Peer()]; k != nil {
			k.readdress(c)
		} else {
			l.add(c)
		}
	}
	for id, ending := range l.leaving {
		l.leaving[id] = slices.DeleteFunc(ending, ended)
		if len(l.leaving[id]) == 0 {
			delete(l.leaving, id)
		}
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// adopt gives a link to a contact that has none. It takes the link of the open contact with the same id, if that link is
// connected to exactly this incarnation. It is called with mu held.
func (l *linker) adopt(c raft.Contact) {
	anyone := raft.Peer{ID: c.ID}
	k := l.links[anyone]
	if k == nil || l.links[c.Peer()] != nil {
		return
	}
	if d := k.open.Load(); d != nil && d.hello.From == c.Peer() {
		delete(l.links, anyone)
		l.links[c.Peer()] = k
	}
}

// add starts a link. It is called with mu held.
func (l *linker) add(c raft.Contact) {
	ctx, cancel := context.WithCancel(context.Background())
	k := &link{
		l: l, contact: c, cancel: cancel, done: make(chan struct{}),
		wake: make(chan struct{}, 1), heard: make(chan struct{}, 1), redial: make(chan struct{}, 1),
	}
	l.links[c.Peer()] = k
	predecessors := slices.Clone(l.leaving[c.ID])
	l.wg.Go(func() {
		defer close(k.done)
		defer cancel()
		for _, done := range predecessors {
			<-done // wait until the cancelled link has made its last calls of the handler
		}
		k.run(ctx, l.handler)
	})
}

// link returns the link for messages to the peer. This is the peer's own link or, if there is none, an open one that is not
// connected to another incarnation. link also returns the session of the link, or nil if the link is not connected.
func (l *linker) link(p raft.Peer) (*link, *dialed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.links[p]
	if k == nil {
		k = l.links[raft.Peer{ID: p.ID}]
	}
	if k == nil {
		return nil, nil
	}
	d := k.open.Load()
	if d != nil && p.Incarnation != 0 && d.hello.From != p {
		return nil, nil
	}
	return k, d
}

func (l *linker) send(to raft.Peer, lane raft.Lane, batch []raft.Message) error {
	k, d := l.link(to)
	switch {
	case k == nil:
		return &NotConnectedError{Peer: to.ID}
	case d == nil:
		return &NotConnectedError{Peer: to.ID, Err: k.peer().Err}
	}
	return d.session.send(lane, batch)
}

// sessions returns the open sessions.
func (l *linker) sessions() (all []session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		if d := k.open.Load(); d != nil {
			all = append(all, d.session)
		}
	}
	return all
}

func (l *linker) peer(p raft.Peer) raft.PeerStatus {
	if k, _ := l.link(p); k != nil {
		return k.peer()
	}
	return raft.PeerStatus{}
}

// hear reports that a peer has connected to this member. That peer runs, so a dial may succeed now.
func (l *linker) hear(p raft.Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range []raft.Peer{p, {ID: p.ID}} {
		if k := l.links[of]; k != nil {
			signal(k.heard)
		}
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

// run dials until the link is cancelled. If the list of peers also names this member, run returns at once, because a member
// has no link to itself.
func (k *link) run(ctx context.Context, e raft.Handler) {
	if k.isSelf(e) {
		return
	}
	pause, turn := k.l.pauseMin, 0
	var redialed time.Time // when the link last redialed at once
	var last breach
	for ctx.Err() == nil {
		m := k.next()
		d, err := k.l.dial(context.WithValue(ctx, turnKey{}, turn), m)
		named := m.Address
		m.Address = cmp.Or(d.address, named)
		if err != nil {
			if ctx.Err() != nil {
				continue
			}
			all := k.failed(ctx, e, m, last.peer, err)
			if all == nil {
				continue
			}
			turn++
			if last.mayEnd(all) {
				k.wait(ctx, max(endingPause, time.Since(last.at)/2), nil)
				continue
			}
			last = breach{}
			k.wait(ctx, jittered(pause), k.heard)
			pause = min(2*pause, k.l.pauseMax)
			continue
		}
		began := time.Now()
		last = k.serve(ctx, e, m, named, d)
		ended := time.Now()
		lasted := ended.Sub(began)
		if lasted >= lastsPauses*pause {
			pause = k.l.pauseMin
		}
		// The link dials again at once. That dial shows whether the peer has ended (nobody listens) or has only lost the
		// connection. But if connections break early again and again, only one dial in each pauseMax is at once and the
		// pauses of the others grow, even if the peer was heard. Otherwise two members that break each other's connections
		// would do so at full speed, forever.
		if ended.Sub(redialed) >= k.l.pauseMax {
			redialed = ended
			continue
		}
		k.wait(ctx, jittered(pause), nil)
		if lasted < pause {
			pause = min(2*pause, k.l.pauseMax)
		}
	}
}

func (k *link) isSelf(e raft.Handler) bool {
	k.mu.Lock()
	p := k.contact.Peer()
	k.mu.Unlock()
	self := e.Hello(p).From
	return self == p || p.Incarnation == 0 && self.ID == p.ID
}

// jittered returns a random duration between half of the pause and the whole pause, so that members do not all dial at the
// same time.
func jittered(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause/2+1)
}

// wait waits until the pause ends, or until there is a reason to end it early.
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

// serve keeps a session with the peer at m.Address. It returns in three cases: the session breaks, the contact no longer
// names the address, or the link ends. It returns the breach, or zero if this member closed the session.
func (k *link) serve(ctx context.Context, e raft.Handler, m raft.Member, named string, d dialed) breach {
	k.connected(named, m.Address, d.roundTrip)
	k.open.Store(&d)
	e.Up(d.hello)
	why := errNotNamed
	select {
	case <-d.session.broken():
		why = d.session.err()
	case <-k.redial:
	case <-ctx.Done():
	}
	k.open.Store(nil)
	k.disconnected(why)
	d.session.close(why)
	if k.l.isClosed() {
		return breach{}
	}
	at := time.Now()
	k.l.onFailure(m, true, why)
	e.Lost(d.hello.From, false)
	if closedHere(why) {
		return breach{}
	}
	return breach{d.hello.From, at}
}

// failed reports a failed dial to the handler. It reports a rejection at once, and any other error only when every address
// has failed. Then it returns the errors of all addresses, and a pause is due. broken is the peer whose connection broke
// before this round: if every address refuses the dial and no connection from that peer is open, its process has ended.
func (k *link) failed(ctx context.Context, e raft.Handler, m raft.Member, broken raft.Peer, err error) []error {
	k.l.onFailure(m, false, err)
	all := k.roundEnds(m.Address, err) // Peer shows the error before the handler hears of it
	if r, rejected := refusedBy(err, m.Peer()); rejected {
		e.Rejected(m.Peer(), r)
	}
	if all == nil {
		return nil
	}
	ended := broken != (raft.Peer{}) && every(all, nobodyListens) &&
		k.l.readers.whenNone(ctx, broken, func() { e.Lost(broken, true) })
	rejected := func(err error) bool { _, is := refusedBy(err, m.Peer()); return is }
	if !ended && ctx.Err() == nil && !every(all, rejected) {
		e.Lost(m.Peer(), false)
	}
	return all
}
