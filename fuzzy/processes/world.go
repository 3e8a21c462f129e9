package processes

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

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
)

const (
	clients     = 8
	clientPause = 5 * time.Millisecond
	// healthyMax bounds the time for each step that a healthy cluster must complete.
	healthyMax = time.Minute
)

// world is one run.
type world struct {
	Options
	dir     string
	binary  string    // path of the raftkv to run
	began   time.Time // start of the storm
	kinds   []Kind
	cluster *local.Cluster
	members []*member
	links   [][][]*proxy // indexed by from, to, and address of the target; nil from a member to itself
	seen    *client.Lookout
	work    *workload.Workload
	ballast *ballast
	tasks   sync.WaitGroup // the goroutines that watch processes
	cancel  context.CancelCauseFunc
	stats   stats
	// disks is held during a disk fault, and while a member's disk is replaced. If a process started meanwhile, it would end
	// for a reason that the harness does not know.
	disks     sync.Mutex
	blackouts atomic.Int64 // number of times that all members were killed at once
	voters    atomic.Int64 // number of voters in the newest configuration that was seen
	floor     uint64       // index of a configuration that is known to be committed
	admins    int          // number of commands that were run

	mu      sync.Mutex
	failure *Failure
	report  Report
	diary   *os.File
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
	w.cluster.More, w.cluster.Emptied = w.arguments, w.emptied
	w.binary = program
	w.voters.Store(int64(w.Nodes))
	if err := w.createMembers(); err != nil {
		return err
	}
	var dirs []string
	for _, m := range w.members {
		dirs = append(dirs, w.cluster.DataDir(m.ID))
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
	return w.link()
}

// createMembers creates the initial members, and the spare ones that join later.
func (w *world) createMembers() error {
	var urls []string
	for i := range w.budget("").members {
		n, err := local.Node{}, error(nil)
		if i < w.Nodes {
			n = w.cluster.Nodes[i]
		} else if n, err = w.cluster.Spare(); err != nil {
			return err
		}
		m := &member{Node: n, addresses: []string{n.RaftAddr}, fates: map[*local.Process]fate{}}
		if m.place = (place{out: true}); i < w.Nodes {
			m.place = place{role: voter}
		}
		other, err := w.cluster.Reserve()
		if err != nil {
			return err
		}
		m.addresses = append(m.addresses, other)
		w.members, urls = append(w.members, m), append(urls, m.URL())
	}
	w.seen = client.NewLookout(urls)
	return nil
}

// link creates the links between the members, one to each address.
func (w *world) link() error {
	for _, from := range w.members {
		var row [][]*proxy
		for _, to := range w.members {
			var both []*proxy
			for _, address := range to.addresses {
				if from == to {
					continue
				}
				p, err := newProxy(address)
				if err != nil {
					return err
				}
				both = append(both, p)
			}
			row = append(row, both)
		}
		w.links = append(w.links, row)
	}
	return nil
}

// choose decides which kinds of faults the run injects. reason says why our own file system is not available. It is "" if the
// file system is available.
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

func (w *world) budget(reason string) budget {
	return budget{members: memberCount(w.Nodes), noDisks: reason != ""}
}

func join(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// arguments returns the flags of a member. With these flags, the member takes snapshots often, runs at its present address,
// and dials the others through the proxies.
func (w *world) arguments(n local.Node) (args []string) {
	at := w.index(n.ID)
	args = append(args, snapshotPolicy...)
	for to, links := range w.links[at] {
		for i, p := range links {
			args = append(args, "--via", w.members[to].addresses[i]+"="+p.addr())
		}
	}
	now := w.members[at].now()
	if now.moved {
		address := w.members[at].addresses[now.slot]
		args = append(args, "--raft-addr", address, "--advertise", address) // the last occurrence of a flag counts
	}
	if now.joins {
		for _, m := range w.members {
			if m.ID != n.ID {
				args = append(args, "--join", m.URL())
			}
		}
	}
	return args
}

func (w *world) emptied(n local.Node) bool { return w.members[w.index(n.ID)].now().emptied }

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
		return nil // the run has failed or was interrupted
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

// startWork starts the clients, and returns a function that stops them. The function may be called more than once.
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

// close ends everything. With keep, it copies the data to a directory that survives the unmounting.
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
	for at := range w.links {
		for _, p := range w.from(at) {
			p.close()
		}
	}
	if w.seen != nil {
		w.seen.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.diary != nil {
		err = errors.Join(err, w.diary.Close())
		w.diary = nil
	}
	return err
}
