package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/load"
	"github.com/coxswain/raft/internal/size"
	"github.com/coxswain/raft/internal/usage"
	"github.com/coxswain/raft/storage"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

const (
	benchPrefix    = "bench/"    // the start of each key that is written
	benchStart     = time.Minute // limit for the start of a cluster by bench
	benchTick      = 100 * time.Millisecond
	valueBytesMax  = 1 << 20
	callersMax     = 16 << 10
	rateMax        = 1e6
	callersInOpen  = 1024 // default with --rate
	callersDefault = 64
)

// bench is a load of puts.
type bench struct {
	reach       *reach
	load        load.Load
	bytes, keys int
	nodes       int    // size of the cluster to start; 0: use a running one
	log         string // where its members keep their log
	asJSON      bool
}

func newBench(r *reach) *cobra.Command {
	b := bench{reach: r, bytes: 128}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Write at full speed or at a fixed rate, and show the latencies",
		Long: `bench puts random values under keys that begin with "` + benchPrefix + `", and leaves them there. It sends its
requests to the leader first.

In a closed loop, each of --callers begins its next write when its last one is acknowledged: this measures throughput. With
--rate, writes begin at that rate whether or not earlier ones have ended, and latency is measured from the moment at which
a write was due: this is the latency that users would see.`,
		Example: `  raftkv bench                            # on the demo that runs on this machine
  raftkv bench --nodes 3 --log bbolt      # on a new cluster, which is removed afterwards
  raftkv bench --rate 2000 --duration 30s --server http://127.0.0.1:4001,http://127.0.0.1:4002`,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("rate") && !(b.load.Rate > 0 && b.load.Rate <= rateMax) { // NaN is neither
				return fmt.Errorf("--rate %v: use more than 0, and at most %d; %w", b.load.Rate, int(rateMax), usage.Err)
			}
			if b.load.Rate > 0 && !cmd.Flags().Changed("callers") {
				b.load.Callers = callersInOpen
			}
			if cmd.Flags().Changed("nodes") && b.nodes < 1 {
				return fmt.Errorf("--nodes %d: use 1 to %d; %w", b.nodes, local.NodesMax, usage.Err)
			}
			if err := b.check(); err != nil {
				return fmt.Errorf("%w; %w", err, usage.Err)
			}
			return b.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&b.load.Callers, "callers", callersDefault,
		"writers in a closed loop; with --rate, how many writes may run at once")
	flags.Float64Var(&b.load.Rate, "rate", 0, "writes a second, instead of a closed loop")
	size.Var(flags, &b.bytes, "bytes", "size of a value")
	flags.IntVar(&b.keys, "keys", 10_000, "number of different keys")
	flags.DurationVar(&b.load.Warmup, "warmup", time.Second, "time before the measurement")
	flags.DurationVar(&b.load.Measure, "duration", 10*time.Second, "length of the measurement")
	flags.IntVar(&b.nodes, "nodes", 0, "start a cluster of this many nodes in a temporary directory, and remove it afterwards")
	flags.StringVar(&b.log, "log", "", "where the members of that cluster keep their log: segments or bbolt")
	flags.BoolVar(&b.asJSON, "json", false, "print the figures as JSON")
	return cmd
}

func (b *bench) check() error {
	switch {
	case b.load.Callers < 1 || b.load.Callers > callersMax:
		return fmt.Errorf("--callers %d: use 1 to %d", b.load.Callers, callersMax)
	case b.bytes > valueBytesMax:
		return fmt.Errorf("--bytes: use at most %s", size.Format(valueBytesMax))
	case b.keys < 1:
		return fmt.Errorf("--keys %d: use 1 or more", b.keys)
	case b.load.Warmup < 0:
		return fmt.Errorf("--warmup %v: use 0 or more", b.load.Warmup)
	case b.load.Measure <= 0:
		return fmt.Errorf("--duration %v: use more than 0", b.load.Measure)
	case b.reach.timeout <= 0:
		return fmt.Errorf("--timeout %v: use more than 0", b.reach.timeout)
	case b.nodes > local.NodesMax:
		return fmt.Errorf("--nodes %d: use 1 to %d", b.nodes, local.NodesMax)
	case b.nodes > 0 && len(b.reach.urls) > 0:
		return errors.New("--nodes starts a cluster, and --server names one: use one of them")
	case b.nodes == 0 && b.log != "":
		return errors.New("--log goes with --nodes")
	case b.log != "" && storage.Kind(b.log) != storage.KindSegments && storage.Kind(b.log) != storage.KindBolt:
		return fmt.Errorf("--log %q: use %s or %s", b.log, storage.KindBolt, storage.KindSegments)
	}
	return nil
}

func (b *bench) run(ctx context.Context, out, errOut io.Writer) (err error) {
	urls, stop, err := b.servers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	shared := client.NewHTTP(b.load.Callers, b.reach.timeout)
	defer shared.CloseIdleConnections()
	var members []*client.Client
	for _, url := range urls {
		members = append(members, client.New(url, shared))
	}
	members = leaderFirst(ctx, members)
	value := make([]byte, b.bytes)
	_, _ = rand.Read(value) // it never fails
	b.load.Do = func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithTimeout(ctx, b.reach.timeout)
		defer cancel()
		key := fmt.Sprint(benchPrefix, mathrand.IntN(b.keys))
		_, err := client.Try(ctx, members, func(c *client.Client) (api.Written, error) {
			return c.Put(ctx, key, value, client.Condition{})
		})
		return err
	}
	if b.load.Rate > 0 { // otherwise a slow cluster would be sent all writes that were due, however long that takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, b.load.Warmup+b.load.Measure+b.reach.timeout, errBehind)
		defer cancel()
	}
	report := b.watch(ctx, errOut)
	early := context.Cause(ctx)
	behind := errors.Is(early, errBehind)
	switch {
	case report.Operations == 0 && report.Failed == 0 && early == nil:
		return errors.New("nothing was measured: no write was due within --duration; use a longer one, or a higher --rate")
	case report.Operations == 0 && report.Failed == 0:
		return fmt.Errorf("nothing was measured: the run ended during the warm-up: %w", early)
	case report.Operations == 0:
		return fmt.Errorf("nothing was written: %w", errors.Join(report.Err, early))
	case early != nil && !behind:
		_, _ = fmt.Fprintf(errOut, "ended early: %v\n", early) // the figures are valid nevertheless
	}
	show := func() error { return b.print(out, report) }
	if b.asJSON {
		show = func() error { return json.NewEncoder(out).Encode(figuresOf(report)) }
	}
	if err := show(); err != nil || !behind {
		return err
	}
	return early
}

// errBehind ends an open loop. The figures leave out writes that were due but never began, so latencies look too good.
var errBehind = errors.New("the cluster does not keep up with --rate: use a lower one; the figures leave out the writes that never began")

// servers returns the URLs of the cluster. With --nodes, it starts a cluster first.
func (b *bench) servers(ctx context.Context) (urls []string, stop func() error, err error) {
	if b.nodes == 0 {
		urls, err := b.reach.servers()
		return urls, func() error { return nil }, err
	}
	dir, err := os.MkdirTemp("", "raftkv-bench-")
	if err != nil {
		return nil, nil, err
	}
	cluster, err := b.startCluster(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	for _, n := range cluster.Nodes {
		urls = append(urls, n.URL())
	}
	return urls, func() error {
		cluster.Stop()
		return os.RemoveAll(dir)
	}, nil
}

func (b *bench) startCluster(ctx context.Context, dir string) (*local.Cluster, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	layout, err := local.OpenLayout(dir, b.nodes, nil)
	if err != nil {
		return nil, err
	}
	cluster := local.NewCluster(program, dir, layout)
	if b.log != "" {
		cluster.More = func(local.Node) []string { return []string{"--log", b.log} }
	}
	ctx, cancel := context.WithTimeout(ctx, benchStart)
	defer cancel()
	if err = cluster.Start(); err == nil {
		err = awaitLeader(ctx, cluster)
	}
	if err != nil {
		cluster.Stop()
		return nil, err
	}
	return cluster, nil
}

// awaitLeader waits until there is a leader, or a member has ended.
func awaitLeader(ctx context.Context, cluster *local.Cluster) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	for _, n := range cluster.Nodes {
		watch.Go(func() {
			select {
			case <-cluster.Process(n.ID).Done():
				cancel(cluster.Ended(n.ID))
			case <-ctx.Done():
			}
		})
	}
	_, err := cluster.AwaitLeader(ctx, "")
	return err
}

// leaderFirst puts the leader before the followers, because a follower would forward each request to the leader.
func leaderFirst(ctx context.Context, members []*client.Client) []*client.Client {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for i, m := range members {
		if s, err := m.Status(ctx); err == nil && s.Role == "leader" {
			return append(members[i:len(members):len(members)], members[:i]...)
		}
	}
	return members
}

// watch runs the load, with a progress bar on a terminal.
func (b *bench) watch(ctx context.Context, errOut io.Writer) load.Report {
	if !isTerminal(errOut) {
		return b.load.Run(ctx)
	}
	all := b.load.Warmup + b.load.Measure
	bar := progressbar.NewOptions64(int64(all/benchTick), progressbar.OptionSetWriter(errOut), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(benchTick))
	done := make(chan load.Report)
	go func() { done <- b.load.Run(ctx) }()
	ticks := time.NewTicker(benchTick)
	defer ticks.Stop()
	for began, before := time.Now(), int64(0); ; {
		select {
		case report := <-done:
			_ = bar.Finish() // the bar is decoration
			return report
		case <-ticks.C:
			ended := b.load.Ended()
			bar.Describe(fmt.Sprintf("%d writes, %.0f a second", ended, float64(ended-before)/benchTick.Seconds()))
			before = ended
			_ = bar.Set64(min(int64(time.Since(began)/benchTick), bar.GetMax64()-1))
		}
	}
}
