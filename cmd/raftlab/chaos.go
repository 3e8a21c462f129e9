package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy/processes"
	"github.com/coxswain/raft/internal/usage"
)

// newChaos returns the command that injects faults into real processes and their disks.
func newChaos() *cobra.Command {
	var o processes.Options
	var seed string
	var asJSON bool
	var faults []string
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break a cluster of real processes, and check what it told its clients",
		Long: `chaos runs a cluster of raftkv processes on this machine, each behind proxies and on a disk that forgets
unsynced writes, and breaks processes, disks and links. Clients write and read all the time, and porcupine
checks their whole history. At the end chaos heals everything; then the members must agree, and every acknowledged
write must be there. After a failure, logs, data and history are kept, and the report says where.

The seed draws which faults are injected and when. Real processes never behave the same way twice: a second run of
a seed has the same faults, but may end differently.

The membership changes meanwhile, by the commands that a user has: spare members join, others leave, move or become
learners, and a member that loses its disk is replaced. At most a minority of the voters is without its disk at a time.
Every other fault may happen to all members. Disk faults need Linux, /dev/fuse and the right to mount;
without them, chaos leaves them out and says so in its report.

The faults are
  ` + strings.Join(processes.Kinds(), "\n  ") + "\n\n" + exitHelp,
		Example: `  raftlab chaos --duration 5m
  raftlab chaos --nodes 3 --faults kill,power-cut-all --json > chaos.json
  raftlab chaos --lying-disks            # must fail: acknowledged writes are lost`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Seed, err = parseSeedNumber(seed); err == nil {
				o.Faults, err = processes.ParseKinds(faults)
			}
			if err == nil {
				err = o.Validate()
			}
			if err != nil {
				return fmt.Errorf("%w; %w", err, usage.Err)
			}
			return runChaos(cmd, o, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&seed, "seed", "0", "seed of the schedule, in hexadecimal; of a commit's hash, the first 16 digits count")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "time during which faults are injected")
	flags.IntVar(&o.Nodes, "nodes", 5, fmt.Sprintf("members, %d to %d", processes.NodesMin, processes.NodesMax))
	flags.StringSliceVar(&faults, "faults", nil, "kinds of faults, separated by commas; default: all")
	flags.StringVar(&o.Binary, "binary", "", "path of the raftkv to run; default: build it, which needs Go and the source")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON")
	flags.BoolVar(&o.Keep, "keep", false, "keep logs, data and history even of a clean run")
	flags.BoolVar(&o.PlainDisks, "plain-disks", false, "use plain directories, without disk faults")
	flags.BoolVar(&o.Lie, "lying-disks", false, "use disks that report syncs without making them; the run must fail with lost writes")
	return cmd
}

// runChaos runs chaos and prints the report, even if the run fails.
func runChaos(cmd *cobra.Command, o processes.Options, asJSON bool) error {
	errOut := cmd.ErrOrStderr()
	o.Origin = origin()
	bar, show := chaosBar(errOut, o.Duration)
	o.Progress = show
	o.Say = func(line string) {
		if bar != nil {
			_ = bar.Clear() // the bar is decoration
		}
		_, _ = fmt.Fprintln(errOut, line) // there is nowhere to report a failure
	}
	r, err := processes.Run(cmd.Context(), o)
	if bar != nil {
		_ = bar.Finish()
	}
	var failed error
	if asJSON {
		failed = printJSON(cmd.OutOrStdout(), r)
	} else {
		_, failed = fmt.Fprint(cmd.OutOrStdout(), r)
	}
	return cmp.Or(failed, err)
}

// chaosBar returns, on a terminal, a progress bar for the elapsed time, and a function that updates it.
func chaosBar(out io.Writer, duration time.Duration) (*progressbar.ProgressBar, func(processes.Progress)) {
	if !isTerminal(out) {
		return nil, nil
	}
	bar := progressbar.NewOptions64(int64(duration/time.Second), progressbar.OptionSetWriter(out),
		progressbar.OptionShowCount(), progressbar.OptionSetDescription("seconds"), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond))
	return bar, func(p processes.Progress) {
		bar.Describe(fmt.Sprintf("%d faults, %d leaders killed, %d operations", p.Faults, p.LeaderKills, p.Operations))
		_ = bar.Set64(min(int64(p.Elapsed/time.Second), int64(duration/time.Second))) // the bar is decoration
	}
}
