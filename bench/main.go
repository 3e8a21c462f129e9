// Command bench compares this library with other ones: one driver, one workload, one state machine that counts, replicas over
// loopback TCP with real files and every write synced. Each run has processes of its own, which are killed at its end.
//
// The map of files:
//
//	contestant.go   the columns; coxswain.go, hashicorp.go, etcdraft.go (with etcdnet.go), dragonboat.go: their adapters
//	cells.go        the rows
//	host.go         a process with replicas, which also calls them; cluster.go: the driver's side of it
//	scenarios.go    what is done to a cluster; machine.go, slow.go: the disk; stores.go: raftkv; etcd.go
//	session.go      the order of the runs; disturbed.go: whether one counts; results.go: the file of results; stats.go
//	page.go         docs/benchmarks.md; plots.go: its pictures; summary.go: what they show
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "bench", Short: "Compare Raft libraries on one machine", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newRun(), newPage(), newHost(), newEtcd())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// newHost is the command that processes with replicas run.
func newHost() *cobra.Command {
	return &cobra.Command{
		Use: "host CONTESTANT", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return serveHost(args[0]) },
	}
}

// sets are what --set takes.
var sets = map[string][]cell{"core": coreCells, "full": allCells(), "stores": storeCells}

type runFlags struct {
	set, cells, contestants string
	smoke                   bool
	within                  time.Duration
	session
}

func newRun() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure what the results do not hold yet",
		Long: `run measures round by round; within a cell the contestants take turns. A run during which others used the machine is
repeated, twice at most. Each finished run is written to the results at once, and run goes on from there when it is started
again.`,
		Example: `  bench run --set core
  bench run --contestants 'coxswain|etcd' --cells '256 callers, 128 B$'
  bench run --set full --smoke --results /dev/null`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.set, "set", "core", "core, full, or stores (raftkv and etcd)")
	flags.StringVar(&f.cells, "cells", "", "only cells whose name matches this regular expression")
	flags.StringVar(&f.contestants, "contestants", "", "only those whose name matches; default: all, in the core set the main ones")
	flags.IntVar(&f.rounds, "rounds", 6, "rounds; six are the fewest that have a 95 % interval")
	flags.DurationVar(&f.warmup, "warmup", 500*time.Millisecond, "warm-up before each measurement")
	flags.DurationVar(&f.measure, "measure", 2*time.Second, "length of each measurement")
	flags.DurationVar(&f.within, "within", 0, "stop after this time; 0: when all is measured")
	flags.BoolVar(&f.smoke, "smoke", false, "one short round, to see that everything runs: its figures mean nothing")
	flags.StringVar(&f.results, "results", "results.jsonl", "the file of results")
	flags.StringVar(&f.dir, "dir", "", "where the data goes, on the disk to be measured; default: a temporary directory")
	flags.StringVar(&f.profiles, "profiles", "", "a directory for CPU, allocation and block profiles of the leader's process")
	return cmd
}

func (f *runFlags) run(ctx context.Context) error {
	if err := f.choose(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.dir, "coxswain-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f.dir, f.out = dir, os.Stdout
	if f.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.within, errTimeIsUp)
		defer cancel()
	}
	now := conditionsNow(commit(ctx))
	now.Warmup, now.Measure, now.Smoke = f.warmup, f.measure, f.smoke
	err = f.session.run(ctx, now)
	if errors.Is(err, errTimeIsUp) {
		fmt.Println("the time is up; start it again to go on")
		return nil
	}
	return err
}

var errTimeIsUp = errors.New("the time is up")

// choose turns flags into cells and contestants.
func (f *runFlags) choose() error {
	cells, found := sets[f.set]
	if !found {
		return fmt.Errorf("--set %q: core, full or stores", f.set)
	}
	matches, err := regexp.Compile(f.cells)
	if err != nil {
		return fmt.Errorf("--cells: %w", err)
	}
	if f.smoke {
		f.rounds, f.warmup, f.measure, f.once = 1, 300*time.Millisecond, time.Second, true
	}
	for _, c := range cells {
		if f.smoke {
			c = c.quick()
		}
		if matches.MatchString(c.String()) {
			f.session.cells = append(f.session.cells, c)
		}
	}
	who, err := regexp.Compile(f.contestants)
	if err != nil {
		return fmt.Errorf("--contestants: %w", err)
	}
	for _, c := range contestants {
		onlyReference := f.contestants == "" && f.set == "core" && slices.Contains(reference, c.name)
		if who.MatchString(c.name) && !onlyReference {
			f.session.contestants = append(f.session.contestants, c.name)
		}
	}
	if len(f.session.cells) == 0 || len(f.session.contestants) == 0 {
		return errors.New("no cell or no contestant has such a name")
	}
	return nil
}

// commit names what is measured, or returns "".
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
