package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
)

func newEntries() *cobra.Command {
	var asJSON bool
	var from, to uint64
	cmd := &cobra.Command{
		Use:   "entries DIR [--from INDEX] [--to INDEX]",
		Short: "Print the entries of a member's log",
		Long: `entries prints a line for each entry: its index and term, its kind, its time, the bytes of its data, and what the data begins
with. With --json each line is an object, with the whole data in base64. It reads and checks the whole log first. If the log is
damaged, the entries before the damage are printed, and it ends with 3: entries behind the damage may have replaced some of them.

An entry in the log is not always committed: "raftctl inspect" prints up to where the log is known to be.`,
		Example: `  raftctl entries /var/lib/raftkv --from 120 --to 140
  raftctl entries /var/lib/raftkv --json | jq -r 'select(.kind == "command") | .data' | base64 -d`,
		Args: usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != 0 && from > to {
				return fmt.Errorf("--from %d is above --to %d: exchange them; %w", from, to, usage.Err)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			print := printEntry
			if asJSON {
				print = printEntryJSON
			}
			for e, err := range storage.Entries(cmd.Context(), args[0], raft.Index(from), raft.Index(to)) {
				if err == nil {
					err = print(out, e)
				}
				if err != nil {
					return errors.Join(err, out.Flush())
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "index of the first entry; 0: the first of the log")
	cmd.Flags().Uint64Var(&to, "to", 0, "index of the last entry; 0: the last of the log")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// dataShown is how many bytes of an entry's data the text shows.
const dataShown = 60

func printEntry(out io.Writer, e raft.Entry) error {
	_, err := fmt.Fprintf(out, "%d@%d\t%v\t%s\t%s\t%s\n", e.Index, e.Term, e.Kind, timeText(e), counted(len(e.Data), "byte"), dataText(e))
	return err
}

// timeText returns the entry's time; "-" if it has none.
func timeText(e raft.Entry) string {
	if e.Time == 0 {
		return "-"
	}
	return time.Unix(0, e.Time).UTC().Format(time.RFC3339Nano)
}

// dataText returns the members of a configuration, or the beginning of other data.
func dataText(e raft.Entry) string {
	switch e.Kind {
	case raft.EntryBootstrap:
		if b, err := raft.DecodeBootstrap(e.Data); err == nil {
			return fmt.Sprintf("cluster %v, %s", b.Cluster, b.Configuration.ListText())
		}
	case raft.EntryConfiguration:
		if c, err := raft.DecodeConfiguration(e.Data); err == nil {
			return c.ListText() + stateText(c)
		}
	}
	if len(e.Data) > dataShown {
		return fmt.Sprintf("%q…", e.Data[:dataShown])
	}
	return fmt.Sprintf("%q", e.Data)
}

// entryJSON is an entry for scripts. The keys are a contract, as those of inspectionJSON are.
type entryJSON struct {
	Index raft.Index `json:"index"`
	Term  raft.Term  `json:"term"`
	Kind  string     `json:"kind"`
	Time  string     `json:"time"` // "-": none
	Bytes int        `json:"bytes"`
	Data  []byte     `json:"data"` // in base64
}

func printEntryJSON(out io.Writer, e raft.Entry) error {
	return json.NewEncoder(out).Encode(entryJSON{e.Index, e.Term, e.Kind.String(), timeText(e), len(e.Data), e.Data})
}
