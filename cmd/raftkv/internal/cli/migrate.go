package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/member"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

const migrateHelp = `migrate moves the log of a stopped member to segments, or back to bbolt (the file raft.db in its directory).
"raftkv serve --log" chooses only for a new member. Nothing that the member has stored changes, and the other members notice
nothing: stop one member, move its log, start it again, and continue with the next one when "raftkv status" says that all is
well.

The log is checked, copied, and the copy is checked before it counts. If the command or the machine is interrupted, the whole
log is still in one of the two places: start the member, or repeat the command. Both copies need room at the same time.
raft.db does not become smaller; what the log took there is free for what comes.

An earlier release does not open a store in segments. Go back to bbolt before you go back to that release.`

func newMigrate() *cobra.Command {
	var data, to string
	cmd := &cobra.Command{
		Use:   "migrate --data DIR --to segments|bbolt",
		Short: "Move the log of a stopped member to segments, or back to bbolt",
		Long:  migrateHelp,
		Example: `  raftkv migrate --data /var/lib/raftkv --to segments
  raftkv migrate --data /var/lib/raftkv --to bbolt      # before v0.2.0 is to run on it again`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if data == "" {
				return fmt.Errorf("--data is missing: name the directory of the member; %w", usage.Err)
			}
			if kind := storage.Kind(to); kind != storage.KindSegments && kind != storage.KindBolt {
				return fmt.Errorf("--to %q: use %s or %s; %w", to, storage.KindSegments, storage.KindBolt, usage.Err)
			}
			return migrate(cmd.Context(), data, storage.Kind(to), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "directory of the member's data (required)")
	cmd.Flags().StringVar(&to, "to", "", "where to move its log: segments or bbolt (required)")
	return cmd
}

func migrate(ctx context.Context, dir string, to storage.Kind, out, errOut io.Writer) error {
	p := newMoveProgress(errOut)
	done, err := storage.Migrate(ctx, dir, to, storage.MigrateOptions{Progress: p.report})
	p.end()
	if err != nil {
		return explainMigrate(dir, err)
	}
	if done.From == done.To {
		_, err = fmt.Fprintf(out, "the log is in %s already: %d entries\n", done.To, done.Entries)
		return err
	}
	return sayDone(out, "moved the log from %s to %s: %d entries", done.From, done.To, done.Entries)
}

// explainMigrate names the flag and the remedy.
func explainMigrate(dir string, err error) error {
	info, statErr := os.Stat(dir)
	switch {
	case statErr == nil && !info.IsDir():
		return fmt.Errorf("--data %q: that is a file: name the directory that %s is in", dir, storage.BoltFile)
	case errors.Is(err, storage.ErrUnfinished):
		return &exitError{exitUnknown, fmt.Errorf("--data %q: %w", dir, err)}
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("--data %q: interrupted: the log is where it was", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--data %q: there is no store (no file %s): name the directory of a member",
			dir, storage.BoltFile)
	case errors.Is(err, raft.ErrLocked):
		return fmt.Errorf("--data %q: a process has the store open: stop the member first", dir)
	}
	return fmt.Errorf("--data %q: %w", dir, member.WithRemedy(err))
}

// movePause is the interval between lines of progress, without a terminal.
const movePause = 5 * time.Second

// moveProgress shows how far a log has been copied.
type moveProgress struct {
	out  io.Writer
	bar  *progressbar.ProgressBar // nil without a terminal
	next time.Time
}

func newMoveProgress(out io.Writer) *moveProgress {
	p := &moveProgress{out: out}
	if isTerminal(out) {
		p.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(out), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(benchTick),
			progressbar.OptionSetDescription("checking the log"))
		_ = p.bar.RenderBlank() // the bar is decoration
	}
	return p
}

// report shows the progress of the copy. The migration calls it after the check of the log, and again as the copy grows.
func (p *moveProgress) report(copied, all uint64) {
	what := fmt.Sprintf("copied %d of %d entries", copied, all)
	if copied == all {
		what += ", checking the copy"
	}
	if p.bar == nil {
		if now := time.Now(); !now.Before(p.next) || copied == all {
			p.next = now.Add(movePause)
			_, _ = fmt.Fprintln(p.out, what) // a lost line of progress is no failure
		}
		return
	}
	p.bar.ChangeMax64(int64(min(all, math.MaxInt64-1)) + 1) // the last step is the check of the copy
	p.bar.Describe(what)
	_ = p.bar.Set64(int64(min(copied, math.MaxInt64-1))) // as above
}

func (p *moveProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}
