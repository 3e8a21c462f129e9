package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/load"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writersMost is the number of clients that write all the time, each to random members.
const writersMost = 64

// writers are the clients of one test.
type writers struct {
	nodes   []local.Node
	members []*client.Client

	kills []kill // of the test

	mu      sync.Mutex
	acked   []time.Time
	failed  []error
	unknown []unknownWrite
	unreach int           // requests that no member has received: a client sends them to another member
	waited  int           // requests for which no leader was found for a second: on a slow machine, an election may take that long
	late    time.Duration // longest time that this process has overslept
}

// unknownWrite is a write of unknown outcome.
type unknownWrite struct {
	load.Span
	asked string // id of the member
	err   error
}

// kill is the end of a process.
type kill struct {
	load.Span // until another member leads
	id        string
	led       bool
	again     time.Time // when it ran again: until then, a client may use a connection to the killed process
}

// had reports whether the request may have been under way to the killed process.
func (k kill) had(w unknownWrite) bool {
	return w.Ended.After(k.Began) && (k.id == w.asked && w.Began.Before(k.again) || k.led && w.Began.Before(k.Ended))
}

// write writes until the context ends. It asks another member if one has changed nothing for a reason that passes.
func (w *writers) write(ctx context.Context, key string) {
	for k := 0; ctx.Err() == nil; k++ {
		end := time.Now().Add(patience)
		for w.try(key, fmt.Append(nil, k), end) {
		}
	}
}

// try makes one request, and reports whether another member should be asked. After the end, the write has failed instead.
func (w *writers) try(key string, value []byte, end time.Time) (again bool) {
	i := rand.IntN(len(w.members))
	began := time.Now()
	_, err := w.members[i].Put(context.Background(), key, value, client.Condition{})
	took := load.Span{Began: began, Ended: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch code := api.CodeOf(err); {
	case err != nil && took.Ended.After(end):
		w.failed = append(w.failed, err)
	case err == nil:
		w.acked = append(w.acked, took.Ended)
	case code == api.Unreachable:
		w.unreach++
		return true
	case time.Since(began) > time.Second && slices.Contains([]admin.Code{admin.NoLeader, admin.NotLeader}, code):
		w.waited++
		return true
	case code == admin.OutcomeUnknown:
		w.unknown = append(w.unknown, unknownWrite{took, w.nodes[i].ID, err})
	default:
		w.failed = append(w.failed, err)
	}
	return false
}

// oversleep measures how late this process wakes up, until the context ends.
func (w *writers) oversleep(ctx context.Context) {
	for ctx.Err() == nil {
		at := time.Now().Add(poll)
		<-time.After(poll)
		w.mu.Lock()
		w.late = max(w.late, time.Since(at))
		w.mu.Unlock()
	}
}

// startWriters starts the clients, on a cluster of startSteady. The caller must call end once.
func startWriters(t *testing.T, c cluster) (w *writers, end func()) {
	shared := client.NewHTTP(writersMost, patience)
	w = &writers{nodes: c.Nodes}
	for _, n := range c.Nodes {
		w.members = append(w.members, n.Client(shared))
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range writersMost {
		writing.Go(func() { w.write(ctx, fmt.Sprint("planned", i)) })
	}
	writing.Go(func() { w.oversleep(ctx) })
	return w, func() {
		stop()
		writing.Wait()
		shared.CloseIdleConnections()
		if w.late > steadyTimeout/2 || c.wokeLate() {
			t.Logf("the machine was too busy: of %d requests, %d failed, and the outcome of %d is unknown", len(w.acked), len(w.failed), len(w.unknown))
			return
		}
		assert.Empty(t, w.failed, "no request fails")
		for _, u := range w.unknown {
			assert.True(t, slices.ContainsFunc(w.kills, func(k kill) bool { return k.had(u) }),
				"a request to %s of %v, which no killed process had: %v", u.asked, u.Ended.Sub(u.Began), u.err)
		}
		if w.waited > 0 {
			t.Logf("%d requests found no leader for a second", w.waited)
		}
	}
}

// A planned transfer delays writes and fails none, whichever members the clients ask.
func TestEndToEnd_PlannedTransfersFailNoWrite(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	w, end := startWriters(t, c)
	measuring, stop := context.WithCancel(t.Context())
	var synced []time.Duration
	var measured sync.WaitGroup
	measured.Go(func() {
		var err error
		synced, err = load.SyncedWrites(measuring, c.dir)
		assert.NoError(t, err)
	})
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	var spans []load.Span
	for range inFull(20, 50) {
		began := time.Now()
		_, err := leader.Client(shared).Transfer(t.Context(), "")
		if err != nil { // the machine may be slow
			t.Logf("%s keeps its leadership: %v", leader.ID, err)
		} else {
			spans = append(spans, load.Span{Began: began, Ended: time.Now()})
		}
		leader = c.leader("")
		<-time.After(100 * time.Millisecond)
	}
	stop()
	measured.Wait()
	end()
	pauses := load.Pauses(w.acked, spans)
	require.NotEmpty(t, pauses)
	t.Logf("%d transfers among %d writes of %d clients: writes pause for %v in the median, %v at most; a synced write takes %v in the median",
		len(pauses), len(w.acked), writersMost, pauses[len(pauses)/2], pauses[len(pauses)-1], synced[len(synced)/2])
}

// A rolling restart delays writes and fails none. If a member does not take a connection, the client asks another one. If a
// process is then killed, only the outcomes of requests that it had are unknown.
func TestEndToEnd_ARollingRestartFailsNoWrite(t *testing.T) {
	t.Parallel()
	c, _ := startSteady(t)
	w, end := startWriters(t, c)
	var spans []load.Span
	serves := func(n local.Node) {
		require.NoError(t, c.Start(n.ID))
		c.await(n, "serves", func(api.Status) bool {
			return c.clientOf(n).Ready(t.Context()) == nil
		})
		c.caughtUp()
	}
	for _, n := range c.Nodes {
		began := time.Now()
		c.Process(n.ID).Stop(patience)
		spans = append(spans, load.Span{Began: began, Ended: time.Now()})
		serves(n)
	}
	for _, led := range []bool{false, true} {
		n := c.leader("")
		if !led {
			n = c.others(n.ID)[0]
		}
		k := kill{Span: load.Span{Began: time.Now()}, id: n.ID, led: led}
		c.Kill(n.ID)
		c.leader(n.ID)
		k.Ended = time.Now()
		spans = append(spans, k.Span)
		serves(n)
		k.again = time.Now()
		w.kills = append(w.kills, k)
	}
	end()
	t.Logf("3 restarts and 2 kills among %d writes of %d clients: %d met a closed port, and the outcome of %d is unknown; writes pause for %v",
		len(w.acked), writersMost, w.unreach, len(w.unknown), load.Pauses(w.acked, spans))
}
