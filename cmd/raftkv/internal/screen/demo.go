// Package screen is the demo on a terminal: it runs a small cluster of raftkv processes on this machine, shows its members,
// lets its user break it, and checks that the store keeps its promises.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
)

const (
	clients         = 8
	clientPause     = 5 * time.Millisecond
	startTimeout    = 30 * time.Second
	failoverTimeout = 15 * time.Second // after which the demo says that nobody leads
	verifyTimeout   = 30 * time.Second
	livePause       = 250 * time.Millisecond // interval between updates
	plainPause      = 5 * time.Second        // the same, without a terminal
	firstPort       = 4001                   // of HTTP, if it is free
)

// snapshotPolicy makes the members take snapshots every few seconds, so that the user sees them.
var snapshotPolicy = []string{"--snapshot-entries", "4096", "--snapshot-tail-bytes", "64KiB"}

// Options are the settings of a demo, as the flags of "raftkv demo" give them.
type Options struct {
	Dir   string // data directory; "": a temporary one, which is removed at the end
	Nodes int    // 0: as many as Dir holds, or 3
	// Duration is the time after which the demo ends by itself. If it is 0, only the user ends the demo.
	Duration time.Duration
	// KillEvery is the interval at which the leader is killed and restarted; 0: never.
	KillEvery time.Duration
	Program   string // path of the raftkv to run
	In        io.Reader
	Out       io.Writer
}

// demo is a running demo. One goroutine runs its loop; others watch failovers and changes.
type demo struct {
	Options
	cluster  *local.Cluster
	workload *workload.Workload
	screen   *screen
	page     *page

	mu       sync.Mutex
	down     map[string]bool // members whose end was shown
	removed  map[string]bool // members that left the cluster, or are leaving it
	watching bool            // a failover is being watched
	restarts int             // count of members that were restarted or resumed
	changing bool            // a membership change is being watched; no other may begin
	watches  sync.WaitGroup

	explains         bool      // the help is shown; used by the loop alone, like all below
	lastLook         time.Time // to compute the rate of writes
	lastAcknowledged uint64    // at lastLook
}

// Run runs a demo until the user quits, its duration is over, or the context ends. It fails if the cluster cannot be started,
// or if the cluster breaks a promise.
func Run(ctx context.Context, o Options) error {
	dir, remove, err := openDir(o.Dir)
	if err != nil {
		return err
	}
	o.Dir = dir
	var preferred []int
	for i := range local.NodesMax {
		preferred = append(preferred, firstPort+i)
	}
	layout, err := local.OpenLayout(dir, o.Nodes, preferred)
	if err != nil {
		return errors.Join(err, remove())
	}
	d := &demo{Options: o, cluster: local.NewCluster(o.Program, dir, layout), down: map[string]bool{}, removed: map[string]bool{}}
	if d.page, err = openPage(); err != nil {
		d.cluster.Stop()
		return errors.Join(err, remove())
	}
	d.cluster.More = func(n local.Node) []string {
		args := append([]string{"--can-be-cut", "--page-origin", d.page.origin()}, snapshotPolicy...)
		if !n.Joins {
			return args
		}
		others := slices.DeleteFunc(d.servers(), func(url string) bool { return url == n.URL() })
		return append(args, "--join", strings.Join(others, ","))
	}
	err = d.run(ctx)
	d.page.close()
	d.cluster.Stop()
	if err != nil {
		return fmt.Errorf("%w\nthe data and the logs are in %s", err, dir)
	}
	return remove()
}

func openDir(dir string) (_ string, remove func() error, _ error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("--data: %w", err)
		}
		return dir, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "raftkv-demo-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

func (d *demo) run(ctx context.Context) error {
	leader, err := d.start(ctx)
	if ctx.Err() != nil { // the user ended the demo, and needs neither data nor logs
		_, err = fmt.Fprintln(d.Out, "ended before there was a leader")
		return err
	}
	if err != nil {
		return err
	}
	if err := d.announce(); err != nil {
		return fmt.Errorf("this demo could not be announced to the other commands: %w", err)
	}
	defer client.Place{PID: os.Getpid()}.Remove()
	d.workload = workload.New(workload.Config{
		Servers: d.servers(), Clients: clients, Pause: clientPause, Dir: d.Dir,
		Prefix: "demo/" + strconv.FormatInt(time.Now().UnixNano(), 36) + "/",
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	var background sync.WaitGroup
	background.Go(func() { d.workload.Run(working) })
	d.interact(working, leader)
	stop()
	background.Wait()
	d.watches.Wait()
	return d.conclude()
}

// start starts the members, waits for a leader, and returns its id.
func (d *demo) start(ctx context.Context) (string, error) {
	if err := d.cluster.Start(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, n := range d.cluster.Nodes {
		go d.failIfEnded(ctx, cancel, n.ID)
	}
	leader, err := d.cluster.AwaitLeader(ctx, "")
	var ended error // the reason why there is no leader
	for _, n := range d.cluster.Nodes {
		ended = errors.Join(ended, d.cluster.Ended(n.ID))
	}
	if ended != nil {
		return "", ended
	}
	return leader.ID, err
}

// failIfEnded cancels the wait for a leader when a member ends.
func (d *demo) failIfEnded(ctx context.Context, cancel context.CancelFunc, id string) {
	select {
	case <-d.cluster.Process(id).Done():
		cancel()
	case <-ctx.Done():
	}
}

func (d *demo) introduction(leader string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, data in %s\n\n", len(d.cluster.Nodes), d.Dir)
	for _, n := range d.cluster.Nodes {
		note := ""
		if n.ID == leader {
			note = "  leads"
		}
		fmt.Fprintf(&b, "  %s  pid %-7d %s%s\n", n.ID, d.cluster.Process(n.ID).PID(), n.URL(), note)
	}
	fmt.Fprintf(&b, "\nIn a browser: %s%s\n", d.page.origin(), admin.LivePath)
	url, raftkv := d.cluster.Nodes[0].URL(), command(d.Program)
	fmt.Fprintf(&b, `
In another terminal:
  %[1]s put greeting 'hello, world'
  %[1]s get greeting
  %[1]s list
  %[1]s status
  curl -X PUT --data-binary hello %[2]s/kv/greeting
  curl -i %[2]s/kv/greeting
  kill -9 PID     # the PID of a node is shown below

%[3]d clients write and read, and check every answer.`, raftkv, url, clients)
	return b.String()
}

// command returns the command that the user types to run the program. If "go run" built the program, its path does not help
// the user, because the file is removed when the demo ends.
func command(program string) string {
	if found, err := exec.LookPath("raftkv"); err == nil && sameFile(found, program) {
		return "raftkv"
	}
	if strings.Contains(filepath.ToSlash(program), "/go-build") {
		return "go run ./cmd/raftkv"
	}
	return program
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	second, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// interact shows the state and handles keys and timers until the demo ends.
func (d *demo) interact(ctx context.Context, leader string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.Duration > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.Duration)
		defer cancel()
	}
	var keys keyboard
	d.screen, keys = openTerminal(ctx, d.In, d.Out)
	defer d.screen.leave()
	defer keys.restore()
	pause := livePause
	d.screen.say("%s", d.introduction(leader))
	if !d.screen.live {
		pause = plainPause
	}
	d.lastLook = time.Now()
	looks := time.NewTicker(pause)
	defer looks.Stop()
	d.screen.heard = d.page.say
	d.publish()
	states := time.NewTicker(livePause)
	defer states.Stop()
	kills := ticks(d.KillEvery)
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-keys.keys:
			if !d.handleKey(ctx, key) {
				return
			}
		case <-kills:
			d.breakLeader(ctx, "killed", true)
		case <-looks.C:
			d.look(ctx)
		case press := <-d.page.presses:
			press.outcome <- d.press(ctx, press.button, press.member)
			d.publish()
		case <-states.C:
			d.publish()
		}
	}
}

// ticks returns a channel that ticks at this interval. If the interval is 0, the channel never ticks.
func ticks(every time.Duration) <-chan time.Time {
	if every <= 0 {
		return nil
	}
	return time.Tick(every)
}

// conclude heals the cluster, reads everything once more, and prints the verdict.
func (d *demo) conclude() error {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	d.screen.say("reading back everything that was acknowledged ...")
	d.heal()
	verdict, err := d.workload.Verify(ctx)
	d.screen.say("verdict: %s", verdict)
	return errors.Join(err, verdict.Err())
}
