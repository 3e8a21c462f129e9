package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/usage"
)

// trace is the command of that name.
type trace struct {
	chosen choice
	format string
	all    bool
}

func newTrace() *cobra.Command {
	t := &trace{}
	cmd := &cobra.Command{
		Use: "trace ALGORITHM SCENARIO N SEED", Short: "Run one seed again, and write what happens",
		Long: `Runs one seed of an algorithm in a scenario again, with N members, and writes what happens: as text, or as NDJSON
(one JSON object a line, times in nanoseconds). electionlab page draws such runs.`,
		Example: `  electionlab trace raft leader-crash 5 1
  electionlab trace bully-a minority 5 1 --all`,
		Args: usage.Args(cobra.ExactArgs(4)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := t.run(args, out); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	t.chosen.flags(cmd)
	cmd.Flags().StringVar(&t.format, "format", "text", "text or ndjson")
	cmd.Flags().BoolVar(&t.all, "all", false, "text: every message, timer and rule, not only decisions")
	return cmd
}

func (t *trace) run(args []string, out io.Writer) error {
	a, err1 := elections.FindAlgorithm(args[0])
	s, err2 := elections.FindScenario(args[1])
	setup, err3 := t.chosen.setup()
	n, err4 := strconv.Atoi(args[2])
	seed, err5 := strconv.ParseUint(args[3], 10, 62)
	if err4 != nil || err5 != nil {
		return fmt.Errorf("n %q, seed %q: both take one whole number; %w", args[2], args[3], usage.Err)
	}
	setup.N = n
	err := errors.Join(err1, err2, err3)
	if err == nil {
		err = setup.CheckUsed(a)
	}
	if err == nil && t.all && t.format != "text" {
		err = fmt.Errorf("--all is for text: the format %s has everything", t.format)
	}
	if err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	var failed error
	var show func(elections.Record)
	switch t.format {
	case "text":
		show = elections.Text(out, t.all)
	case "ndjson":
		encoder := json.NewEncoder(out)
		show = func(r elections.Record) {
			if failed == nil {
				failed = encoder.Encode(r)
			}
		}
	default:
		return fmt.Errorf("--format %q: there are text and ndjson; %w", t.format, usage.Err)
	}
	if _, err = elections.Run(a, s, &setup, seed, show); err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	return failed
}
