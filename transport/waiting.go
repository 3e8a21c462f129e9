package transport

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"github.com/coxswain/raft"
)

// A caller proves its identity with the last bytes of its handshake. Until then, it may be anybody with access to the port.
// So the number of unfinished handshakes is bounded. At the limit, the caller that looks least like a member is closed first.

// waiting holds the inbound connections whose handshake is not finished.
type waiting struct {
	countMax int

	mu      sync.Mutex
	classes [classes]list.List // of *caller, oldest first
	count   int
	homes   map[raft.Peer][]netip.Addr // where each contact was dialed recently, latest first
}

// The classes of callers, by stage. Callers from a member's address are in classes above all others. The callers of a flood
// send nothing, or nothing valid, and remain in low classes. A member soon leaves the low classes. This does not help if the
// flood comes from a member's address, for instance on the same machine.
const (
	stageSilent  = iota // nothing has arrived
	stageSpoken         // its first byte has arrived
	stageGreeted        // TLS has answered its first message
	stageProven         // its TLS handshake succeeded: it has a certificate of the authority
	stages
	classes = 2 * stages
)

// homesMax bounds the remembered addresses of one member.
const homesMax = 4

// caller is an inbound connection whose handshake is not finished.
type caller struct {
	net.Conn
	of      *waiting
	turns   *turns // of TLS; nil before and after its handshake
	hasTurn bool
	greeted bool   // TLS has answered its first message
	head    []byte // bytes read ahead

	home  bool          // it calls from a member's address
	class int           // guarded by of.mu
	at    *list.Element // guarded by of.mu; nil once the caller has left
}

// enter adds a connection. If there are too many, enter closes another connection and returns true for crowded.
func (w *waiting) enter(conn net.Conn) (c *caller, crowded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if crowded = w.count >= w.countMax; crowded {
		other := w.least()
		other.leave()
		_ = other.Close()
	}
	c = &caller{Conn: conn, of: w}
	if w.isHome(conn.RemoteAddr()) {
		c.home, c.class = true, stages
	}
	c.at = w.classes[c.class].PushBack(c)
	w.count++
	return c, crowded
}

// least returns the caller to close. It takes the lowest class that holds at least its share of the places, and the oldest
// caller of that class. A class with fewer callers does not fill the places. Also, a new caller needs a moment to leave the
// lowest class. If no place is free, at least one class holds its share. least is called with mu held.
func (w *waiting) least() *caller {
	i := 0
	for w.classes[i].Len()*classes < w.countMax {
		i++
	}
	return w.classes[i].Front().Value.(*caller)
}

// leave removes the caller. It is idempotent, and is called with of.mu held.
func (c *caller) leave() {
	if c.at != nil {
		c.of.classes[c.class].Remove(c.at)
		c.of.count--
		c.at = nil
	}
}

// gone calls leave with of.mu held.
func (c *caller) gone() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// reach records that the handshake has reached a stage.
func (c *caller) reach(stage int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.at != nil {
		c.leave()
		c.class += stage - c.class%stages
		c.at = c.of.classes[c.class].PushBack(c)
		c.of.count++
	}
}

// closeAll closes all callers.
func (w *waiting) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.classes {
		for at := w.classes[i].Front(); at != nil; at = at.Next() {
			_ = at.Value.(*caller).Close()
		}
	}
}

func (w *waiting) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// isHome reports whether this member has recently dialed another member at that IP address. It is called with mu held.
func (w *waiting) isHome(remote net.Addr) bool {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, known := range w.homes {
		for _, home := range known {
			if home == address {
				return true
			}
		}
	}
	return false
}

// dialing records the address at which a contact is dialed. address is a resolved "host:port".
func (w *waiting) dialing(p raft.Peer, address string) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return // not an internet address
	}
	home := parsed.Addr().Unmap().WithZone("")
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := []netip.Addr{home}
	for _, other := range w.homes[p] {
		if other != home && len(kept) < homesMax {
			kept = append(kept, other)
		}
	}
	w.homes[p] = kept
}

// keepOnly removes the addresses of contacts that are no longer named. If any contact of the same id is named, it keeps the
// addresses of an open contact, because the named contact may have taken over the connection.
func (w *waiting) keepOnly(named map[raft.Peer]bool) {
	ids := make(map[raft.NodeID]bool, len(named))
	for p := range named {
		ids[p.ID] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.homes {
		if !named[p] && (p.Incarnation != 0 || !ids[p.ID]) {
			delete(w.homes, p)
		}
	}
}

// peerKey is the key under which the context of a dial holds the dialed peer.
type peerKey struct{}

// await waits for the first byte. Only then does the handshake allocate memory.
func (c *caller) await() error {
	head := make([]byte, 1)
	n, err := c.Conn.Read(head)
	c.head = head[:n]
	if n > 0 {
		c.reach(stageSpoken)
		return nil
	}
	return err
}

// Read gives up the turn while it waits.
func (c *caller) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if c.turns == nil {
		return c.Conn.Read(b)
	}
	c.giveTurn()
	n, err := c.Conn.Read(b)
	c.takeTurn()
	return n, err
}

// Write gives up the turn while it waits.
func (c *caller) Write(b []byte) (int, error) {
	if c.turns == nil {
		return c.Conn.Write(b)
	}
	if !c.greeted {
		c.greeted = true
		c.reach(stageGreeted)
	}
	c.giveTurn()
	n, err := c.Conn.Write(b)
	c.takeTurn()
	return n, err
}

// handshakeTLS runs the TLS handshake. It holds a turn while it computes. It gives up the turn while it waits for the
// network.
func (c *caller) handshakeTLS(secure *tls.Conn, t *turns) error {
	c.turns = t
	err := secure.Handshake()
	c.giveTurn()
	c.turns = nil
	return err
}

func (c *caller) takeTurn() {
	if !c.hasTurn {
		c.turns.take(c.greeted || c.home)
		c.hasTurn = true
	}
}

func (c *caller) giveTurn() {
	if c.hasTurn {
		c.hasTurn = false
		c.turns.give()
	}
}

// turns bounds the number of TLS handshakes that compute at the same time. A handshake computes a signature. If thousands did
// so at once, the processors could do no other work. Handshakes from members' addresses, and handshakes that have already
// begun, come first.
type turns struct {
	mu     sync.Mutex
	free   int
	queues [2]list.List // of chan struct{}, first in, first out; queues[0] goes first
}

// newTurns returns turns for half of the processors, at least one.
func newTurns() *turns { return &turns{free: max(1, runtime.GOMAXPROCS(0)/2)} }

// take waits for a turn. give ends the turn. A turn is short, because no handshake holds one while it waits for the network.
func (t *turns) take(first bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	queue := &t.queues[1]
	if first {
		queue = &t.queues[0]
	}
	mine := make(chan struct{})
	queue.PushBack(mine)
	t.mu.Unlock()
	<-mine
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.queues {
		if next := t.queues[i].Front(); next != nil {
			close(t.queues[i].Remove(next).(chan struct{}))
			return
		}
	}
	t.free++
}
