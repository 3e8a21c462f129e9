package transport_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cable is a connection whose two directions can be cut separately: then everything that is sent is lost,
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
			_, _ = to.Write(b[:n]) // the other direction shows that it has ended
		}
	}
}

// cabled connects a to b, and returns both, and the cables of a's two lanes.
func cabled(t *testing.T) (a, b *transport.TCP, cables []*cable, send func(raft.Lane)) {
	n := newPipeNetwork(transport.Options{})
	b = n.New(t, "b").(*transport.TCP)
	made := make(chan *cable, 100)
	a, err := transport.New(n.listen("a"), func(ctx context.Context, address string) (net.Conn, error) {
		far, err := n.dial(ctx, address)
		if err != nil {
			return nil, err
		}
		near, end := net.Pipe()
		c := &cable{}
		go c.pass(far, end, &c.cutThere)
		go c.pass(end, far, &c.cutBack)
		made <- c
		return near, nil
	}, transport.Options{})
	require.NoError(t, err)
	r, seen := transporttest.NewRecorder("a"), transporttest.NewRecorder("b")
	require.NoError(t, a.Start(r))
	require.NoError(t, b.Start(seen))
	a.Connect(at("b", "b"))
	r.AwaitUp(t, "b")
	m := raft.Message{From: r.Self.From, To: seen.Self.From, Body: raft.Heartbeat{}}
	return a, b, []*cable{<-made, <-made}, func(lane raft.Lane) { _ = a.Send(firstOf("b"), lane, []raft.Message{m}) }
}

// b sends nothing of use on the bulk connection: that direction may be dead.
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
					a, b, cables, send := cabled(t)
					const step, cutAt = 50 * time.Millisecond, 10 * time.Second
					for at := time.Duration(0); at < cutAt+2*time.Second+step; at += step {
						if at == cutAt {
							assert.Equal(t, uint64(1), a.Stats().Dialed)
							cables[row.cut].cutThere.Store(row.there)
							cables[row.cut].cutBack.Store(row.back)
						}
						for _, lane := range busy {
							send(lane)
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
