// Command electionlab runs well-known election algorithms beside the real Raft core, on the same faults.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/usage"
)

// The exit codes.
const (
	exitClean  = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitClean
	}
	_, _ = fmt.Fprintln(errOut, "electionlab:", err) // nobody to tell
	if errors.Is(err, usage.Err) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "electionlab",
		Short: "Well-known election algorithms beside the Raft core, on the same faults",
		Long:  help(),
		Example: `  electionlab compare --scenarios leader-crash --sizes 5
  electionlab compare --algorithms raft,two-phase --measures agreement,two-in-term --seeds 1000
  electionlab compare --times published --scenarios leader-crash,flapping --sizes 5
  electionlab page > elections.html
  electionlab trace raft leader-crash 5 1`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(usage.Flag)
	root.AddCommand(newCompare(), newPage(), newTrace())
	return root
}

func help() string {
	var b strings.Builder
	b.WriteString("Runs every algorithm with the same seeds and faults, and shows what each costs and how it breaks.\n\nAlgorithms:\n")
	for _, a := range elections.Algorithms() {
		fmt.Fprintf(&b, "  %-18s %s\n", a.Name, a.Title)
	}
	b.WriteString("\nScenarios:\n")
	for _, s := range append(slices.Clip(elections.Scenarios()), elections.LostVotes()) {
		fmt.Fprintf(&b, "  %-18s %s\n", s.Name, s.Meaning)
	}
	b.WriteString("\nMeasures:\n")
	for _, m := range elections.Measures() {
		fmt.Fprintf(&b, "  %-18s %s\n", m.Name, m.Meaning)
	}
	b.WriteString("\nExit codes: 0 done; 1 could not run; 2 bad usage.")
	return b.String()
}
