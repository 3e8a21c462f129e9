// Package upgrade_test rolls a cluster of real processes from the previous release of raftkv to this release and back. It
// upgrades one member at a time, while clients write and read. The test builds the previous release from its source in
// compat/previous, which "make previous" replaces.
//
// RAFTKV_PREVIOUS=/path/to/raftkv names a built program of the previous release.
package upgrade_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
)

const (
	// rollMax bounds the test without the builds.
	rollMax = 5 * time.Minute
	// stopMax is the time that a member has to end after a request.
	stopMax = 10 * time.Second
	poll    = 20 * time.Millisecond
	// ballastKeys is the number of keys with ballastBytes each that every snapshot contains. Because of them, a snapshot is
	// sent in several chunks.
	ballastKeys  = 64
	ballastBytes = 16 << 10
)

// thisRelease is the name of the release that is tested.
const thisRelease = "this release"

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// Three members move from the previous release to this release, back, and forward again. A leader dies in the mixed state on
// the way there and on the way back. No acknowledged write is lost, the observations of the clients are linearizable, and all
// members end with the same content.
//
// While the last member runs the previous release, a further member of the previous release is added, removed, and added
// again, under a leader of each release. Then this further member is upgraded, too. Its log is moved to bbolt and back.
func TestUpgrade_RollsThereAndBack(t *testing.T) {
	program, version := previousProgram(t.Context(), t)
	this, err := built.Raftkv()
	require.NoError(t, err)
	here := release{name: thisRelease, program: this}
	previous := release{name: version, program: program}
	setSnapshots(t, &previous, &here)

	ctx, cancel := context.WithTimeoutCause(t.Context(), rollMax, fmt.Errorf("the test took longer than %v", rollMax))
	defer cancel()
	r := newRolling(ctx, t, previous)
	r.settle("started as " + version)
	r.fill()
	verify := r.work()
	r.roll(here, true, nil)
	r.roll(previous, true, nil)
	n4 := r.newJoiner()
	r.roll(here, false, func(last local.Node) {
		n4.start(previous)
		n4.joinsUnder(last)
		n4.leaves()
		n4.start(previous)
		n4.joinsUnder(n4.otherThan(last))
	})
	n4.goesTo(here)
	n4.movesItsLog(previous, here)
	verify()
	r.compare()
}

// release is one of the two programs.
type release struct {
	name    string
	program string
	flags   []string // flags of serve
	// snapshots is true if both releases take snapshots.
	snapshots bool
}

// setSnapshots lets both releases take snapshots, so that they also send snapshots to each other. If the previous release
// cannot read snapshots, this release takes none, because otherwise the way back would be impossible.
func setSnapshots(t *testing.T, previous, here *release) {
	const flag = "--snapshot-entries"
	help, err := exec.CommandContext(t.Context(), previous.program, "serve", "--help").CombinedOutput()
	require.NoError(t, err, "%s", help)
	if !strings.Contains(string(help), flag) {
		never := strconv.Itoa(raft.LimitBytesMax)
		here.flags = []string{flag, never, "--snapshot-log-bytes", never}
		return
	}
	often := []string{flag, "200", "--snapshot-tail-bytes", "8KiB", "--snapshot-hold-bytes", "8KiB"}
	previous.flags, here.flags = often, often
	previous.snapshots, here.snapshots = true, true
}

// rolling is a cluster whose members run different releases.
type rolling struct {
	*local.Cluster
	t       *testing.T
	ctx     context.Context
	running map[string]release // release of each member, by id
	gaps    gaps
	load    *workload.Workload
}

func newRolling(ctx context.Context, t *testing.T, all release) *rolling {
	dir := t.TempDir()
	layout, err := local.OpenLayout(dir, 3, nil)
	require.NoError(t, err)
	r := &rolling{Cluster: local.NewCluster(all.program, dir, layout), t: t, ctx: ctx, running: map[string]release{}}
	for _, n := range r.Nodes {
		r.running[n.ID] = all
	}
	r.Program = func(n local.Node) string { return r.running[n.ID].program }
	r.More = func(n local.Node) []string { return r.running[n.ID].flags }
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			for _, n := range r.Nodes {
				t.Logf("the log of %s (%s) ends:\n%s", n.ID, r.running[n.ID].name, r.LogTail(n.ID))
			}
		}
	})
	require.NoError(t, r.Start())
	return r
}

// fill writes the ballast.
func (r *rolling) fill() {
	r.t.Helper()
	for i := range ballastKeys {
		_, err := client.Try(r.ctx, r.clients(), func(c *client.Client) (api.Written, error) {
			return c.Put(r.ctx, ballastKey(i), bytes.Repeat([]byte{byte(i)}, ballastBytes), client.Condition{})
		})
		require.NoError(r.t, err)
	}
}

func ballastKey(i int) string { return "ballast/" + strconv.Itoa(i) }

func (r *rolling) clients() (all []*client.Client) {
	shared := client.NewHTTP(1, 2*time.Second)
	r.t.Cleanup(shared.CloseIdleConnections)
	for _, n := range r.Nodes {
		all = append(all, n.Client(shared))
	}
	return all
}

// work runs clients that write, read, and check the answers, until verify is called.
func (r *rolling) work() (verify func()) {
	cfg := workload.Config{
		Clients: 8, Prefix: "work/", Pause: 2 * time.Millisecond, Dir: r.t.TempDir(), Keep: true, Observe: r.gaps.observe,
	}
	for _, n := range r.Nodes {
		cfg.Servers = append(cfg.Servers, n.URL())
	}
	r.load = workload.New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { r.load.Run(ctx) })
	r.t.Cleanup(func() { stop(); working.Wait() })
	return func() {
		stop()
		working.Wait()
		verdict, err := r.load.Verify(r.ctx)
		require.NoError(r.t, err)
		r.t.Log(verdict)
		require.NoError(r.t, verdict.Err())
	}
}

// roll restarts every member as another release. It restarts followers first if possible. If the releases take snapshots, the
// first member stays away until it needs a snapshot. If killed is true, roll also kills the leader in the mixed state, and
// restarts it as the same release. If mixed is not nil, roll calls it before the restart of the last member.
func (r *rolling) roll(to release, killed bool, mixed func(last local.Node)) {
	r.t.Helper()
	for i := range r.Nodes {
		n := r.next(to)
		if i == len(r.Nodes)-1 && mixed != nil {
			mixed(n)
		}
		r.disturb(n, "stopped", to, func() {
			r.Process(n.ID).Stop(stopMax)
			if i == 0 && to.snapshots {
				r.leaveBehind()
			}
		})
		if i == 0 && killed {
			leader := r.leader()
			r.disturb(leader, "killed", r.running[leader.ID], func() { r.Kill(leader.ID) })
		}
	}
}

// leaveBehind waits until the leader has compacted all entries that it had at the time of the call.
func (r *rolling) leaveBehind() {
	r.t.Helper()
	last := uint64(0)
	r.await("the leader compacts its log", func(statuses []api.Status, leader api.Status) string {
		last = cmp.Or(last, leader.Last)
		if leader.Base < last {
			return fmt.Sprintf("the log of %s begins behind %d, and not yet behind %d", leader.ID, leader.Base, last)
		}
		return ""
	})
}

// next returns a member that does not run this release. It returns the leader only if all other members run the release.
func (r *rolling) next(to release) (next local.Node) {
	r.t.Helper()
	leader := r.leader()
	for _, n := range r.Nodes {
		if r.running[n.ID].name != to.name && (next.ID == "" || next.ID == leader.ID) {
			next = n
		}
	}
	require.NotEmpty(r.t, next.ID)
	return next
}

func (r *rolling) leader() local.Node {
	r.t.Helper()
	leader, err := r.AwaitLeader(r.ctx, "")
	require.NoError(r.t, err)
	return leader
}

// disturb ends a member, starts it as the given release, and waits until the cluster has recovered. It prints the longest time
// without an acknowledged write.
func (r *rolling) disturb(n local.Node, how string, as release, end func()) {
	r.t.Helper()
	role, before := "follower", r.running[n.ID].name
	if r.leader().ID == n.ID {
		role = "leader"
	}
	r.gaps.begin()
	end()
	r.running[n.ID] = as
	require.NoError(r.t, r.Start(n.ID))
	r.settle(fmt.Sprintf("%s of %s, started as %s", n.ID, before, as.name))
	_, err := r.load.NextAcknowledged(r.ctx, time.Now())
	require.NoError(r.t, err)
	r.t.Logf("%s %s, %s, started as %s: longest gap between writes %v; %s leads as %s", role, n.ID, how, as.name,
		r.gaps.longest().Round(time.Millisecond), r.leader().ID, r.running[r.leader().ID].name)
}

// settle waits until all members follow one leader, are connected to it, and have applied all entries that the leader had
// committed at the start.
func (r *rolling) settle(what string) {
	r.t.Helper()
	commit := uint64(0)
	r.await(what, func(statuses []api.Status, leader api.Status) string {
		for _, n := range r.Nodes {
			require.NoError(r.t, r.Ended(n.ID), "%s, which ran as %s", what, r.running[n.ID].name)
		}
		commit = cmp.Or(commit, leader.Commit)
		return unsettled(statuses, leader, commit)
	})
}

// await waits until the given function finds nothing missing in the statuses of all members.
func (r *rolling) await(what string, missing func(all []api.Status, leader api.Status) string) {
	r.t.Helper()
	for why := "no status"; why != ""; {
		select {
		case <-time.After(poll):
		case <-r.ctx.Done():
			require.NoError(r.t, context.Cause(r.ctx), "%s: %s", what, why)
		}
		all := r.Statuses(r.ctx)
		leads := slices.IndexFunc(all, func(s api.Status) bool { return s.Role == "leader" })
		if why = "nobody leads"; leads >= 0 {
			why = missing(all, all[leads])
		}
	}
}

// unsettled describes the part that is still missing. It returns "" if nothing is missing.
func unsettled(statuses []api.Status, leader api.Status, commit uint64) string {
	for _, s := range statuses {
		switch {
		case s.Leader != leader.ID:
			return fmt.Sprintf("%q follows %q, and %q leads", s.ID, s.Leader, leader.ID)
		case s.Applied < commit:
			return fmt.Sprintf("%s has applied %d of %d", s.ID, s.Applied, commit)
		}
	}
	for _, m := range leader.Members {
		if m.ID != leader.ID && (!m.Connected || m.Match < commit) {
			return fmt.Sprintf("%s sees %s: connected %v, has %d of %d; %s %s", leader.ID, m.ID, m.Connected, m.Match, commit, m.ConnectionErr, m.Problem)
		}
	}
	return ""
}

// compare reads every key from every member. All members must hold the same values.
func (r *rolling) compare() {
	r.t.Helper()
	r.settle("after the last write")
	keys := r.load.Keys()
	for i := range ballastKeys {
		keys = append(keys, ballastKey(i))
	}
	all := r.clients()
	for _, key := range keys {
		var first string
		for i, c := range all {
			value, err := client.Try(r.ctx, []*client.Client{c}, func(c *client.Client) (client.Value, error) {
				return c.Get(r.ctx, key, api.Stale) // one attempt may take too long on a busy machine
			})
			if api.CodeOf(err) != admin.NotFound {
				require.NoError(r.t, err)
			}
			held := fmt.Sprintf("%q of revision %d", value.Data, value.Revision)
			if i == 0 {
				first = held
			}
			assert.Equal(r.t, first, held, "%s of %s and of %s", key, r.Nodes[0].ID, r.Nodes[i].ID)
		}
	}
	for i, s := range r.Statuses(r.ctx) {
		r.t.Logf("%s: %d keys compared, applied %d, log from %d, newest snapshot %d", r.Nodes[i].ID, len(keys), s.Applied, s.Base, s.Snapshot.Last)
	}
}

// gaps measures the longest time between two acknowledged writes.
type gaps struct {
	mu   sync.Mutex
	last time.Time // time of the last acknowledgement, or start of the measurement
	most time.Duration
}

func (g *gaps) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.most = time.Now(), 0
}

func (g *gaps) observe(r workload.Request) {
	if !r.Write {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most = max(g.most, r.Ended.Sub(g.last))
	g.last = r.Ended
}

func (g *gaps) longest() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}
