package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/elections/internal/electionpage"
	"github.com/coxswain/raft/internal/usage"
)

// comparison is one call of compare or page.
type comparison struct {
	plan     elections.Plan
	measures []elections.MeasureInfo
	chosen   choice
}

const allNames = "all"

// gcPercent lets garbage grow while runs are compared, because the runs keep little memory and produce much garbage.
const gcPercent = 800

func newCompare() *cobra.Command {
	c := &comparison{}
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use: "compare", Short: "Print tables of every algorithm in every scenario",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && asMarkdown {
				return fmt.Errorf("--json and --markdown: choose one; %w", usage.Err)
			}
			cells, err := c.run(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				return elections.NewReport(&c.plan, cells, c.measures).Write(out)
			case asMarkdown:
				err = elections.WriteMarkdown(out, &c.plan, cells, c.measures)
				return errors.Join(err, c.printAuthors(cmd.Context(), out))
			}
			return elections.WriteTable(out, &c.plan, cells, c.measures)
		},
	}
	c.flags(cmd, "3,5,9,25,101")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was measured in every run, as JSON")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print docs/results/elections.md")
	return cmd
}

func newPage() *cobra.Command {
	c := &comparison{}
	cmd := &cobra.Command{
		Use: "page", Short: "Print an HTML page: diagrams to step through side by side, and charts",
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cells, err := c.run(cmd)
			if err != nil {
				return err
			}
			return electionpage.Write(cmd.OutOrStdout(), &c.plan, cells, c.measures)
		},
	}
	c.flags(cmd, "3,5,9")
	return cmd
}

// flags adds the flags that say what is compared.
func (c *comparison) flags(cmd *cobra.Command, sizes string) {
	o := &c.chosen
	o.flags(cmd)
	cmd.Flags().StringVar(&o.algorithms, "algorithms", allNames, "several with commas, or all")
	cmd.Flags().StringVar(&o.scenarios, "scenarios", allNames, "several with commas, or all, which are those of the tables")
	cmd.Flags().StringVar(&o.measures, "measures", allNames, "several with commas, or all")
	cmd.Flags().StringVar(&o.sizes, "sizes", sizes, "how many members; above 25 only in leader-crash")
	cmd.Flags().StringVar(&o.seeds, "seeds", "100",
		"how many, from 1 on, or the first and the last, as in 5-9; above 9 members a tenth of them, above 25 a hundredth")
	cmd.Flags().IntVar(&c.plan.Workers, "workers", runtime.NumCPU(), "runs at the same time; they change nothing in the result")
}

// prepare checks the flags.
func (c *comparison) prepare() (err error) {
	p, o := &c.plan, &c.chosen
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

// find looks up each name once, in the order in which the names are given.
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

// seedRange parses a range of seeds. "100" means a hundred seeds from 1 on; "5-9" means the seeds from 5 to 9.
func seedRange(text string) (first uint64, seeds int, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		low, high = "1", text
	}
	first, err1 := strconv.ParseUint(low, 10, 62)
	last, err2 := strconv.ParseUint(high, 10, 62)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("--seeds %q: it takes how many, such as 100, or FIRST-LAST, such as 5-9", text)
	}
	if last < first || last-first >= elections.SeedsMax {
		return 0, 0, fmt.Errorf("--seeds %q: it takes 1 to %d seeds, the first not above the last", text, elections.SeedsMax)
	}
	return first, int(last-first) + 1, nil
}

// run compares.
func (c *comparison) run(cmd *cobra.Command) ([]elections.Cell, error) {
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, usage.Err)
	}
	errOut, finish := cmd.ErrOrStderr(), func() {}
	if f, ok := errOut.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
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
	return cells, err
}

// printAuthors runs and prints the second comparison of docs/results/elections.md.
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
