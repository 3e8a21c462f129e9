package zoo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/internal/resume"
)

const (
	// rangesMax bounds --ranges.
	rangesMax = 1000
	// mustKillBudget is the budget of --must-kill. It is large enough that the number of seeds decides the verdict, even on a
	// busy machine.
	mustKillBudget = 5 * time.Minute
)

// request is one call of the command.
type request struct {
	options  Options
	mustKill bool
	list     bool
	asJSON   bool
	markdown bool
	resume   string // a path, or ""
}

// Command returns the command that hunts mutants and prints the scoreboard. It must run in a checkout of the
// module.
func Command() *cobra.Command {
	var r request
	cmd := &cobra.Command{
		Use:   "zoo [mutant...]",
		Short: "Which of the known bugs the simulator would have caught, and how soon",
		Long: `Builds the library with every bug of the zoo in it and, for each, runs seeds of the simulator until one
notices. It runs in a checkout of the module and needs the go command. The exit status is 0 if every mutant
was killed or lives for a reason that the scoreboard gives, the canary died, and the no-op did not.

With --resume FILE, zoo saves its progress in FILE after each mutant. After an interrupt, a kill or a crash the same
command continues from there. The file belongs to one build of the program, one choice of mutants and one set of limits;
another hunt is refused. Remove it to begin anew.`,
		Example: `  raftlab zoo E01 R11
  raftlab zoo --ranges 5 --resume progress.json --json > zoo.json`,
		Args: cobra.ArbitraryArgs,
		RunE: r.run,
	}
	flags := cmd.Flags()
	flags.IntVar(&r.options.Seeds, "seeds", 2000, "seeds for each mutant, at most")
	flags.DurationVar(&r.options.Budget, "budget", 30*time.Second, "wall time for each mutant, at most")
	flags.IntVar(&r.options.Ranges, "ranges", 1, "ranges of seeds to hunt in; figures are medians")
	flags.Uint64Var(&r.options.First, "first", 0, "number of the first seed")
	flags.IntVar(&r.options.Workers, "workers", runtime.GOMAXPROCS(0), "mutants hunted at once")
	flags.BoolVar(&r.mustKill, "must-kill", false, "only the ones that every change is checked with, each until it dies by a scenario, a test or a seed")
	flags.BoolVar(&r.list, "list", false, "print the mutants and hunt none")
	flags.BoolVar(&r.asJSON, "json", false, "print the scoreboard as JSON")
	flags.StringVar(&r.resume, "resume", "", "save the progress in this file, and continue from what it holds")
	flags.BoolVar(&r.markdown, "markdown", false, "print the scoreboard as a Markdown table")
	return cmd
}

func (r *request) run(cmd *cobra.Command, ids []string) error {
	mutants, err := r.chosen(ids)
	if err != nil {
		return err
	}
	if r.list {
		return list(cmd.OutOrStdout(), mutants)
	}
	if r.options.Verdict = r.mustKill; r.mustKill && !cmd.Flags().Changed("budget") {
		r.options.Budget = mustKillBudget
	}
	var done []Report
	file, err := resume.Open(r.resume, r.campaign(ids), &done)
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	if left := without(mutants, done); len(left) > 0 {
		dir, err := os.MkdirTemp("", "zoo-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		b, err := Build(cmd.Context(), dir)
		if err != nil {
			return err
		}
		if done, err = r.hunt(cmd, b, left, file, done); err != nil {
			return err
		}
	}
	order := idsOf(mutants)
	slices.SortFunc(done, func(a, b Report) int { return cmp.Compare(slices.Index(order, a.ID), slices.Index(order, b.ID)) })
	return r.print(cmd, done)
}

// without returns the mutants that have no report yet.
func without(mutants []Mutant, done []Report) []Mutant {
	return slices.DeleteFunc(slices.Clone(mutants), func(m Mutant) bool {
		return slices.ContainsFunc(done, func(one Report) bool { return one.ID == m.ID })
	})
}

// campaign returns the command together with all settings that determine its results.
func (r *request) campaign(ids []string) string {
	o := &r.options
	return strings.TrimSpace(fmt.Sprintf("zoo --seeds %d --budget %v --ranges %d --first %d --must-kill=%v %s",
		o.Seeds, o.Budget, o.Ranges, o.First, r.mustKill, strings.Join(ids, " ")))
}

// hunt hunts the remaining mutants. It saves each report as soon as the report is complete. It returns the new reports
// together with the earlier ones.
func (r *request) hunt(cmd *cobra.Command, b *Binary, left []Mutant, file *resume.File, done []Report) ([]Report, error) {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	all := len(done) + len(left)
	r.options.Done = func(one Report) {
		done = append(done, one)
		cmd.PrintErrf("%3d of %d  %-7s %s %s\n", len(done), all, one.ID, one.Verdict(), one.Rule)
		if err := file.Save(done); err != nil {
			cancel(fmt.Errorf("--resume: %w", err))
		}
	}
	_, err := b.Hunt(ctx, left, r.options)
	if err != nil && file != nil {
		err = fmt.Errorf("%w; %d of %d mutants are done, and the same command continues from there", err, len(done), all)
	}
	return done, err
}

func list(w io.Writer, mutants []Mutant) error {
	for _, m := range mutants {
		if _, err := fmt.Fprintf(w, "%-7s %s: %s\n", m.ID, m.Rule, m.Bug); err != nil {
			return err
		}
	}
	return nil
}

// chosen returns the mutants that ids names. If ids is empty, it returns all mutants, or with --must-kill the must-kill set.
// The result includes the keepers of the zoo.
func (r *request) chosen(ids []string) ([]Mutant, error) {
	if r.options.Seeds < 1 || r.options.Workers < 1 || r.options.Workers > 256 || r.options.Budget <= 0 {
		return nil, fmt.Errorf("%w: --seeds and --budget must be above 0, --workers from 1 to 256", ErrUsage)
	}
	if r.options.Ranges < 1 || r.options.Ranges > rangesMax {
		return nil, fmt.Errorf("%w: --ranges takes 1 to %d", ErrUsage, rangesMax)
	}
	if r.asJSON && r.markdown || r.asJSON && r.list || r.markdown && r.list {
		return nil, fmt.Errorf("%w: --json, --markdown and --list exclude each other", ErrUsage)
	}
	mutants, err := Choose(ids)
	if err != nil {
		return nil, err
	}
	if r.mustKill {
		mutants = slices.DeleteFunc(mutants, func(m Mutant) bool { return !m.MustKill && m.ID != Noop })
	}
	if len(ids) == 0 {
		return mutants, nil
	}
	mutants = slices.DeleteFunc(mutants, func(m Mutant) bool { return m.ID == Canary || m.ID == Noop })
	return slices.Concat(keepers, mutants), nil
}

func (r *request) print(cmd *cobra.Command, reports []Report) error {
	write := WriteText
	switch {
	case r.asJSON:
		write = WriteJSON
	case r.markdown:
		write = WriteMarkdown
	}
	if err := write(cmd.OutOrStdout(), reports); err != nil {
		return err
	}
	if err := Honest(reports); err != nil {
		return err
	}
	if alive := Survivors(reports); len(alive) > 0 {
		return fmt.Errorf("zoo: %d mutants survive: %s", len(alive), strings.Join(alive, ", "))
	}
	return nil
}
