package transport_test

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipeNetwork connects TCPs by net.Pipe. The deadlines of such a pipe follow the virtual time of a bubble.
type pipeNetwork struct {
	options transport.Options

	mu        sync.Mutex
	listeners map[string]*pipeListener
}

func newPipeNetwork(options transport.Options) *pipeNetwork {
	return &pipeNetwork{options: options, listeners: map[string]*pipeListener{}}
}

func (n *pipeNetwork) Address(id raft.NodeID) string { return string(id) }

func (n *pipeNetwork) New(t *testing.T, id raft.NodeID) raft.Transport {
	tcp, err := transport.New(n.listen(string(id)), n.dial, n.options)
	require.NoError(t, err)
	return tcp
}

func (n *pipeNetwork) listen(name string) net.Listener {
	l := &pipeListener{name: name, callers: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[name] = l
	return l
}

func (n *pipeNetwork) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	caller, acceptor := net.Pipe()
	select {
	case l.callers <- acceptor:
		return caller, nil
	case <-l.closed:
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join starts two members and waits until the first one has dialed the second. It returns their recorders.
func join(t *testing.T, a, b *transport.TCP) (r, seen *transporttest.Recorder) {
	t.Helper()
	leaks.Check(t)
	r, seen = transporttest.NewRecorder("a"), transporttest.NewRecorder("b")
	t.Cleanup(func() { assert.NoError(t, a.Close()) })
	require.NoError(t, a.Start(r))
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	require.NoError(t, b.Start(seen))
	a.Connect(at("b", "b"))
	r.AwaitUp(t, "b")
	return r, seen
}

// pipeListener is a net.Listener for pipes.
type pipeListener struct {
	name    string
	callers chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.callers:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr  { return l }
func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.name }

// vanish makes every later dial of that name be refused. Connections stay open.
func (n *pipeNetwork) vanish(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, name)
}

// The connections that a has dialed break, and its redial is refused: a middlebox answers for b. But b lives, and its
// connections to a are open. Then b ends, too.
func TestTCP_APeerWhoseConnectionsAreOpenLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a, b := n.New(t, "a").(*transport.TCP), n.New(t, "b").(*transport.TCP)
		r, seen := join(t, a, b)
		b.Connect(at("a", "a"))
		seen.AwaitUp(t, "a")
		n.vanish("b")
		b.Disconnect(r.Self.From)
		r.AwaitLost(t, "b", false)
		refused := func(e transporttest.Event) bool { return e.Kind == transporttest.EventLost && e.Refused }
		for range 3 {
			e := r.Await(t, "a failed dial", func(e transporttest.Event) bool { return e.Kind == transporttest.EventLost })
			assert.False(t, refused(e))
		}
		n.vanish("a")
		require.NoError(t, b.Close())
		r.Await(t, "another failed dial", func(e transporttest.Event) bool {
			assert.False(t, refused(e), "no connection has broken since")
			return e.Kind == transporttest.EventLost
		})
	})
}

// Each message that a peer sent before its end is delivered before the news of it, although its reader is slow.
func TestTCP_NewsFollowsEachMessageOfThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a, b := n.New(t, "a").(*transport.TCP), n.New(t, "b").(*transport.TCP)
		r, seen := join(t, a, b)
		b.Connect(at("a", "a"))
		seen.AwaitUp(t, "a")
		r.Held = make(chan struct{})
		require.NoError(t, b.Send(r.Self.From, raft.LaneBulk, []raft.Message{{From: seen.Self.From, To: r.Self.From, Body: raft.AppendReply{}}}))
		synctest.Wait()
		require.NoError(t, b.Close())
		r.AwaitLost(t, "b", false)
		time.Sleep(20 * time.Millisecond)
		close(r.Held)
		r.Await(t, "the message", func(e transporttest.Event) bool {
			assert.NotEqual(t, transporttest.EventLost, e.Kind)
			return e.Kind == transporttest.EventReceived
		})
		r.AwaitLost(t, "b", true)
	})
}
