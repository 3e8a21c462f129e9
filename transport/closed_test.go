package transport

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport/transporttest"
)

// openConn counts connections that are not closed. A count of descriptors would not do, because the garbage collector closes
// the descriptor of a connection that nobody uses.
type openConn struct {
	*net.TCPConn
	open *atomic.Int64
	gone atomic.Bool
}

func (c *openConn) Close() error {
	if c.gone.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.TCPConn.Close()
}

func counted(conn net.Conn, err error, open *atomic.Int64) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	open.Add(1)
	return &openConn{TCPConn: conn.(*net.TCPConn), open: open}, nil
}

type openListener struct {
	net.Listener
	open *atomic.Int64
}

func (l openListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return counted(conn, err, l.open)
}

// listenCounting is listen. open counts the connections of the member that are not closed.
func listenCounting(t *testing.T) (tcp *TCP, r *transporttest.Recorder, open *atomic.Int64) {
	open = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var d net.Dialer
	tcp, err = New(openListener{l, open}, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", address)
		return counted(conn, err, open)
	}, Options{RedialMin: time.Millisecond, RedialMax: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, tcp.Close()) })
	r = transporttest.NewRecorder("b")
	require.NoError(t, tcp.Start(r))
	return tcp, r, open
}

// Each caller has given its place back and is closed once its handshake has failed, or its connection has ended.
func TestAccept_EachCallerLeavesAndIsClosed(t *testing.T) {
	tcp, _, open := listenCounting(t)
	for i, behaves := range []func(c rawCaller){
		func(rawCaller) { /* it ends at once */ },
		func(c rawCaller) { c.write([]byte("GET / HTTP/1.1\r\nHost: raft\r\n\r\n")); c.untilClosed() },
		func(c rawCaller) { c.write(withHello([]byte{0xc1})); c.untilClosed() },
		func(c rawCaller) { c.shake(alice, 1, raft.LaneUrgent) },
	} {
		c := call(t, tcp)
		behaves(c)
		require.NoError(t, c.conn.Close())
		require.Eventually(t, func() bool {
			stats := tcp.Stats()
			return stats.Accepted == uint64(i+1) && stats.Handshakes == 0 && open.Load() == 0
		}, time.Minute, time.Millisecond, "caller %d", i)
	}
}

// A dialed connection is closed if its handshake fails, on each lane.
func TestDial_AConnectionWhoseHandshakeFailsIsClosed(t *testing.T) {
	tcp, r, open := listenCounting(t)
	l := acceptor(t, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	tcp.Connect([]raft.Contact{{Member: raft.Member{ID: "a"}, Addresses: []string{l.Addr().String()}}})
	r.AwaitLost(t, "a", false)
	r.AwaitLost(t, "a", false)
	tcp.Connect(nil)
	require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, time.Millisecond)
}

// A TLS handshake holds a turn while it computes, and gives it back if it fails.
func TestTurns_AFailedHandshakeGivesItsTurnBack(t *testing.T) {
	turns := &turns{free: 1}
	for range 2 {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			_, _ = io.Copy(io.Discard, far)
		}()
		c := &caller{Conn: near, of: &waiting{}}
		require.Error(t, c.handshakeTLS(tls.Server(c, &tls.Config{}), turns))
		require.Equal(t, 1, turns.free)
		require.NoError(t, near.Close())
	}
}
