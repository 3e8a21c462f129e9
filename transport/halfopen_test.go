package transport_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// swallower records the connections that a member dials. It can make the connections of one lane half-open: they stay up, but
// everything that is written to them is lost. It can also make them dead. Then everything that either side sends is lost,
// including the end of the connection.
type swallower struct {
	dial transport.DialFunc

	mu    sync.Mutex
	calls map[string]int
	lanes [2][]*swallowed
}

type swallowed struct {
	net.Conn

	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	deaf bool
	dead bool
}

func (s *swallower) connect(ctx context.Context, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	conn, err := s.dial(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &swallowed{Conn: conn, closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := s.calls[address] % 2 // the urgent lane is dialed first
	s.calls[address]++
	s.lanes[lane] = append(s.lanes[lane], c)
	return c, nil
}

// halfOpen affects the connections that exist now. Connections that are dialed later work.
func (s *swallower) halfOpen(lane raft.Lane, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.lanes[lane] {
		c.mu.Lock()
		c.deaf, c.dead = true, dead
		c.mu.Unlock()
	}
}

func (c *swallowed) Write(b []byte) (int, error) {
	c.mu.Lock()
	deaf := c.deaf
	c.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *swallowed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if dead {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *swallowed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// idleFSM has no state, so it is its own snapshot.
type idleFSM struct{}

func (idleFSM) Apply([]raft.Entry, [][]byte) error                     { return nil }
func (idleFSM) Snapshot() (raft.FSMSnapshot, error)                    { return idleFSM{}, nil }
func (idleFSM) Restore(context.Context, raft.EntryID, io.Reader) error { return nil }
func (idleFSM) WriteTo(ctx context.Context, _ io.Writer) error         { return ctx.Err() }
func (idleFSM) Close() error                                           { return nil }

func TestIdleFSM_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return idleFSM{} }, [][]byte{[]byte("a"), []byte("b")})
}

// threeNodes starts three nodes and returns the leader. The swallower can make their connections half-open.
func threeNodes(t *testing.T, electionTimeout time.Duration) (*node.Node, *swallower) {
	leaks.Check(t)
	network := newPipeNetwork(transport.Options{})
	nets := map[raft.NodeID]*swallower{}
	c := rafttest.Prepare(t, rafttest.Options{
		NewFSM:    func() raft.FSM { return idleFSM{} },
		Configure: func(cfg *node.Config) { cfg.ElectionTimeout = electionTimeout },
		Transport: func(id raft.NodeID, _ raft.Transport) raft.Transport {
			nets[id] = &swallower{dial: network.dial, calls: map[string]int{}}
			tcp, err := transport.New(network.listen(string(id)), nets[id].connect, transport.Options{})
			require.NoError(t, err)
			return tcp
		},
	})
	for _, id := range c.IDs() {
		c.Start(id)
	}
	leader := c.Leader()
	return leader, nets[leader.Status().ID]
}

// Heartbeats continue, so no other leader is elected. Only the transport can notice the dead connection.
func TestHalfOpen_DeadConnectionForAppendsStopsWritesForTheIdleTimeoutOnly(t *testing.T) {
	for _, row := range []struct {
		election, idle time.Duration
		dead           bool // the leader does not even see the end of its connection
	}{
		{150 * time.Millisecond, 2 * time.Second, false},
		{150 * time.Millisecond, 2 * time.Second, true},
		{time.Second, 4 * time.Second, false},
		{time.Second, 4 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			leader, net := threeNodes(t, row.election)
			time.Sleep(10 * time.Second)
			net.halfOpen(raft.LaneBulk, row.dead)
			term, began := leader.Status().Term, time.Now()
			_, err := leader.Propose(t.Context(), []byte("x"))
			require.NoError(t, err)
			assert.Less(t, time.Since(began), row.idle+100*time.Millisecond)
			assert.Greater(t, time.Since(began), row.idle/4, "the connections were really dead")
			assert.Equal(t, term, leader.Status().Term, "it led throughout")
		})
	}
}

// slowConn delivers pieces of at most a kilobyte, slowly, and buffers a few dozen of them, as a kernel does.
type slowConn struct {
	net.Conn
	buffer chan []byte
	close  context.CancelFunc

	mu       sync.Mutex
	deadline time.Time
}

const slowPause = 600 * time.Millisecond

func newSlowConn(conn net.Conn) *slowConn {
	ctx, cancel := context.WithCancel(context.Background())
	c := &slowConn{Conn: conn, buffer: make(chan []byte, 32), close: cancel}
	go func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(slowPause):
			case <-ctx.Done():
				return
			}
			select {
			case piece := <-c.buffer:
				_, _ = c.Conn.Write(piece) // fails once the connection is closed
			case <-ctx.Done():
			}
		}
	}()
	return c
}

func (c *slowConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (c *slowConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
	return nil
}

func (c *slowConn) SetDeadline(at time.Time) error {
	_ = c.SetWriteDeadline(at)
	return c.SetReadDeadline(at)
}

func (c *slowConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	var late <-chan time.Time
	if !deadline.IsZero() {
		late = time.After(time.Until(deadline))
	}
	for piece := range slices.Chunk(bytes.Clone(b), 1<<10) {
		select {
		case c.buffer <- piece:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
	return len(b), nil
}

// A message takes twenty times as long as a connection may be silent. For most of that time the message waits in a full
// buffer. Beats also have to wait for room in that buffer.
func TestBeats_SlowLinkThatWorksStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		b := n.New(t, "b").(*transport.TCP)
		dial := func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := n.dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return newSlowConn(conn), nil
		}
		a, err := transport.New(n.listen("a"), dial, transport.Options{})
		require.NoError(t, err)
		r, seen := join(t, a, b)
		m := raft.Message{
			From: r.Self.From, To: seen.Self.From, Body: transporttest.Append(raft.EntryID{}, []int{40 << 10}, 0),
		}
		began := time.Now()
		require.NoError(t, a.Send(firstOf("b"), raft.LaneBulk, []raft.Message{m}))
		seen.AwaitMessages(t, 1)
		assert.Greater(t, time.Since(began), 20*time.Second)
		time.Sleep(time.Minute)
		assert.True(t, a.Peer(firstOf("b")).Connected)
		assert.Equal(t, uint64(1), a.Stats().Dialed)
	})
}

// Member a cannot reach b for so long that the pauses between a's dials become long. Then b returns and dials a.
func TestDial_PeerThatIsHeardIsDialedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a, err := transport.New(n.listen("a"), n.dial, transport.Options{RedialMax: time.Hour})
		require.NoError(t, err)
		r := transporttest.NewRecorder("a")
		t.Cleanup(func() { assert.NoError(t, a.Close()) })
		require.NoError(t, a.Start(r))
		a.Connect(at("b", "b"))
		time.Sleep(time.Hour)
		b := n.New(t, "b").(*transport.TCP)
		t.Cleanup(func() { assert.NoError(t, b.Close()) })
		require.NoError(t, b.Start(transporttest.NewRecorder("b")))
		began := time.Now()
		b.Connect(at("a", "a"))
		r.AwaitUp(t, "b")
		assert.Less(t, time.Since(began), time.Second)
	})
}
