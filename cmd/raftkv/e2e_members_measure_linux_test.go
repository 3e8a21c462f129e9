package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
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

// RAFTKV_MEMBERS=64MiB measures membership changes of a cluster with a state of this size, in RAFTKV_ROUNDS rounds. Measure
// on a machine without other load: see "make measure-members".
const (
	membersVariable = "RAFTKV_MEMBERS"
	roundsVariable  = "RAFTKV_ROUNDS"
	roundsDefault   = 6
	timeoutMeasured = 150 * ms        // the default of --election-timeout
	afterReplaced   = 5 * time.Second // time for which writes are watched after a replacement
	afterChanged    = time.Second     // time for which a change may still affect writes
	aroundChange    = 250 * ms        // time for which writes are watched before and after a change
	ordinaryWindows = 2               // before a change, and after it
	probes          = 200
	smallState      = 1 << 20
)

// measuredMembers returns the wanted size of the state and the number of rounds. If they are not set, it skips the test.
func measuredMembers(t *testing.T) (bytes, rounds int) {
	t.Helper()
	text := os.Getenv(membersVariable)
	if text == "" {
		t.Skip(membersVariable + " is not set; make measure-members sets it")
	}
	bytes, err := size.Parse(text)
	require.NoError(t, err)
	return bytes, number(t, roundsVariable, roundsDefault)
}

// conditions starts the load and prints the conditions of the measurement. It returns two medians under the load: the time of
// a round trip, and the time of a synced write.
func (c cluster) conditions(t *testing.T, state int) (a *acks, trip, synced time.Duration) {
	t.Helper()
	trip, synced = median(roundTrips(t)), median(syncedWrites(t))
	a, _ = c.steadyLoad(state/measuredValue, measuredValue)
	began := time.Now()
	<-time.After(afterReplaced)
	writes := 0
	for _, times := range a.times {
		writes += len(times)
	}
	busyTrip, busySynced := median(roundTrips(t)), median(syncedWrites(t))
	rate := float64(writes) / time.Since(began).Seconds()
	micro := time.Microsecond
	t.Logf("conditions: %d cores, election timeout %v, state of %s in values of %d bytes; %d clients that each pause %v between two "+
		"writes: %.0f writes/s; a loopback round trip takes %v at p50 (%v under the load), a synced write of 4 KiB %v (%v)",
		runtime.NumCPU(), timeoutMeasured, size.Format(int64(state)), measuredValue, gapClients, gapPause, rate,
		trip.Round(micro), busyTrip.Round(micro), synced.Round(micro), busySynced.Round(micro))
	return a, busyTrip, busySynced
}

// median returns the median as spread prints it. If the number of figures is even, it returns the lower of the two in the
// middle. It sorts the figures.
func median(figures []time.Duration) time.Duration {
	slices.Sort(figures)
	return figures[(len(figures)-1)/2]
}

// roundTrips returns round-trip times of one byte between two processes of this machine.
func roundTrips(t *testing.T) (took []time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if echo, err := l.Accept(); err == nil {
			_, _ = io.Copy(echo, echo)
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	for range probes {
		began := time.Now()
		_, err := conn.Write([]byte{1})
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
		took = append(took, time.Since(began))
	}
	return took
}

// syncedWrites returns the durations of synced writes on the disk of the members. Each is a write of a page with its
// fdatasync.
func syncedWrites(t *testing.T) (took []time.Duration) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	require.NoError(t, err)
	defer f.Close()
	for range probes {
		began := time.Now()
		_, err := f.WriteAt(make([]byte, 4<<10), 0)
		require.NoError(t, err)
		require.NoError(t, syscall.Fdatasync(int(f.Fd())))
		took = append(took, time.Since(began))
	}
	return took
}

// emptied holds the members that lost their disks. These members start without the list of initial members.
type emptied struct {
	mu  sync.Mutex
	ids map[string]bool
	// joins says that they join by themselves.
	joins bool
}

func (e *emptied) has(n local.Node) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ids[n.ID]
}

// set records that a member has lost its disk, and whether it is to join by itself.
func (e *emptied) set(id string, joins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids[id], e.joins = true, joins
}

// replacing holds the figures of replacements of one kind.
type replacing struct {
	gaps, without         []gaps
	done, caughtUp, after []time.Duration
}

func TestMeasure_MembersReplaced(t *testing.T) {
	state, rounds := measuredMembers(t)
	c := newCluster(t)
	lost := &emptied{ids: map[string]bool{}}
	c.Emptied = lost.has
	c.More = func(n local.Node) []string {
		args := []string{"--snapshot-log-bytes", "8MiB", "--snapshot-tail-bytes", "64KiB"}
		if lost.has(n) && lost.joins {
			for _, other := range c.others(n.ID) {
				args = append(args, "--join", other.URL())
			}
		}
		return args
	}
	c.patience = measuredMax
	require.NoError(t, c.Start())
	c.fill(0, state/measuredValue, measuredValue)
	a, _, _ := c.conditions(t, state)
	p := startProbe(t)
	for _, joins := range []bool{false, true} {
		for _, leads := range []bool{false, true} {
			var r replacing
			for range rounds {
				c.replaceOne(a, p, lost, &r, joins, leads)
			}
			r.print(t, map[bool]string{false: "raftkv members replace", true: "serve --join alone"}[joins]+
				map[bool]string{false: ", of a follower", true: ", of the leader"}[leads])
		}
	}
}

// replaceOne kills a member, empties its disk, starts the member and replaces it. Before that, it measures writes without a
// loss.
func (c cluster) replaceOne(a *acks, p *probe, lost *emptied, r *replacing, joins, leads bool) {
	t := c.t
	c.caughtUp()
	<-time.After(afterChanged)
	quiet := time.Now()
	<-time.After(afterReplaced)
	without := a.between(quiet, time.Now())
	leader := c.leader("")
	n := leader
	if !leads {
		n = c.others(leader.ID)[len(r.gaps)%2]
	}
	through := c.others(n.ID)[0]
	before := c.status(n)
	killed := time.Now()
	c.Kill(n.ID)
	// The test framework deletes the old store after the test. A deletion now would occupy the disk that the other members
	// share.
	require.NoError(t, os.Rename(c.DataDir(n.ID), filepath.Join(c.dir, fmt.Sprint("lost-", killed.UnixNano()))))
	lost.set(n.ID, joins)
	began := time.Now()
	require.NoError(t, c.Start(n.ID))
	watched := make(chan caughtUp, 1)
	go func() { watched <- c.watchCatchUp(n, before.Applied) }()
	if !joins {
		c.members(through, 0, "replace", n.ID)
	} else {
		c.replacedAt(through, n, before.Incarnation)
	}
	done := time.Now()
	<-time.After(afterReplaced)
	w := <-watched
	g := a.between(killed, time.Now())
	r.without = append(r.without, without)
	r.gaps, r.done, r.after = append(r.gaps, g), append(r.done, done.Sub(began)), append(r.after, done.Sub(w.ended))
	r.caughtUp = append(r.caughtUp, w.ended.Sub(w.began))
	t.Logf("%s is lost (%s): longest gap %v, %.2f election timeouts (without a loss %v); done %v after its start; it had begun to "+
		"receive after %v and had caught up after %v; %s", n.ID, before.Role, g, timeouts(g.all), without, tenths(done.Sub(began)),
		tenths(w.began.Sub(began)), tenths(w.ended.Sub(began)), p.between(killed, time.Now()))
}

// replacedAt waits until the member with this id has another incarnation, and nothing is left to do.
func (c cluster) replacedAt(through, n local.Node, old string) {
	c.t.Helper()
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	require.Eventually(c.t, func() bool {
		now, err := through.Client(shared).Members(c.t.Context())
		of := now.Of(n.ID)
		replaced := len(of) == 1 && of[0].Incarnation != old && of[0].Kind == admin.StandingVoter
		return err == nil && now.Change == nil && now.Committed && replaced
	}, c.patience, 20*ms, "%s is replaced", n.ID)
}

// caughtUp holds two times of a member that was empty. At began, it began to receive the cluster's data. At ended, it had
// received the data.
type caughtUp struct{ began, ended time.Time }

// watchCatchUp waits until the member has applied all entries that were committed before the call.
func (c cluster) watchCatchUp(n local.Node, target uint64) (w caughtUp) {
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	for began := time.Now(); time.Since(began) < c.patience; <-time.After(10 * ms) {
		s, err := n.Client(shared).Status(c.t.Context())
		if err != nil {
			continue
		}
		if w.began.IsZero() && (s.Snapshot.Receiving != nil || s.Applied > 0) {
			w.began = time.Now()
		}
		if s.Applied >= target {
			w.ended = time.Now()
			return w
		}
	}
	return w
}

func timeouts(d time.Duration) float64 { return float64(d) / float64(timeoutMeasured) }

func (r *replacing) print(t *testing.T, what string) {
	t.Helper()
	all, one := gapsOf(r.gaps)
	without, _ := gapsOf(r.without)
	t.Logf("%s, %d times: longest time without a write from the kill until %v after done: %s; that is %.2f election timeouts in "+
		"the median, %.2f at worst; of one client: %s; in %v without a loss: %s", what, len(r.gaps), afterReplaced, spread(all),
		timeouts(median(all)), timeouts(slices.Max(all)), spread(one), afterReplaced, spread(without))
	t.Logf("%s, done after the start of the empty member: %s; receiving and restoring took: %s; from caught up to done: %s",
		what, spread(r.done), spread(r.caughtUp), spread(r.after))
	assert.LessOrEqual(t, timeouts(slices.Max(all)), 2.0, "%s: election timeouts without a write", what)
}

func gapsOf(figures []gaps) (all, one []time.Duration) {
	for _, g := range figures {
		all, one = append(all, g.all), append(one, g.one)
	}
	return all, one
}

// changing holds the figures of changes of one kind, and of equally long windows without a change.
type changing struct {
	with, without []gaps
	took          []time.Duration
}

func TestMeasure_MembersAddedAndRemoved(t *testing.T) {
	_, rounds := measuredMembers(t)
	c := newClusterOf(t, 3, 2)
	lost := &emptied{ids: map[string]bool{}}
	c.Emptied = lost.has
	// The log stays short, because MembersReplaced already measures the cost of catching up.
	c.More = func(local.Node) []string {
		return []string{"--snapshot-log-bytes", "4MiB", "--snapshot-tail-bytes", "64KiB"}
	}
	require.NoError(t, c.Start())
	c.leader("")
	c.fill(0, smallState/measuredValue, measuredValue)
	a, trip, synced := c.conditions(t, smallState)
	kinds := []string{"adding the fourth voter", "adding the fifth voter", "removing the leader of five", "removing a follower of four"}
	p := startProbe(t)
	figures := map[string]*changing{}
	spares := []local.Node{c.Nodes[3], c.Nodes[4]}
	for range rounds {
		for i, kind := range kinds {
			if figures[kind] == nil {
				figures[kind] = &changing{}
			}
			leader := c.leader("")
			if i < 2 {
				by := admin.NewMember{ID: spares[i].ID, Address: spares[i].RaftAddr, URL: spares[i].URL()}
				c.changeOnce(a, p, figures[kind], spares[i], admin.Change{Add: []admin.NewMember{by}})
				continue
			}
			gone := leader
			if i == 3 {
				gone = c.aVoter(leader)
			}
			c.changeOnce(a, p, figures[kind], gone, admin.Change{Remove: []admin.Peer{{ID: gone.ID}}})
			c.ends(gone, 9)
			require.NoError(t, os.RemoveAll(c.DataDir(gone.ID)))
			lost.set(gone.ID, false)
			require.NoError(t, c.Start(gone.ID))
			spares[i-2] = gone
		}
	}
	for _, kind := range kinds {
		figures[kind].print(t, kind, trip+synced)
	}
}

// aVoter returns a voter other than the leader.
func (c cluster) aVoter(leader local.Node) local.Node {
	c.t.Helper()
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	now, err := leader.Client(shared).Members(c.t.Context())
	require.NoError(c.t, err)
	for _, n := range c.others(leader.ID) {
		if slices.Contains(now.Voters(), n.ID) {
			return n
		}
	}
	require.Fail(c.t, "no other voter")
	return leader
}

// changeOnce makes a change. It measures the writes around the change, and the writes in equally long windows without a
// change.
func (c cluster) changeOnce(a *acks, p *probe, f *changing, of local.Node, change admin.Change) {
	t := c.t
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	c.await(of, "runs", func(api.Status) bool { return true })
	<-time.After(afterChanged)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var others []*client.Client
	for _, n := range c.others(of.ID) {
		others = append(others, n.Client(shared))
	}
	before := ordinary(a, f.window())
	began := time.Now()
	changed, err := client.Try(ctx, others, func(cl *client.Client) (admin.Changed, error) { return cl.ChangeMembers(ctx, change) })
	took := time.Since(began)
	require.NoError(t, err)
	require.True(t, changed.Done)
	<-time.After(aroundChange)
	ended := time.Now()
	with := a.between(began, ended)
	<-time.After(afterChanged) // the effects of the change are over
	without := append(before, ordinary(a, ended.Sub(began))...)
	f.with, f.without, f.took = append(f.with, with), append(f.without, without...), append(f.took, took)
	all, _ := gapsOf(without)
	t.Logf("%s: done after %v: longest gap %v; without a change in as long windows: %s; %s", describe(change),
		tenths(took), with, spread(all), p.between(began, ended))
}

// window returns the length for a window without a change. It depends on the durations of the changes so far.
func (f *changing) window() time.Duration {
	if len(f.took) == 0 {
		return 2 * aroundChange
	}
	return median(slices.Clone(f.took)) + aroundChange
}

// ordinary returns the gaps of a few windows of this length without a change.
func ordinary(a *acks, long time.Duration) (without []gaps) {
	for range ordinaryWindows {
		began := time.Now()
		<-time.After(long)
		without = append(without, a.between(began, time.Now()))
	}
	return without
}

func describe(c admin.Change) string {
	if len(c.Add) > 0 {
		return "adding " + c.Add[0].ID
	}
	return fmt.Sprint("removing ", c.Remove[0].ID)
}

// print compares the gaps around the changes with the gaps without a change. A change may exceed the latter by the given
// duration.
func (f *changing) print(t *testing.T, what string, allowed time.Duration) {
	t.Helper()
	with, one := gapsOf(f.with)
	without, oneWithout := gapsOf(f.without)
	t.Logf("%s, %d times, took %s; longest time without a write around it: %s; in equally long windows without a change: %s; a "+
		"round trip and a synced write take %v", what, len(with), spread(f.took), spread(with), spread(without), tenths(allowed))
	t.Logf("%s, more than without a change: median %v, worst %v; of one client: %s, without a change %s", what,
		tenths(median(with)-median(without)), tenths(slices.Max(with)-slices.Max(without)), spread(one), spread(oneWithout))
}
