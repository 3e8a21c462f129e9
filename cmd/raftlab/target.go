package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/zoo"
	"github.com/coxswain/raft/internal/usage"
)

// target is the run that a command works on: the run of a seed or of a case file.
type target struct {
	fuzzy.Case
	name     string
	expected bool // the case says how its run ends
}

// verdict returns nil if the run ended as expected: without a failure, or with the failure that the case names.
func (t *target) verdict(r fuzzy.Result) error {
	if r.Failure != nil {
		return r.Failure
	}
	if t.expected {
		return t.Verdict(r)
	}
	return nil
}

func mutantFlag(cmd *cobra.Command, mutant *string) {
	cmd.Flags().StringVar(mutant, "mutant", "", "run with this bug of the zoo in the core, see raftlab zoo --list; default: the one that the case names")
}

// aim finds the run for a command. If the run needs a mutant, it needs another build. Then aim runs the command in that build
// and sets elsewhere.
func aim(cmd *cobra.Command, text, mutant string) (t target, elsewhere bool, err error) {
	if t, err = parseTarget(text); err != nil {
		return t, false, err
	}
	own := t.Mutant
	if mutant == "" {
		mutant = own
	}
	t.Mutant = mutant
	if mutant == "" || mutant == zoo.Living() {
		t.expected = t.expected && mutant == own
		return t, false, nil
	}
	return t, true, elsewhereAs(cmd, mutant, text)
}

// parseTarget decides whether the text is a seed or the name of a file. The name of a file has a directory or an extension.
func parseTarget(text string) (t target, err error) {
	t.name = text
	if strings.ContainsAny(text, `/\`) || filepath.Ext(text) == ".txt" {
		t.expected = true
		t.Case, err = fuzzy.LoadCase(text)
	} else {
		var seed fuzzy.Seed
		if seed, err = fuzzy.ParseSeed(text); err == nil {
			t.Case, err = fuzzy.CaseOf(seed)
		} else {
			err = fmt.Errorf("%w; the name of a case file has a / or ends with .txt", err)
		}
	}
	if err != nil {
		return t, fmt.Errorf("%w; %w", err, usage.Err)
	}
	return t, nil
}

// childError holds the exit code of a child process. The child has already printed the reason.
type childError struct{ code int }

func (e *childError) Error() string { return fmt.Sprintf("the mutant's process ended with %d", e.code) }

// elsewhereAs runs a command in a build that contains the mutants.
func elsewhereAs(cmd *cobra.Command, mutant string, args ...string) error {
	if _, err := zoo.Choose([]string{mutant}); err != nil {
		return fmt.Errorf("%w; %w", err, usage.Err)
	}
	dir, err := os.MkdirTemp("", "raftlab-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	lab, err := zoo.BuildLab(cmd.Context(), dir)
	if err != nil {
		return err
	}
	program, env := lab.Command(mutant)
	flags := []string{cmd.Name(), "--mutant=" + mutant}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "mutant" {
			flags = append(flags, "--"+f.Name+"="+strings.Trim(f.Value.String(), "[]")) // a list is printed in brackets
		}
	})
	child := exec.CommandContext(cmd.Context(), program, append(flags, args...)...)
	child.Env, child.Stdout, child.Stderr = env, cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) } // on an interrupt, the child writes what it has
	child.WaitDelay = 10 * time.Second
	err = child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return &childError{exit.ExitCode()}
	}
	return err
}
