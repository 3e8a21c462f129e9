package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/failover"
	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/demo/member"
	"github.com/coxswain/raft/internal/distribution"
	"github.com/coxswain/raft/internal/usage"
)

const failoverHelp = `failover disturbs the leader of a cluster again and again, and measures the time until a client of another member has
its next write acknowledged. If the disturbance is planned, it measures the longest time without an acknowledged write, and
counts the requests that failed.

Each kind has two clusters, one with all preferences about who leads next and one without those in --without. Their trials
alternate. A trial begins once all members are up, follow one leader and have applied the same log.

The kinds are
  %s

Dropping packets needs Linux and root. With --simulated, the members run in the simulator of raftlab fuzz; its kinds are kill
and silence, each with no loss of messages and with 5 and 20 %% of them lost, and the time is that until the next leader.`

// failoverFlags are the flags of the command.
type failoverFlags struct {
	failover.Options
	simulated, asJSON bool
	seed, picture     string
}

// newFailover returns the command that measures how soon a cluster writes again.
func newFailover() *cobra.Command {
	var f failoverFlags
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Measure how soon a cluster writes again after its leader is lost",
		Long:  fmt.Sprintf(failoverHelp, strings.Join(failover.Kinds(), "\n  ")),
		Example: `  raftlab failover --kinds kill,freeze
  raftlab failover --members 5 --json > docs/results/failover/processes-5.json
  raftlab failover --simulated --svg simulated.svg
  raftlab failover page > docs/results/failover.md`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.Members, "members", 3, fmt.Sprintf("members, %d to %d", failover.MembersMin, failover.MembersMax))
	flags.IntVar(&f.Trials, "trials", 0, "trials of each kind with the preferences, and as many without; default: 50, simulated 10000")
	flags.StringSliceVar(&f.Kinds, "kinds", nil, "kinds of disturbances, separated by commas; default: all")
	flags.StringSliceVar(&f.Without, "without", []string{"news", "successors", "priorities"}, "preferences that every other trial does without")
	flags.DurationVar(&f.Bound, "bound", 60*time.Millisecond, "count the trials that took longer")
	flags.BoolVar(&f.simulated, "simulated", false, "run the simulator instead of processes")
	flags.StringVar(&f.seed, "seed", "0", "seed of the simulator, in hexadecimal")
	flags.StringVar(&f.Binary, "binary", "", "path of the raftkv to run; default: build it, which needs Go and the source")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as JSON")
	flags.StringVar(&f.picture, "svg", "", "file for a picture of the distributions")
	cmd.AddCommand(newFailoverPage())
	return cmd
}

func (f *failoverFlags) run(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("trials") {
		if f.Trials = 50; f.simulated {
			f.Trials = 10_000
		}
	}
	if err := f.Validate(); err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	f.Say = func(line string) {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) // there is nowhere to report a failure
	}
	measure := f.measure
	if f.simulated {
		measure = f.simulate
	}
	r, err := measure(cmd)
	if err != nil {
		return err
	}
	r.Origin = origin()
	if f.picture != "" {
		if err := os.WriteFile(f.picture, []byte(r.SVG()), 0o644); err != nil {
			return err
		}
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), r)
	return err
}

// measure runs the trials on real processes. If they drop packets, it runs this command in a network namespace of its own.
func (f *failoverFlags) measure(cmd *cobra.Command) (failover.Report, error) {
	defer built.Remove()
	separate, err := failover.Separate(cmd.Context(), f.Options)
	if err != nil {
		return failover.Report{}, err
	}
	if separate == nil {
		return failover.Run(cmd.Context(), f.Options)
	}
	separate.Stdout, separate.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	var exit *exec.ExitError
	if err = separate.Run(); err == nil || errors.As(err, &exit) {
		err = &childError{separate.ProcessState.ExitCode()} // it has printed everything
	}
	return failover.Report{}, err
}

// simulate runs the trials in the simulator.
func (f *failoverFlags) simulate(*cobra.Command) (failover.Report, error) {
	r := failover.Report{Simulated: true, Members: f.Members, Without: f.Without, BoundMS: f.Bound.Seconds() * 1000}
	without, err := member.ParseWithout(f.Without)
	if err != nil {
		return r, err
	}
	number, err := parseSeedNumber(f.seed)
	if err != nil {
		return r, fmt.Errorf("%w; %w", err, usage.Err)
	}
	for _, kind := range []failover.Kind{failover.Kill, failover.Silence} {
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, string(kind)) {
			continue
		}
		for _, loss := range []int{0, 5, 20} {
			trials := fuzzy.Failovers{Members: f.Members, Trials: f.Trials, Seed: number, Silent: kind == failover.Silence, LossPercent: loss}
			result := failover.Result{Kind: string(kind), Says: "the leader's process is killed"}
			if trials.Silent {
				result.Says = "the leader's host vanishes"
			}
			if loss > 0 {
				result.Kind = fmt.Sprintf("%s, %d %% loss", kind, loss)
			}
			if result.On, err = f.simulatedSide(trials); err != nil {
				return r, err
			}
			trials.Preferences = without
			if result.Off, err = f.simulatedSide(trials); err != nil {
				return r, err
			}
			r.Results = append(r.Results, result)
		}
	}
	return r, nil
}

func (f *failoverFlags) simulatedSide(trials fuzzy.Failovers) (failover.Side, error) {
	took, err := trials.Run()
	return failover.Side{
		Times: distribution.Of(took.Times, f.Bound), Wasted: took.Wasted, Split: took.Split,
	}, err
}

// newFailoverPage returns the command that prints the page of all reports.
func newFailoverPage() *cobra.Command {
	var reports string
	cmd := &cobra.Command{
		Use: "page", Short: "Print docs/results/failover.md from the reports of failover, and draw their pictures",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, pictures, err := failoverPage(reports)
			if err != nil {
				return err
			}
			for path, svg := range pictures {
				if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
					return err
				}
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&reports, "reports", "docs/results/failover", "directory of the reports, *.json")
	return cmd
}

const failoverPageHead = `# How soon a cluster writes again

A leader is lost, or another member takes its place as planned: for how long is no write acknowledged? Each kind of disturbance
has two clusters, one with all preferences about who leads next and one without them, whose trials alternate. The pictures
show the share of the trials that ended within a time. ` + "`raftlab failover --help`" + ` says more.

This page is made of the reports in ` + "[failover/](failover)" + `: ` + "`go run ./cmd/raftlab failover page > docs/results/failover.md`" + `.
`

// failoverPage returns the page of all reports in a directory, and their pictures by path.
func failoverPage(reports string) (text string, pictures map[string]string, err error) {
	files, err := filepath.Glob(filepath.Join(reports, "*.json"))
	if err != nil {
		return "", nil, err
	}
	if len(files) == 0 {
		return "", nil, fmt.Errorf("%s holds no report; `make failover` makes the reports", reports)
	}
	var b strings.Builder
	b.WriteString(failoverPageHead)
	pictures = map[string]string{}
	for _, file := range files {
		if filepath.Base(file) == peersFile {
			continue
		}
		var r failover.Report
		if err := readReport(file, &r); err != nil {
			return "", nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json") + ".svg"
		pictures[filepath.Join(reports, name)] = r.SVG()
		b.WriteString("\n" + r.Markdown("failover/"+name))
		if !r.Simulated && r.Members == 3 { // for the README
			r.Results = slices.DeleteFunc(r.Results, func(of failover.Result) bool { return of.Kind != "kill" })
			pictures[filepath.Join(reports, "kill.svg")] = r.SVG()
		}
	}
	if peers := filepath.Join(reports, peersFile); slices.Contains(files, peers) {
		err = writePeers(&b, peers)
	}
	return b.String(), pictures, err
}

// peersFile is the report of bench failover, which measures other libraries, too.
const peersFile = "peers.json"

// writePeers writes the section about other libraries.
func writePeers(b *strings.Builder, file string) error {
	var rows []struct {
		Contestant string
		Tuned      bool
		Times      distribution.Times
	}
	if err := readReport(file, &rows); err != nil {
		return err
	}
	b.WriteString(`
## Beside other libraries

Milliseconds from SIGKILL of the leader's process to the first write that the next leader acknowledges to a caller in its own
process, three members ([bench/failover.go](../../bench/failover.go)).

| library | election timeout | kills | mean | median | p90 | p99 | max |
|---|---|---|---|---|---|---|---|
`)
	for _, r := range rows {
		timeout := "its default"
		if r.Tuned {
			timeout = "150 to 300 ms"
		}
		t := &r.Times
		fmt.Fprintf(b, "| %s | %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
			r.Contestant, timeout, t.Count, t.Mean, t.Median, t.P90, t.P99, t.Max)
	}
	return nil
}
