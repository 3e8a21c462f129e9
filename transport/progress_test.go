package transport_test

import (
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// throttle is a listener with slow connections. Only a limited number of bytes arrives per second. If stuckAt is not 0,
// nothing arrives after the first stuckAt bytes.
type throttle struct {
	net.Listener
	bytesPerSecond int
	stuckAt        int
}

func (l throttle) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &throttled{Conn: conn, link: l, closed: make(chan struct{})}, nil
}

type throttled struct {
	net.Conn
	link    throttle
	arrived int
	once    sync.Once
	closed  chan struct{}
}

func (c *throttled) Read(b []byte) (int, error) {
	if c.link.stuckAt > 0 && c.arrived >= c.link.stuckAt {
		<-c.closed
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b[:min(len(b), 1<<10)])
	<-time.After(time.Duration(n) * time.Second / time.Duration(c.link.bytesPerSecond))
	c.arrived += n
	return n, err
}

func (c *throttled) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// sendThrottled sends a large message to a member whose listener is the throttle. It returns both members and the recorder of
// the second one. It also returns how long the Send took, and its error.
func sendThrottled(t *testing.T, l throttle, writeTimeout time.Duration, sizes []int) (
	a, b *transport.TCP, seen *transporttest.Recorder, took time.Duration, err error,
) {
	n := newPipeNetwork(transport.Options{})
	l.Listener = n.listen("b")
	b, err = transport.New(l, n.dial, transport.Options{})
	require.NoError(t, err)
	a, err = transport.New(n.listen("a"), n.dial, transport.Options{WriteTimeout: writeTimeout})
	require.NoError(t, err)
	r, seen := join(t, a, b)
	m := raft.Message{
		From: r.Self.From, To: seen.Self.From, Body: transporttest.Append(raft.EntryID{}, sizes, 0),
	}
	began := time.Now()
	err = a.Send(firstOf("b"), raft.LaneBulk, []raft.Message{m})
	synctest.Wait()
	return a, b, seen, time.Since(began), err
}

// Large entries are written directly from their own memory. Small entries are first copied into one buffer. Both messages
// take many times the WriteTimeout of ten seconds.
func TestSend_SlowLinkThatMakesProgressIsNotCutOff(t *testing.T) {
	for _, sizes := range [][]int{{2 << 20}, slices.Repeat([]int{20 << 10}, 100), slices.Repeat([]int{300}, 5000)} {
		synctest.Test(t, func(t *testing.T) {
			a, b, seen, took, err := sendThrottled(t, throttle{bytesPerSecond: 16 << 10}, 0, sizes)
			require.NoError(t, err)
			assert.Greater(t, took, 90*time.Second)
			seen.AwaitMessages(t, 1)
			assert.Equal(t, uint64(1), a.Stats().Dialed, "the first connection carried the whole message")
			assert.Zero(t, b.Stats().Silent)
		})
	}
}

func TestSend_LinkThatIsStuckWithinAMessageIsCutOffAfterTheWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttle{bytesPerSecond: 1 << 20, stuckAt: 1 << 20}
		_, _, _, took, err := sendThrottled(t, l, 0, []int{2 << 20})
		require.Error(t, err)
		assert.InDelta(t, 11, took.Seconds(), 0.5)
	})
}

// If the message were not cut off, its sender could continue forever. The part that has arrived would occupy memory all that
// time.
func TestReceive_MessageThatTricklesIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, _, took, err := sendThrottled(t, throttle{bytesPerSecond: 500}, time.Hour, []int{1 << 20})
		require.Error(t, err)
		assert.Less(t, took, 30*time.Second, "twice the WriteTimeout, and a little")
		assert.Equal(t, uint64(1), b.Stats().Silent)
	})
}
