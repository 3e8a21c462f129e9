// Command bench compares this library with others. All contestants have the same driver, the same workload, and a state
// machine that counts. The replicas use loopback TCP and real files, and sync every write. Each run has its own processes,
// which are killed at the end of the run.
//
// The map of files:
//
//	contestant.go   the columns; coxswain.go, hashicorp.go, etcdraft.go (with etcdnet.go, etcdread.go), dragonboat.go: their adapters
//	nopeers.go      replaces all files that need another library, in the build of "make test"
//	cells.go        the rows, in tiers; plan.go: the order of the runs, and how long they take
//	host.go         a process with replicas and their callers; cluster.go: how the driver controls these processes
//	failover.go     distributions of failovers
//	scenarios.go    what happens to a cluster; machine.go, slow.go: the disk; stores.go: raftkv; etcd.go
//	session.go      one run after another; disturbed.go: whether a run counts; results.go: the file of results; stats.go
//	page.go         docs/results/benchmarks.md; plots.go: its pictures; summary.go: the data of both
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "bench", Short: "Compare Raft libraries on one machine", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newRun(), newPage(), newFailover(), newHost(), newEtcd())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// newHost returns the command that processes with replicas run.
func newHost() *cobra.Command {
	return &cobra.Command{
		Use: "host CONTESTANT", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return serveHost(args[0]) },
	}
}

type runFlags struct {
	set, cells, contestants string
	smoke, plan             bool
	within                  time.Duration
	session
}

func newRun() *cobra.Command {
	f := runFlags{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure the runs that the results do not have yet",
		Long: `run measures tier by tier, and each tier round by round; within a cell the contestants take turns. If other programs use
the machine during a run, the run is repeated, at most twice. Each finished run is written to the results at once; start run
again to continue from there. Before it begins, it prints how long it will take.

With --profiles it measures one round and writes no results: profiling costs time.`,
		Example: `  bench run --set core
  bench run --contestants 'coxswain|etcd' --cells '256 callers, 128 B$'
  bench run --set full --smoke --results /dev/null`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.set, "set", "core", "core, full, reads, or stores (raftkv and etcd)")
	flags.StringVar(&f.cells, "cells", "", "only cells whose name matches this regular expression")
	flags.StringVar(&f.contestants, "contestants", "", "only contestants whose name matches; default: all, in the core set the main ones")
	flags.IntVar(&f.rounds, "rounds", allRounds, "maximum number of rounds; a 95 % interval needs at least six")
	flags.DurationVar(&f.warmup, "warmup", 500*time.Millisecond, "warm-up before each measurement")
	flags.DurationVar(&f.measure, "measure", 2*time.Second, "length of each measurement")
	flags.DurationVar(&f.within, "within", 0, "stop after this time; 0: when everything is measured")
	flags.BoolVar(&f.smoke, "smoke", false, "one short round as a trial: its figures mean nothing")
	flags.StringVar(&f.results, "results", "results.jsonl", "the file of results")
	flags.StringVar(&f.dir, "dir", "", "directory for the data, on the disk to be measured; default: a temporary directory")
	flags.BoolVar(&f.plan, "plan", false, "only print how long it will take")
	flags.StringVar(&f.profiles, "profiles", "", "directory for CPU, allocation and block profiles of the leader's process")
	return cmd
}

func (f *runFlags) run(ctx context.Context) error {
	if err := f.choose(); err != nil {
		return err
	}
	now := conditionsNow(commit(ctx))
	now.Warmup, now.Measure, now.Smoke = f.warmup, f.measure, f.smoke
	f.out = os.Stdout
	if f.plan {
		if err := f.resume(now); err != nil {
			return err
		}
		f.outline()
		return nil
	}
	dir, err := os.MkdirTemp(f.dir, "coxswain-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f.dir = dir
	if f.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.within, errTimeIsUp)
		defer cancel()
	}
	err = f.session.run(ctx, now)
	if errors.Is(err, errTimeIsUp) {
		fmt.Println("the time is up; start it again to continue")
		return nil
	}
	return err
}

var errTimeIsUp = errors.New("the time is up")

// choose turns flags into cells and contestants.
func (f *runFlags) choose() error {
	tiers, found := sets[f.set]
	if !found {
		return fmt.Errorf("--set %q: core, full, reads or stores", f.set)
	}
	matches, err := regexp.Compile(f.cells)
	if err != nil {
		return fmt.Errorf("--cells: %w", err)
	}
	if f.smoke {
		f.rounds, f.warmup, f.measure, f.once = 1, 300*time.Millisecond, time.Second, true
	}
	if f.profiles != "" {
		f.rounds, f.once, f.results = 1, true, os.DevNull
	}
	for _, t := range tiers {
		chosen := tier{rounds: t.rounds}
		for _, c := range t.cells {
			if f.smoke {
				c = c.quick()
			}
			if matches.MatchString(c.String()) {
				chosen.cells = append(chosen.cells, c)
			}
		}
		if len(chosen.cells) > 0 {
			f.tiers = append(f.tiers, chosen)
		}
	}
	who, err := regexp.Compile(f.contestants)
	if err != nil {
		return fmt.Errorf("--contestants: %w", err)
	}
	for _, name := range append(names(contestants), storeNames()...) {
		if who.MatchString(name) {
			f.session.contestants = append(f.session.contestants, name)
		}
	}
	if f.contestants == "" && f.set == "core" {
		f.skips = notInCore
	}
	if len(f.tiers) == 0 || len(f.session.contestants) == 0 {
		return errors.New("no cell or no contestant matches")
	}
	return nil
}

// commit returns the name of the measured commit, or "" if it is unknown.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
