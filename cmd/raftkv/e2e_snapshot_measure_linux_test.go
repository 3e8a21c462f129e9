package main_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/size"
)

// RAFTKV_SNAPSHOTS=1GiB measures snapshots of a state of this size, and RAFTKV_HOURS=1 measures a cluster under load for an
// hour. Measure on a machine without other load: see "make measure-snapshots".
const (
	snapshotsVariable = "RAFTKV_SNAPSHOTS"
	hoursVariable     = "RAFTKV_HOURS"
	measuredValue     = 1 << 10 // bytes of each value
	measuredRate      = 32 << 20
	measuredRounds    = 3 // rounds of two pairs each
	windowMax         = 10 * time.Second
	loadClients       = 8
	loadPause         = 5 * time.Millisecond
	sendingMax        = 20 * time.Second // limit of the wait until the leader sends a snapshot
	measuredMax       = 10 * time.Minute // limit of each wait, which may be long with a large state on a slow disk
)

func TestMeasure_Snapshots(t *testing.T) {
	text := os.Getenv(snapshotsVariable)
	if text == "" {
		t.Skip(snapshotsVariable + " is not set; make measure-snapshots sets it")
	}
	whole, err := size.Parse(text)
	require.NoError(t, err)
	// With a large state, members take hardly any snapshot without a command. Each window therefore contains only the
	// snapshots that the test asks for.
	c, _ := startSnapshotting(t, "--snapshot-entries", "1000000000", "--snapshot-log-bytes", "8MiB", "--snapshot-tail-bytes", "64KiB",
		"--snapshot-rate", strconv.Itoa(measuredRate))
	c.patience = measuredMax
	filled := 0
	for _, share := range []int{4, 2, 1} {
		limit := whole / share / measuredValue
		began := time.Now()
		c.fill(filled, limit, measuredValue)
		t.Logf("%d values of %d bytes written in %v", limit-filled, measuredValue, time.Since(began).Round(time.Millisecond))
		filled = limit
		c.measureRestart(t)
	}
	t.Run("taken", c.measureTaking)
	t.Run("sent", c.measureSending)
	t.Run("backed up", c.measureBackup)
}

// measureRestart prints the duration of a restart with a snapshot and a short log.
func (c cluster) measureRestart(t *testing.T) {
	t.Helper()
	restarted := c.others(c.leader("").ID)[0]
	c.caughtUp()
	c.snapshot(restarted)
	before := c.status(restarted)
	var took []time.Duration
	for range 3 {
		c.Kill(restarted.ID)
		began := time.Now()
		require.NoError(t, c.Start(restarted.ID))
		c.await(restarted, "is back", func(s api.Status) bool { return s.Applied >= before.Applied && s.Keys == before.Keys })
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("restart with a snapshot of %s and a log of %s: %v, that is %.2f s a GiB", size.Format(before.Snapshot.Bytes),
		size.Format(before.LogBytes), took, took[1].Seconds()*float64(1<<30)/float64(before.Snapshot.Bytes))
}

// window holds the observations of a cluster under load for some time.
type window struct {
	p50, p99, max time.Duration
	writes        int
	resident      map[string]int64 // maximum resident bytes of each member
	moved         bool             // the measured operation lasted until the end
}

func (w window) String() string {
	return fmt.Sprintf("%d writes, p50 %v, p99 %v, max %v", w.writes, w.p50.Round(ms/10), w.p99.Round(ms/10), w.max.Round(ms/10))
}

const ms = time.Millisecond

// look writes to the leader for the length of a window. At the end, it calls goesOn, which reports whether the measured
// operation still runs.
func (c cluster) look(leader local.Node, length time.Duration, keys int, goesOn func() bool) window {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), length)
	defer cancel()
	shared := client.NewHTTP(loadClients, patience)
	defer shared.CloseIdleConnections()
	latencies := make([][]time.Duration, loadClients)
	var all sync.WaitGroup
	for number := range loadClients {
		all.Go(func() {
			value := make([]byte, measuredValue)
			for i := number; ctx.Err() == nil; i += loadClients {
				began := time.Now()
				if _, err := leader.Client(shared).Put(c.t.Context(), fillKey(i*7919%keys), value, client.Condition{}); err == nil {
					latencies[number] = append(latencies[number], time.Since(began))
				}
				<-time.After(loadPause)
			}
		})
	}
	w := window{resident: map[string]int64{}}
	for ctx.Err() == nil {
		for _, n := range c.Nodes {
			w.resident[n.ID] = max(w.resident[n.ID], c.resident(n.ID))
		}
		<-time.After(20 * ms)
	}
	w.moved = goesOn()
	all.Wait()
	sorted := slices.Sorted(slices.Values(slices.Concat(latencies...)))
	require.NotEmpty(c.t, sorted)
	w.writes, w.p50, w.p99, w.max = len(sorted), sorted[len(sorted)/2], sorted[len(sorted)*99/100], sorted[len(sorted)-1]
	return w
}

// resident returns the resident memory of a member's process in bytes. It leaves out cached pages of files such as raft.db,
// because the system can reclaim these at any time.
func (c cluster) resident(id string) int64 {
	p := c.Process(id)
	if p == nil || !p.Running() {
		return 0
	}
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// pairs compares windows with and without an operation, in pairs.
type pairs struct {
	ratios []float64
	extra  []int64 // extra bytes of the leader
}

func (p *pairs) add(t *testing.T, leader string, without, with window) {
	t.Logf("without: %v; with: %v", without, with)
	if !with.moved {
		t.Log("it ended before the window: the pair does not count")
		return
	}
	p.ratios = append(p.ratios, float64(with.p99)/float64(without.p99))
	p.extra = append(p.extra, with.resident[leader]-without.resident[leader])
}

func (p *pairs) String() string {
	if len(p.ratios) == 0 {
		return "no pair counts"
	}
	slices.Sort(p.ratios)
	slices.Sort(p.extra)
	return fmt.Sprintf("p99 with to without, %d pairs: median %.2f, worst %.2f; extra memory of the leader: median %s, most %s (GOGC=%s)",
		len(p.ratios), p.ratios[len(p.ratios)/2], p.ratios[len(p.ratios)-1], signed(p.extra[len(p.extra)/2]), signed(p.extra[len(p.extra)-1]),
		cmp.Or(os.Getenv("GOGC"), "100"))
}

func signed(bytes int64) string {
	if bytes < 0 {
		return "-" + size.Format(-bytes)
	}
	return size.Format(bytes)
}

// windowOf returns the length of a window. Two windows of this length fit into the time that the transfer of the bytes takes.
func windowOf(bytes int64) time.Duration {
	return min(windowMax, time.Duration(float64(bytes)/measuredRate*0.4*float64(time.Second)))
}

// measureTaking compares a leader that takes a snapshot with a leader that does not. The order of the windows is A B B A.
func (c cluster) measureTaking(t *testing.T) {
	leader := c.leader("")
	before := c.status(leader)
	c.snapshot(leader)
	now := c.status(leader)
	length := windowOf(now.Snapshot.Bytes)
	takes := func() bool {
		s, err := c.Status(t.Context(), leader)
		return err == nil && s.Snapshot.Taking != nil
	}
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	var p pairs
	for range measuredRounds {
		first := c.look(leader, length, before.Keys, func() bool { return true })
		asked := make(chan error, 1)
		go func() { _, err := leader.Client(shared).Snapshot(t.Context()); asked <- err }()
		c.await(leader, "takes a snapshot", func(s api.Status) bool { return s.Snapshot.Taking != nil })
		second, third := c.look(leader, length, before.Keys, takes), c.look(leader, length, before.Keys, takes)
		require.NoError(t, <-asked)
		c.await(leader, "has taken it", func(s api.Status) bool { return s.Snapshot.Taking == nil })
		fourth := c.look(leader, length, before.Keys, func() bool { return true })
		p.add(t, leader.ID, first, second)
		p.add(t, leader.ID, fourth, third)
	}
	after := c.status(leader)
	t.Logf("taking a snapshot of %s: %v", size.Format(after.Snapshot.Bytes), &p)
	assert.Equal(t, before.Term, after.Term, "nobody else had to lead")
}

// measureSending compares two situations, in the order A B B A. In one, the leader sends a snapshot to a member that was
// away. In the other, this member is still away.
func (c cluster) measureSending(t *testing.T) {
	var p pairs
	before := c.status(c.leader(""))
	for range measuredRounds {
		c.caughtUp()
		leader := c.leader("")
		c.sendOnce(t, &p, leader, c.others(leader.ID)[0], before.Keys)
	}
	c.caughtUp()
	after := c.status(c.leader(""))
	t.Logf("sending a snapshot of %s: %v; %d leader changes", size.Format(after.Snapshot.Bytes), &p, after.Term-before.Term)
	assert.Equal(t, before.Term, after.Term, "nobody else had to lead")
}

// sendOnce measures two pairs. At the end, the absent member runs again.
func (c cluster) sendOnce(t *testing.T, p *pairs, leader, away local.Node, keys int) {
	always := func() bool { return true }
	sends := func() bool {
		s, err := c.Status(t.Context(), leader)
		return err == nil && s.Snapshot.Sending != nil
	}
	c.sendAway(away, leader)
	defer func() { require.NoError(t, c.Start(away.ID)) }()
	now := c.status(leader)
	length := windowOf(now.Snapshot.Bytes)
	first := c.look(leader, length, keys, always)
	c.snapshot(leader)
	require.NoError(t, c.Start(away.ID))
	for began := time.Now(); !sends(); <-time.After(poll) {
		if time.Since(began) > sendingMax {
			t.Logf("%s sends no snapshot to %s: the pairs do not count", leader.ID, away.ID)
			return
		}
	}
	began := time.Now()
	c.await(away, "has its own state back", func(s api.Status) bool { return s.Snapshot.Restoring == nil && s.Applied >= s.Snapshot.Last })
	receiver := c.resident(away.ID)
	second, third := c.look(leader, length, keys, sends), c.look(leader, length, keys, sends)
	c.await(leader, "has sent it", func(s api.Status) bool { return s.Snapshot.Sending == nil })
	took := time.Since(began)
	c.caughtUp()
	t.Logf("sent in %v; the receiver had %s once it had its old state, at most %s while it received, and %s once it had restored it",
		took.Round(ms), size.Format(receiver), size.Format(max(second.resident[away.ID], third.resident[away.ID])), size.Format(c.resident(away.ID)))
	c.sendAway(away, leader)
	fourth := c.look(leader, length, keys, always)
	p.add(t, leader.ID, first, second)
	p.add(t, leader.ID, fourth, third)
}

// footprint is the use of resources by a member at one moment.
type footprint struct{ resident, disk, log, descriptors, goroutines int64 }

func (f footprint) String() string {
	return fmt.Sprintf("memory %s, disk %s, of that log %s, %d descriptors, %d goroutines",
		size.Format(f.resident), size.Format(f.disk), size.Format(f.log), f.descriptors, f.goroutines)
}

func (f footprint) max(g footprint) footprint {
	return footprint{max(f.resident, g.resident), max(f.disk, g.disk), max(f.log, g.log), max(f.descriptors, g.descriptors), max(f.goroutines, g.goroutines)}
}

func (c cluster) footprint(n local.Node) (f footprint) {
	c.t.Helper()
	f.resident = c.resident(n.ID)
	_ = filepath.WalkDir(c.DataDir(n.ID), func(path string, entry fs.DirEntry, err error) error {
		if info, gone := os.Lstat(path); err == nil && gone == nil && !entry.IsDir() {
			f.disk += info.Size()
		}
		return nil // a snapshot file may have been deleted meanwhile
	})
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Process(n.ID).PID()))
	require.NoError(c.t, err)
	f.descriptors = int64(len(files))
	status := c.status(n)
	f.log = status.LogBytes
	f.goroutines = c.metric(n, "go_goroutines")
	return f
}

// metric returns the value of a metric without labels.
func (c cluster) metric(n local.Node, name string) (value int64) {
	c.t.Helper()
	response, err := http.Get(n.URL() + admin.MetricsPath)
	require.NoError(c.t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	for line := range strings.Lines(string(page)) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			_, err = fmt.Sscan(rest, &value)
			require.NoError(c.t, err)
			return value
		}
	}
	return value
}

const (
	steadyKeys    = 20_000
	steadySamples = 60
	steadyGrowth  = 1.1 // allowed ratio of the second half to the first, because the garbage collector is not steady
)

func TestMeasure_ASteadyHour(t *testing.T) {
	text := os.Getenv(hoursVariable)
	if text == "" {
		t.Skip(hoursVariable + " is not set; make measure-snapshots sets it")
	}
	hours, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	c, leader := startSnapshotting(t, "--snapshot-log-bytes", "16MiB", "--snapshot-tail-bytes", "4MiB")
	c.fill(0, steadyKeys, measuredValue)
	term := c.status(leader)
	halves := [2]map[string]footprint{{}, {}}
	writes := 0
	for i := range steadySamples {
		w := c.look(leader, time.Duration(hours*float64(time.Hour)/steadySamples), steadyKeys, func() bool { return true })
		writes += w.writes
		half := halves[i*2/steadySamples]
		for _, n := range c.Nodes {
			half[n.ID] = half[n.ID].max(c.footprint(n))
		}
	}
	for _, n := range c.Nodes {
		first, second := halves[0][n.ID], halves[1][n.ID]
		t.Logf("%s: %v in the first half at most, %v in the second", n.ID, first, second)
		for what, took := range map[string][2]int64{
			"memory": {first.resident, second.resident}, "disk": {first.disk, second.disk}, "log": {first.log, second.log},
			"descriptors": {first.descriptors, second.descriptors}, "goroutines": {first.goroutines, second.goroutines},
		} {
			assert.LessOrEqual(t, float64(took[1]), steadyGrowth*float64(took[0]), "%s: %s", n.ID, what)
		}
	}
	end := c.status(leader)
	assert.Equal(t, term.Term, end.Term, "nobody else had to lead")
	t.Logf("%d writes in %.2f hours; the leader's log begins behind entry %d, its last snapshot has %s", writes, hours, end.Base, size.Format(end.Snapshot.Bytes))
}
