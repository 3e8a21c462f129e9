package transport_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
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
