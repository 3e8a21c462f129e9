package main_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

const (
	// longTimeout is the timeout of clients whose writes may take seconds.
	longTimeout = 10 * time.Second
	// electionPatience is the time for which a row waits for a leader. If there is no leader by then, the row reports that.
	electionPatience = 30 * time.Second
	// syncsPerWrite is the number of syncs of a bbolt transaction.
	syncsPerWrite = 2
)

func fullOnly(t *testing.T) {
	if os.Getenv(fullVariable) == "" {
		t.Skip("it takes half a minute; make measure runs it")
	}
}

// recorded is a workload that records all its requests.
type recorded struct {
	*workload.Workload
	verify  func()
	clients int
	c       cluster

	mu       sync.Mutex
	requests []workload.Request
}

func (c cluster) load(clients int, timeout time.Duration) *recorded {
	c.t.Helper()
	l := &recorded{clients: clients, c: c}
	l.Workload, l.verify = c.workAs(workload.Config{Clients: clients, Timeout: timeout, Observe: func(r workload.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.requests = append(l.requests, r)
	}})
	return l
}

// since returns the requests that began at the given time or later, in the order in which they ended.
func (l *recorded) since(began time.Time) (all []workload.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if !r.Called.Before(began) {
			all = append(all, r)
		}
	}
	return all
}

// measure lets the clients work for a time and logs a row of figures.
func (l *recorded) measure(during time.Duration, what string, args ...any) {
	l.c.t.Helper()
	began, terms, slow := time.Now(), l.c.term(), l.c.writeTime()
	<-time.After(during)
	ended := time.Now()
	elections := l.c.term() - terms
	var latencies, gaps []time.Duration
	var refused, unknown int
	last := began
	for _, r := range l.since(began) {
		switch {
		case r.Result == workload.Refused:
			refused++
		case r.Result == workload.Unknown:
			unknown++
		case r.Write:
			latencies = append(latencies, r.Ended.Sub(r.Called))
			gaps = append(gaps, r.Ended.Sub(last))
			last = r.Ended
		}
	}
	gaps = append(gaps, ended.Sub(last))
	count := len(latencies)
	l.c.t.Logf("%s, %d clients, %v: %d writes acknowledged, %s; %d without an outcome, %d refused; longest pause %v; "+
		"%d terms; a disk write takes %v", fmt.Sprintf(what, args...), l.clients, during, count, spread(latencies),
		unknown, refused, slices.Max(gaps).Round(time.Millisecond), elections, l.c.writeTime().since(slow))
}

// measureElection logs the time from now until a write is acknowledged.
func (l *recorded) measureElection(what string, args ...any) (elected bool) {
	l.c.t.Helper()
	began, terms := time.Now(), l.c.term()
	ctx, cancel := context.WithTimeout(l.c.t.Context(), electionPatience)
	defer cancel()
	took := fmt.Sprintf("none within %v", electionPatience)
	at, err := l.NextAcknowledged(ctx, began)
	if err == nil {
		took = at.Sub(began).Round(time.Millisecond).String()
	}
	l.c.t.Logf("%s, to the next acknowledged write: %s; %d terms", fmt.Sprintf(what, args...), took, l.c.term()-terms)
	return err == nil
}

// term returns the highest term of all members.
func (c cluster) term() (term uint64) {
	for _, s := range c.Statuses(c.t.Context()) {
		term = max(term, s.Term)
	}
	return term
}

// writeTime is the total duration and the number of the disk writes of all members.
type writeTime struct{ seconds, count float64 }

func (w writeTime) since(before writeTime) time.Duration {
	if w.count == before.count {
		return 0
	}
	mean := (w.seconds - before.seconds) / (w.count - before.count)
	return time.Duration(mean * float64(time.Second)).Round(time.Millisecond)
}

func (c cluster) writeTime() (sum writeTime) {
	shared := &http.Client{Timeout: time.Second}
	defer shared.CloseIdleConnections()
	for _, n := range c.Nodes {
		answer, err := shared.Get(n.URL() + admin.MetricsPath)
		if err != nil {
			continue // the member does not run
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			var value float64
			name, text, _ := strings.Cut(lines.Text(), " ")
			_, _ = fmt.Sscan(text, &value)
			switch strings.TrimPrefix(name, "raft_write_seconds") {
			case "_sum":
				sum.seconds += value
			case "_count":
				sum.count += value
			}
		}
		_ = answer.Body.Close()
	}
	return sum
}

// slow sets the duration of each disk write. The duration is a sixth shorter on the first disk, and a sixth longer on the
// third disk. 0 makes the disks fast again.
func (c cluster) slow(disks map[string]*powercut.FS, write time.Duration) {
	c.t.Helper()
	each := []time.Duration{write * 5 / 6, write, write * 7 / 6}
	for i, n := range c.Nodes {
		if write == 0 {
			require.NoError(c.t, disks[n.ID].ResumeSyncs())
			continue
		}
		require.NoError(c.t, disks[n.ID].StallSyncs(each[i]/syncsPerWrite))
	}
}

func TestMeasure_SlowDisks(t *testing.T) {
	fullOnly(t)
	for _, write := range []time.Duration{100, 400, 600} {
		write *= time.Millisecond
		t.Run(write.String(), func(t *testing.T) {
			c := newCluster(t)
			disks := c.onDisksOfTheirOwn()
			require.NoError(t, c.Start())
			c.leader("")
			load := c.load(20, longTimeout)
			writes(t, load.Workload, 20)
			c.slow(disks, write)
			load.measure(25*time.Second, "each disk write takes %v", write)
			c.slow(disks, 0)
			c.caughtUp()
			load.verify()
		})
	}
}

func TestMeasure_ElectionsOnSlowDisks(t *testing.T) {
	fullOnly(t)
	c := newCluster(t)
	disks := c.onDisksOfTheirOwn()
	require.NoError(t, c.Start())
	for _, write := range []time.Duration{150, 300, 750, 1500} {
		write *= time.Millisecond
		load := c.load(8, longTimeout)
		writes(t, load.Workload, 20)
		leader := c.leader("")
		c.slow(disks, write)
		c.Kill(leader.ID)
		load.measureElection("leader killed where each disk write takes %v", write)
		c.slow(disks, 0)
		require.NoError(t, c.Start(leader.ID))
		c.caughtUp()
		load.verify()
	}
}

func TestMeasure_BootstrapOnSlowDisks(t *testing.T) {
	fullOnly(t)
	for _, write := range []time.Duration{400, 760, 1500} {
		write *= time.Millisecond
		t.Run(write.String(), func(t *testing.T) {
			c := newCluster(t)
			disks := c.onDisksOfTheirOwn()
			c.slow(disks, write)
			load := c.load(1, longTimeout)
			require.NoError(t, c.Start())
			elected := load.measureElection("bootstrap where each disk write takes %v", write)
			c.slow(disks, 0)
			if !elected {
				nextWrite(t, load.Workload, time.Now()) // fails the test without a leader
			}
			load.verify()
		})
	}
}

func TestMeasure_TransfersOnSlowDisks(t *testing.T) {
	fullOnly(t)
	for _, write := range []time.Duration{60, 70, 120} {
		write *= time.Millisecond
		t.Run(write.String(), func(t *testing.T) {
			c := newCluster(t)
			disks := c.onDisksOfTheirOwn()
			require.NoError(t, c.Start())
			load := c.load(20, longTimeout)
			writes(t, load.Workload, 20)
			c.slow(disks, write)
			writes(t, load.Workload, 5)
			const transfers = 20
			var gaps []time.Duration
			done, terms, members := 0, c.term(), c.clients()
			for range transfers {
				leader := c.leader("")
				target := c.others(leader.ID)[0]
				began := time.Now()
				_, err := members[slices.Index(c.Nodes, leader)].Transfer(t.Context(), target.ID)
				if status, failed := c.Status(t.Context(), target); err == nil && failed == nil && status.Role == "leader" {
					done++
				}
				writes(t, load.Workload, 3)
				gaps = append(gaps, load.longestPause(began))
			}
			t.Logf("transfer under load where each disk write takes %v: %d of %d, %d terms; longest pause of each: %s",
				write, done, transfers, c.term()-terms, spread(gaps))
			gaps = nil
			for range 5 {
				leader := c.leader("")
				began := time.Now()
				c.Process(leader.ID).Stop(longTimeout)
				writes(t, load.Workload, 3)
				gaps = append(gaps, load.longestPause(began))
				require.NoError(t, c.Start(leader.ID))
				c.caughtUp()
			}
			t.Logf("leader ends as asked under load where each disk write takes %v, %d times; longest pause of each: %s",
				write, len(gaps), spread(gaps))
			c.slow(disks, 0)
			load.verify()
		})
	}
}

// longestPause returns the longest time between two acknowledged writes after a given time.
func (l *recorded) longestPause(began time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := began
	for _, r := range l.requests {
		if r.Write && r.Ended.After(began) {
			longest = max(longest, r.Ended.Sub(last))
			last = r.Ended
		}
	}
	return longest
}
