package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/metrics"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	loadPatience    = 10 * time.Second
	transferTimeout = time.Second // limit of the transfer of leadership, before requests are refused
	drainTime       = time.Second // in which the clients leave, before idle connections are closed
	shutdownTimeout = time.Second // limit of the requests that are being carried out
	readyPatience   = time.Second // time until the member logs what it waits for
	readyPause      = time.Minute // time until it logs that again
)

// Run runs a member until the context ends, the node ends, or the HTTP server fails. The end of the context is not an error.
// Run writes log lines to log. With Join, a member whose store can no longer be used joins with an empty store.
func Run(ctx context.Context, o Options, log io.Writer) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	cfg.Logger = commandWords{hclog.New(&hclog.LoggerOptions{Name: o.ID, Output: log, Level: hclog.LevelFromString(o.LogLevel)})}
	for {
		wasMember, err := runOnce(ctx, o, cfg)
		if len(o.Join) == 0 || !spent(err, wasMember) {
			return WithRemedy(err)
		}
		if err := setAside(ctx, o, err, cfg.Logger); err != nil {
			return err
		}
	}
}

// runOnce runs a member on its store. wasMember is true if the member joins, and if it belonged to the cluster in this run.
func runOnce(ctx context.Context, o Options, cfg node.Config) (wasMember bool, err error) {
	listener, err := net.Listen("tcp", o.HTTPAddr)
	if err != nil {
		return false, fmt.Errorf("--http-addr: %w: %s", err, addressRemedy(err))
	}
	defer listener.Close()
	store := &kv.Store{}
	was, known := readAddresses(o.Data)
	stated := o.stated(was, known)
	cfg.Advertise = stated.Raft
	n, connections, err := start(ctx, o, cfg, store)
	if err != nil {
		return false, err
	}
	cfg.Logger.Info("started, listening", "members", connections.Addr().String(),
		"clients", "http://"+listener.Addr().String(), "data", o.Data)
	unused := func() string { return o.unusedPeers(cfg.Initial, n.Members()) }
	if why := unused(); why != "" {
		cfg.Logger.Warn("--peers is not used", "reason", why)
	}
	starting, started := context.WithCancel(ctx)
	var report sync.WaitGroup
	report.Go(func() { reportReady(starting, n, cfg.Logger) })
	j, served := newJoiner(o, n.Status().Incarnation, cfg.Logger), false
	if len(o.Join) > 0 {
		report.Go(func() { j.run(starting) })
		report.Go(func() { served = serves(starting, n.Ready) })
	}
	report.Go(func() { newMover(o, stated, n, cfg.Logger).run(starting) })
	err = serve(ctx, n, server.New(withPeers{n, unused}, store, metricsHandler(n, connections), o.urls()...), listener, cfg.Logger)
	started()
	report.Wait()
	err = errors.Join(err, closeNode(n))
	if !errors.Is(n.Err(), raft.ErrClosed) {
		dumpTrace(n, filepath.Join(o.Data, traceFile), cfg.Logger)
	}
	return j.member || served, err
}

// traceFile is the name of a file in the data directory. If a member ends by itself, this file holds its last decisions.
const traceFile = "trace.ndjson"

// dumpTrace writes the trace events of a node that ended by itself to a file. It may fail if the node ended because of its
// disk.
func dumpTrace(n *node.Node, path string, log hclog.Logger) {
	var events bytes.Buffer
	err := n.WriteTrace(&events)
	if err = errors.Join(err, writeAnew(path, events.Bytes())); err != nil {
		log.Warn("the last decisions could not be written to a file", "error", err)
		_ = os.Remove(path) // an incomplete file would not help
		return
	}
	log.Info("the last decisions are kept: raftlab trace --from FILE --format html shows them", "file", path)
}

// reportReady logs what the member waits for, and finally that the member is ready. Without these lines, a first start would
// wait silently for members that do not run.
func reportReady(ctx context.Context, n *node.Node, log hclog.Logger) {
	for patience := readyPatience; ; patience = readyPause {
		waiting, cancel := context.WithTimeout(ctx, patience)
		err := n.Ready(waiting)
		var leader raft.Member
		if err == nil {
			leader, err = n.WaitLeader(waiting) // the leader may be lost again
		}
		cancel()
		switch {
		case err == nil:
			log.Info("ready", "leader", leader.ID)
			return
		case ctx.Err() != nil || errors.Is(err, raft.ErrClosed):
			return
		case errors.Is(err, node.ErrWiped):
			if n.Status().MajorityLost == "" { // otherwise the node has logged the reason
				log.Error("this member cannot continue", "error", asCommand(err))
			}
			return
		}
		log.Warn("not ready yet", "reason", reasonOf(err))
	}
}

// reasonOf returns the reason why a member is not ready.
func reasonOf(err error) string {
	var waiting *node.NotReadyError
	if errors.As(err, &waiting) {
		return waiting.Reason
	}
	return err.Error()
}

// start opens storage and transport and starts the node on them.
func start(ctx context.Context, o Options, cfg node.Config, store *kv.Store) (*node.Node, *transport.TCP, error) {
	secure, err := o.tls()
	if err != nil {
		return nil, nil, err
	}
	resolve, err := o.resolve()
	if err != nil {
		return nil, nil, err
	}
	connections, err := transport.Listen(o.RaftAddr,
		transport.Options{TLS: secure, Insecure: o.Insecure, Resolve: resolve, Logger: cfg.Logger})
	if err != nil {
		return nil, nil, explainListen(err)
	}
	data, err := storage.Open(o.Data, storage.Options{New: storage.Kind(o.Log)})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--data: %w", err), connections.Close())
	}
	loading := time.AfterFunc(loadPatience, func() {
		cfg.Logger.Info("still reading the store: a large log on a slow disk takes long", "data", o.Data)
	})
	n, err := node.Start(ctx, cfg, store, data, connections)
	loading.Stop()
	if err != nil {
		return nil, nil, errors.Join(explainStart(err), connections.Close(), data.Close())
	}
	if _, segments := data.(*storage.Log); segments && storage.Kind(o.Log) == storage.KindBolt {
		cfg.Logger.Warn("--log bbolt is not used: this store keeps its log in segments, and raftkv migrate moves it")
	}
	return n, connections, nil
}

// addressRemedy returns a remedy for an address on which the member cannot listen.
func addressRemedy(err error) string {
	if files.NoDescriptor(err) {
		return files.DescriptorRemedy
	}
	return "choose an address of this machine and a free port, or end the process that uses it"
}

// explainListen adds to an error of transport.Listen the flags that help.
func explainListen(err error) error {
	var insecure *transport.InsecureError
	var listen *transport.ListenError
	switch {
	case errors.As(err, &insecure):
		return fmt.Errorf("--raft-addr %s: other machines can reach it, and it has no TLS: "+
			"give --tls-cert, --tls-key and --tls-ca, or --insecure on a private network", insecure.Address)
	case errors.As(err, &listen):
		return fmt.Errorf("--raft-addr: %w: %s", err, addressRemedy(err))
	}
	return fmt.Errorf("--raft-addr: %w", err)
}

// explainStart adds to an error of node.Start the names of the flags that cause it.
func explainStart(err error) error {
	if other := (*raft.IdentityError)(nil); errors.As(err, &other) {
		return fmt.Errorf("--data: it belongs to %s %q, not to %q: name this member's directory, or correct --id or --cluster",
			other.What, other.Stored, other.Given)
	}
	return err
}

// serve answers requests until the context, the node or the listener ends.
func serve(ctx context.Context, n *node.Node, handler *server.Server, listener net.Listener, log hclog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { handler.Run(ctx) })
	web := handler.HTTP()
	web.ErrorLog = newWebLog(log)
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- web.Serve(server.Listener(listener)) })
	var err error
	select {
	case <-ctx.Done():
		transferBeforeStop(n)
		_ = listener.Close() // new clients go to other members
		leaving, cancel := context.WithTimeout(context.Background(), drainTime)
		handler.Drain(leaving)
		cancel()
	case <-n.Done():
		err = fmt.Errorf("the node has ended: %w", n.Err())
	case err = <-failed:
	}
	ending, stop := context.WithTimeout(context.Background(), shutdownTimeout)
	defer stop()
	if web.Shutdown(ending) != nil {
		_ = web.Close() // the remaining requests have had their time
	}
	return err
}

// transferBeforeStop transfers leadership while the server still answers requests. Therefore the next leader does not have to
// wait for slow requests. If the transfer fails, closing the node tries again.
func transferBeforeStop(n *node.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), transferTimeout)
	defer cancel()
	_ = n.TransferLeadership(ctx, "")
}

// closeNode closes the node. If the node had already ended, closeNode returns no error, because serve has returned the error
// of that end.
func closeNode(n *node.Node) error {
	ended := n.Err() != nil
	if err := n.Close(); !ended {
		return err
	}
	return nil
}

func metricsHandler(n *node.Node, connections *transport.TCP) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Collector(n), metrics.TransportCollector(connections), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
