package transport

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stoppedConn is a connection of a process that was stopped once: at its next read it finds that the
// deadline has passed.
type stoppedConn struct {
	net.Conn
	stopped bool
}

func (c *stoppedConn) Read(b []byte) (int, error) {
	if c.stopped {
		c.stopped = false
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

func TestDeadline_BytesThatArrivedWhileTheProcessWasStoppedAreRead(t *testing.T) {
	caller, acceptor := net.Pipe()
	defer func() { _ = caller.Close() }()
	go func() { _, _ = caller.Write(beat) }()
	r := &deadlineReader{conn: &stoppedConn{acceptor, true}, timeout: time.Hour}
	n, err := r.Read(make([]byte, 100))
	require.NoError(t, err)
	assert.Equal(t, len(beat), n)
}

func TestDeadline_SilenceIsToldAfterTheTimeoutAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, acceptor := net.Pipe()
		defer func() { _ = caller.Close() }()
		r := &deadlineReader{conn: acceptor, timeout: time.Second}
		go func() {
			time.Sleep(999 * time.Millisecond)
			_, _ = caller.Write(beat)
		}()
		n, err := r.Read(make([]byte, 100))
		require.NoError(t, err)
		assert.Equal(t, len(beat), n)
		began := time.Now()
		_, err = r.Read(make([]byte, 100))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
	})
}
