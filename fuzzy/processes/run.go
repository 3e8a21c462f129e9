package processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/demo/local"
)

// Limits of the options.
const (
	NodesMin    = 3
	NodesMax    = local.NodesMax
	DurationMax = 24 * time.Hour
)

// Options are the settings of a run.
type Options struct {
	Seed     uint64 // seed of the schedule
	Duration time.Duration
	Nodes    int
	Faults   []Kind // kinds of faults; empty: all that the budget allows
	Binary   string // path of the raftkv to run; "" builds it, which needs Go and the source
	Keep     bool   // keep data and logs even of a clean run
	// PlainDisks uses plain directories instead of our own file system, and leaves out the faults that need it.
	PlainDisks bool
	// Lie makes every disk report syncs that it does not make. A power cut of all members then loses acknowledged writes. If
	// such a run were clean, it would prove that the harness checks nothing.
	Lie    bool
	Origin string // commit, machine and day, for the report
	// Progress, if not nil, is called several times a second.
	Progress func(Progress)
	// Say, if not nil, is called with each line that the user should see before the end.
	Say func(line string)

	patience time.Duration // healthyMax, except in tests
	temp     string        // where the directory of the run is made; the system's, except in tests
}

// Progress describes the progress of a run.
type Progress struct {
	Elapsed     time.Duration // elapsed part of Options.Duration
	Faults      int
	LeaderKills int
	Operations  uint64
}

// Validate returns an error if the options cannot be used.
func (o Options) Validate() error {
	switch {
	case o.Nodes < NodesMin || o.Nodes > NodesMax:
		return fmt.Errorf("--nodes %d: it takes %d to %d", o.Nodes, NodesMin, NodesMax)
	case o.Duration <= 0 || o.Duration > DurationMax:
		return fmt.Errorf("--duration %v: it takes more than 0, and at most %v", o.Duration, DurationMax)
	case o.PlainDisks && o.Lie:
		return errors.New("--plain-disks and --lying-disks: give one of them; plain directories cannot lie about syncs")
	}
	return nil
}

// Failure is the reason why a run failed.
type Failure struct {
	Class fuzzy.Class
	Rule  string
	Text  string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s: %s", f.Class, f.Rule, f.Text) }

// ErrInterrupted reports that a run was interrupted before it could be judged.
var ErrInterrupted = errors.New("interrupted: nothing was judged")

// Run runs a cluster and injects faults. The error is a *Failure if the cluster failed. Any other error gives the reason why
// the run could not be made. No process and no mount outlives the call. After a failure, Run keeps the directory with the
// logs and the data, and Report.Kept names this directory.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	o.patience = cmp.Or(o.patience, healthyMax)
	dir, err := os.MkdirTemp(o.temp, "raftlab-chaos-")
	if err != nil {
		return Report{}, err
	}
	w := newWorld(o, dir)
	err = w.guard(func() error { return w.run(ctx) })
	if failed := w.failed(); failed != nil {
		if errors.Is(err, failed) {
			err = nil // the error is a consequence of the failure
		}
		err = errors.Join(failed, err)
	} else if ctx.Err() != nil {
		err = errors.Join(ErrInterrupted, err)
	}
	err = errors.Join(err, w.countSnapshots())
	w.report.conclude(w, err)
	var failure *Failure
	if kept := o.Keep || errors.As(err, &failure); kept {
		w.report.Kept = dir
		return w.report, errors.Join(err, w.close(true))
	}
	return w.report, errors.Join(err, w.close(false), os.RemoveAll(dir))
}

// run does everything between creating the directory and cleaning up.
func (w *world) run(ctx context.Context) error {
	program, err := w.program(ctx)
	if err != nil {
		return err
	}
	if err := w.open(program); err != nil {
		return err
	}
	if w.Lie {
		defer func() { w.say("the disks lied: a clean run would have been the failure") }()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.cancel = cancel
	if err := w.found(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	stopWork := w.startWork()
	defer stopWork()
	working := time.Now()
	if !w.await(ctx, "a new cluster serves", "no write was acknowledged", func() bool { return w.stats.writtenAfter(working) }) {
		return nil
	}
	stopBallast, loaded := w.startBallast(ctx)
	defer stopBallast()
	if !loaded {
		return nil
	}
	if err := w.storm(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return w.conclude(ctx, func() { stopBallast(); stopWork() })
}

// guard turns a panic of the harness into an error, so that the harness cleans up.
func (w *world) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("the harness panicked: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	return do()
}

// program returns the path of the raftkv to run. If the options name none, it builds raftkv.
func (w *world) program(ctx context.Context) (string, error) {
	if w.Binary != "" {
		path, err := exec.LookPath(w.Binary)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", fmt.Errorf("--binary: %w", err)
		}
		return path, nil
	}
	path := filepath.Join(w.dir, "raftkv")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/coxswain/raft/cmd/raftkv").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building raftkv (--binary names a built one): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}
