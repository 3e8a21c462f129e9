package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/usage"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newGet(r *reach) *cobra.Command {
	var consistency string
	var revision bool
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of a key",
		Long:  "get writes the unchanged value to standard output, followed by a new line if that is a terminal.",
		Example: `  raftkv get greeting
  raftkv get --revision greeting       # its revision, for --if-revision
  raftkv get --consistency stale=2s greeting
  raftkv get --consistency stale greeting    # what this server has, even without a leader`,
		Args: usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := ask(cmd, r, func(ctx context.Context, c *client.Client) (client.Value, error) {
				return c.Get(ctx, args[0], consistency)
			})
			if err != nil {
				return err
			}
			if revision {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), value.Revision)
				return err
			}
			if isTerminal(cmd.OutOrStdout()) {
				value.Data = append(value.Data, '\n')
			}
			_, err = cmd.OutOrStdout().Write(value.Data)
			return err
		},
	}
	consistencyFlag(cmd, &consistency)
	cmd.Flags().BoolVar(&revision, "revision", false, "print the revision instead of the value")
	return cmd
}

func consistencyFlag(cmd *cobra.Command, consistency *string) {
	*consistency = api.Linearizable
	cmd.Flags().Func("consistency", "linearizable (default): every write acknowledged before; lease: the same, faster while the leader "+
		"has a lease; stale=2s: what a server has, if that is no older; stale: what it has, however old", func(text string) error {
		*consistency = text
		_, _, err := api.ParseConsistency(text)
		return err
	})
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// conditionFlags adds the flags of compare-and-set.
func conditionFlags(cmd *cobra.Command, c *client.Condition) {
	cmd.Flags().Uint64Var(&c.Revision, "if-revision", 0, "only if the key has this revision")
}

// checkCondition refuses a revision that no key has, and two conditions at once.
func checkCondition(cmd *cobra.Command, c client.Condition) error {
	switch {
	case cmd.Flags().Changed("if-revision") && c.Revision == 0:
		return fmt.Errorf("--if-revision 0: revisions begin at 1; raftkv get --revision KEY prints a key's revision; %w", usage.Err)
	case c.Absent && c.Revision != 0:
		return fmt.Errorf("--if-absent and --if-revision: give one of them; %w", usage.Err)
	}
	return nil
}

func newPut(r *reach) *cobra.Command {
	var condition client.Condition
	cmd := &cobra.Command{
		Use:   "put KEY [VALUE]",
		Short: "Set the value of a key",
		Long: `put sets the value and prints the new revision. Without VALUE, or with -, it reads the value from standard
input.`,
		Example: `  raftkv put greeting 'hello, world'
  raftkv put picture < cat.png
  raftkv put lock me --if-absent
  raftkv put counter 8 --if-revision 1234`,
		Args: usage.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCondition(cmd, condition); err != nil {
				return err
			}
			value, err := readValue(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return printRevision(cmd, r, func(ctx context.Context, c *client.Client) (api.Written, error) {
				return c.Put(ctx, args[0], value, condition)
			})
		},
	}
	conditionFlags(cmd, &condition)
	cmd.Flags().BoolVar(&condition.Absent, "if-absent", false, "only if there is no such key")
	return cmd
}

// readValue returns the value from the arguments or from the input. The server refuses a value that is too large.
func readValue(in io.Reader, args []string) ([]byte, error) {
	if len(args) == 2 && args[1] != "-" {
		return []byte(args[1]), nil
	}
	return io.ReadAll(io.LimitReader(in, kv.ValueBytesMax+1))
}

func printRevision(cmd *cobra.Command, r *reach, write func(context.Context, *client.Client) (api.Written, error)) error {
	written, err := ask(cmd, r, write)
	if err != nil {
		return err
	}
	return sayDone(cmd.OutOrStdout(), "%d", written.Revision)
}

func newDelete(r *reach) *cobra.Command {
	var condition client.Condition
	cmd := &cobra.Command{
		Use:     "delete KEY",
		Short:   "Remove a key",
		Long:    "delete removes the key and prints the revision of the removal. A missing key is not an error.",
		Example: "  raftkv delete greeting\n  raftkv delete greeting --if-revision 1234",
		Args:    usage.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkCondition(cmd, condition); err != nil {
				return err
			}
			return printRevision(cmd, r, func(ctx context.Context, c *client.Client) (api.Written, error) {
				return c.Delete(ctx, args[0], condition)
			})
		},
	}
	conditionFlags(cmd, &condition)
	return cmd
}

func newList(r *reach) *cobra.Command {
	var after string
	var limit int
	var consistency string
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List keys",
		Long:  "list prints the keys that begin with the prefix, each with its revision and the bytes of its value.",
		Example: `  raftkv list
  raftkv list users/ --limit 10
  raftkv list users/ --limit 10 --after users/kim
  raftkv list --consistency stale      # what this server has, even without a leader`,
		Args: usage.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return fmt.Errorf("--limit %d: use 0, for all, or more; %w", limit, usage.Err)
			}
			return list(cmd, r, strings.Join(args, ""), after, limit, consistency)
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "begin after this key")
	cmd.Flags().IntVar(&limit, "limit", 0, "print at most this many keys; 0: all")
	consistencyFlag(cmd, &consistency)
	return cmd
}

// list prints at most limit keys, page by page. If limit is 0, it prints all keys.
func list(cmd *cobra.Command, r *reach, prefix, after string, limit int, consistency string) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	for printed := 0; ; {
		page := api.ListLimitMax
		if limit > 0 {
			page = min(page, limit-printed)
		}
		listing, err := ask(cmd, r, func(ctx context.Context, c *client.Client) (api.Listing, error) {
			return c.List(ctx, prefix, after, page, consistency)
		})
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		for _, item := range listing.Items {
			_, _ = fmt.Fprintf(out, "%s\trevision %d\t%d bytes\n", item.Key, item.Revision, item.Bytes) // Flush returns the error
		}
		printed += len(listing.Items)
		if after = listing.Next; after == "" || printed == limit {
			return out.Flush()
		}
	}
}

func newTransfer(r *reach) *cobra.Command {
	return &cobra.Command{
		Use:     "transfer [NODE]",
		Short:   "Transfer leadership",
		Long:    "transfer makes the named node the leader; without a name, the leader chooses the best candidate.",
		Example: "  raftkv transfer n2\n  raftkv transfer",
		Args:    usage.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := ask(cmd, r, func(ctx context.Context, c *client.Client) (admin.Transferred, error) {
				return c.Transfer(ctx, strings.Join(args, ""))
			})
			if err != nil {
				return err
			}
			return sayDone(cmd.OutOrStdout(), "%s leads", done.Leader)
		},
	}
}
