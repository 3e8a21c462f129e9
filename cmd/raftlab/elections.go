package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/electionpage"
	"github.com/coxswain/raft/internal/usage"
)

// comparison is one call of elections.
type comparison struct {
	plan       elections.Plan
	measures   []elections.MeasureInfo
	asJSON     bool
	asMarkdown bool
	asPage     bool
}

// choice holds the flags of a comparison, as text.
type choice struct {
	algorithms, scenarios, measures, sizes, seeds, candidates, priorities, changes, qualities, times string
	wins                                                                                             int
}

const allNames = "all"

// gcPercent lets garbage grow while runs are compared: they keep little and produce much.
const gcPercent = 800

func newElections() *cobra.Command {
	c := &comparison{}
	var chosen choice
	cmd := &cobra.Command{
		Use: "elections", Short: "Every election algorithm beside Raft, on the same faults",
		Long: electionsHelp(), Args: usage.Args(cobra.NoArgs),
		Example: `  raftlab elections --scenarios leader-crash --sizes 5
  raftlab elections --algorithms raft,two-phase --measures agreement,two-in-term --seeds 1-1000
  raftlab elections --times published --scenarios leader-crash,flapping --sizes 5
  raftlab elections --html > elections.html
  raftlab elections trace raft leader-crash 5 1 > run.ndjson`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.prepare(&chosen); err != nil {
				return fmt.Errorf("%w; %w", err, usage.Err)
			}
			return c.run(cmd)
		},
	}
	chosen.flags(cmd)
	cmd.Flags().StringVar(&chosen.algorithms, "algorithms", allNames, "several with commas, or all")
	cmd.Flags().StringVar(&chosen.scenarios, "scenarios", allNames, "several with commas, or all, which are those of the tables")
	cmd.Flags().StringVar(&chosen.measures, "measures", allNames, "several with commas, or all")
	cmd.Flags().StringVar(&chosen.sizes, "sizes", "3,5,9,25,101", "how many members; above 25 only in leader-crash")
	cmd.Flags().StringVar(&chosen.seeds, "seeds", "1-100", "the first and the last; above 9 members a tenth of them, above 25 a hundredth")
	cmd.Flags().IntVar(&c.plan.Workers, "workers", runtime.NumCPU(), "runs at the same time; they change nothing in the result")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print what was measured in every run, as JSON")
	cmd.Flags().BoolVar(&c.asMarkdown, "markdown", false, "print docs/elections.md")
	cmd.Flags().BoolVar(&c.asPage, "html", false, "print a page: diagrams to step through, and charts")
	cmd.AddCommand(newElectionsTrace())
	return cmd
}

// flags adds the flags that a comparison and a trace share.
func (o *choice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.candidates, "candidates", "", "the ranks that may lead, with commas (candidate/ordinary)")
	cmd.Flags().StringVar(&o.priorities, "priorities", "", "of each member, from rank 1, with commas (ballots)")
	cmd.Flags().StringVar(&o.changes, "priority-changes", "", "while it runs, with commas: 10s:3=255 gives member 3 "+
		"priority 255 ten seconds after the fault; -1 is out of service (ballots)")
	cmd.Flags().IntVar(&o.wins, "wins", 0, "consecutive wins before one leads (ballots); default 2")
	cmd.Flags().StringVar(&o.times, "times", elections.Scaled().Name,
		"how long things take: scaled, made for comparison, or published, the authors' own numbers")
	cmd.Flags().StringVar(&o.qualities, "qualities", "", "of each member's host, from rank 1, 0 to 100, with commas (bully-quality)")
}

func electionsHelp() string {
	var b strings.Builder
	b.WriteString("Runs every algorithm with the same seeds and faults, and prints what each costs and how it breaks.\n\nAlgorithms:\n")
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
	return b.String()
}

// prepare checks the flags.
func (c *comparison) prepare(o *choice) (err error) {
	if c.asJSON && c.asMarkdown || c.asPage && (c.asJSON || c.asMarkdown) {
		return errors.New("--json, --markdown and --html: choose one")
	}
	p := &c.plan
	p.Algorithms, p.Scenarios, c.measures = elections.Algorithms(), elections.Scenarios(), elections.Measures()
	if o.algorithms != allNames {
		p.Algorithms, err = find(o.algorithms, elections.FindAlgorithm)
	}
	if err == nil && o.scenarios != allNames {
		p.Scenarios, err = find(o.scenarios, elections.FindScenario)
	}
	if err == nil && o.measures != allNames {
		c.measures, err = find(o.measures, elections.FindMeasure)
	}
	if err == nil {
		p.Sizes, err = numbers[int]("--sizes", o.sizes)
	}
	if err == nil {
		p.First, p.Seeds, err = seedRange(o.seeds)
	}
	if err == nil {
		p.Setup, err = o.setup()
	}
	if err == nil {
		err = p.Validate()
	}
	return err
}

// setup returns the configuration of the members, except for their number.
func (o *choice) setup() (elections.Setup, error) {
	candidates, err1 := numbers[elections.Rank]("--candidates", o.candidates)
	priorities, err2 := numbers[int]("--priorities", o.priorities)
	changes, err3 := priorityChanges(o.changes)
	qualities, err4 := numbers[int]("--qualities", o.qualities)
	times, err5 := elections.FindTimes(o.times)
	s := elections.Setup{
		Times: times, Candidates: candidates, Priorities: priorities, Wins: o.wins, Changes: changes,
		Qualities: qualities,
	}
	return s, errors.Join(err1, err2, err3, err4, err5)
}

// priorityChanges reads "10s:3=255,20s:3=-1".
func priorityChanges(text string) (all []elections.PriorityChange, err error) {
	if text == "" {
		return nil, nil
	}
	for _, field := range strings.Split(text, ",") {
		after, what, _ := strings.Cut(field, ":")
		member, priority, _ := strings.Cut(what, "=")
		t, err1 := time.ParseDuration(after)
		r, err2 := strconv.Atoi(member)
		p, err3 := strconv.Atoi(priority)
		if errors.Join(err1, err2, err3) != nil {
			return nil, fmt.Errorf("--priority-changes %q: it takes AFTER:MEMBER=PRIORITY, such as 10s:3=255, several with commas", field)
		}
		all = append(all, elections.PriorityChange{After: t, Member: elections.Rank(r), Priority: p})
	}
	return all, nil
}

// find looks names up, in the order in which they were given, each once.
func find[T any](names string, lookUp func(string) (T, error)) ([]T, error) {
	var found []T
	seen := map[string]bool{}
	for _, name := range strings.Split(names, ",") {
		one, err := lookUp(name)
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("%q is named twice", name)
		}
		seen[name] = true
		found = append(found, one)
	}
	return found, nil
}

func numbers[T ~int](flag, text string) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var all []T
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no number", flag, field)
		}
		all = append(all, T(n))
	}
	return all, nil
}

// seedRange reads "1-100", or one seed.
func seedRange(text string) (first uint64, seeds int, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 62)
	last, err2 := strconv.ParseUint(high, 10, 62)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("--seeds %q: it takes FIRST-LAST, such as 1-100, or one number", text)
	}
	if last < first || last-first >= elections.SeedsMax {
		return 0, 0, fmt.Errorf("--seeds %q: it takes 1 to %d seeds, the first not above the last", text, elections.SeedsMax)
	}
	return first, int(last-first) + 1, nil
}

func (c *comparison) run(cmd *cobra.Command) error {
	out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
	finish := func() {}
	if isTerminal(errOut) {
		bar := progressbar.NewOptions(c.plan.Runs(), progressbar.OptionSetWriter(errOut), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetDescription("runs"), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
		c.plan.Done = func(runs int) { _ = bar.Add(runs) } // it is only a picture
		finish = func() { _ = bar.Finish() }
	}
	usual := debug.SetGCPercent(gcPercent)
	cells, err := c.plan.Compare(cmd.Context())
	debug.SetGCPercent(usual)
	finish()
	if err != nil {
		return err
	}
	return c.print(cmd.Context(), out, cells)
}

func (c *comparison) print(ctx context.Context, out io.Writer, cells []elections.Cell) error {
	switch {
	case c.asPage:
		return electionpage.Write(out, &c.plan, cells, c.measures)
	case c.asJSON:
		return elections.NewReport(&c.plan, cells, c.measures).Write(out)
	case c.asMarkdown:
		return errors.Join(elections.WriteMarkdown(out, &c.plan, cells, c.measures), c.printAuthors(ctx, out))
	}
	return elections.WriteTable(out, &c.plan, cells, c.measures)
}

// printAuthors runs and prints the second comparison of docs/elections.md.
func (c *comparison) printAuthors(ctx context.Context, out io.Writer) error {
	second, ok := c.plan.AuthorsPlan()
	if !ok {
		return nil
	}
	second.Done = nil
	cells, err := second.Compare(ctx)
	if err != nil {
		return err
	}
	return elections.WriteAuthors(out, &second, cells, c.measures)
}

// newElectionsTrace prints one run, for a diagram.
func newElectionsTrace() *cobra.Command {
	var chosen choice
	cmd := &cobra.Command{
		Use: "trace ALGORITHM SCENARIO N SEED", Short: "One run again, as its records, one a line",
		Long: `Runs one seed of an algorithm in a scenario again, and prints its records as JSON, one a line, for a program to read.
raftlab elections --html draws such runs; raftlab trace shows other files, those of the simulator and of nodes.`,
		Args: usage.Args(cobra.ExactArgs(4)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := traceElection(args, &chosen, out); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	chosen.flags(cmd)
	return cmd
}

func traceElection(args []string, o *choice, out io.Writer) error {
	a, err1 := elections.FindAlgorithm(args[0])
	s, err2 := elections.FindScenario(args[1])
	n, err3 := strconv.Atoi(args[2])
	seed, err4 := strconv.ParseUint(args[3], 10, 62)
	if err3 != nil || err4 != nil {
		return fmt.Errorf("n %q, seed %q: both take one whole number; %w", args[2], args[3], usage.Err)
	}
	setup, err3 := o.setup()
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	setup.N = n
	if err := setup.Validate(); err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	var failed error
	encoder := json.NewEncoder(out)
	_, err := elections.Run(a, s, &setup, seed, func(r elections.Record) {
		if failed == nil {
			failed = encoder.Encode(r)
		}
	})
	if err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	return failed
}
