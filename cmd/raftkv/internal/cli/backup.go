package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coxswain/raft/internal/backup"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/size"
	"github.com/coxswain/raft/internal/usage"
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
			if err := absent(name); err != nil {
				return err
			}
			head, bytes, err := takeBackup(cmd.Context(), r, urls, name)
			if err != nil {
				return err
			}
			return sayDone(cmd.OutOrStdout(), "%s: a backup of entry %d of cluster %s, taken by %s: %s in %v",
				name, head.Base.ID.Index, head.Cluster, head.Member.ID, size.Format(bytes), time.Since(began).Round(time.Millisecond))
		},
	}
}

// absent returns an error if there is something under the name already.
func absent(name string) error {
	switch _, err := os.Lstat(name); {
	case err == nil:
		return fmt.Errorf("%s exists already, and nothing was changed: name another file", name)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// takeBackup writes a backup to the file, which then is complete and durable. If it fails, there is no such file.
func takeBackup(ctx context.Context, r *reach, urls []string, name string) (head backup.Head, bytes int64, err error) {
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return head, 0, fmt.Errorf("%s exists already: another backup is being written to it, or was killed: then remove it", part)
	}
	if err != nil {
		return head, 0, err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err == nil {
			err = absent(name)
		}
		if err == nil {
			err = os.Rename(part, name)
		}
		if err != nil {
			_ = os.Remove(part) // it is no backup, whatever its name
			return
		}
		err = files.OS.SyncDir(filepath.Dir(name))
	}()
	if err = fetchBackup(ctx, r, urls, f); err != nil {
		return head, 0, err
	}
	if err = f.Sync(); err != nil {
		return head, 0, err
	}
	return readBackup(f)
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

// readBackup reads a whole backup, and returns an error unless it is complete and sound.
func readBackup(f *os.File) (head backup.Head, bytes int64, err error) {
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return head, 0, err
	}
	b, err := backup.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return head, 0, err
	}
	if _, err = io.Copy(io.Discard, b); err != nil {
		return head, 0, err
	}
	if _, err = b.Entry(); err != io.EOF {
		return head, 0, errors.Join(errors.New("the backup goes on after its state"), err)
	}
	info, err := f.Stat()
	if err != nil {
		return head, 0, err
	}
	return b.Head(), info.Size(), nil
}
