package main_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writersMost is the number of clients that write all the time, each to random members.
const writersMost = 64

// writers are the clients of one test.
type writers struct {
	mu      sync.Mutex
	acked   []time.Time
	failed  []error
	unreach int // requests that no member has received: a client sends them to another member
	waited  int // requests for which no leader was found for a second: on a slow machine, an election may take that long
}

// write writes until the context ends.
func (w *writers) write(ctx context.Context, members []*client.Client, key string) {
	for k := 0; ctx.Err() == nil; k++ {
		began := time.Now()
		_, err := members[rand.IntN(len(members))].Put(context.Background(), key, fmt.Append(nil, k), client.Condition{})
		w.mu.Lock()
		switch {
		case err == nil:
			w.acked = append(w.acked, time.Now())
		case api.CodeOf(err) == api.Unreachable:
			w.unreach++
		case time.Since(began) > time.Second && slices.Contains([]admin.Code{admin.NoLeader, admin.NotLeader, api.LeaderUnreachable}, api.CodeOf(err)):
			w.waited++
		default:
			w.failed = append(w.failed, err)
		}
		w.mu.Unlock()
	}
}

// startWriters starts the clients. The caller must call end once.
func startWriters(t *testing.T, c cluster) (w *writers, end func()) {
	shared := client.NewHTTP(writersMost, patience)
	var members []*client.Client
	for _, n := range c.Nodes {
		members = append(members, n.Client(shared))
	}
	w = &writers{}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range writersMost {
		writing.Go(func() { w.write(ctx, members, fmt.Sprint("planned", i)) })
	}
	return w, func() {
		stop()
		writing.Wait()
		shared.CloseIdleConnections()
		assert.Empty(t, w.failed, "no request fails")
		if w.waited > 0 {
			t.Logf("%d requests found no leader for a second", w.waited)
		}
	}
}

// pauses returns, in order, for each of the spans the longest time without an acknowledgement that overlaps it.
func (w *writers) pauses(spans [][2]time.Time) (pauses []time.Duration) {
	slices.SortFunc(w.acked, time.Time.Compare)
	for _, s := range spans {
		i, _ := slices.BinarySearchFunc(w.acked, s[0], time.Time.Compare)
		longest := time.Duration(0)
		for i = max(i, 1); i < len(w.acked) && w.acked[i-1].Before(s[1]); i++ {
			longest = max(longest, w.acked[i].Sub(w.acked[i-1]))
		}
		pauses = append(pauses, longest)
	}
	slices.Sort(pauses)
	return pauses
}

// writesSynced measures small synced writes to the disk of the members, in order of their durations, until the context ends.
func writesSynced(t *testing.T, ctx context.Context, dir string) (took []time.Duration) {
	f, err := os.Create(filepath.Join(dir, "synced"))
	if !assert.NoError(t, err) {
		return []time.Duration{0}
	}
	defer f.Close()
	for ctx.Err() == nil || len(took) == 0 {
		began := time.Now()
		_, err := f.Write(make([]byte, 256))
		assert.NoError(t, errors.Join(err, f.Sync()))
		took = append(took, time.Since(began))
		<-time.After(poll)
	}
	slices.Sort(took)
	return took
}

// A planned transfer delays writes and fails none, whichever members the clients ask.
func TestEndToEnd_PlannedTransfersFailNoWrite(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	w, end := startWriters(t, c)
	measuring, stop := context.WithCancel(t.Context())
	synced := make(chan []time.Duration, 1)
	go func() { synced <- writesSynced(t, measuring, c.dir) }()
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	var spans [][2]time.Time
	for range inFull(20, 50) {
		began := time.Now()
		_, err := leader.Client(shared).Transfer(t.Context(), "")
		if err != nil { // the machine may be slow
			t.Logf("%s keeps its leadership: %v", leader.ID, err)
		} else {
			spans = append(spans, [2]time.Time{began, time.Now()})
		}
		leader = c.leader("")
		<-time.After(100 * time.Millisecond)
	}
	stop()
	writes := <-synced
	end()
	pauses := w.pauses(spans)
	require.NotEmpty(t, pauses)
	t.Logf("%d transfers among %d writes of %d clients: writes pause for %v in the median, %v at most; a synced write takes %v in the median",
		len(pauses), len(w.acked), writersMost, pauses[len(pauses)/2], pauses[len(pauses)-1], writes[len(writes)/2])
}

// A rolling restart delays writes and fails none. If a member does not take a connection, the client asks another one.
func TestEndToEnd_ARollingRestartFailsNoWrite(t *testing.T) {
	t.Parallel()
	c, _ := startCluster(t)
	w, end := startWriters(t, c)
	var spans [][2]time.Time
	for _, n := range c.Nodes {
		began := time.Now()
		c.Process(n.ID).Stop(patience)
		spans = append(spans, [2]time.Time{began, time.Now()})
		require.NoError(t, c.Start(n.ID))
		c.await(n, "serves", func(api.Status) bool {
			return n.Client(client.NewHTTP(1, patience)).Ready(t.Context()) == nil
		})
		c.caughtUp()
	}
	end()
	t.Logf("3 restarts among %d writes of %d clients, %d of which met a closed port: writes pause for %v", len(w.acked), writersMost, w.unreach,
		w.pauses(spans))
}
