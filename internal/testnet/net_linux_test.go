package testnet_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/namespace"
	"github.com/coxswain/raft/internal/testnet"
)

func inside(t *testing.T, body func(*testnet.Net)) {
	namespace.WithNet(t, body, func(reason string) { t.Skip(reason) })
}

// dial connects member 0 to member 1, and returns both ends.
func dial(t *testing.T) (caller, acceptor net.Conn) {
	t.Helper()
	const port = "20000"
	listener, err := net.Listen("tcp", testnet.HomeAddress(port))
	require.NoError(t, err)
	defer listener.Close()
	caller, err = net.Dial("tcp", testnet.ViaAddress(0, 1, port))
	require.NoError(t, err)
	acceptor, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = caller.Close(), acceptor.Close() })
	return caller, acceptor
}

// arrives writes a byte. It reports whether the byte arrives at the other end in time.
func arrives(t *testing.T, from, to net.Conn, within time.Duration) bool {
	t.Helper()
	_, err := from.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, to.SetReadDeadline(time.Now().Add(within)))
	_, err = to.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	require.NoError(t, err)
	return true
}

func TestNet_DelaysEachWay(t *testing.T) {
	inside(t, func(n *testnet.Net) {
		caller, acceptor := dial(t)
		const delay = 50 * time.Millisecond
		n.Treat(0, 1, testnet.Link{Delay: delay})
		began := time.Now()
		require.True(t, arrives(t, caller, acceptor, time.Minute))
		assert.GreaterOrEqual(t, time.Since(began), delay)
		n.Treat(1, 0, testnet.Link{Delay: 2 * delay})
		began = time.Now()
		require.True(t, arrives(t, acceptor, caller, time.Minute))
		assert.GreaterOrEqual(t, time.Since(began), 2*delay)
	})
}

func TestNet_ALinkIsCutInOneDirection(t *testing.T) {
	inside(t, func(n *testnet.Net) {
		caller, acceptor := dial(t)
		n.Treat(0, 1, testnet.Link{Loss: 100})
		assert.True(t, arrives(t, acceptor, caller, time.Minute), "the other direction is open")
		assert.False(t, arrives(t, caller, acceptor, 300*time.Millisecond))
		assert.Positive(t, n.Lost())
		n.Treat(0, 1, testnet.Link{})
		assert.True(t, arrives(t, caller, acceptor, time.Minute), "TCP sends it again")
	})
}
