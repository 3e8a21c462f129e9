// Package cli is the command line of raftkv.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/node"
	"github.com/spf13/cobra"
)

// Streams are the input and the outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// The exit codes.
const (
	exitOK              = 0
	exitFailed          = 1
	exitUsage           = 2
	exitNotFound        = 3
	exitConditionFailed = 4
	exitUnknown         = 5
	exitDegraded        = 6
	exitNotServing      = 7
	exitUnanswered      = 8
	exitRemoved         = 9
	exitNotice          = 10
)

const exitHelp = `Exit codes: 0 done; 1 failed, and nothing was changed; 2 bad usage; 3 no such key; 4 the condition
did not hold; 5 a write with unknown outcome: read before you try again. Of status: 0 healthy; 6 degraded, a member is
down or cannot be reached; 7 no leader, or it takes no writes; 8 no server that knows the cluster could be asked, or they
belong to different clusters. Of serve: 9 this member was removed from the cluster. Of doctor: those of status, and
10 nothing but notices.`

// exitError is an error with the exit code that goes with it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// Run runs the command line and returns the exit code.
func Run(ctx context.Context, args []string, streams Streams) int {
	root := newRoot(streams)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(streams.Err, "raftkv:", err) // there is nowhere to report a failure
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var chosen *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &chosen):
		return chosen.code
	case errors.Is(err, usage.Err):
		return exitUsage
	case errors.Is(err, raft.ErrRemoved):
		return exitRemoved
	case api.CodeOf(err) == admin.NotFound:
		return exitNotFound
	case api.CodeOf(err) == api.ConditionFailed, api.CodeOf(err) == admin.ConfigChanged:
		return exitConditionFailed
	case isAPIError(err) && api.Uncertain(err):
		return exitUnknown
	}
	return exitFailed
}

// sayDone prints what a command has changed. If the output fails, the exit code differs from the one for "nothing was
// changed".
func sayDone(out io.Writer, format string, args ...any) error {
	return sayOutcome(out, "the command succeeded", fmt.Sprintf(format, args...))
}

// sayOutcome is like sayDone, for a command that may have done less. If the output fails, the error begins with outcome, a
// sentence about the change.
func sayOutcome(out io.Writer, outcome, line string) error {
	if _, err := fmt.Fprintln(out, line); err != nil {
		return &exitError{exitUnknown, fmt.Errorf("%s, but its output could not be written: %w", outcome, err)}
	}
	return nil
}

func isAPIError(err error) bool {
	var e *admin.Error
	return errors.As(err, &e)
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "raftkv",
		Short: "A small replicated key-value store that shows the raft library at work",
		Long: `raftkv is a key-value store that several processes replicate. A write is acknowledged only when it is on the
disks of a majority, and the store works as long as a majority runs.

` + exitHelp,
		Example: `  raftkv demo                      # three nodes on this machine; k kills the leader
  raftkv put greeting 'hello'      # in another terminal
  raftkv get greeting`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.Args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("raftkv {{.Version}}\n")
	root.SetFlagErrorFunc(usage.Flag)
	root.AddCommand(newServe(streams), newDemo(streams), newMigrate(), newCerts())
	var servers reach
	for _, asks := range []func(*reach) *cobra.Command{newGet, newPut, newDelete, newList, newStatus, newDoctor, newSnapshot, newTransfer, newBench} {
		root.AddCommand(servers.flags(asks(&servers), 10*time.Second, "how long to try"))
	}
	var slow reach
	root.AddCommand(slow.flags(newBackup(&slow), 10*time.Minute, "how long a member may send nothing"))
	root.AddCommand(newMembers())
	return root
}

// version returns the release of this program, if its build has recorded it.
func version() string {
	return runs{raft.ProtocolNewest, cmp.Or(node.Release(), "built without a version")}.String()
}

// reach holds the URLs of the servers and how long to try them.
type reach struct {
	urls    []string
	timeout time.Duration
}

// flags adds the flags of r to a command.
func (r *reach) flags(cmd *cobra.Command, timeout time.Duration, bounds string) *cobra.Command {
	cmd.Flags().StringSliceVar(&r.urls, "server", nil, "base URLs of servers to ask; default: the demo that runs on this machine")
	cmd.Flags().DurationVar(&r.timeout, "timeout", timeout, bounds)
	return cmd
}

func (r *reach) servers() ([]string, error) {
	if r.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: use more than 0; %w", r.timeout, usage.Err)
	}
	for _, server := range r.urls {
		if !api.IsURL(server) {
			return nil, fmt.Errorf("--server %q: write http://host:port; %w", server, usage.Err)
		}
	}
	if len(r.urls) > 0 {
		return r.urls, nil
	}
	place, err := client.FindPlace()
	return place.Servers, err
}

// found returns the URLs of the servers. It replaces servers in commands that have an exit code for "no server could be
// asked".
func (r *reach) found() ([]string, error) {
	urls, err := r.servers()
	if err != nil && !errors.Is(err, usage.Err) {
		return nil, &exitError{exitUnanswered, err}
	}
	return urls, err
}

// ask calls do with one server after another until it succeeds; see client.Try.
func ask[T any](cmd *cobra.Command, r *reach, do func(context.Context, *client.Client) (T, error)) (T, error) {
	var none T
	urls, err := r.servers()
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), r.timeout)
	defer cancel()
	shared := client.NewHTTP(1, max(r.timeout/3, time.Second)) // a server that hangs leaves time for the others
	defer shared.CloseIdleConnections()
	var members []*client.Client
	for _, url := range urls {
		members = append(members, client.New(url, shared))
	}
	return client.Try(ctx, members, func(c *client.Client) (T, error) { return do(ctx, c) })
}
