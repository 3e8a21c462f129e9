package transport_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
)

// accepting is a listener that also passes each accepted connection to the test.
type accepting struct {
	net.Listener
	conns chan net.Conn
}

func (a accepting) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.conns <- conn
	}
	return conn, err
}

// If a packet is lost, both sides of a connection retransmit it long before an election timeout has passed.
func TestTCP_LostPacketsAreRepeatedSoon(t *testing.T) {
	listener, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	b := accepting{listener, make(chan net.Conn, 2)}
	acceptor, err := transport.New(b, nil, transport.Options{})
	require.NoError(t, err)
	defer acceptor.Close()
	require.NoError(t, acceptor.Start(transporttest.NewRecorder("b")))

	dialed := make(chan net.Conn, 2)
	own, err := net.Listen("tcp", loopback)
	require.NoError(t, err)
	caller, err := transport.New(own, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		dialed <- conn
		return conn, err
	}, transport.Options{})
	require.NoError(t, err)
	defer caller.Close()
	r := transporttest.NewRecorder("a")
	require.NoError(t, caller.Start(r))
	caller.Connect(at("b", listener.Addr().String()))
	r.AwaitUp(t, "b")
	for _, conns := range []chan net.Conn{b.conns, dialed} {
		for range 2 { // lanes
			require.Equal(t, 20*time.Millisecond, retransmitMinOf(t, <-conns))
		}
	}
}

func retransmitMinOf(t *testing.T, conn net.Conn) time.Duration {
	const tcpRTOMinUS = 45
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var microseconds int
	var unknown error
	require.NoError(t, raw.Control(func(fd uintptr) {
		microseconds, unknown = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpRTOMinUS)
	}))
	if unknown != nil {
		t.Skipf("this Linux has no option for the retransmission timer: %v", unknown)
	}
	return time.Duration(microseconds) * time.Microsecond
}
