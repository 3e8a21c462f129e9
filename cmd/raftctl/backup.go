package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
)

func newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR FILE",
		Short: "Write a backup of a stopped member",
		Long: `backup writes the newest snapshot of a stopped member and every entry behind it into one file, which restore takes. It changes
nothing in DIR. While the cluster serves, prefer raftkv backup: a single stopped member may lack what the others have
acknowledged.`,
		Example: "  raftctl backup /var/lib/raftkv orders.backup",
		Args:    usage.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var info storage.BackupInfo
			err := files.WriteWhole(args[1], func(f *os.File) (err error) {
				info, err = storage.Backup(cmd.Context(), args[0], f)
				return err
			})
			if err != nil {
				return err
			}
			p := &printer{out: cmd.OutOrStdout()}
			printBackup(p, args[1], info)
			return p.err
		},
	}
}

func newRestore() *cobra.Command {
	var opts storage.RestoreOptions
	cmd := &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Begin a new cluster from a backup",
		Long: `restore makes one member of a new cluster from a backup, in a new or empty directory. Every entry in the backup counts as
committed. The new cluster has an id of its own, so members of the former one that still run never mix with it; but clients may
reach both, so stop those members before. Start the member as usual, and add others with empty disks. See docs/recovery.md.`,
		Example: "  raftctl restore orders.backup /var/lib/raftkv\n  raftctl restore orders.backup data --cluster staging --id s1 --address 10.0.0.9:7001",
		Args:    usage.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := net.SplitHostPort(opts.Address); opts.Address != "" && err != nil {
				return fmt.Errorf("--address takes HOST:PORT: %v; %w", err, usage.Err)
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			info, done, err := storage.Restore(cmd.Context(), args[1], f, opts)
			if err != nil {
				return err
			}
			p := &printer{out: cmd.OutOrStdout()}
			p.printf("%s is the only member of a new cluster %v with the name %q\n", done.ID, done.Cluster, done.Name)
			p.line("restored", "every entry up to %v of cluster %v, which %s had at %s", info.Last, info.Cluster, info.ID, info.At.UTC().Format(time.RFC3339))
			p.line("next", "start %s on %s as usual, and add the other members with empty disks", done.ID, args[1])
			return p.err
		},
	}
	cmd.Flags().StringVar(&opts.Name, "cluster", "", "name of the new cluster (default: that of the backup)")
	cmd.Flags().StringVar((*string)(&opts.ID), "id", "", "its only member (default: the one that was backed up)")
	cmd.Flags().StringVar(&opts.Address, "address", "", "address of that member (default: as the backup says)")
	return cmd
}

func printBackup(p *printer, file string, info storage.BackupInfo) {
	p.printf("%s: a backup of %s of cluster %q (%v), complete and sound\n", filepath.Base(file), info.ID, info.Name, info.Cluster)
	p.line("taken", "%s, at term %d", info.At.UTC().Format(time.RFC3339), info.Term)
	if info.State.Index > 0 {
		p.line("state", "of entry %v, %d bytes", info.State, info.Bytes)
	}
	p.line("entries", "%d behind it, up to entry %v", info.Entries, info.Last)
	p.line("members", "%s", memberNames(info.Config, ""))
}

// backupJSON is a BackupInfo for scripts. The keys are a contract, as those of inspectionJSON are.
type backupJSON struct {
	Backup     string   `json:"backup"`
	Name       string   `json:"cluster_name"`
	Cluster    string   `json:"cluster"`
	ID         string   `json:"id"`
	Address    string   `json:"address"`
	Term       uint64   `json:"term"`
	AppVersion uint64   `json:"app_version"`
	At         string   `json:"at"`
	State      string   `json:"state"` // "0@0": there is none
	Bytes      int64    `json:"bytes"`
	Last       string   `json:"last"`
	Entries    uint64   `json:"entries"`
	Members    []string `json:"members"`
}

// verifyBackup checks a backup, and prints what it holds.
func verifyBackup(cmd *cobra.Command, file string, asJSON bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := storage.VerifyBackup(cmd.Context(), f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !asJSON {
		p := &printer{out: cmd.OutOrStdout()}
		printBackup(p, file, info)
		return p.err
	}
	members := []string{}
	for _, m := range info.Config.Members {
		members = append(members, string(m.ID))
	}
	return printJSON(cmd.OutOrStdout(), backupJSON{
		Backup: file, Name: info.Name, Cluster: info.Cluster.String(), ID: string(info.ID), Address: info.Address, Term: uint64(info.Term),
		AppVersion: info.AppVersion, At: info.At.UTC().Format(time.RFC3339Nano), State: info.State.String(), Bytes: info.Bytes,
		Last: info.Last.String(), Entries: info.Entries, Members: members,
	})
}
