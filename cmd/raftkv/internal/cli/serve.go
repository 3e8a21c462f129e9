package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/screen"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/member"
	"github.com/coxswain/raft/internal/size"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const serveHelp = `serve runs one member. --founders and --seeds are one command line for every state of a member. --founders are the ids of
the first members, the same for ever; --seeds are addresses of members on their Raft ports. Empty founders begin the cluster
once all of them answer. A further member, or one that has lost its disk, joins. A member that has moved corrects its addresses.
Until then, its log says what it waits for. So does "raftkv status", except while --set-aside waits for a leader.

--join has the same effect in a running cluster: the seeds are the members that the servers at these URLs name. It includes
--set-aside, which moves a damaged or older store into a directory aside-TIME within --data, once a leader confirms that this
member belongs to its cluster. The member then joins with an empty store. A member that was removed ends with exit code 9, and
stays out until it is started with --rejoin and the index of its removal, which its log names.

--peers begins a cluster, too: the same list on every member, each as id=host:port=url. Once there is a store, its addresses
count, not --peers. With --peers, only --advertise and --url correct the addresses of a member. If several have moved, start
them with --seeds in place of --peers.

HTTP has neither authentication nor encryption: use it only on a network
that you trust. It is for programs: a member refuses requests that a browser sends for a page of another site. It answers
requests for IP addresses, localhost, the name of its machine, and the names in --http-addr, --url, --peers, --join and the URLs
that "raftkv members" shows. If clients use another name, put that name in its --url.

Members take snapshots of their data, and drop the part of the log that a snapshot covers. So the log stays bounded, and a
restart reads a snapshot and the entries after it. If the leader's log no longer holds what a member lacks, the leader sends it
a snapshot. "raftkv status" shows the progress of snapshots, and "raftkv snapshot" takes one at once.`

func newServe(streams Streams) *cobra.Command {
	var o member.Options
	var stopWithStdin, canBeCut bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one member of a cluster",
		Long:  serveHelp,
		Example: `  raftkv serve --id n1 --data /var/lib/raftkv --raft-addr 127.0.0.1:5001 --http-addr 127.0.0.1:4001 \
    --peers n1=127.0.0.1:5001=http://127.0.0.1:4001 \
    --peers n2=127.0.0.1:5002=http://127.0.0.1:4002 \
    --peers n3=127.0.0.1:5003=http://127.0.0.1:4003
  raftkv serve --id n4 --data /var/lib/raftkv --raft-addr 127.0.0.1:5004 --http-addr 127.0.0.1:4004 \
    --join http://127.0.0.1:4001,http://127.0.0.1:4002
  raftkv serve --id n1 --data /var/lib/raftkv --raft-addr 10.0.0.1:5001 --http-addr 10.0.0.1:4001 --insecure \
    --founders n1,n2,n3 --seeds 10.0.0.1:5001,10.0.0.2:5001,10.0.0.3:5001   # or dns:raftkv.internal:5001`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if stopWithStdin {
				cut := func(bool) {}
				if canBeCut {
					o.Network = member.NewNetwork()
					cut = o.Network.Cut
				}
				ctx = local.UntilInputEnds(ctx, streams.In, cut)
			}
			if err := o.Validate(); err != nil {
				return fmt.Errorf("%w\n%w", err, usage.Err)
			}
			if err := checkZeros(cmd); err != nil {
				return err
			}
			return member.Run(ctx, o, streams.Err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.ID, "id", "", "this member's id (required)")
	flags.StringVar(&o.Cluster, "cluster", "raftkv", "the cluster's name, the same on all members")
	flags.StringVar(&o.Data, "data", "", "directory of this member's data (required)")
	flags.StringVar(&o.Log, "log", string(storage.KindSegments),
		"where a new member keeps its log: segments, or bbolt, which is slower and takes less room; raftkv migrate moves the log of an existing member")
	flags.StringVar(&o.RaftAddr, "raft-addr", "", "host:port to listen on for the other members (required)")
	flags.StringVar(&o.HTTPAddr, "http-addr", "", "host:port to listen on for clients (required)")
	flags.StringSliceVar(&o.Peers, "peers", nil, "initial members, this one included, as id=host:port=url")
	joinFlags(flags, &o)
	flags.StringSliceVar(&o.Via, "via", nil,
		"addresses to dial members at instead of their own, as id=host:port or host:port=host:port: a proxy or a tunnel")
	flags.StringSliceVar(&o.PageOrigins, "page-origin", nil,
		"further origins, as https://ops.example, at which people open the page of a member: of a proxy, for instance")
	flags.DurationVar(&o.ElectionTimeout, "election-timeout", 150*time.Millisecond,
		"silence of the leader before another one is elected, the same on all members: ten times the slowest usual "+
			"round trip or synced write, whichever is more (1s or more between regions). If it is shorter, leaders are lost; if "+
			"longer, writes wait longer for the next leader")
	flags.StringSliceVar(&o.Without, "without", nil,
		"rules about who leads next that this member does without: news, successors, priorities")
	snapshotFlags(flags, &o)
	flags.StringVar(&o.TLSCert, "tls-cert", "", "this member's certificate for raft connections, PEM")
	flags.StringVar(&o.TLSKey, "tls-key", "", "its key, PEM")
	flags.StringVar(&o.TLSCA, "tls-ca", "", "certificates of the authorities that sign the members' certificates, PEM")
	flags.BoolVar(&o.Insecure, "insecure", false, "allow raft connections without TLS beyond this machine")
	flags.StringVar(&o.LogLevel, "log-level", "info", "trace, debug, info, warn, error or off")
	flags.BoolVar(&stopWithStdin, "stop-with-stdin", false, "end when standard input ends")
	flags.BoolVar(&canBeCut, "can-be-cut", false, "with --stop-with-stdin: lines of standard input cut this member off from the others")
	for _, name := range []string{"stop-with-stdin", "can-be-cut"} {
		_ = flags.MarkHidden(name) // fails only for an unknown flag
	}
	return cmd
}

// joinFlags adds the flags of a member that joins a running cluster.
func joinFlags(flags *pflag.FlagSet, o *member.Options) {
	flags.StringSliceVar(&o.Join, "join", nil, "base URLs of servers of a running cluster, which name the --seeds; includes --set-aside")
	flags.StringSliceVar(&o.Founders, "founders", nil, "ids of the first members of the cluster, the same on all members for ever, instead of --peers")
	flags.StringSliceVar(&o.Seeds, "seeds", nil,
		"where to ask for the cluster: host:port of members, as in their --raft-addr, or dns:NAME:PORT for all addresses of a name")
	flags.BoolVar(&o.SetAside, "set-aside", false,
		"with --seeds: set a damaged or older store aside once a leader confirms this member, and join again")
	flags.Uint64Var(&o.Rejoin, "rejoin", 0, "with --seeds or --join: if the configuration with this index removed this member, set its store aside and join again")
	flags.StringVar(&o.As, "as", "", "what to join as: voter or learner (default voter)")
	flags.StringVar(&o.Advertise, "advertise", "",
		"host:port at which other members reach this one; default: as in the configuration or, with --founders, --seeds or --join, --raft-addr")
	flags.StringVar(&o.URL, "url", "",
		"URL at which clients reach this member; default: as in the configuration or, with --founders, --seeds or --join, http:// and --http-addr")
}

// snapshotFlags adds the flags of the policy of snapshots.
func snapshotFlags(flags *pflag.FlagSet, o *member.Options) {
	standard := raft.CoreConfig{}.WithDefaults().Limits
	o.SnapshotLogBytes, o.SnapshotTailBytes = standard.SnapshotLogBytes, standard.SnapshotTailBytes
	o.SnapshotHoldBytes, o.SnapshotRate = standard.SnapshotHoldBytes, 32<<20
	flags.IntVar(&o.SnapshotEntries, "snapshot-entries", standard.SnapshotEntries,
		"take a snapshot after this many applied entries")
	size.Var(flags, &o.SnapshotLogBytes, "snapshot-log-bytes",
		"or after this many bytes of them, or as many as the last snapshot has, whichever is more")
	size.Var(flags, &o.SnapshotTailBytes, "snapshot-tail-bytes",
		"entries that stay in the log behind a snapshot, for members that lag a little")
	size.Var(flags, &o.SnapshotHoldBytes, "snapshot-hold-bytes",
		"entries that the leader keeps beyond that for a member that needs them next")
	size.Var(flags, &o.SnapshotRate, "snapshot-rate",
		"bytes of a snapshot that are written or sent a second, at most")
	size.Var(flags, &o.SnapshotReserveBytes, "snapshot-reserve-bytes",
		"bytes that snapshots leave free on the disk; 0: 1MiB with the log in segments; with bbolt as much as the log takes, 1MiB to 64MiB")
	flags.DurationVar(&o.SnapshotStallMax, "snapshot-stall-max", time.Minute,
		"give up a snapshot if none of its bytes could be written for this long")
}

// checkZeros refuses zeros, because node.Config would replace them by its defaults.
func checkZeros(cmd *cobra.Command) error {
	for _, row := range []struct{ flag, zero, takes string }{
		{"election-timeout", "0s", "10ms to 1h, as in 150ms"},
		{"snapshot-entries", "0", "1 or more; a large number means never"},
		{"snapshot-log-bytes", "0", "1 or more, as in 64MiB; a large number means never"},
		{"snapshot-tail-bytes", "0", "1 or more, as in 16MiB"},
		{"snapshot-hold-bytes", "0", "1 or more, as in 256MiB"},
		{"snapshot-rate", "0", "64KiB or more, as in 32MiB"},
		{"snapshot-stall-max", "0s", "1s to 1h, as in 1m"},
	} {
		if cmd.Flags().Lookup(row.flag).Value.String() == row.zero {
			return fmt.Errorf("--%s %s: use %s; %w", row.flag, row.zero, row.takes, usage.Err)
		}
	}
	return nil
}

func newDemo(streams Streams) *cobra.Command {
	o := screen.Options{In: streams.In, Out: streams.Out}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster on this machine, and break it",
		Long: `demo starts a cluster of processes on this machine, writes to it and reads from it all the time, and
checks all answers. Press k to kill the leader, z to freeze it and z again to resume it, r to restart the members
that are down, a to add a member, x to remove one, w to empty the disk of a member, which is then replaced, and q to quit and
see the verdict on the whole history. Freezing is not available on Windows. The page at the URL that it prints shows the cluster in a
browser, and has a button for each of these, which can also cut a member off from the others.
Without a terminal it prints plain lines.`,
		Example: `  raftkv demo
  raftkv demo --data ./demo                       # keeps the data, and a second run continues with it
  raftkv demo --duration 10s --kill-every 3s      # without keys to press`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkDemo(cmd, o); err != nil {
				return err
			}
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			return screen.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "data", "", "directory of the data; default: a temporary one, which is removed at the end")
	flags.IntVar(&o.Nodes, "nodes", 0, fmt.Sprintf("how many, 1 to %d; default: 3, or what --data holds", local.NodesMax))
	flags.DurationVar(&o.Duration, "duration", 0, "end after this time")
	flags.DurationVar(&o.KillEvery, "kill-every", 0, "kill and restart the leader at this interval")
	return cmd
}

func checkDemo(cmd *cobra.Command, o screen.Options) error {
	switch {
	case cmd.Flags().Changed("nodes") && (o.Nodes < 1 || o.Nodes > local.NodesMax):
		return fmt.Errorf("--nodes %d: use 1 to %d; %w", o.Nodes, local.NodesMax, usage.Err)
	case o.Duration < 0:
		return fmt.Errorf("--duration %v: use 0, for no end, or more; %w", o.Duration, usage.Err)
	case o.KillEvery < 0:
		return fmt.Errorf("--kill-every %v: use 0, for never, or more; %w", o.KillEvery, usage.Err)
	}
	return nil
}
