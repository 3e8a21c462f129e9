package transport

import (
	"math"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stoppedConn is a connection of a process that was stopped once: its next read finds that the deadline has
// passed.
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

func TestIdleTimeout_FollowsTheLongerElectionTimeout(t *testing.T) {
	for _, c := range []struct{ own, theirs, set, want time.Duration }{
		{0, 0, 0, 2 * time.Second},
		{150 * time.Millisecond, 150 * time.Millisecond, 0, 2 * time.Second},
		{150 * time.Millisecond, time.Second, 0, 4 * time.Second},
		{time.Second, 150 * time.Millisecond, 0, 4 * time.Second},
		{time.Hour, time.Hour, 0, 8 * time.Second},
		{0, math.MaxInt64, 0, 8 * time.Second},
		{time.Hour, time.Hour, 3 * time.Second, 3 * time.Second},
	} {
		own, theirs := raft.Hello{ElectionTimeout: c.own}, raft.Hello{ElectionTimeout: c.theirs}
		assert.Equal(t, c.want, Options{IdleTimeout: c.set}.idleTimeout(own, theirs), "%+v", c)
	}
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
