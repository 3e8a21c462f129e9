package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/usage"
)

// newReplay returns the command that runs one seed or case again and prints how the run ended. If the run fails, the command
// prints the last lines of the trace.
func newReplay() *cobra.Command {
	var lines int
	var profile bool
	var mutant string
	cmd := &cobra.Command{
		Use: "replay SEED|FILE", Short: "Run one seed or case again, and print how it ends", Args: usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return fmt.Errorf("--lines %d: it takes 0 or more; %w", lines, usage.Err)
			}
			t, elsewhere, err := aim(cmd, args[0], mutant)
			if err != nil || elsewhere {
				return err
			}
			last := &lastLines{max: lines}
			result := fuzzy.RunCase(&t.Case, fuzzy.Text(last, false))
			out := bufio.NewWriter(cmd.OutOrStdout()) // Flush returns its error
			if profile {
				text, _ := json.MarshalIndent(result.Profile, "", "  ") // plain data
				_, _ = fmt.Fprintln(out, string(text))
			}
			if result.Failure != nil {
				_, _ = fmt.Fprintf(out, "%s", last.text())
			}
			_, _ = fmt.Fprintf(out, "%s: %v of virtual time, %d events, %d faults, %d elections, %d entries committed, hash %016x\n",
				t.name, result.Virtual, result.Events, result.Faults, result.Elections, result.Commits, result.Hash)
			if result.Profile.Beyond {
				_, _ = fmt.Fprintln(out, "beyond the fault budget: nodes may stop, and say so, but never lie")
			}
			if result.Excuse != "" {
				_, _ = fmt.Fprintln(out, "no second phase:", result.Excuse)
			}
			return errors.Join(out.Flush(), t.verdict(result))
		},
	}
	mutantFlag(cmd, &mutant)
	cmd.Flags().IntVar(&lines, "lines", 60, "number of trace lines to print before a failure")
	cmd.Flags().BoolVar(&profile, "show-profile", false, "print the profile that the seed draws")
	return cmd
}

// lastLines keeps the last lines that are written to it.
type lastLines struct {
	max   int
	lines []string
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.lines = append(l.lines, string(p))
	if len(l.lines) > 2*l.max {
		l.lines = append(l.lines[:0], l.lines[len(l.lines)-l.max:]...)
	}
	return len(p), nil
}

func (l *lastLines) text() (s string) {
	for _, line := range l.lines[max(0, len(l.lines)-l.max):] {
		s += line
	}
	return s
}
