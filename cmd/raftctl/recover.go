package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
)

func newRecover() *cobra.Command {
	var cluster string
	var opts storage.RecoverOptions
	cmd := &cobra.Command{
		Use:   "recover DIR...",
		Short: "Make one survivor the beginning of a new cluster, after a majority is lost for good",
		Long: `recover is for the case that a majority of a cluster is lost for good, so that nobody can lead any more. It makes the member
whose directory it gets the only member of a new cluster, with every entry of its log. What only the lost members held is lost.

Without --cluster it changes nothing: it says which of the directories to take, and what may be lost. Stop all members before, and
keep the lost ones away: a majority of them, where it still runs, goes on as the former cluster. See docs/recovery.md.`,
		Example: "  raftctl recover n1 n3\n  raftctl recover n3 --cluster orders",
		Args:    usage.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return printSurvivors(cmd, args)
			}
			if len(args) > 1 {
				return fmt.Errorf("only one directory is recovered: first call recover without --cluster, which says which one; %w", usage.Err)
			}
			done, err := storage.Recover(cmd.Context(), args[0], cluster, opts)
			if err != nil {
				return err
			}
			return printRecovery(cmd.OutOrStdout(), done)
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "name of the cluster, as a confirmation")
	cmd.Flags().BoolVar(&opts.Despite, "despite", false, "also if the store is marked, because no other survivor is left")
	return cmd
}

// printSurvivors compares the directories, and names the one to recover.
func printSurvivors(cmd *cobra.Command, dirs []string) error {
	p := &printer{out: cmd.OutOrStdout()}
	var all []storage.Inspection
	var stores []*raft.Stored
	for _, dir := range dirs {
		found, err := storage.Inspect(cmd.Context(), dir)
		if err != nil {
			return err
		}
		p.printf("%s: %s of cluster %q (%v), last entry %v, known to be committed up to %d\n", dir, found.ID, found.ClusterName, found.Cluster,
			found.Stored.Log.Last, committed(found.Stored))
		if found.Stored.Mark != nil {
			p.printf("  not to be taken while there is another survivor: %v\n", found.Stored.Mark.Err())
		}
		if len(all) > 0 && all[0].Cluster != found.Cluster {
			return errors.Join(p.err, fmt.Errorf("%s and %s are of different clusters: name only directories of one", dirs[0], dir))
		}
		all, stores = append(all, found), append(stores, &found.Stored)
	}
	i := raft.BestSurvivor(stores)
	if i < 0 || all[i].Stored.Mark != nil {
		return p.err
	}
	take, best := dirs[i], all[i]
	if _, err := best.Stored.Recover(best.ID, raft.ClusterID{1}, 1, 0, false); err != nil { // changes nothing: would it be refused?
		return errors.Join(p.err, err)
	}
	p.printf("take %s: entries that only lost members held, or knew to be committed, may be lost. Its newest configuration names %s.\n"+
		"Nothing is changed yet. To make it the only member of a new cluster: raftctl recover %s --cluster %s\n",
		take, memberNames(best.Config, ""), take, best.ClusterName)
	return p.err
}

// memberNames returns the ids of the members except one.
func memberNames(c raft.Configuration, but raft.NodeID) string {
	var names []string
	for _, m := range c.Members {
		if m.ID != but {
			names = append(names, string(m.ID))
		}
	}
	return strings.Join(names, " ")
}

func printRecovery(out io.Writer, done storage.Recovery) error {
	p := &printer{out: out}
	p.printf("%s is the only member of a new cluster %v, which keeps the name %q\n", done.ID, done.Cluster, done.Name)
	p.line("kept", "every entry up to %v; the former cluster (%v) was known to have committed those up to %d", done.Last, done.Former, done.Commit)
	p.line("recovery", "entry %v", done.Recovery)
	p.line("next", "start %s as before; move the directories of the other members (%s) away, and add them again with empty disks",
		done.ID, cmp.Or(memberNames(done.Before, done.ID), "there were none"))
	return p.err
}
