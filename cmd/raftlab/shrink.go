package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/zoo"
	"github.com/coxswain/raft/internal/usage"
)

// huntMax bounds the number of seeds that shrink tries in its search for a seed that fails with a mutant.
const huntMax = 20_000

// shrinking is one call of shrink.
type shrinking struct {
	out, mutant string
	ignored     []string
	attempts    int
	rolls       int
	duration    time.Duration
}

func newShrink() *cobra.Command {
	s := &shrinking{}
	cmd := &cobra.Command{
		Use: "shrink [SEED|FILE]", Short: "Make a failing run as small as possible, and write it as a case",
		Long: `Removes faults, settings, nodes, requests and time from a run as long as the same rule fails, until nothing
more can be removed; then writes a case file, which ends with the trace of the failure in at most 40 lines. The same
run always shrinks to the same case. With --mutant and no seed, it first looks for a seed that the mutant fails.`,
		Args: usage.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.attempts < 1 || s.rolls < 1 || s.duration <= 0 {
				return fmt.Errorf("--attempts, --rolls and --duration must be above 0; %w", usage.Err)
			}
			if err := fuzzy.CheckRules("", s.ignored...); err != nil {
				return fmt.Errorf("--ignore: %w; %w", err, usage.Err)
			}
			if len(args) == 0 && s.mutant == "" {
				return fmt.Errorf("shrink takes a seed or a case file, or --mutant to find one; %w", usage.Err)
			}
			if err := writable(s.out); err != nil {
				return err
			}
			return s.run(cmd, args)
		},
	}
	mutantFlag(cmd, &s.mutant)
	cmd.Flags().StringVar(&s.out, "out", "", "the case file to write; default: standard output")
	cmd.Flags().StringSliceVar(&s.ignored, "ignore", nil, "rules that may fail, to show the consequences")
	cmd.Flags().IntVar(&s.attempts, "attempts", 200_000, "maximum number of runs")
	cmd.Flags().IntVar(&s.rolls, "rolls", 128, "number of other random runs that each reduction is tried with")
	cmd.Flags().DurationVar(&s.duration, "duration", 10*time.Minute, "time after which the smallest case so far is written")
	return cmd
}

// writable checks that a file can be written. shrink calls it before it spends minutes on the contents.
func writable(path string) error {
	if path == "" {
		return nil
	}
	_, missing := os.Stat(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if missing != nil {
		_ = os.Remove(path) // it did not exist before
	}
	return file.Close()
}

func (s *shrinking) run(cmd *cobra.Command, args []string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), s.duration)
	defer cancel()
	if len(args) == 0 && s.mutant != zoo.Living() {
		return errors.Join(elsewhereAs(cmd, s.mutant), s.soundWithout())
	}
	if len(args) == 0 {
		seed, err := s.hunt(ctx)
		if err != nil {
			return err
		}
		args = []string{seed}
	}
	t, elsewhere, err := aim(cmd, args[0], s.mutant)
	if elsewhere {
		return errors.Join(err, s.soundWithout())
	}
	if err != nil {
		return err
	}
	if len(s.ignored) > 0 {
		t.Ignored = s.ignored
	}
	began := time.Now()
	bar := newBar(cmd.ErrOrStderr(), "runs")
	small, err := fuzzy.Shrink(ctx, t.Case, fuzzy.ShrinkOptions{Attempts: s.attempts, Rolls: s.rolls, Progress: func(now *fuzzy.Shrunk) {
		bar(fmt.Sprintf("%s: %d nodes, %d events", now.Failure.Rule, now.Case.Profile.Voters+now.Case.Profile.Learners, now.Result.Events))
	}})
	if err != nil {
		return fmt.Errorf("%s %w", t.name, err)
	}
	bar("")
	bounded := "nothing more can be removed"
	if !small.Minimal {
		bounded = "a limit ended the search"
	}
	cmd.PrintErrf("%s fails %s. %d reductions in %d runs and %.1f s; %s\n  from %s\n  to   %s\n", t.name, small.Failure.Rule,
		small.Taken, small.Attempts, time.Since(began).Seconds(), bounded, small.Before, small.Size())
	small.Case.About = about(&t)
	return s.write(cmd.OutOrStdout(), &small.Case)
}

// about returns comments that describe the bug of a case that has no comments.
func about(t *target) []string {
	mutants, err := zoo.Choose([]string{t.Mutant})
	if len(t.About) > 0 || t.Mutant == "" || err != nil {
		return t.About
	}
	m := &mutants[0]
	text := []string{upper(m.Rule) + ".", fmt.Sprintf("Mutant %s breaks this: %s.", m.ID, m.Bug)}
	if len(t.Ignored) > 0 {
		text = append(text, "The rules that notice it first are ignored, to show its consequences.")
	}
	return text
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// hunt looks for a seed that fails in this process. This process is a build with the mutant.
func (s *shrinking) hunt(ctx context.Context) (string, error) {
	mutants, err := zoo.Choose([]string{s.mutant})
	if err != nil {
		return "", fmt.Errorf("%w; %w", err, usage.Err)
	}
	profiles := mutants[0].Hunted()
	for i := 0; i < huntMax && ctx.Err() == nil; i++ {
		seed := fuzzy.Seed{Profile: profiles[i%len(profiles)], Number: uint64(i / len(profiles))}
		c, err := fuzzy.CaseOf(seed)
		if err != nil {
			return "", err
		}
		c.Ignored = s.ignored
		if r := fuzzy.RunCase(&c, nil); r.Failure != nil {
			return seed.String(), nil
		}
	}
	return "", fmt.Errorf("no seed that mutant %s fails was found in time", s.mutant)
}

// soundWithout checks the case that the process of a mutant has written. The case must fail because of the mutant, so it must
// pass without the mutant.
func (s *shrinking) soundWithout() error {
	if s.out == "" {
		return nil
	}
	c, err := fuzzy.LoadCase(s.out)
	if err != nil {
		return nil // the child has printed why there is no case
	}
	if r := fuzzy.RunCase(&c, nil); r.Failure != nil {
		return fmt.Errorf("%s fails without the mutant, too: %w", s.out, r.Failure)
	}
	return nil
}

func (s *shrinking) write(out io.Writer, c *fuzzy.Case) (err error) {
	if s.out != "" {
		file, failed := os.Create(s.out)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	return c.Write(out)
}

// newBar returns a function that updates a progress bar of unknown length; an empty text removes the bar. Without a terminal,
// the function does nothing.
func newBar(errOut io.Writer, unit string) func(text string) {
	if !isTerminal(errOut) {
		return func(string) {}
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(errOut), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond))
	return func(text string) {
		if text == "" {
			_ = bar.Finish() // the bar is decoration
			return
		}
		bar.Describe(text)
		_ = bar.Add(1)
	}
}
