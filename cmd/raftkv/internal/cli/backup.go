package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/size"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
)

const backupHelp = `backup takes a backup of the cluster while it runs, and writes it to FILE. The backup has every key as of one moment, with
everything that was acknowledged before. The command asks the members in the order followers, then the leader, until one gives it a
backup. The member takes a snapshot first, and sends it no faster than its --snapshot-rate.

The backup is written to FILE.part, synced, read and checked. Only then it gets the name FILE, which must not exist. So FILE is
complete, whatever happens. See docs/recovery.md for what a backup is good for.`

func newBackup(r *reach) *cobra.Command {
	return &cobra.Command{
		Use:     "backup FILE",
		Short:   "Take a backup of the cluster while it runs",
		Long:    backupHelp,
		Example: "  raftkv backup /backups/monday\n  raftkv backup monday --server http://10.0.0.2:8080",
		Args:    usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			urls, err := r.servers()
			if err != nil {
				return err
			}
			began, name := time.Now(), args[0]
			var info storage.BackupInfo
			var bytes int64
			err = files.WriteWhole(name, func(f *os.File) (err error) {
				if err = fetchBackup(cmd.Context(), r, urls, f); err == nil {
					info, bytes, err = verifyBackup(cmd.Context(), f)
				}
				return err
			})
			if err != nil {
				return err
			}
			return sayDone(cmd.OutOrStdout(), "%s: a backup of entry %d of cluster %s, taken by %s: %s in %v",
				name, info.Last.Index, info.Cluster, info.ID, size.Format(bytes), time.Since(began).Round(time.Millisecond))
		},
	}
}

// fetchBackup asks one member after another, the leader last.
func fetchBackup(ctx context.Context, r *reach, urls []string, f *os.File) error {
	reports := askAll(ctx, r, urls)
	slices.SortStableFunc(reports, func(a, b report) int { return lateness(a) - lateness(b) })
	var failed error
	for _, asked := range reports {
		if asked.Status == nil {
			failed = errors.Join(failed, asked.failure)
			continue
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
		err := fetchFrom(ctx, r, asked.URL, f)
		var unwritten *fs.PathError // the file is at fault: no other member can help
		if err == nil || ctx.Err() != nil || errors.As(err, &unwritten) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return &exitError{exitFailed, fmt.Errorf("no member gave a backup: %w", failed)}
}

// lateness is 1 for a leader, which has other work.
func lateness(r report) int {
	if r.Status != nil && rank(r.Status) == leads {
		return 1
	}
	return 0
}

// fetchFrom copies the backup of one member. It gives up when no byte has come for r.timeout.
func fetchFrom(ctx context.Context, r *reach, url string, to io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(r.timeout, func() { cancel(fmt.Errorf("nothing came within %v (--timeout)", r.timeout)) })
	defer idle.Stop()
	shared := client.NewHTTP(1, 0)
	defer shared.CloseIdleConnections()
	return client.New(url, shared).Backup(ctx, resetting{to, idle, r.timeout})
}

// resetting restarts a timer with each write.
type resetting struct {
	io.Writer
	idle  *time.Timer
	after time.Duration
}

func (r resetting) Write(p []byte) (int, error) {
	r.idle.Reset(r.after)
	return r.Writer.Write(p)
}

// verifyBackup reads the whole file, and returns an error unless it is complete and sound.
func verifyBackup(ctx context.Context, f *os.File) (info storage.BackupInfo, bytes int64, err error) {
	if bytes, err = f.Seek(0, io.SeekCurrent); err != nil {
		return info, 0, err
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return info, 0, err
	}
	info, err = storage.VerifyBackup(ctx, f)
	return info, bytes, err
}
