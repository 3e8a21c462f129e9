// The end-to-end tests run the built program as three processes, with real disks, sockets and SIGKILL. They have no time
// limit but patience; "make measure" prints the times. Two numbers can be raised:
//
//	RAFTKV_KILLS=200 RAFTKV_POWER_CUTS=100 make measure
//
// RAFTKV_PROGRAM=/path/to/raftkv tests that program instead of building one.
package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/internal/viewer/browsertest"
	"github.com/coxswain/raft/storage/storagetest/powercut"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// fullVariable makes the tests measure every row, as "make measure" does. That takes minutes.
	fullVariable = "RAFTKV_MEASURE"
	// patience bounds the wait for something that must happen.
	patience = time.Minute
	poll     = 10 * time.Millisecond
)

// program is the built raftkv.
var program string

func TestMain(m *testing.M) {
	powercut.Main()
	if addresses := os.Getenv(heartbeatRole); addresses != "" {
		heartbeat(addresses)
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	var err error
	if program, err = built.Raftkv(); err != nil {
		panic(err)
	}
	defer built.Remove()
	return browsertest.Main(m)
}

// inFull returns the number of repetitions of a row, or the number of kills. Without fullVariable, it returns otherwise.
func inFull(otherwise, full int) int {
	if os.Getenv(fullVariable) == "" {
		return otherwise
	}
	return full
}

func number(t *testing.T, variable string, standard int) int {
	text := os.Getenv(variable)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return n
}

// cluster is a cluster of processes, three by default.
type cluster struct {
	*local.Cluster
	t   *testing.T
	dir string
	// patience bounds the waits of await.
	patience time.Duration
}

// newCluster returns a cluster whose members do not run yet. Its processes end with the test.
func newCluster(t *testing.T) cluster {
	t.Helper()
	return newClusterOf(t, 3, 0)
}

// newClusterOf is like newCluster, with a given number of initial members, and with spare members that join later.
func newClusterOf(t *testing.T, initial, spares int) cluster {
	t.Helper()
	dir := t.TempDir()
	layout, err := local.OpenLayout(dir, initial, nil)
	require.NoError(t, err)
	c := cluster{local.NewCluster(program, dir, layout), t, dir, patience}
	for range spares {
		_, err := c.Spare()
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			for _, n := range c.Nodes {
				t.Logf("the log of %s ends:\n%s", n.ID, c.LogTail(n.ID))
			}
		}
	})
	return c
}

// startCluster returns a cluster with a leader.
func startCluster(t *testing.T) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// startSteady is like startCluster, with a longer election timeout, because the test and others use the same processors.
func startSteady(t *testing.T) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	c.More = func(local.Node) []string { return []string{"--election-timeout", steadyTimeout.String()} }
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// steadyTimeout is the election timeout of startSteady.
const steadyTimeout = time.Second

// wokeLate reports that the machine let a member wait for so long that it may have lost its leader, or its leadership.
func (c cluster) wokeLate() bool {
	return slices.ContainsFunc(c.Nodes, func(n local.Node) bool {
		log, err := os.ReadFile(filepath.Join(c.dir, n.ID+".log"))
		require.NoError(c.t, err)
		return bytes.Contains(log, []byte("the node woke late"))
	})
}

// startMixed is like startCluster, but one member keeps its log in bbolt.
func startMixed(t *testing.T) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	c.More = func(n local.Node) []string {
		if n.ID != c.Nodes[1].ID {
			return nil
		}
		return []string{"--log", "bbolt"}
	}
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// leader waits for a leader other than the named one.
func (c cluster) leader(other string) local.Node {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	leader, err := c.AwaitLeader(ctx, other)
	require.NoError(c.t, err)
	return leader
}

// others returns all members except this one.
func (c cluster) others(id string) (others []local.Node) {
	for _, n := range c.Nodes {
		if n.ID != id {
			others = append(others, n)
		}
	}
	return others
}

// await waits until the status of a member fulfils the condition.
func (c cluster) await(n local.Node, what string, as func(api.Status) bool) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		status, err := c.Status(c.t.Context(), n)
		return err == nil && as(status)
	}, c.patience, poll, "%s: %s", n.ID, what)
}

// status returns the status of a member that runs, once it answers.
func (c cluster) status(n local.Node) (s api.Status) {
	c.t.Helper()
	c.await(n, "answers", func(now api.Status) bool { s = now; return true })
	return s
}

// caughtUp waits until all members have applied all entries that the leader has committed at the time of the call.
func (c cluster) caughtUp() {
	c.t.Helper()
	leader := c.status(c.leader(""))
	for _, n := range c.Nodes {
		c.await(n, "catches up", func(s api.Status) bool { return s.Applied >= leader.Commit })
	}
}

// write retries a write until it is acknowledged.
func (c cluster) write() {
	c.t.Helper()
	c.writeValue(nil)
}

func (c cluster) writeValue(value []byte) {
	c.t.Helper()
	members := c.clients()
	require.Eventually(c.t, func() bool {
		_, err := client.Try(c.t.Context(), members, func(cl *client.Client) (api.Written, error) {
			return cl.Put(c.t.Context(), "key", value, client.Condition{})
		})
		return err == nil
	}, patience, poll)
}

func (c cluster) clients() (all []*client.Client) {
	shared := client.NewHTTP(16, 2*time.Second)
	c.t.Cleanup(shared.CloseIdleConnections)
	for _, n := range c.Nodes {
		all = append(all, n.Client(shared))
	}
	return all
}

// work runs 8 clients that write, read, and check the answers. Call verify at the end.
func (c cluster) work() (w *workload.Workload, verify func()) {
	c.t.Helper()
	return c.workAs(workload.Config{Clients: 8})
}

// works counts the calls of workAs.
var works atomic.Uint64

// workAs is like work, with the given settings of the clients.
func (c cluster) workAs(cfg workload.Config) (w *workload.Workload, verify func()) {
	c.t.Helper()
	for _, n := range c.Nodes {
		cfg.Servers = append(cfg.Servers, n.URL())
	}
	cfg.Prefix = fmt.Sprintf("work/%d/", works.Add(1)) // a test may call this twice
	cfg.Pause, cfg.Dir = 2*time.Millisecond, c.dir
	w = workload.New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { w.Run(ctx) })
	c.t.Cleanup(func() { stop(); working.Wait() })
	return w, func() {
		c.t.Helper()
		stop()
		working.Wait()
		ending, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		verdict, err := w.Verify(ending)
		require.NoError(c.t, err)
		c.t.Log(verdict)
		require.NoError(c.t, verdict.Err())
	}
}

// nextWrite returns the time of an acknowledgement. It is the first acknowledgement of a write that began after the given
// time.
func nextWrite(t *testing.T, w *workload.Workload, after time.Time) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at, err := w.NextAcknowledged(ctx, after)
	require.NoError(t, err)
	return at
}

// writes waits until this many writes have been acknowledged, one after another.
func writes(t *testing.T, w *workload.Workload, count int) {
	t.Helper()
	for range count {
		nextWrite(t, w, time.Now())
	}
}

func TestEndToEnd_TheLeaderIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	c, _ := startMixed(t)
	w, verify := c.work()
	var stops []time.Duration
	for range number(t, "RAFTKV_KILLS", inFull(6, 20)) {
		writes(t, w, 20)
		leader := c.leader("")
		began := time.Now()
		c.Kill(leader.ID)
		stops = append(stops, nextWrite(t, w, time.Now()).Sub(began))
		require.NoError(t, c.Start(leader.ID))
		c.caughtUp()
	}
	verify()
	t.Logf("kill -9 of the leader to the next acknowledged write, %d kills: %s", len(stops), spread(stops))
}

// spread describes the distribution of the figures. It sorts them.
func spread(figures []time.Duration) string {
	if len(figures) == 0 {
		return "none"
	}
	slices.Sort(figures)
	at := func(share float64) time.Duration {
		return figures[int(share*float64(len(figures)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("min %v, median %v, p90 %v, max %v", at(0), at(0.5), at(0.9), at(1))
}

func TestEndToEnd_EveryAcknowledgedWriteSurvivesTheKillOfAllAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := startMixed(t)
	clients := c.clients()
	acknowledged := map[string]uint64{} // key -> revision
	cuts := number(t, "RAFTKV_POWER_CUTS", inFull(4, 10))
	for cut := range cuts {
		written := writeUntilKilled(t, c, clients, fmt.Sprintf("cut/%d/", cut))
		for key, revision := range written {
			acknowledged[key] = revision
		}
		require.NoError(t, c.Start())
		c.leader("")
	}
	there := map[string]uint64{}
	for after := ""; ; {
		page, err := client.Try(t.Context(), clients, func(cl *client.Client) (api.Listing, error) {
			return cl.List(t.Context(), "cut/", after, api.ListLimitMax, api.Linearizable)
		})
		require.NoError(t, err)
		for _, item := range page.Items {
			there[item.Key] = item.Revision
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for key, revision := range acknowledged {
		require.Equal(t, revision, there[key], "%s was acknowledged", key)
	}
	t.Logf("kill -9 of all three at once, %d rounds: %d writes acknowledged, all of them there", cuts, len(acknowledged))
}

// writeUntilKilled writes new keys with 8 clients. After some acknowledgements, it kills all members at once. It returns
// every acknowledged key with its revision.
func writeUntilKilled(t *testing.T, c cluster, members []*client.Client, prefix string) map[string]uint64 {
	const before = 200
	acknowledged := map[string]uint64{}
	var mu sync.Mutex
	enough, dead := make(chan struct{}), make(chan struct{})
	write := func(writer int) {
		for i := 0; ; i++ {
			key := fmt.Sprintf("%s%d/%d", prefix, writer, i)
			written, err := members[(writer+i)%len(members)].Put(t.Context(), key, []byte(key), client.Condition{})
			select {
			case <-dead:
				return
			default:
			}
			if err != nil {
				continue
			}
			mu.Lock()
			acknowledged[key] = written.Revision
			if len(acknowledged) == before {
				close(enough)
			}
			mu.Unlock()
		}
	}
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() { write(writer) })
	}
	select {
	case <-enough:
	case <-time.After(patience):
		assert.Fail(t, "no writes")
	}
	c.Kill()
	close(dead)
	writers.Wait()
	return acknowledged
}

func TestEndToEnd_AFrozenLeaderIsReplacedAndComesBackAsAFollower(t *testing.T) {
	t.Parallel()
	c, frozen := startCluster(t)
	w, verify := c.work()
	for range 2 {
		writes(t, w, 20)
		before := c.status(frozen)
		began := time.Now()
		p := c.Process(frozen.ID)
		if err := p.Freeze(); err != nil {
			require.ErrorIs(t, err, local.ErrNoFreeze)
			t.Skip(err)
		}
		stopped := nextWrite(t, w, time.Now()).Sub(began)
		next := c.leader(frozen.ID)
		require.NoError(t, p.Resume())
		c.await(frozen, "learns of the new term", func(s api.Status) bool { return s.Term > before.Term })
		t.Logf("%s frozen, %s leads, writes stopped %v", frozen.ID, next.ID, stopped.Round(time.Millisecond))
		c.caughtUp()
		writes(t, w, 20)
		frozen = c.leader("")
	}
	verify()
}

func TestEndToEnd_LeadershipIsTransferred(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	w, verify := c.work()
	writes(t, w, 20)
	target, other := c.others(leader.ID)[0], c.others(leader.ID)[1]
	members := c.clients()
	asked := members[slices.Index(c.Nodes, other)] // a follower, which forwards the request
	require.Eventually(t, func() bool {
		began := time.Now()
		_, err := asked.Transfer(t.Context(), target.ID)
		status, failed := c.Status(t.Context(), target)
		if err != nil || failed != nil || status.Role != "leader" {
			return false
		}
		t.Logf("transferred its leadership, writes stopped for at most %v", nextWrite(t, w, time.Now()).Sub(began).Round(time.Millisecond))
		return true
	}, patience, poll)
	require.Eventually(t, func() bool {
		_, err := asked.Transfer(t.Context(), "nobody")
		return api.CodeOf(err) == admin.TransferFailed
	}, patience, poll)
	verify()
}
