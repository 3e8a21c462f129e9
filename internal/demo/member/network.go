package member

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"

	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/transport"
)

// Network is the network between a member and the others. It can be cut, as if somebody had pulled the cable: then nothing
// arrives, in either direction, and nothing says so.
type Network struct {
	mu    sync.Mutex
	cut   bool
	whole chan struct{} // closed unless it is cut
	conns map[*networkConn]struct{}
}

// NewNetwork returns a network that works.
func NewNetwork() *Network {
	n := &Network{whole: make(chan struct{}), conns: map[*networkConn]struct{}{}}
	close(n.whole)
	return n
}

// Cut cuts the network, or repairs it. A connection that has lost bytes is closed with the repair.
func (n *Network) Cut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut == cut {
		return
	}
	if n.cut = cut; cut {
		n.whole = make(chan struct{})
		return
	}
	close(n.whole)
	for c := range n.conns {
		if c.torn {
			_ = c.Conn.Close() // the reader notices, and removes it
		}
	}
}

// loses reports whether the network loses what passes it now.
func (n *Network) loses(c *networkConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.torn = c.torn || n.cut
	return c.torn
}

func (n *Network) add(c net.Conn) net.Conn {
	wrapped := &networkConn{Conn: c, of: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[wrapped] = struct{}{}
	wrapped.torn = n.cut
	return wrapped
}

// dial connects to an address. While the network is cut, it waits.
func (n *Network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	whole := n.whole
	n.mu.Unlock()
	select {
	case <-whole:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return n.add(c), nil
}

// use makes the member of the configuration use the network. The caller closes the transport if the member is not started.
func (n *Network) use(cfg *library.Config) (*transport.TCP, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, &transport.ListenError{Address: cfg.Listen, Err: err}
	}
	opts := cfg.Net
	opts.Logger = cfg.Logger
	t, err := transport.New(networkListener{listener, n}, n.dial, opts)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	cfg.Transport, cfg.Listen, cfg.Net = t, "", transport.Options{}
	return t, nil
}

type networkListener struct {
	net.Listener
	of *Network
}

func (l networkListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.of.add(c), nil
}

// networkConn is a connection of the member.
type networkConn struct {
	net.Conn
	of   *Network
	torn bool // it has lost bytes, so it is good for nothing; guarded by of.mu
}

func (c *networkConn) Write(b []byte) (int, error) {
	if c.of.loses(c) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *networkConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.of.loses(c) {
			return n, err
		}
	}
}

func (c *networkConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn lets the transport set options of TCP.
func (c *networkConn) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(*net.TCPConn).SyscallConn()
}
