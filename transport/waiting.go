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

// A caller proves who it is with the last bytes of its handshake. Until then anybody who reaches the port looks
// like a member, so that their number is bounded, and the one that looks the least like a member goes first.

// waiting are the inbound connections whose handshake is not finished.
type waiting struct {
	countMax int

	mu      sync.Mutex
	classes [classes]list.List // of *caller, oldest first
	count   int
	homes   map[raft.NodeID][]netip.Addr // where the members were dialed last
}

// The classes of callers, by stage; those from an address of a member are above all others. A flood says
// nothing, or nothing that is right, so that it stays in a low class; it shares that with a member only if it
// comes from a member's address, as on one machine.
const (
	stageSilent  = iota // nothing has arrived
	stageSpoken         // something has
	stageGreeted        // TLS has answered its first message
	stageProven         // its TLS handshake holds: it has a certificate of the cluster
	stages
	classes = 2 * stages
)

// homesMax bounds how many addresses of one member are remembered.
const homesMax = 4

// caller is an inbound connection, with what is known of it before its handshake is finished.
type caller struct {
	net.Conn
	of      *waiting
	turns   *turns // of TLS; nil before and after its handshake
	working bool   // it has a turn
	greeted bool   // TLS has answered its first message
	head    []byte // read ahead

	home  bool          // its address is one of a member
	class int           // guarded by of.mu, as is the next
	at    *list.Element // nil once it left
}

// enter adds a connection. If there are too many it closes another one, and reports that.
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

// least returns the oldest caller of the lowest class that has its share of the places: a class with fewer is
// not the one that fills them, and who has just come needs a moment to leave the lowest. There is one that has
// its share if no place is free. It is called with mu held.
func (w *waiting) least() *caller {
	i := 0
	for w.classes[i].Len()*classes < w.countMax {
		i++
	}
	return w.classes[i].Front().Value.(*caller)
}

// leave takes it out. It is called with of.mu held, and is idempotent.
func (c *caller) leave() {
	if c.at != nil {
		c.of.classes[c.class].Remove(c.at)
		c.of.count--
		c.at = nil
	}
}

// gone is leave without of.mu.
func (c *caller) gone() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// reach says that the handshake has come to a stage.
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

// closeAll closes all of them.
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

// isHome reports whether a member was dialed at that host. It is called with mu held.
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

// dialing remembers where a member is dialed: address is "host:port" of a resolved one.
func (w *waiting) dialing(id raft.NodeID, address string) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return // it is not on the internet
	}
	home := parsed.Addr().Unmap().WithZone("")
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := []netip.Addr{home}
	for _, other := range w.homes[id] {
		if other != home && len(kept) < homesMax {
			kept = append(kept, other)
		}
	}
	w.homes[id] = kept
}

// keepOnly forgets the addresses of members that are not named any longer.
func (w *waiting) keepOnly(named map[raft.NodeID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.homes {
		if !named[id] {
			delete(w.homes, id)
		}
	}
}

// memberKey is the key of the id of the dialed member in the context of a dial.
type memberKey struct{}

// await waits for the first byte: what a handshake needs is made only then.
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
	c.rest()
	n, err := c.Conn.Read(b)
	c.work()
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
	c.rest()
	n, err := c.Conn.Write(b)
	c.work()
	return n, err
}

// shake runs the handshake of TLS in turns: it has one from the moment when something has arrived until it
// waits for more.
func (c *caller) shake(secure *tls.Conn, t *turns) error {
	c.turns = t
	err := secure.Handshake()
	c.rest()
	c.turns = nil
	return err
}

func (c *caller) work() {
	if !c.working {
		c.turns.take(c.greeted || c.home)
		c.working = true
	}
}

func (c *caller) rest() {
	if c.working {
		c.working = false
		c.turns.give()
	}
}

// turns bounds how many TLS handshakes compute at the same time: a handshake costs a signature, and thousands of
// them at once would keep the processors from everything else. Those of members' addresses, and those that have
// begun, come first.
type turns struct {
	mu     sync.Mutex
	free   int
	queues [2]list.List // of chan struct{}, first come first served; the first queue before the second
}

// newTurns leaves half of the processors, or one, to handshakes.
func newTurns() *turns { return &turns{free: max(1, runtime.GOMAXPROCS(0)/2)} }

// take waits for a turn, which ends with give. A turn is short: nobody waits for the network with one.
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
