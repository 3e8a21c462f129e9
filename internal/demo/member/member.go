package member

import (
	"cmp"
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
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/joining"
	library "github.com/coxswain/raft/member"
	"github.com/coxswain/raft/metrics"
	"github.com/coxswain/raft/session"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	drainTime       = time.Second // in which the leadership is transferred and the clients leave, before idle connections are closed
	shutdownTimeout = time.Second // limit of the requests that are being carried out
)

// Run runs a member until the context ends, the node ends, or the HTTP server fails. The end of the context is not an error.
// Run writes log lines to log.
func Run(ctx context.Context, o Options, log io.Writer) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	cfg.Logger = commandWords{hclog.New(&hclog.LoggerOptions{Name: o.ID, Output: log, Level: hclog.LevelFromString(o.LogLevel)})}
	for {
		started, err := runOnce(ctx, o, cfg)
		if ctx.Err() != nil || !started || !startsAgain(cfg, err) {
			return o.remedy(err)
		}
		cfg.Logger.Warn("starts again", "reason", err)
	}
}

// runOnce runs a member on its store.
func runOnce(ctx context.Context, o Options, cfg library.Config) (started bool, err error) {
	listener, err := net.Listen("tcp", o.HTTPAddr)
	if err != nil {
		return false, fmt.Errorf("--http-addr: %w: %s", err, addressRemedy(err))
	}
	defer listener.Close()
	store := &kv.Store{}
	fsm, err := session.Wrap(store)
	if err != nil {
		return false, err
	}
	m, at, err := o.start(ctx, cfg, fsm)
	if err != nil {
		return false, o.explainStart(err)
	}
	o.warnOfKind(cfg.Logger)
	cfg.Logger.Info("started, listening", "members", at.String(),
		"clients", "http://"+listener.Addr().String(), "page", "http://"+listener.Addr().String()+admin.LivePath, "data", o.Data)
	unused := func() string { return o.unusedPeers(cfg.Initial, m.Members()) }
	if why := unused(); why != "" {
		cfg.Logger.Warn("the command line has other addresses than the store", "reason", why)
	}
	return true, serve(ctx, m, server.New(withPeers{m, unused}, store, admin.Options{Metrics: metricsHandler(m), Origins: o.PageOrigins}, o.urls()...), listener, cfg.Logger)
}

// start starts the member. It returns the address at which the other members reach it, too.
func (o Options) start(ctx context.Context, cfg library.Config, fsm raft.FSM) (*library.Member, net.Addr, error) {
	if o.Network == nil {
		m, err := library.Start(ctx, cfg, fsm)
		if err != nil {
			return nil, nil, err
		}
		return m, m.TCP().Addr(), nil
	}
	if o.looks() {
		cfg.Advertise = cmp.Or(cfg.Advertise, o.RaftAddr)
	}
	t, err := o.Network.use(&cfg)
	if err != nil {
		return nil, nil, err
	}
	m, err := library.Start(ctx, cfg, fsm)
	if err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	return m, t.Addr(), nil
}

// warnOfKind warns if the store keeps its log in another way than the command line says.
func (o Options) warnOfKind(log hclog.Logger) {
	if _, err := os.Stat(filepath.Join(o.Data, storage.LogDir)); err == nil && storage.Kind(o.Log) == storage.KindBolt {
		log.Warn("--log bbolt is not used: this store keeps its log in segments, and raftkv migrate moves it")
	}
}

// addressRemedy returns a remedy for an address on which the member cannot listen.
func addressRemedy(err error) string {
	if files.NoDescriptor(err) {
		return files.DescriptorRemedy
	}
	return "choose an address of this machine and a free port, or end the process that uses it"
}

// explainStart replaces the names of settings in an error of library.Start with the flags that help.
func (o Options) explainStart(err error) error {
	var insecure *transport.InsecureError
	var listen *transport.ListenError
	var file *library.CertificateError
	var other *raft.IdentityError
	var kept *joining.KeptError
	switch {
	case errors.As(err, &kept):
		return err // remedy has the flags
	case errors.As(err, &insecure):
		return fmt.Errorf("--raft-addr %s: other machines can reach it, and it has no TLS: "+
			"give --tls-cert, --tls-key and --tls-ca, or --insecure on a private network", insecure.Address)
	case errors.As(err, &listen):
		return fmt.Errorf("--raft-addr: %w: %s", listen, addressRemedy(listen))
	case errors.As(err, &file):
		return fmt.Errorf("%s %w", map[string]string{o.TLSCA: "--tls-ca", o.TLSCert: "--tls-cert", o.TLSKey: "--tls-key"}[file.File], file)
	case errors.As(err, &other):
		return fmt.Errorf("--data: it belongs to %s %q, not to %q: name this member's directory, or correct --id or --cluster",
			other.What, other.Stored, other.Given)
	}
	return inFlag(err)
}

// serve answers requests until the context, the member or the listener ends. Then it ends the member.
func serve(ctx context.Context, m *library.Member, handler *server.Server, listener net.Listener, log hclog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	web := handler.HTTP()
	web.ErrorLog = newWebLog(log)
	failed := make(chan error, 1)
	tasks.Go(func() { failed <- web.Serve(server.Listener(listener)) })
	var err error
	select {
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(context.Background(), drainTime)
		if m.Status().Role == raft.Leader {
			_ = m.TransferLeadership(leaving, "") // while the server still answers: the next leader need not wait for slow requests
		}
		cancel()
		_ = listener.Close() // new clients go to other members
		leaving, cancel = context.WithTimeout(context.Background(), drainTime)
		handler.Drain(leaving)
		cancel()
	case <-m.Done():
		err = fmt.Errorf("the node has ended: %w", m.Err())
	case err = <-failed:
	}
	ended := m.Err() != nil // then err says why
	ending, stop := context.WithTimeout(context.Background(), shutdownTimeout)
	defer stop()
	if closing := m.Shutdown(ending, web); !ended {
		err = errors.Join(err, closing)
	}
	return err
}

func metricsHandler(m *library.Member) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.MemberCollector(m), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
