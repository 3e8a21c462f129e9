package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect DIR",
		Short: "Print what a member has stored",
		Long: `inspect prints whose store it is, its term and vote, its log, its configuration and its snapshots, and the files that hold
them. It reads the whole log. If something is damaged, it prints what it could read, and ends with 3.`,
		Example: "  raftctl inspect /var/lib/raftkv\n  raftctl inspect /var/lib/raftkv --json",
		Args:    usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := storage.Inspect(cmd.Context(), args[0])
			if found.Kind == "" {
				return err
			}
			var failed error
			if asJSON {
				failed = printJSON(cmd.OutOrStdout(), inspectionOf(args[0], found, err))
			} else {
				failed = printInspection(cmd.OutOrStdout(), found)
			}
			if err == nil {
				err = failed
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printInspection(out io.Writer, i storage.Inspection) error {
	p, s := &printer{out: out}, i.Stored
	if i.ClusterName == "" {
		p.line("member", "none: the store has no owner yet")
	} else {
		p.line("member", "%s, incarnation %v, of cluster %q", i.ID, s.Incarnation, i.ClusterName)
	}
	if s.Mark != nil {
		p.line("mark", "%v, shown by %s in term %d: %s", s.Mark.Kind, s.Mark.By.ID, s.Mark.Term, s.Mark.Detail)
		p.line("", "no member starts on it: %v", s.Mark.Err())
	}
	if i.Cluster == (raft.ClusterID{}) {
		p.line("cluster", "none yet")
	} else {
		p.line("cluster", "%v", i.Cluster)
	}
	p.line("term", "%d, %s", s.Hard.Term, voteText(s.Hard))
	p.line("starts", "%d, the latest with nonce %016x", s.StartCount, s.Lineage.Last().Nonce)
	printLog(p, i)
	printConfiguration(p, i)
	for _, f := range i.Snapshots {
		p.line("snapshot", "%s", snapshotText(f))
	}
	if s.Snapshot.ID.Index > 0 && s.Snapshot.File == (raft.SnapshotID{}) {
		p.line("snapshot", "of entry %v, in the state machine itself", s.Snapshot.ID)
	}
	for _, seen := range s.Memory.Seen {
		p.line("has met", "%s, incarnation %v, start %d, in term %d, at %s", seen.Peer.ID, seen.Peer.Incarnation, seen.Start.Count, seen.Term, seen.Address)
	}
	for _, r := range i.Records {
		p.line("version", "%d of %s (this release reads up to %d)", r.Found, r.Record, r.Newest)
	}
	for _, left := range s.LeftOver {
		p.line("left over", "%s: the next start removes it", left)
	}
	if len(i.Others) > 0 {
		p.line("also there", "%s", strings.Join(i.Others, ", "))
	}
	return p.err
}

func voteText(h raft.HardState) string {
	text := "no vote"
	if h.Vote.ID != "" {
		text = fmt.Sprintf("voted for %s, incarnation %v", h.Vote.ID, h.Vote.Incarnation)
	}
	if h.Leading {
		text += ", and led"
	}
	if h.Losses > 0 {
		text += fmt.Sprintf("; it has lost its leadership %d times", h.Losses)
	}
	if h.Lease > 0 {
		text += fmt.Sprintf("; it may have promised a lease of %v", time.Duration(h.Lease))
	}
	return text
}

func printLog(p *printer, i storage.Inspection) {
	log := i.Stored.Log
	behind := ""
	if log.Base.ID.Index > 0 {
		behind = fmt.Sprintf(", behind entry %v", log.Base.ID)
	}
	if log.Last == log.Base.ID {
		p.line("log", "no entries%s, in %s", behind, i.Kind)
	} else {
		p.line("log", "entries %d to %d%s, in %s", log.Base.ID.Index+1, log.Last.Index, behind, i.Kind)
		p.line("terms", "%s", termsText(log))
	}
	p.line("committed", "up to %d, or further", committed(i.Stored))
	for _, s := range i.Segments {
		holds := "no entry that is needed"
		if s.Last > 0 {
			holds = fmt.Sprintf("entries %d to %d", s.First, s.Last)
		}
		p.line("segment", "%s: %s, %d of %d bytes used", s.File, holds, s.Used, s.Bytes)
	}
	if len(i.Spares) > 0 {
		p.line("spares", "%s", strings.Join(i.Spares, ", "))
	}
}

// termsShown is the maximum number of terms in the text. JSON has all of them.
const termsShown = 8

func termsText(log raft.StoredLog) string {
	runs, parts := log.Runs, []string(nil)
	if more := len(runs) - termsShown; more > 0 {
		parts = append(parts, fmt.Sprintf("%d earlier ones", more))
		runs = runs[more:]
	}
	for _, run := range runs {
		parts = append(parts, fmt.Sprintf("%d from entry %d", run.Term, max(run.First, log.Base.ID.Index+1)))
	}
	return strings.Join(parts, ", ")
}

func printConfiguration(p *printer, i storage.Inspection) {
	if i.ConfigIndex == 0 {
		p.line("configuration", "none yet")
		return
	}
	known := "not known to be committed"
	if i.ConfigIndex <= committed(i.Stored) {
		known = "committed"
	}
	p.line("configuration", "of entry %d, %s, feature level %d%s", i.ConfigIndex, known, i.Config.Level, stateText(i.Config))
	for _, m := range i.Config.Members {
		p.line("", "%s, %v, incarnation %v, at %s%s", m.ID, m.Kind, m.Incarnation, m.Address, memberText(m))
	}
	for _, r := range i.Config.Removed {
		p.line("", "%s, incarnation %v, removed by entry %d", r.Peer.ID, r.Peer.Incarnation, r.Index)
	}
}

func stateText(c raft.Configuration) (text string) {
	if c.Joint() {
		text += ", joint"
	}
	if c.Changing() {
		text += ", a change waits"
	}
	if c.AppVersionMin > 0 {
		text += fmt.Sprintf(", application version %d or later", c.AppVersionMin)
	}
	if c.Sessions {
		text += ", sessions"
	}
	if c.LeaseDuration > 0 {
		text += fmt.Sprintf(", leases of %v", c.LeaseDuration)
	}
	return text
}

func memberText(m raft.Member) (text string) {
	if m.Priority != 0 {
		text += fmt.Sprintf(", priority %v", m.Priority)
	}
	if m.Next != raft.NextSame {
		text += fmt.Sprintf(", will be %v", m.Next)
	}
	return text
}

func snapshotText(f storage.SnapshotFile) string {
	switch {
	case !f.Whole:
		return fmt.Sprintf("%s: incomplete, %d bytes", f.File, f.Bytes)
	case f.Err != nil:
		return fmt.Sprintf("%s: %v", f.File, f.Err)
	case !f.Recorded:
		return fmt.Sprintf("%s: of entry %v, %d bytes; not recorded", f.File, f.Snapshot.ID, f.Snapshot.Size)
	}
	return fmt.Sprintf("%s: of entry %v, %d bytes, with the configuration of entry %d", f.File, f.Snapshot.ID, f.Snapshot.Size, f.Snapshot.ConfigIndex)
}

// committed returns up to where the store shows that entries are committed. Its hint may be behind what the log begins after.
func committed(s raft.Stored) raft.Index { return max(s.Commit, s.Log.Base.ID.Index) }
