package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/size"
	"github.com/coxswain/raft/internal/usage"
	"github.com/spf13/cobra"
)

// snapshotPoll is the interval between checks of a snapshot that is being taken.
const snapshotPoll = 100 * time.Millisecond

func newSnapshot(r *reach) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot [NODE]",
		Short: "Make a member take a snapshot",
		Long: `snapshot makes the named member, or the first server that answers, take a snapshot of its state. It prints the last
entry that the newest snapshot covers. If that covers everything already, none is taken. Either way the log is shortened to
--snapshot-tail-bytes and what followers need. One --server is enough to name any member. Members take snapshots by
themselves, see "raftkv serve --help". Use this command before you stop a member, so that it starts faster, or to see how long a
snapshot takes. If --timeout is shorter than that, the member continues, and "raftkv status" shows its progress.`,
		Example: "  raftkv snapshot n2\n  raftkv snapshot --timeout 5m",
		Args:    usage.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			urls, err := r.servers()
			if err != nil {
				return err
			}
			url, err := urlOf(askAll(cmd.Context(), r, urls), strings.Join(args, ""))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), r.timeout)
			defer cancel()
			shared := client.NewHTTP(1, r.timeout)
			defer shared.CloseIdleConnections()
			taken, err := takeSnapshot(ctx, client.New(url, shared))
			if err != nil {
				return err
			}
			return sayDone(cmd.OutOrStdout(), "%s: the newest snapshot covers entry %d: %s",
				taken.ID, taken.Last, size.Format(taken.Bytes))
		},
	}
}

// urlOf returns the URL of the member with this id, as that member or another server reports it. Without an id, it returns the
// URL of the first server that answers.
func urlOf(reports []report, id string) (string, error) {
	var ids []string
	var members []admin.MemberStatus
	var failures []error
	for _, r := range reports {
		switch {
		case r.Status == nil && id != "" && r.called == id:
			return "", r.failure
		case r.Status == nil:
			failures = append(failures, r.failure)
		case id == "" || r.ID == id:
			return r.URL, nil
		default:
			ids, members = append(ids, r.ID), append(members, r.Members...)
		}
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("no server answers: %w", errors.Join(failures...))
	}
	for _, m := range members {
		switch {
		case m.ID != id:
			ids = append(ids, m.ID)
		case m.URL == "":
			return "", fmt.Errorf("no server that answers knows the URL of %s: name it with --server", id)
		default:
			return m.URL, nil
		}
	}
	slices.Sort(ids)
	return "", fmt.Errorf("no member is called %q: there are %s", id, strings.Join(slices.Compact(ids), ", "))
}

// takeSnapshot makes a member take a snapshot, and waits until it is taken.
func takeSnapshot(ctx context.Context, c *client.Client) (admin.Snapshotted, error) {
	taken, err := c.Snapshot(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return taken, errors.New("no answer within --timeout; the member may be taking it: raftkv status shows its progress")
	case err != nil || taken.Taken:
		return taken, err
	}
	for last := (admin.Snapshot{}); ; {
		select {
		case <-ctx.Done():
			return taken, fmt.Errorf("%s is still taking it%s: raftkv status shows its progress", taken.ID, progress(last.Taking))
		case <-time.After(snapshotPoll):
		}
		status, err := c.Status(ctx)
		if err != nil {
			continue // the member may be busy; ctx bounds the wait
		}
		last = status.Snapshot
		switch {
		case last.Last >= taken.Last:
			taken.Last, taken.Bytes = last.Last, last.Bytes
			return taken, nil
		case last.Taking == nil && last.Error != "":
			return taken, api.Errorf(admin.SnapshotFailed, "look at the log of "+taken.ID+"; it tries again by itself", "%s", last.Error)
		}
	}
}

// progress returns the progress of a transfer, as in ", 412 MiB of 1.0 GiB, 40 %"; "" without a transfer.
func progress(t *admin.Transfer) string {
	switch {
	case t == nil:
		return ""
	case t.Total <= 0:
		return ", " + size.Format(t.Done)
	}
	return fmt.Sprintf(", %s of %s, %d %%", size.Format(t.Done), size.Format(t.Total), t.Done*100/t.Total)
}

// printSnapshots prints a line about the log and the snapshots of each server that takes snapshots.
func printSnapshots(out io.Writer, reports []report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range reports {
		if r.Status == nil || r.Snapshot.None != "" || r.LogBytes == 0 {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\tlog of %s behind entry %d\t%s\n", // Flush returns the error
			r.ID, size.Format(r.LogBytes), r.Base, strings.Join(describeSnapshot(r.Snapshot), "; "))
	}
	return table.Flush()
}

// describeSnapshot describes the snapshot of a member, and what the member is doing with snapshots.
func describeSnapshot(s admin.Snapshot) (parts []string) {
	newest := "no snapshot"
	if s.Last > 0 {
		newest = fmt.Sprintf("snapshot of entry %d, %s", s.Last, size.Format(s.Bytes))
	}
	if s.AgeMS >= 0 && s.Last > 0 {
		newest += fmt.Sprintf(", %v ago", time.Duration(s.AgeMS*float64(time.Millisecond)).Round(time.Second))
	}
	parts = append(parts, newest)
	for _, row := range []struct {
		transfer *admin.Transfer
		does     string // followed by the peer
	}{
		{s.Taking, "takes a snapshot"}, {s.Restoring, "restores a snapshot"},
		{s.Receiving, "receives a snapshot from "}, {s.Sending, "sends a snapshot to "},
	} {
		if row.transfer != nil {
			parts = append(parts, row.does+row.transfer.Peer+progress(row.transfer)+prefixed(", ", timeLeft(*row.transfer)))
		}
	}
	for _, row := range []struct{ what, err string }{{"was not taken", s.Error}, {"was not sent", s.SendErr}, {"was not received", s.RecvErr}} {
		if row.err != "" {
			parts = append(parts, "the last one "+row.what+": "+row.err)
		}
	}
	return parts
}
