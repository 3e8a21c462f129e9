package transport_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stopwatch records how often the dialing side wrote to a connection and read from it. It also records the longest silence of
// each side.
type stopwatch struct {
	net.Conn

	mu           sync.Mutex
	wrote, read  int
	wroteAt      time.Time
	readAt       time.Time
	unsaid, mute time.Duration // longest silence of the caller, and of the acceptor
}

func (s *stopwatch) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaid = max(s.unsaid, time.Since(s.wroteAt))
	s.wrote, s.wroteAt = s.wrote+1, time.Now()
	return n, err
}

func (s *stopwatch) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		s.mute = max(s.mute, time.Since(s.readAt))
		s.read, s.readAt = s.read+1, time.Now()
	}
	return n, err
}

// twoTimed connects a to b. It returns a, a function that sends to b, and the stopwatches of a's two lanes.
func twoTimed(t *testing.T) (a *transport.TCP, send func(raft.Lane), lanes *[2]*stopwatch) {
	leaks.Check(t)
	n := newPipeNetwork(transport.Options{})
	lanes = &[2]*stopwatch{}
	dials := 0
	a, err := transport.New(n.listen("a"), func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := n.dial(ctx, address)
		timed := &stopwatch{Conn: conn, wroteAt: time.Now(), readAt: time.Now()}
		lanes[dials%2], dials = timed, dials+1
		return timed, err
	}, transport.Options{})
	require.NoError(t, err)
	b := n.New(t, "b").(*transport.TCP)
	r, seen := join(t, a, b)
	m := raft.Message{From: r.Self.From, To: seen.Self.From, Body: raft.Heartbeat{}}
	return a, func(lane raft.Lane) {
		assert.NoError(t, a.Send(firstOf("b"), lane, []raft.Message{m}))
	}, lanes
}

// The IdleTimeout is 2 s. Messages and beats coincide in many ways. Still, no side is silent for more than two thirds of the
// IdleTimeout, and the caller for no more than half of it.
func TestBeats_NoConnectionThatWorksIsSilentForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, send, lanes := twoTimed(t)
		random := rand.New(rand.NewPCG(1, 1))
		for range 10_000 {
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
			send(raft.Lane(random.IntN(2)))
		}
		synctest.Wait()
		assert.Equal(t, uint64(1), a.Stats().Dialed)
		for lane, s := range lanes {
			assert.LessOrEqual(t, s.unsaid, time.Second, "lane %d", lane)
			assert.Greater(t, s.unsaid, 600*time.Millisecond, "lane %d: no more beats than necessary", lane)
		}
		assert.LessOrEqual(t, lanes[raft.LaneUrgent].mute, 2*time.Second*2/3+time.Millisecond)
	})
}

// A cluster that exchanges nothing but heartbeats sends few beats.
func TestBeats_ConnectionWithHeartbeatsNeedsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, send, lanes := twoTimed(t)
		synctest.Wait() // for the beats at the start of a connection
		const heartbeats = 20 * 60
		before := lanes[raft.LaneUrgent].wrote
		for range heartbeats {
			time.Sleep(50 * time.Millisecond)
			send(raft.LaneUrgent)
		}
		synctest.Wait()
		urgent, bulk := lanes[raft.LaneUrgent], lanes[raft.LaneBulk]
		assert.Equal(t, heartbeats, urgent.wrote-before, "no beat among them")
		assert.InDelta(t, 60*3, urgent.read, 15, "answers show that the peer is alive")
		assert.InDelta(t, 60*1.5, bulk.wrote, 10)
		assert.LessOrEqual(t, bulk.read, 2, "beats on the urgent lane are enough for both")
	})
}

// Dials are slow. Until the second connection is open, nothing is sent on the first one. The first connection must not
// be silent for longer than 2 s.
func TestBeats_TheFirstConnectionStaysOpenWhileTheSecondOneIsDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(transport.Options{})
		a, err := transport.New(n.listen("a"), func(ctx context.Context, address string) (net.Conn, error) {
			time.Sleep(1900 * time.Millisecond)
			return n.dial(ctx, address)
		}, transport.Options{})
		require.NoError(t, err)
		join(t, a, n.New(t, "b").(*transport.TCP))
		time.Sleep(time.Minute)
		assert.Zero(t, a.Stats().Lost)
	})
}
