package processes

import (
	"io"
	"net"
	"sync"
	"time"
)

// mode says what a proxy does with the bytes that its caller sends.
type mode int

// The modes. All but pass affect only the direction from the caller.
const (
	pass     mode = iota
	cut           // connections are reset, new ones too
	halfOpen      // connections stay open and their bytes vanish; new ones are accepted but never answered
	hold          // nothing arrives now, everything arrives later
)

// treatment says what a proxy does with its connections.
type treatment struct {
	mode  mode
	delay time.Duration // delay of the bytes that pass
}

const (
	proxyConnsMax    = 64 // connections at the same time; further ones are reset
	proxyBufferBytes = 64 << 10
	proxyDialTimeout = time.Second
)

// proxy is the link from one member to another: the first member dials the proxy instead of the second member. The sender of
// messages dials the connection for them. A proxy is therefore one direction between the two members.
type proxy struct {
	target   string
	listener net.Listener
	tasks    sync.WaitGroup

	mu      sync.Mutex
	how     treatment
	changed chan struct{} // closed when how changes
	conns   map[*piped]struct{}
	opened  int // number of connections so far
	closed  bool
}

// piped is a connection through a proxy. Its fields are guarded by the proxy's lock.
type piped struct {
	caller *net.TCPConn
	target net.Conn // nil until it was dialed
	torn   bool     // bytes are missing: the connection is unusable
	number int      // position in the order of opening
}

// newProxy listens on a port of this machine for callers that want to reach the target.
func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, listener: listener, changed: make(chan struct{}), conns: map[*piped]struct{}{}}
	p.tasks.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// close resets all connections and waits for all goroutines.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // the error does not matter
	p.reset(func(*piped) bool { return true })
	p.alter(treatment{mode: cut})
	p.mu.Unlock()
	p.tasks.Wait()
}

// treat changes the treatment. If the new treatment passes bytes again, treat resets the connections that have lost bytes.
func (p *proxy) treat(how treatment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset(func(c *piped) bool { return how.mode == cut || how.mode != halfOpen && c.torn })
	p.alter(how)
}

// drop resets every present connection. Bytes in transit are lost.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset(func(*piped) bool { return true })
}

// deafen drops, from now on, all bytes that the caller sends on the newest or on the oldest connection. The next treatment
// resets this connection. The other connections work.
func (p *proxy) deafen(newest bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var chosen *piped
	for c := range p.conns {
		if chosen == nil || newest == (c.number > chosen.number) {
			chosen = c
		}
	}
	if chosen != nil {
		chosen.torn = true
	}
}

// alter is called with mu locked.
func (p *proxy) alter(how treatment) {
	p.how = how
	close(p.changed)
	p.changed = make(chan struct{})
}

// reset is called with mu locked.
func (p *proxy) reset(which func(*piped) bool) {
	for c := range p.conns {
		if which(c) {
			c.reset()
		}
	}
}

// reset closes both sides at once. The caller gets an error instead of an orderly end.
func (c *piped) reset() {
	_ = c.caller.SetLinger(0) // errors do not matter: the connection may be closed already
	_ = c.caller.Close()
	if c.target != nil {
		_ = c.target.Close()
	}
}

// now returns the treatment, and a channel that is closed when the treatment changes.
func (p *proxy) now() (treatment, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.how, p.changed
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		c := &piped{caller: conn.(*net.TCPConn)}
		if p.enter(c) {
			p.tasks.Go(func() { p.serve(c) })
		} else {
			c.reset()
		}
	}
}

// enter accepts a connection, unless there are too many or the link is cut.
func (p *proxy) enter(c *piped) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.how.mode == cut || len(p.conns) >= proxyConnsMax {
		return false
	}
	c.torn = p.how.mode == halfOpen // the connection never reaches its target
	p.opened++
	c.number = p.opened
	p.conns[c] = struct{}{}
	return true
}

// serve pipes one connection until either side ends it.
func (p *proxy) serve(c *piped) {
	defer p.leave(c)
	if !p.dial(c) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c.caller, c.target) // the copy ends with the connection
		p.leave(c)
	})
	p.forward(c)
	p.leave(c)
	back.Wait()
}

// dial connects to the target. If this connection must stay unanswered, dial does not connect. It waits for the end of the
// connection and returns false.
func (p *proxy) dial(c *piped) bool {
	p.mu.Lock()
	unanswered := c.torn
	p.mu.Unlock()
	if unanswered {
		_, _ = io.Copy(io.Discard, c.caller) // until the connection is reset, or the caller closes it
		return false
	}
	target, err := net.DialTimeout("tcp", p.target, proxyDialTimeout)
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, alive := p.conns[c]; !alive || p.closed || p.how.mode == cut {
		_ = target.Close()
		return false
	}
	c.target = target
	return true
}

func (p *proxy) leave(c *piped) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.reset()
	delete(p.conns, c)
}

// forward passes on the caller's bytes, according to the present treatment.
func (p *proxy) forward(c *piped) {
	buffer := make([]byte, proxyBufferBytes)
	for {
		n, err := c.caller.Read(buffer)
		if n > 0 && p.admit(c) {
			_, err = c.target.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// admit waits until bytes may leave the proxy, and reports whether to pass them on.
func (p *proxy) admit(c *piped) bool {
	how, changed := p.now()
	for how.mode == hold {
		<-changed
		how, changed = p.now()
	}
	if how.delay > 0 {
		timer := time.NewTimer(how.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-changed:
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.how.mode == halfOpen {
		c.torn = true
	}
	return !c.torn
}
