package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft/cmd/raftkv/internal/local"
	"github.com/coxswain/raft/cmd/raftkv/internal/workload"
	"github.com/coxswain/raft/fuzzy"
)

const (
	clients     = 8
	clientPause = 5 * time.Millisecond
	// healthyMax bounds the time for something that must happen in a healthy cluster.
	healthyMax = time.Minute
)

// world is one run.
type world struct {
	Options
	dir     string
	began   time.Time // of the storm
	kinds   []Kind
	cluster *local.Cluster
	members []*member
	links   [][]*proxy // from, to; nil from a member to itself
	work    *workload.Workload
	ballast *ballast
	tasks   sync.WaitGroup // the goroutines that watch processes
	cancel  context.CancelCauseFunc
	stats   stats

	mu      sync.Mutex
	failure *Failure
	report  Report
	diary   *os.File
}

// member is one member of the cluster with its disk and its history.
type member struct {
	local.Node
	disk *disk

	images atomic.Int64 // how often its disk was replaced while it was down

	mu    sync.Mutex
	wiped bool
	fates map[*local.Process]fate // of the running processes
}

func newWorld(o Options, dir string) *world {
	return &world{Options: o, dir: dir, report: newReport(o)}
}

func (w *world) say(format string, args ...any) {
	if w.Say != nil {
		w.Say(fmt.Sprintf(format, args...))
	}
}

// note writes a line to the log of the run, chaos.log.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diary != nil {
		_, _ = fmt.Fprintf(w.diary, "%9.3f  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// fail ends the run; the first failure counts.
func (w *world) fail(class fuzzy.Class, rule, format string, args ...any) {
	failure := &Failure{class, rule, fmt.Sprintf(format, args...)}
	w.note("FAILED %v", failure)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = failure
		w.cancel(failure)
	}
}

// failed returns the failure as an error, or nil.
func (w *world) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		return nil
	}
	return w.failure
}

// open creates the members, their disks and the links between them. It starts no process.
func (w *world) open(program string) (err error) {
	w.began = time.Now()
	if w.diary, err = os.Create(filepath.Join(w.dir, "chaos.log")); err != nil {
		return err
	}
	layout, err := local.OpenLayout(w.dir, w.Nodes, nil)
	if err != nil {
		return err
	}
	w.cluster = local.NewCluster(program, w.dir, layout)
	w.cluster.More = w.arguments
	var dirs []string
	for _, n := range w.cluster.Nodes {
		dirs = append(dirs, w.cluster.DataDir(n.ID))
		w.members = append(w.members, &member{Node: n, fates: map[*local.Process]fate{}})
	}
	disks, reason, err := openDisks(dirs, w.PlainDisks)
	for i, d := range disks {
		w.members[i].disk = d
	}
	if err != nil {
		return err
	}
	if err := w.choose(reason); err != nil {
		return err
	}
	for from := range w.members {
		w.links = append(w.links, make([]*proxy, w.Nodes))
		for to, n := range w.cluster.Nodes {
			if from == to {
				continue
			}
			if w.links[from][to], err = newProxy(n.RaftAddr); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose decides which kinds of faults are injected; reason says why our own file system is not available, if so.
func (w *world) choose(reason string) error {
	b := w.budget(reason)
	kinds, left := b.choose(w.Faults)
	w.kinds, w.report.LeftOut = kinds, left
	if len(left) > 0 {
		w.report.LeftOutReason = reason
		w.say("without %s: %s", join(left), reason)
	}
	switch {
	case len(kinds) == 0:
		return fmt.Errorf("no fault of --faults is left: %s", reason)
	case w.Lie && !slices.Contains(kinds, PowerCutAll):
		return fmt.Errorf("lying disks only lose data when all members lose power at once: include %s (%s)", PowerCutAll, reason)
	}
	return nil
}

func (w *world) budget(reason string) budget { return budget{nodes: w.Nodes, noDisks: reason != ""} }

func join(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// arguments returns the flags that make a member take snapshots often, and dial the others through the proxies.
func (w *world) arguments(n local.Node) (args []string) {
	args = append(args, snapshotPolicy...)
	for to, p := range w.links[w.index(n.ID)] {
		if p != nil {
			args = append(args, "--via", w.members[to].ID+"="+p.addr())
		}
	}
	return args
}

func (w *world) index(id string) int {
	return slices.IndexFunc(w.members, func(m *member) bool { return m.ID == id })
}

// found starts all members and waits until the cluster has a leader.
func (w *world) found(ctx context.Context) error {
	if err := w.startAll(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	_, err := w.cluster.AwaitLeader(waiting, "")
	if ctx.Err() != nil {
		return nil // the run has failed already, or was interrupted
	}
	if err != nil {
		w.fail(fuzzy.Liveness, "bootstrap", "%d members without a fault have no leader after %v: %s",
			w.Nodes, w.patience, w.describe(ctx))
		return nil
	}
	for _, m := range w.members {
		if w.Lie {
			err = errors.Join(err, m.disk.fs.Lie())
		}
	}
	return err
}

// startWork starts the clients, and returns a function that stops them; it may be called more than once.
func (w *world) startWork() (stop func()) {
	var servers []string
	for _, m := range w.members {
		servers = append(servers, m.URL())
	}
	w.stats.begin()
	w.work = workload.New(workload.Config{
		Servers: servers, Clients: clients, Prefix: "chaos/", Pause: clientPause, Dir: w.dir,
		Keep: true, History: filepath.Join(w.dir, "history.ndjson"), Observe: w.stats.observe,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { w.work.Run(ctx) })
	return func() {
		cancel()
		working.Wait()
	}
}

// close ends everything. With keep, the data is copied to where it outlives the mounts.
func (w *world) close(keep bool) (err error) {
	if w.cluster != nil {
		for _, m := range w.members {
			m.doom()
		}
		w.cluster.Kill()
		w.tasks.Wait()
		w.cluster.Stop()
	}
	var disks []*disk
	for _, m := range w.members {
		if m.disk == nil {
			continue
		}
		disks = append(disks, m.disk)
		if keep {
			err = errors.Join(err, m.disk.salvage())
		}
	}
	err = errors.Join(err, closeDisks(disks))
	for _, row := range w.links {
		for _, p := range row {
			if p != nil {
				p.close()
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diary != nil {
		err = errors.Join(err, w.diary.Close())
		w.diary = nil
	}
	return err
}
