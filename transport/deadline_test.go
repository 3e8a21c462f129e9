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

// The longer IdleTimeout counts on both sides. Otherwise a member with a shorter one would cut the connection between two
// beats of the other member.
func TestIdleTimeout_IsTheLongerOneAndFollowsTheLongerElectionTimeout(t *testing.T) {
	const millisecond, second = time.Millisecond, time.Second
	for _, c := range []struct{ election, theirElection, set, theirSet, want time.Duration }{
		{0, 0, 0, 0, 2 * second},
		{150 * millisecond, 150 * millisecond, 0, 0, 2 * second},
		{150 * millisecond, second, 0, 0, 4 * second},
		{second, 150 * millisecond, 0, 0, 4 * second},
		{time.Hour, time.Hour, 0, 0, 8 * second},
		{0, math.MaxInt64, 0, 0, 8 * second},
		{time.Hour, time.Hour, 3 * second, 3 * second, 3 * second},
		{0, 0, 3 * second, 30 * second, 30 * second},
		{0, 0, 0, 30 * second, 30 * second},
		{second, second, 0, 3 * second, 4 * second},
	} {
		own := raft.Hello{ElectionTimeout: c.election, IdleTimeout: c.set}
		theirs := raft.Hello{ElectionTimeout: c.theirElection, IdleTimeout: c.theirSet}
		assert.Equal(t, c.want, idleTimeout(own, theirs), "%+v", c)
		assert.Equal(t, c.want, idleTimeout(theirs, own), "%+v", c)
	}
}

func TestDeadline_SilenceIsReportedAfterTheTimeoutAndNotBefore(t *testing.T) {
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
