// Package server answers the HTTP requests to a member of the demo store.
package server

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/session"
)

// Limits of the server.
const (
	RequestTimeout    = 5 * time.Second       // limit for carrying out one request
	leaderPatience    = time.Second           // within it, for a leader that takes the request
	leaderPause       = 20 * time.Millisecond // between two attempts to read
	drainPoll         = 5 * time.Millisecond
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 30 * time.Second
	WriteTimeout      = 30 * time.Second
	IdleTimeout       = 2 * time.Minute
	HeaderBytesMax    = 16 << 10
	RequestsMax       = 512 // requests carried out at the same time; the answer to others is "overloaded"

	// These constants limit the bodies and replies under way, and the bodies whose requests are being carried out. See
	// transfers.
	BodiesMax      = 4096
	BodiesBytesMax = 128 << 20
	BodyTimeout    = 10 * time.Second // for a whole body
	bodyGrowBytes  = 4 << 10          // reserved for a body initially, whatever length it declares

	RepliesMax       = 4096
	RepliesBytesMax  = 64 << 20
	ReplyTimeout     = 5 * time.Second // for each replyPieceBytes
	replyPieceBytes  = 64 << 10
	BackupTimeout    = time.Minute // for each piece of a backup
	replyBufferBytes = 128 << 10   // buffer in the kernel for each connection; the kernel uses up to twice that
)

// Node is the part of *node.Node that the server needs.
type Node interface {
	admin.Member
	session.Proposer
	Propose(ctx context.Context, cmd []byte) (node.Result, error)
	ReadIndexWith(ctx context.Context, c raft.Consistency) (raft.Index, error)
	Watch(ctx context.Context) iter.Seq[raft.Leadership]
	Backup(ctx context.Context, w io.Writer) (raft.EntryID, error)
}

var _ Node = (*node.Node)(nil)

// Server answers HTTP requests from a member's node and store. It is an http.Handler.
type Server struct {
	node     Node
	store    *kv.Store
	id       string
	hosts    []string // names in addition to those in the configuration, see admin.Guard
	admin    http.Handler
	routes   map[string]handler // by path; a ServeMux would answer some requests itself, as text
	running  chan struct{}      // a semaphore of RequestsMax
	bodies   transfers
	replies  transfers
	draining atomic.Bool   // connections are closed after their next answers
	leaving  chan struct{} // closed with it: ends what does not end by itself
	open     atomic.Int64  // connections
}

// New returns the server of a member. It sets Hosts and CheckChange of the options. The server answers requests for IP addresses and
// for names of loopback. It also answers requests for the names in the given URLs and in the URLs of the configuration.
func New(n Node, store *kv.Store, o admin.Options, urls ...string) *Server {
	s := &Server{
		node: n, store: store, id: string(n.Status().ID), running: make(chan struct{}, RequestsMax), leaving: make(chan struct{}),
		bodies:  transfers{countMax: BodiesMax, bytesMax: BodiesBytesMax},
		replies: transfers{countMax: RepliesMax, bytesMax: RepliesBytesMax},
	}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			s.hosts = append(s.hosts, u.Host)
		}
	}
	o.Hosts, o.CheckChange = s.hosts, s.checkChange
	s.admin = admin.Handler(n, o)
	s.routes = map[string]handler{
		api.KeysPath:     methods(methodTable{http.MethodGet: s.list}),
		api.SessionPath:  methods(methodTable{http.MethodPost: s.openSession}),
		admin.StatusPath: methods(methodTable{http.MethodGet: s.status}),
		"/":              methods(methodTable{http.MethodGet: toPage}),
	}
	for _, path := range []string{admin.HealthPath, admin.ReadyPath, admin.SnapshotPath, admin.MetricsPath} {
		s.routes[path] = s.administer
	}
	s.routes[api.BackupPath] = methods(methodTable{http.MethodGet: func(*http.Request, []byte) answer { return answer{status: http.StatusOK, header: http.Header{}} }}) // of HEAD
	s.routes[admin.MembersPath], s.routes[admin.TransferPath] = s.change, s.change
	return s
}

// Drain makes the server close each connection after its next answer, so that clients go to other members. It waits until no
// connection is left, or until the context ends. A connection that is closed while it is idle might fail a request that a client
// sends at that moment.
func (s *Server) Drain(ctx context.Context) {
	if !s.draining.Swap(true) {
		close(s.leaving)
	}
	for s.open.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(drainPoll):
		}
	}
}

// HTTP returns an http.Server for the handler, with all limits set. Use it with a Listener.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            ReadHeaderTimeout,
		ReadTimeout:                  ReadTimeout,
		WriteTimeout:                 WriteTimeout,
		IdleTimeout:                  IdleTimeout,
		MaxHeaderBytes:               HeaderBytesMax,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  withConn,
		ConnState:                    s.onState,
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := connOf(r); c != nil {
		c.answering.Store(true)
	}
	w.Header().Set(api.NodeHeader, s.id)
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	if isLive(r.URL.Path) {
		s.live(w, r)
		return
	}
	if refused := admin.Guard(w, r, s.node, s.hosts...); refused != nil {
		s.deliver(w, r, fail(s.explain(refused)))
		return
	}
	if r.URL.Path == api.BackupPath && r.Method == http.MethodGet {
		s.backup(w, r)
		return
	}
	body, x, err := s.readBody(w, r)
	defer x.done()
	if err != nil {
		s.deliver(w, r, fail(s.explain(err)))
		return
	}
	a := s.carryOut(r, body)
	x.done() // a client may read the answer slowly
	s.deliver(w, r, a)
}

// awaitLeader waits until a leader is known, for leaderPatience at most: then the caller can still ask another member. The error
// says why there is none. A member that was removed or emptied says so at once.
func (s *Server) awaitLeader(ctx context.Context) (err error) {
	waiting, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	for now := range s.node.Watch(waiting) {
		if now.Leader != "" {
			return nil
		}
		var none *node.NotLeaderError
		_, err = s.node.ReadIndex(waiting)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil // a leader was asked, so there is one: the request asks it itself
		case !errors.As(err, &none):
			return err
		}
	}
	return err
}

// prompt lists paths. Requests for these paths never wait, and must work under load. POST /members is an exception.
var prompt = []string{admin.HealthPath, admin.StatusPath, admin.MetricsPath, admin.MembersPath}

// carryOut returns the answer to a request.
func (s *Server) carryOut(r *http.Request, body []byte) answer {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return fail(api.Errorf(admin.BadRequest, "escape the query as in a URL", "bad query: %v", err))
	}
	timeout, changes := RequestTimeout, r.URL.Path == admin.MembersPath && r.Method == http.MethodPost
	switch {
	case changes:
		timeout = admin.ChangeTimeout
	case slices.Contains(prompt, r.URL.Path):
		return s.routes[r.URL.Path](r, body)
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	default:
		return fail(api.Errorf(admin.Overloaded, "try again in a second", "%d requests are being carried out", RequestsMax))
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	r = r.WithContext(ctx)
	// The server takes keys from the path as it was sent. Therefore keys may contain slashes and dots.
	if escaped, found := strings.CutPrefix(r.URL.EscapedPath(), api.KeysPath+"/"); found {
		return s.serveKey(r, body, escaped)
	}
	if answers, found := s.routes[r.URL.Path]; found {
		return answers(r, body)
	}
	return fail(api.Errorf(admin.NotFound, "the paths are /live, /kv, /kv/{key}, /session, /status, /healthz, /readyz, /metrics, /transfer, /snapshot, /backup, /members",
		"no such path: %s", r.URL.Path))
}

// methodTable maps methods to handlers.
type methodTable map[string]handler

func methods(table methodTable) handler {
	return func(r *http.Request, body []byte) answer {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if answers, found := table[method]; found {
			return answers(r, body)
		}
		allowed := slices.Sorted(maps.Keys(table))
		a := fail(api.Errorf(admin.MethodNotAllowed, "use "+strings.Join(allowed, " or "),
			"%s is not allowed for %s", r.Method, r.URL.Path))
		a.header.Set("Allow", strings.Join(allowed, ", "))
		return a
	}
}

// applied returns the header for an answer that this version of the store gives.
func applied(v kv.View) http.Header {
	h := http.Header{}
	h.Set(api.AppliedHeader, strconv.FormatUint(uint64(v.Applied()), 10))
	return h
}
