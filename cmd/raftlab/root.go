package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/processes"
	"github.com/coxswain/raft/internal/tracepage"
	"github.com/coxswain/raft/internal/usage"
)

// The exit codes.
const (
	exitClean    = 0
	exitFailed   = 1
	exitUsage    = 2
	exitCrash    = 3
	exitSafety   = 4
	exitLiveness = 5
)

const exitHelp = `Exit codes: 0 clean; 1 could not run; 2 bad usage; a run failed: 3 crash (a core, a process or the
simulation panicked), 4 safety (something happened that never may), 5 liveness (something did not happen that must).`

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var told *childError
	if err != nil && !errors.As(err, &told) {
		_, _ = fmt.Fprintln(errOut, "raftlab:", err) // there is nowhere to report a failure
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var child *childError
	var simulated *fuzzy.Failure
	var real *processes.Failure
	var class fuzzy.Class
	switch {
	case err == nil:
		return exitClean
	case errors.As(err, &child):
		return child.code
	case errors.Is(err, usage.Err):
		return exitUsage
	case errors.As(err, &simulated):
		class = simulated.Class
	case errors.As(err, &real):
		class = real.Class
	default:
		return exitFailed
	}
	switch class {
	case fuzzy.Staging:
		return exitFailed
	case fuzzy.Safety:
		return exitSafety
	case fuzzy.Liveness:
		return exitLiveness
	}
	return exitCrash
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "raftlab",
		Short: "Simulated disasters by the thousand, each replayed from one seed",
		Long: `raftlab runs whole clusters of the real Raft core in a simulated world whose network, disks, clocks and
processes fail, and checks all invariants after every event. A seed determines everything that happens. Only chaos does
not simulate: it breaks real processes, their disks and their links.

The profiles are
  ` + strings.Join(fuzzy.Profiles(), "\n  ") + "\n\n" + exitHelp,
		Example: `  raftlab fuzz --duration 1m             # as many seeds as a minute takes
  raftlab fuzz --seeds 2000 --seed $(git rev-parse HEAD)
  raftlab replay f10.swarm.2a             # run one seed again, and print how it ends
  raftlab replay scenario:figure-8-d     # a directed scenario; raftlab scenarios lists them
  raftlab trace f10.swarm.2a --format html --out page.html
  raftlab shrink SEED --out case.txt     # shrink the run of a failing seed
  raftlab shrink --mutant R01            # find a known bug, and shrink its run`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(usage.Flag)
	root.AddCommand(newFuzz(), newMerge(), newReplay(), newTrace(), newShrink(), newScenarios(), newZoo(), newPage(), newChaos(), newFailover(),
		newElections())
	return root
}

// newElections returns a command that says where the election lab is.
func newElections() *cobra.Command {
	return &cobra.Command{
		Use: "elections", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("the election lab is a separate command: in a checkout, run %s compare; %w", tracepage.ElectionLab, usage.Err)
		},
	}
}
