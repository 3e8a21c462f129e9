package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitDamaged = 3
)

const exitHelp = `Exit codes: 0 done; 1 failed: there is no store, or it is in use, or another release is needed for it; 2 bad
usage; 3 the store is damaged or marked, or the backup is damaged: no member runs on it. No command but those that say so
changes anything.`

// commands are the subcommands. Each is in a file of its own.
var commands = []func() *cobra.Command{newInspect, newEntries, newVerify, newRecover, newBackup, newRestore}

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(errOut, "raftctl:", err) // there is nowhere to report a failure
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var corrupt *raft.CorruptError
	var backup *storage.DamagedBackupError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, usage.Err):
		return exitUsage
	case errors.As(err, &corrupt), errors.As(err, &backup), errors.Is(err, errUnsound):
		return exitDamaged
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "raftctl",
		Short: "Look into the data directory of a stopped member",
		Long: `raftctl reads the data directory of a member that does not run, of any program that is built on this library. While it
reads, no member can start there.

` + exitHelp,
		Example: `  raftctl inspect /var/lib/raftkv
  raftctl entries /var/lib/raftkv --from 120 --to 140
  raftctl verify /var/lib/raftkv`,
		Version:       "raftctl " + cmp.Or(node.Release(), "built without a version"),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(usage.Flag)
	for _, command := range commands {
		root.AddCommand(command())
	}
	return root
}

// jsonFlag adds the flag --json.
func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, for scripts")
}

// printJSON prints a value for scripts.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// printer prints text, and keeps the first error.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

// line prints a line of a table: a name and a value.
func (p *printer) line(name, format string, args ...any) {
	p.printf("%-15s"+format+"\n", append([]any{name}, args...)...)
}

// counted returns the number with the noun.
func counted[N int | int64 | uint64 | raft.Index](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
