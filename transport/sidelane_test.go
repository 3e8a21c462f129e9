package transport_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
)

// laneWorld is a member a that is connected to b by cables. Each connection that a dialed has its own cable, and a test can
// cut each cable.
type laneWorld struct {
	lane raft.Lane // of send
	a, b *transport.TCP
	r    *transporttest.Recorder // of a
	seen *transporttest.Recorder // of b
	hang atomic.Bool             // a's dials do not end

	mu     sync.Mutex
	cables []*cable
	ends   []net.Conn // a's ends
}

// newLaneWorld must be called in a bubble.
func newLaneWorld(t *testing.T, opts transport.Options) *laneWorld {
	leaks.Check(t)
	n := newPipeNetwork(transport.Options{})
	w := &laneWorld{b: n.New(t, "b").(*transport.TCP)}
	var err error
	w.a, err = transport.New(n.listen("a"), func(ctx context.Context, address string) (net.Conn, error) {
		if w.hang.Load() {
			<-ctx.Done()
		}
		far, err := n.dial(ctx, address)
		if err != nil {
			return nil, err
		}
		near, end := net.Pipe()
		c := &cable{}
		go c.pass(far, end, &c.cutThere)
		go c.pass(end, far, &c.cutBack)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cables, w.ends = append(w.cables, c), append(w.ends, near)
		return near, nil
	}, opts)
	require.NoError(t, err)
	w.r, w.seen = join(t, w.a, w.b)
	return w
}

func (w *laneWorld) dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ends)
}

// end closes a connection that a dialed. The connections are counted from 0.
func (w *laneWorld) end(t *testing.T, dialed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(t, w.ends[dialed].Close())
}

// cut cuts a connection that a dialed, in one direction or both. The connections are counted from 0.
func (w *laneWorld) cut(dialed int, there, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cables[dialed].cutThere.Store(there)
	w.cables[dialed].cutBack.Store(back)
}

// message returns a message of the lane.
func (w *laneWorld) message(n int64) raft.Message {
	m := raft.Message{From: w.r.Self.From, To: w.seen.Self.From, Body: transporttest.Chunk(n, 100)}
	if w.lane == raft.LaneForward {
		m.Body = transporttest.Request(uint64(n), 100)
	}
	return m
}

func (w *laneWorld) trySend(n int64) error {
	return w.a.Send(firstOf("b"), w.lane, []raft.Message{w.message(n)})
}

// send sends a message and checks that it arrives.
func (w *laneWorld) send(t *testing.T, n int64) {
	t.Helper()
	require.NoError(t, w.trySend(n))
	assert.Equal(t, w.message(n), w.seen.AwaitMessages(t, 1)[0])
}

// pass lets virtual time pass; it runs inside a bubble.
func (w *laneWorld) pass(d time.Duration) { time.Sleep(d) }

// onSideLanes runs the test in a bubble for each side lane.
func onSideLanes(t *testing.T, opts transport.Options, test func(t *testing.T, w *laneWorld)) {
	for _, lane := range []raft.Lane{raft.LaneSnapshot, raft.LaneForward} {
		t.Run(lane.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLaneWorld(t, opts)
				w.lane = lane
				test(t, w)
			})
		})
	}
}

// lostForwards returns how often the member was told, so far, that a forward lane broke.
func lostForwards(r *transporttest.Recorder) (count int) {
	r.Discard(func(e transporttest.Event) bool {
		if e.Kind == transporttest.EventForwardLost {
			count++
		}
		return e.Kind == transporttest.EventForwardLost
	})
	return count
}

func (w *laneWorld) assertUndisturbed(t *testing.T) {
	t.Helper()
	assert.True(t, w.a.Peer(firstOf("b")).Connected)
	assert.Equal(t, uint64(1), w.a.Stats().Dialed, "the other lanes stand")
	assert.Zero(t, w.a.Stats().Lost)
}

func TestSideLane_IsDialedForTheFirstMessageAndClosedWhenIdle(t *testing.T) {
	onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
		w.pass(time.Minute)
		assert.Equal(t, 2, w.dials())
		w.send(t, 0)
		for i := range int64(10) {
			w.pass(9 * time.Second)
			w.send(t, i)
		}
		assert.Equal(t, 3, w.dials(), "one connection carries all")
		assert.Equal(t, 3, w.b.Stats().Inbound)
		w.pass(11 * time.Second)
		assert.Equal(t, 2, w.b.Stats().Inbound)
		w.send(t, 11)
		assert.Equal(t, 4, w.dials())
		w.assertUndisturbed(t)
	})
}

func TestSideLane_ItsEndEndsNoOtherLane(t *testing.T) {
	onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
		for i := range 5 {
			w.send(t, int64(i))
			w.end(t, 2+i)
			synctest.Wait()
		}
		assert.Equal(t, 7, w.dials())
		assert.Equal(t, 2, w.b.Stats().Inbound)
		w.assertUndisturbed(t)
	})
}

func TestSideLane_EndsWithTheOthers(t *testing.T) {
	for _, broken := range []raft.Lane{raft.LaneUrgent, raft.LaneBulk} {
		onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
			w.send(t, 0)
			w.end(t, int(broken))
			w.r.AwaitLost(t, "b", false)
			w.r.AwaitUp(t, "b")
			assert.Equal(t, 5, w.dials())
			synctest.Wait()
			assert.Equal(t, 2, w.b.Stats().Inbound)
			w.send(t, 1)
			assert.Equal(t, 6, w.dials())
		})
	}
}

// The acceptor learns of the end of a connection when another connection of its caller ends.
func TestSideLane_EndsWithTheOthersAtTheAcceptorToo(t *testing.T) {
	onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
		w.send(t, 0)
		for lane := range 3 { // neither side sees the end of these connections
			w.cut(lane, true, true)
		}
		w.pass(5 * time.Second)
		assert.Equal(t, 2, w.b.Stats().Inbound, "those of the new pair")
		assert.Equal(t, 5, w.dials())
	})
}

// The other lanes work. So only the side lane itself can show that it is dead.
func TestSideLane_ADeadOneIsNoticedWithinTheIdleTimeout(t *testing.T) {
	for _, row := range []struct{ there, back bool }{{true, false}, {false, true}, {true, true}} {
		onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
			w.send(t, 0)
			w.cut(2, row.there, row.back)
			for range 22 {
				_ = w.trySend(1) // initially into the dead connection
				w.pass(100 * time.Millisecond)
			}
			assert.Equal(t, 4, w.dials())
			w.seen.Discard(func(transporttest.Event) bool { return true })
			w.send(t, 2)
			w.assertUndisturbed(t)
			assert.Equal(t, 3, w.b.Stats().Inbound)
		})
	}
}

func TestSideLane_CloseInterruptsItsDial(t *testing.T) {
	for _, lane := range []raft.Lane{raft.LaneSnapshot, raft.LaneForward} {
		synctest.Test(t, func(t *testing.T) {
			w := newLaneWorld(t, transport.Options{DialTimeout: time.Hour})
			w.lane = lane
			w.hang.Store(true)
			sent := make(chan error, 1)
			go func() { sent <- w.trySend(0) }()
			synctest.Wait()
			began := time.Now()
			require.NoError(t, w.a.Close())
			require.Error(t, <-sent)
			assert.Zero(t, time.Since(began))
			require.Error(t, w.trySend(0))
		})
	}
}

// A peer may restart after the pair was dialed. It is then not the peer of the pair any more, and the pair will end.
func TestSideLane_GoesToTheSameStartAsTheOthers(t *testing.T) {
	onSideLanes(t, transport.Options{}, func(t *testing.T, w *laneWorld) {
		w.seen.Self.StartCount = 2
		err := w.trySend(0)
		require.ErrorContains(t, err, "restarted")
		w.assertUndisturbed(t)
	})
}

// A request that was sent on a lane that breaks may be lost, and so may an answer. Each side learns it, and nobody hears of a
// lane that was idle.
func TestForwardLane_ItsBreakIsReported(t *testing.T) {
	for _, row := range []struct {
		rule     string
		breaks   func(t *testing.T, w *laneWorld)
		atA, atB int // calls of ForwardLost
	}{
		{"idle", func(t *testing.T, w *laneWorld) { w.pass(time.Minute) }, 0, 0},
		{"the caller's end breaks", func(t *testing.T, w *laneWorld) { w.end(t, 2) }, 1, 0},
		{"it is dead", func(t *testing.T, w *laneWorld) { w.cut(2, true, true); w.pass(3 * time.Second) }, 1, 1},
		{"nothing arrives", func(t *testing.T, w *laneWorld) { w.cut(2, true, false); w.pass(3 * time.Second) }, 1, 1},
	} {
		t.Run(row.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLaneWorld(t, transport.Options{})
				w.lane = raft.LaneForward
				w.send(t, 1)
				synctest.Wait() // a pipe that ends before the next read begins does not end with io.EOF
				row.breaks(t, w)
				synctest.Wait()
				assert.Equal(t, row.atB, lostForwards(w.seen), "at b")
				assert.Equal(t, row.atA, lostForwards(w.r), "at a")
				assert.EqualValues(t, row.atA, w.a.Stats().SidesLost)
				w.assertUndisturbed(t)
			})
		})
	}
}

// With TLS, only a lane that is closed in order has lost nothing.
func TestForwardLane_WithTLSAnIdleOneIsNoLoss(t *testing.T) {
	ca := newAuthority(t)
	own, other := ca.member(t, "test", "a"), ca.member(t, "test", "b")
	synctest.Test(t, func(t *testing.T) {
		n := newPipeNetwork(own)
		a := n.New(t, "a").(*transport.TCP)
		n.options = other
		b := n.New(t, "b").(*transport.TCP)
		w := &laneWorld{lane: raft.LaneForward, a: a, b: b}
		w.r, w.seen = join(t, a, b)
		for i := range int64(3) {
			w.send(t, i)
			assert.Equal(t, 3, b.Stats().Inbound)
			time.Sleep(11 * time.Second)
			assert.Equal(t, 2, b.Stats().Inbound)
		}
		assert.Equal(t, uint64(3), a.Stats().SidesDialed)
		assert.Zero(t, lostForwards(w.r)+lostForwards(w.seen))
		w.assertUndisturbed(t)
	})
}

func TestForwardLane_ASnapshotLaneIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLaneWorld(t, transport.Options{})
		w.lane = raft.LaneSnapshot
		w.send(t, 0)
		w.cut(2, true, true)
		time.Sleep(3 * time.Second)
		assert.Equal(t, uint64(1), w.a.Stats().SidesLost)
		assert.Zero(t, lostForwards(w.r)+lostForwards(w.seen))
	})
}

// cable is a connection whose two directions can be cut separately. Everything sent in a cut direction is lost,
// including the end of the connection.
type cable struct{ cutThere, cutBack atomic.Bool }

func (c *cable) pass(to, from net.Conn, cut *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		switch {
		case err != nil && !cut.Load():
			_ = to.Close()
			return
		case err != nil:
			return
		case !cut.Load():
			_, _ = to.Write(b[:n]) // the other direction shows that the connection has ended
		}
	}
}

// On the bulk connection, b sends nothing that a needs. So the direction from b to a may be dead there.
func TestHalfOpen_CutOfADirectionIsNoticedWithinTheIdleTimeout(t *testing.T) {
	for _, row := range []struct {
		cut         raft.Lane
		there, back bool
	}{
		{raft.LaneUrgent, true, false},
		{raft.LaneUrgent, false, true},
		{raft.LaneUrgent, true, true},
		{raft.LaneBulk, true, false},
		{raft.LaneBulk, true, true},
	} {
		for _, busy := range [][]raft.Lane{nil, {raft.LaneUrgent}, {raft.LaneBulk}, {raft.LaneUrgent, raft.LaneBulk}} {
			t.Run(fmt.Sprintf("%+v, messages on %v", row, busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newLaneWorld(t, transport.Options{})
					a, b := w.a, w.b
					beat := raft.Message{From: w.r.Self.From, To: w.seen.Self.From, Body: raft.Heartbeat{}}
					const step, cutAt = 50 * time.Millisecond, 10 * time.Second
					for at := time.Duration(0); at < cutAt+2*time.Second+step; at += step {
						if at == cutAt {
							assert.Equal(t, uint64(1), a.Stats().Dialed)
							w.cut(int(row.cut), row.there, row.back)
						}
						for _, lane := range busy {
							_ = a.Send(firstOf("b"), lane, []raft.Message{beat})
						}
						time.Sleep(step)
					}
					assert.Equal(t, uint64(2), a.Stats().Dialed)
					assert.True(t, a.Peer(firstOf("b")).Connected)
					time.Sleep(time.Minute)
					assert.Equal(t, uint64(2), a.Stats().Dialed)
					assert.Equal(t, 2, b.Stats().Inbound, "none of the earlier ones is left")
					assert.NoError(t, a.Close())
					assert.NoError(t, b.Close())
				})
			})
		}
	}
}
