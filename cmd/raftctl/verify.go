package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
)

// errUnsound is matched by the error of a command that has found a store on which no member can run.
var errUnsound = errors.New("no member can run on this store")

func newVerify() *cobra.Command {
	var asJSON, backup bool
	cmd := &cobra.Command{
		Use:   "verify DIR|--backup FILE",
		Short: "Read every checksum, and say what damage means",
		Long: `verify reads everything that a member has stored, and checks it as a start does: the structure of raft.db and its records,
every entry of the log, and every block of the snapshots. For each damaged place it prints the file and the offset, what the
damage means, and what to do. It ends with 0 if a member can start on the store, restore its snapshot and send it to others,
and with 3 if not.

With --backup it reads a backup, and checks everything that restore checks.`,
		Example: "  raftctl verify /var/lib/raftkv\n  raftctl verify /var/lib/raftkv --json\n  raftctl verify --backup orders.backup",
		Args:    usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if backup {
				return verifyBackup(cmd, args[0], asJSON)
			}
			v, err := storage.Verify(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), verificationOf(args[0], v))
			} else {
				err = printVerification(cmd.OutOrStdout(), v)
			}
			if err == nil && v.Err() != nil {
				return fmt.Errorf("%s: %w", args[0], errUnsound)
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&backup, "backup", false, "check a backup instead of a directory")
	return cmd
}

func printVerification(out io.Writer, v storage.Verification) error {
	p := &printer{out: out}
	for _, f := range v.Findings {
		p.printf("%s: %v\n  %s\n  what to do: %s\n", placeOf(f), reasonOf(f), f.Verdict.Meaning(), f.Verdict.Remedy())
	}
	if v.Unchecked != "" {
		p.printf("not checked: %s\n", v.Unchecked)
	}
	if v.Mark != nil {
		p.printf("marked: %v\n", v.Mark.Err())
	}
	verdict := "sound: a member can start on it"
	if v.Err() != nil {
		verdict = "not sound"
	}
	p.printf("%s, %d bytes read: %s\n", counted(v.Files, "file"), v.Bytes, verdict)
	return p.err
}

func placeOf(f storage.Finding) string {
	if f.Where == "" {
		return f.File
	}
	return f.File + ", " + f.Where
}

// reasonOf returns what is wrong at the place, without the place and the remedy.
func reasonOf(f storage.Finding) error {
	var corrupt *raft.CorruptError
	switch {
	case !errors.As(f.Err, &corrupt):
		return f.Err
	case corrupt.Where == "":
		return fmt.Errorf("it is missing: %w", corrupt.Reason)
	}
	return corrupt.Reason
}

// verificationJSON is a Verification for scripts. The keys are a contract, as those of inspectionJSON are.
type verificationJSON struct {
	Dir       string        `json:"dir"`
	Sound     bool          `json:"sound"` // a member can start on it, and restore and send its snapshot
	Files     int           `json:"files"`
	Bytes     int64         `json:"bytes"`
	Mark      *markJSON     `json:"mark"`
	Findings  []findingJSON `json:"findings"`
	Unchecked string        `json:"unchecked"`
}

type findingJSON struct {
	File    string          `json:"file"`
	Where   string          `json:"where"`
	Verdict storage.Verdict `json:"verdict"`
	Reason  string          `json:"reason"`
	Meaning string          `json:"meaning"`
	Remedy  string          `json:"remedy"`
}

func verificationOf(dir string, v storage.Verification) verificationJSON {
	return verificationJSON{
		Dir: dir, Sound: v.Err() == nil, Files: v.Files, Bytes: v.Bytes, Mark: markOf(v.Mark), Unchecked: v.Unchecked,
		Findings: each(v.Findings, func(f storage.Finding) findingJSON {
			return findingJSON{f.File, f.Where, f.Verdict, reasonOf(f).Error(), f.Verdict.Meaning(), f.Verdict.Remedy()}
		}),
	}
}
