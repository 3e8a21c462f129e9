package member

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

const (
	loadPatience    = 10 * time.Second // time until the log says that the store is still being read
	transferTimeout = time.Second      // limit of the transfer of leadership in Shutdown, before requests are refused
)

// Member is one running member of a cluster. Any goroutine may call its methods.
type Member struct {
	cfg          Config
	node         *node.Node
	tcp          *transport.TCP // nil: Config.Transport is used
	certificates *certificates  // nil: there are none
	seeker       *seeker        // nil: this member neither looks for its cluster nor corrects its entry
	done         chan struct{}
}

// Start starts a member, as node.Start does. ctx bounds only the start. If Start returns an error, it has closed what it has
// opened, and Config.Storage and Config.Transport still belong to the caller. Otherwise they belong to the member.
//
// The errors are those of Config.Validate; a *raft.ConfigError that names the setting, if the store in Dir cannot be opened
// (see storage.Open), or if the member cannot listen (see transport.Listen), or with a *CertificateError, if it cannot use a
// file of TLS; and those of node.Start. Each of them says what to do.
func Start(ctx context.Context, cfg Config, fsm raft.FSM) (*Member, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, done: make(chan struct{})}
	connections, err := m.listen()
	if err != nil {
		return nil, err
	}
	if err = m.startOnStore(ctx, fsm, connections); err != nil {
		if err = m.discard(ctx, err); err == nil {
			err = m.startOnStore(ctx, fsm, connections)
		}
	}
	if err != nil {
		if m.tcp != nil {
			err = errors.Join(err, m.tcp.Close())
		}
		return nil, err
	}
	if m.seeker != nil {
		m.seeker.start(m.node)
	}
	go m.attend()
	return m, nil
}

// startOnStore opens the store and starts the node on it.
func (m *Member) startOnStore(ctx context.Context, fsm raft.FSM, t raft.Transport) error {
	if err := m.endedBefore(ctx); err != nil {
		return err
	}
	store, err := m.open()
	if err != nil {
		return err
	}
	if m.node, err = m.startNode(ctx, fsm, store, t); err != nil && m.cfg.Storage == nil {
		err = errors.Join(err, store.Close())
	}
	return err
}

// listen returns the transport.
func (m *Member) listen() (raft.Transport, error) {
	if m.cfg.corrects() {
		m.seeker = &seeker{cfg: m.cfg, log: m.cfg.Logger}
	}
	if m.cfg.Transport != nil {
		if m.seeker != nil {
			m.seeker.carrier, _ = m.cfg.Transport.(raft.WhoCarrier)
		}
		return m.cfg.Transport, nil
	}
	opts := m.cfg.Net
	if opts.Logger == nil {
		opts.Logger = m.cfg.Logger
	}
	if m.cfg.TLS.complete() {
		var err error
		if m.certificates, err = newCertificates(m.cfg); err != nil {
			return nil, &raft.ConfigError{Field: "TLS", Err: err}
		}
		opts.TLSSource = m.certificates.config.Load
	}
	if m.cfg.founding() {
		opts.Resolve = m.seeker.composed(opts.Resolve)
	}
	tcp, err := transport.Listen(m.cfg.Listen, opts)
	var insecure *transport.InsecureError
	var failed *transport.ListenError
	switch {
	case errors.As(err, &insecure), errors.As(err, &failed):
		return nil, &raft.ConfigError{Field: "Listen", Err: err}
	case err != nil:
		return nil, &raft.ConfigError{Field: "Net", Err: err}
	}
	m.tcp = tcp
	if m.seeker != nil {
		m.seeker.carrier = tcp
	}
	return tcp, nil
}

// open returns the store.
func (m *Member) open() (raft.Storage, error) {
	if m.cfg.Storage != nil {
		return m.cfg.Storage, nil
	}
	store, err := storage.Open(m.cfg.Dir, m.cfg.Store)
	if err != nil {
		return nil, &raft.ConfigError{Field: "Dir", Err: err}
	}
	return store, nil
}

// startNode starts the node. Reading a large log on a slow disk takes long, so the log says what the start waits for.
func (m *Member) startNode(ctx context.Context, fsm raft.FSM, store raft.Storage, t raft.Transport) (*node.Node, error) {
	loading := time.AfterFunc(loadPatience, func() {
		m.cfg.Logger.Info("still reading the store: a large log on a slow disk takes long", "data", m.cfg.Dir)
	})
	defer loading.Stop()
	return node.Start(ctx, m.cfg.node(), fsm, store, t)
}

// attend does what goes on while the node runs, and what is left to do after its end.
func (m *Member) attend() {
	defer close(m.done)
	running, ended := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() { m.reportReady(running) })
	if m.seeker != nil {
		tasks.Go(func() { m.seeker.run(running) })
	}
	if m.certificates != nil {
		tasks.Go(func() { m.certificates.watch(running) })
	}
	<-m.node.Done()
	ended()
	tasks.Wait()
	m.noteEnding()
	if m.cfg.Dir != "" && !errors.Is(m.Err(), raft.ErrClosed) {
		dumpTrace(m.node, filepath.Join(m.cfg.Dir, TraceFile), m.cfg.Logger)
	}
}

// Shutdown ends the member in the order that disturbs clients least. First, if it leads, it transfers its leadership, while the
// servers still answer, for at most a second. Then it shuts the servers down: they take no new connections, and have until the
// end of ctx to finish their requests. Then it closes them, and the member. Shutdown returns what Close returns.
//
// Call it as well if the member has ended by itself, see Done.
func (m *Member) Shutdown(ctx context.Context, servers ...*http.Server) error {
	if m.node.Status().Role == raft.Leader { // otherwise the leader would be asked to
		transferring, cancel := context.WithTimeout(ctx, transferTimeout)
		_ = m.node.TransferLeadership(transferring, "") // if it fails, Close tries again
		cancel()
	}
	var ending sync.WaitGroup
	for _, s := range servers {
		ending.Go(func() {
			if s.Shutdown(ctx) != nil {
				_ = s.Close() // the remaining requests have had their time
			}
		})
	}
	ending.Wait()
	return m.Close()
}

// Close ends the member, as node.Node.Close does, and waits until everything that it has started has ended. It is idempotent.
func (m *Member) Close() error {
	err := m.node.Close()
	if errors.Is(err, node.ErrWithinFSM) || errors.Is(err, node.ErrWithinCallback) {
		return err // the node still runs
	}
	<-m.done
	return err
}

// Done returns a channel that is closed once the member has ended, after Close or by itself. Err says why it ended.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err is as node.Node.Err: nil while the member runs, raft.ErrClosed after Close, and otherwise the error that ended it, which
// says what to do.
func (m *Member) Err() error { return m.node.Err() }

// Node returns the node, for all calls that Member does not have. Do not close it.
func (m *Member) Node() *node.Node { return m.node }

// TCP returns the transport, with its address and its counters. It is nil if Config.Transport was given.
func (m *Member) TCP() *transport.TCP { return m.tcp }

// Status is as node.Node.Status. With certificate files, it has the field Certificate, and its
// findings. With Founders or Seeds, Missing also says
// what this member waits for until it is a member with a leader: who has not been found, and where it has looked.
func (m *Member) Status() node.Status {
	s := m.node.Status()
	s.Certificate = m.Certificate()
	s.Findings = append(s.Findings, findings(m.cfg.ID, s.Certificate, time.Now())...)
	if m.seeker == nil {
		return s
	}
	own := m.seeker.missing()
	s.Missing = append(own, s.Missing...)
	const none = "no cluster yet: "
	switch {
	case len(s.Missing) == 0 || s.Err != nil || s.MajorityLost != "" || s.Wiped:
	case len(s.Members) == 0:
		s.LeaderReason = none + strings.Join(s.Missing, "; ") // the node does not know that it looks for one
	case len(own) > 0 && strings.HasPrefix(s.LeaderReason, none):
		s.LeaderReason = none + strings.Join(own, "; ") + "; " + strings.TrimPrefix(s.LeaderReason, none)
	}
	return s
}

// Certificate says how long the certificate of this member is valid, and what is wrong with it. It is nil without certificate
// files. It never waits.
func (m *Member) Certificate() *node.CertificateStatus {
	if m.certificates == nil {
		return nil
	}
	return m.certificates.status(time.Now())
}
