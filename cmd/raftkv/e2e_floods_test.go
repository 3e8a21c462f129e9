package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// floodTime is the duration of a flood.
const floodTime = 8 * time.Second

// flood keeps n connections to the address busy. It calls do with each connection. As soon as do returns, it calls do with a
// new connection. The connections end with the test, or with stop.
func flood(t *testing.T, address string, connections int, do func(ctx context.Context, conn net.Conn)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range connections {
		callers.Go(func() {
			for ctx.Err() == nil {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
				if err != nil {
					pause(ctx, 10*time.Millisecond)
					continue
				}
				do(ctx, conn)
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); callers.Wait() })
	t.Cleanup(stop)
	return stop
}

// pause waits. It returns false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// tally counts the outcomes of honest requests.
type tally struct{ done, refused, failed atomic.Int64 }

func (y *tally) String() string {
	all := y.done.Load() + y.refused.Load() + y.failed.Load()
	return fmt.Sprintf("%d writes: %d acknowledged, %d refused as overloaded, %d failed (%.1f %% not acknowledged)", all,
		y.done.Load(), y.refused.Load(), y.failed.Load(), 100*float64(all-y.done.Load())/float64(max(all, 1)))
}

// honest writes to the member with 8 well-behaved clients for this time.
func honest(t *testing.T, n local.Node, d time.Duration) *tally {
	t.Helper()
	shared := client.NewHTTP(16, 5*time.Second)
	defer shared.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var y tally
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			for i := 0; pause(ctx, 5*time.Millisecond); i++ {
				_, err := n.Client(shared).Put(t.Context(), fmt.Sprintf("honest/%d/%d", writer, i), []byte("v"), client.Condition{})
				switch api.CodeOf(err) {
				case "":
					y.done.Add(1)
				case admin.Overloaded:
					y.refused.Add(1)
				default:
					y.failed.Add(1)
				}
			}
		})
	}
	writers.Wait()
	return &y
}

// The clients of the flood send their bodies byte by byte, and never finish.
func TestEndToEnd_BodiesThatTrickleKeepNoHonestWriteOut(t *testing.T) {
	const tricklers = 1700
	c, leader := startSteady(t)
	flood(t, leader.HTTPAddr, tricklers, func(ctx context.Context, conn net.Conn) {
		_, err := fmt.Fprintf(conn, "PUT /kv/trickled HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000\r\n\r\n", leader.HTTPAddr)
		for err == nil && pause(ctx, 200*time.Millisecond) {
			_, err = conn.Write([]byte("x"))
		}
	})
	y := honest(t, leader, floodTime)
	t.Logf("beside %d bodies that trickle: %v; leader %v", tricklers, y, c.memory(leader.ID))
	assert.Positive(t, y.done.Load())
	if !c.wokeLate() {
		assert.Less(t, y.refused.Load()+y.failed.Load(), y.done.Load()/20)
	}
}

// The clients of the flood request large values again and again, and never read a reply.
func TestEndToEnd_ClientsThatNeverReadCostTheLeaderNeitherOfficeNorMemory(t *testing.T) {
	const clients, requests = 1000, 32
	c, leader := startSteady(t)
	for i := range 4 {
		_, err := c.clientOf(leader).Put(t.Context(), fmt.Sprintf("large/%d", i), make([]byte, 1<<20), client.Condition{})
		require.NoError(t, err)
	}
	before := c.status(leader)
	flood(t, leader.HTTPAddr, clients, func(ctx context.Context, conn net.Conn) {
		for i := range requests {
			_, _ = fmt.Fprintf(conn, "GET /kv/large%%2F%d?consistency=stale HTTP/1.1\r\nHost: %s\r\n\r\n", i%4, leader.HTTPAddr)
		}
		pause(ctx, floodTime)
	})
	y := honest(t, leader, floodTime)
	memory := c.memory(leader.ID)
	var after api.Status
	c.await(leader, "says which term it is", func(s api.Status) bool { after = s; return true })
	t.Logf("beside %d clients that never read: %v; leader %v, term %d, then %d", clients, y, memory, before.Term, after.Term)
	assert.Positive(t, y.done.Load())
	if !c.wokeLate() {
		assert.Equal(t, before.Term, after.Term, "there was no election")
		assert.Less(t, y.refused.Load()+y.failed.Load(), y.done.Load()/20)
	}
	assert.Less(t, memory.resident, 512<<20)
}

func (c cluster) clientOf(n local.Node) *client.Client {
	shared := client.NewHTTP(1, patience)
	c.t.Cleanup(shared.CloseIdleConnections)
	return n.Client(shared)
}

// memory is the peak resident memory of a process, in bytes.
type memory struct{ resident int }

func (m memory) String() string { return fmt.Sprintf("took up to %d MiB", m.resident>>20) }

// memory returns zero if the system has no /proc.
func (c cluster) memory(id string) (m memory) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process(id).PID()))
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			m.resident = kib << 10
		}
	}
	return m
}
