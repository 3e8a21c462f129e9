package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/client"
)

// gapClients is the number of clients. Each client makes one write at a time, with pauses. This is a steady load that two
// cores can carry.
const (
	gapClients = 8
	gapPause   = 4 * time.Millisecond
	gapRetry   = 2 * time.Millisecond // pause after an error, before the next server is asked
	gapTimeout = 2 * time.Second      // limit of one write
)

// acks holds the times of the acknowledgements of each client's writes, in order.
type acks struct {
	mu    sync.Mutex
	times [][]time.Time // by client
}

func (a *acks) add(client int, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times[client] = append(a.times[client], at)
}

// gaps holds the longest times without an acknowledgement in a window.
type gaps struct {
	all time.Duration // without an acknowledgement to any client
	one time.Duration // without an acknowledgement to some client
}

func (g gaps) String() string {
	return fmt.Sprintf("%v (one client: %v)", tenths(g.all), tenths(g.one))
}

func tenths(d time.Duration) time.Duration { return d.Round(time.Millisecond / 10) }

// between returns the longest gaps that overlap the window. If a gap begins before the window or ends after it, the gap
// counts in full.
func (a *acks) between(from, to time.Time) (g gaps) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.times {
		g.one = max(g.one, longestGap(times, from, to))
	}
	all := slices.Concat(a.times...)
	slices.SortFunc(all, time.Time.Compare)
	g.all = longestGap(all, from, to)
	return g
}

// longestGap returns the longest gap that overlaps the window. A gap lies between two times of the sorted list. A gap before
// the first or after the last time of the list counts only to the end of the window.
func longestGap(times []time.Time, from, to time.Time) (longest time.Duration) {
	first, found := slices.BinarySearchFunc(times, from, time.Time.Compare)
	before := from
	switch {
	case found:
		first++
	case first > 0:
		before = times[first-1]
	}
	for _, at := range times[first:] {
		longest = max(longest, at.Sub(before))
		if before = at; !at.Before(to) {
			return longest
		}
	}
	return max(longest, to.Sub(before))
}

func TestLongestGap_CountsWhatOverlapsTheWindow(t *testing.T) {
	zero := time.Unix(1_700_000_000, 0)
	at := func(seconds ...int) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, zero.Add(time.Duration(s)*time.Second))
		}
		return times
	}
	for _, row := range []struct {
		rule     string
		times    []time.Time
		from, to int
		want     int // seconds
	}{
		{"the longest between two within it", at(0, 10, 11, 14, 15, 30), 10, 15, 3},
		{"one that began before it", at(0, 10, 11), 5, 11, 10},
		{"one that ends after it", at(0, 1, 9), 0, 5, 8},
		{"none since the last", at(0, 1), 0, 5, 4},
		{"none at all", nil, 2, 5, 3},
		{"what lies outside does not count", at(0, 50, 51, 52, 53, 99), 51, 52, 1},
	} {
		window := at(row.from, row.to)
		assert.Equal(t, time.Duration(row.want)*time.Second, longestGap(row.times, window[0], window[1]), row.rule)
	}
}

// probe measures the machine beside the members. It measures the duration of small synced writes on the same disk, and the
// delay with which a goroutine wakes up. If a gap is no longer than these figures, the machine caused it.
type probe struct {
	mu    sync.Mutex
	disk  []took
	sleep []took
}

// took is a measured duration.
type took struct {
	began time.Time
	long  time.Duration
}

const probePause = 10 * time.Millisecond

// startProbe probes until the test ends.
func startProbe(t *testing.T) *probe {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	require.NoError(t, err)
	p := &probe{}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	repeat := func(list *[]took, do func()) {
		for ctx.Err() == nil {
			began := time.Now()
			do()
			p.mu.Lock()
			*list = append(*list, took{began, time.Since(began)})
			p.mu.Unlock()
		}
	}
	all.Go(func() {
		repeat(&p.disk, func() {
			_, failed := f.WriteAt(make([]byte, 4<<10), 0)
			assert.NoError(t, errors.Join(failed, syscall.Fdatasync(int(f.Fd()))))
			<-time.After(probePause)
		})
	})
	all.Go(func() { repeat(&p.sleep, func() { <-time.After(probePause) }) })
	t.Cleanup(func() { cancel(); all.Wait(); _ = f.Close() })
	return p
}

// between describes the worst measurements that overlap the window.
func (p *probe) between(from, to time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	worst := func(list []took) (longest time.Duration) {
		for _, one := range list {
			if one.began.Before(to) && one.began.Add(one.long).After(from) {
				longest = max(longest, one.long-probePause)
			}
		}
		return longest
	}
	return fmt.Sprintf("the machine: a synced write took up to %v, a wake-up was up to %v late",
		tenths(worst(p.disk)), tenths(worst(p.sleep)))
}

// steadyLoad lets clients write until the test calls the returned function. A client stays with one server until it gets an
// error. Then it asks the next server.
func (c cluster) steadyLoad(keys, valueBytes int) (a *acks, stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a = &acks{times: make([][]time.Time, gapClients)}
	var all sync.WaitGroup
	for number := range gapClients {
		all.Go(func() { c.writeSteadily(ctx, a, number, keys, valueBytes) })
	}
	stop = func() { cancel(); all.Wait() }
	c.t.Cleanup(stop)
	return a, stop
}

func (c cluster) writeSteadily(ctx context.Context, a *acks, number, keys, valueBytes int) {
	shared := client.NewHTTP(1, gapTimeout)
	defer shared.CloseIdleConnections()
	value, server := make([]byte, valueBytes), number
	for i := number; ctx.Err() == nil; i += gapClients {
		pause := gapPause
		member := c.Nodes[server%len(c.Nodes)].Client(shared)
		if _, err := member.Put(ctx, fillKey(i*7919%keys), value, client.Condition{}); err == nil {
			a.add(number, time.Now())
		} else {
			server, pause = server+1, gapRetry
		}
		<-time.After(pause)
	}
}
