// Package server answers the HTTP requests to a member of the demo store.
package server

import (
	"context"
	"errors"
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
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/node"
)

// Limits of the server.
const (
	RequestTimeout    = 5 * time.Second // limit for carrying out one request
	readyTimeout      = time.Second
	drainPoll         = 5 * time.Millisecond
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 30 * time.Second
	WriteTimeout      = 30 * time.Second
	IdleTimeout       = 2 * time.Minute
	HeaderBytesMax    = 16 << 10
	RequestsMax       = 512              // requests carried out at the same time; the answer to others is "overloaded"
	SnapshotsMax      = 16               // requests that wait for a snapshot
	ChangesMax        = 16               // requests that wait for a membership change
	ChangeTimeout     = 10 * time.Second // limit of a request that changes the members: longer than the contact with a new member takes

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
	replyBufferBytes = 128 << 10 // buffer in the kernel for each connection; the kernel uses up to twice that
)

// Node is the part of *node.Node that the server needs.
type Node interface {
	Propose(ctx context.Context, cmd []byte) (node.Result, error)
	ReadIndex(ctx context.Context) (raft.Index, error)
	TransferLeadership(ctx context.Context, to raft.NodeID) error
	Snapshot(ctx context.Context) (raft.EntryID, error)
	ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (node.Members, error)
	Members() node.Members
	Watch(ctx context.Context) iter.Seq[raft.Leadership]
	Ready(ctx context.Context) error
	Status() node.Status
	Err() error
}

var _ Node = (*node.Node)(nil)

// Server answers HTTP requests from a member's node and store. It is an http.Handler.
type Server struct {
	node     Node
	store    *kv.Store
	id       string
	names    map[string]bool // names in addition to those in the configuration, see isOwn
	origins  http.CrossOriginProtection
	routes   map[string]handler // by path; a ServeMux would answer some requests itself, as text
	running  chan struct{}      // a semaphore of RequestsMax
	waiting  chan struct{}      // a semaphore of SnapshotsMax
	changing chan struct{}      // a semaphore of ChangesMax
	bodies   transfers
	replies  transfers
	forward  forwarder
	draining atomic.Bool  // connections are closed after their next answers
	open     atomic.Int64 // connections
}

// New returns the server of a member. The handler metrics answers /metrics. The server answers requests for IP addresses and
// for names of loopback. It also answers requests for the names in the given URLs and in the URLs of the configuration.
func New(n Node, store *kv.Store, metrics http.Handler, urls ...string) *Server {
	s := &Server{
		node: n, store: store, id: string(n.Status().ID), names: map[string]bool{},
		running: make(chan struct{}, RequestsMax), waiting: make(chan struct{}, SnapshotsMax),
		changing: make(chan struct{}, ChangesMax), forward: newForwarder(),
		bodies:  transfers{countMax: BodiesMax, bytesMax: BodiesBytesMax},
		replies: transfers{countMax: RepliesMax, bytesMax: RepliesBytesMax},
	}
	for _, u := range urls {
		s.names[nameIn(u)] = true
	}
	s.routes = map[string]handler{
		api.KeysPath:     methods(methodTable{http.MethodGet: s.list}),
		api.StatusPath:   methods(methodTable{http.MethodGet: s.status}),
		api.HealthPath:   methods(methodTable{http.MethodGet: s.health}),
		api.ReadyPath:    methods(methodTable{http.MethodGet: s.ready}),
		api.TransferPath: methods(methodTable{http.MethodPost: s.transfer}),
		api.SnapshotPath: methods(methodTable{http.MethodPost: s.snapshot}),
		api.MembersPath:  methods(methodTable{http.MethodGet: s.members, http.MethodPost: s.changeMembers}),
		api.MetricsPath:  methods(methodTable{http.MethodGet: capture(metrics)}),
	}
	return s
}

// Drain makes the server close each connection after its next answer, so that clients go to other members. It waits until no
// connection is left, or until the context ends. A connection that is closed while it is idle might fail a request that a client
// sends at that moment.
func (s *Server) Drain(ctx context.Context) {
	s.draining.Store(true)
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
	keepToItself(w.Header())
	if err := s.checkBrowser(r); err != nil {
		s.deliver(w, r, fail(explain(err)))
		return
	}
	body, x, err := s.readBody(w, r)
	defer x.done()
	if err != nil {
		s.deliver(w, r, fail(explain(err)))
		return
	}
	a := s.carryOut(r, body)
	x.done() // a client may read the answer slowly
	s.deliver(w, r, a)
}

// prompt lists paths. Requests for these paths never wait, and must work under load. POST /members is an exception.
var prompt = []string{api.HealthPath, api.StatusPath, api.MetricsPath, api.MembersPath}

// carryOut returns the answer to a request.
func (s *Server) carryOut(r *http.Request, body []byte) answer {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return fail(api.Errorf(api.BadRequest, "escape the query as in a URL", "bad query: %v", err))
	}
	timeout, changes := RequestTimeout, r.URL.Path == api.MembersPath && r.Method == http.MethodPost
	switch {
	case changes:
		timeout = ChangeTimeout
	case slices.Contains(prompt, r.URL.Path):
		return s.routes[r.URL.Path](r, body)
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	default:
		return fail(api.Errorf(api.Overloaded, "try again in a second", "%d requests are being carried out", RequestsMax))
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
	return fail(api.Errorf(api.NotFound, "the paths are /kv, /kv/{key}, /status, /healthz, /readyz, /metrics, /transfer, /snapshot, /members",
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
		a := fail(api.Errorf(api.MethodNotAllowed, "use "+strings.Join(allowed, " or "),
			"%s is not allowed for %s", r.Method, r.URL.Path))
		a.header.Set("Allow", strings.Join(allowed, ", "))
		return a
	}
}

// explain returns the API's error for an error of the node. Its code tells the caller how to react.
func explain(err error) *api.Error {
	e := *explained(err)
	e.Message = strings.TrimPrefix(e.Message, "raft: ")
	return &e
}

// explain is like the function explain, for an error of this member itself. After a loss of the majority, neither a wait nor
// a command helps. In that case, this method replaces the message and the remedy.
func (s *Server) explain(err error) *api.Error {
	e := explain(err)
	if e.Code == api.NoLeader || errors.Is(err, node.ErrWiped) {
		if lost := s.node.Status().MajorityLost; lost != "" {
			e.Message, e.Remedy = lost, "see docs/membership.md"
		}
	}
	return e
}

func explained(err error) *api.Error {
	if e := explainChange(err); e != nil {
		return e
	}
	var mine *api.Error
	var notLeader *node.NotLeaderError
	var tooLarge *raft.TooLargeError
	var snapshot *node.SnapshotError
	var room *raft.SpaceError
	var full *raft.NoRoomError
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.Is(err, node.ErrOutcomeUnknown):
		return api.Errorf(api.OutcomeUnknown, "the request may or may not be carried out: read before you try again", "%v", err)
	case errors.As(err, &full):
		return api.Errorf(api.Overloaded, "try again; if this persists, raftkv status says which disk needs room", "%v", err)
	case errors.Is(err, raft.ErrOverloaded):
		return api.Errorf(api.Overloaded, "try again in a second", "%v", err)
	case errors.Is(err, raft.ErrRemoved):
		return api.Errorf(api.RemovedMember, "ask another member", "%v", err)
	case errors.Is(err, node.ErrWiped):
		return api.Errorf(api.Closed, "ask another member; raftkv members replace puts this one in its former place", "%v", err)
	case servesNothing(err):
		return api.Errorf(api.Closed, "ask another member", "%v", err)
	case errors.Is(err, kv.ErrRestoring):
		return api.Errorf(api.Restoring, "ask another member", "%v", err)
	case errors.Is(err, node.ErrReadTimedOut):
		return api.Errorf(api.ReadTimedOut, "try again, or read with ?consistency=stale", "%v", err)
	case errors.Is(err, node.ErrNoTarget), errors.Is(err, node.ErrTransferTimedOut):
		return api.Errorf(api.TransferFailed, "raftkv status shows the members; then try again", "%v", err)
	case errors.As(err, &room):
		remedy := "make room on the disk of this member"
		if room.Need <= room.Free {
			remedy += ", or lower --snapshot-reserve-bytes"
		}
		return api.Errorf(api.NoRoom, remedy, "no snapshot was taken: it needs %d bytes, %d are free, and %d of them stay free for the log", room.Need, room.Free, room.Reserve)
	case errors.As(err, &snapshot):
		return api.Errorf(api.SnapshotFailed, "look at the log of this member; it tries again by itself", "%v", err)
	case errors.Is(err, node.ErrSnapshotUnsupported):
		return api.Errorf(api.Unsupported, "ask another member", "%v", err)
	case errors.As(err, &notLeader) && notLeader.Leader != nil:
		return api.Errorf(api.NotLeader, "ask the leader, or try again later", "%v", err)
	case errors.As(err, &notLeader):
		return api.Errorf(api.NoLeader, "try again in a second; /status says why there is none", "%v", err)
	case errors.As(err, &tooLarge):
		return api.Errorf(api.ValueTooLarge, "store less under one key", "%v", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return api.Errorf(api.NoLeader, "try again; /status says why it took so long", "the request did not begin in time: %v", err)
	}
	return api.Errorf(api.Internal, "look at the log of this member", "%v", err)
}

// servesNothing reports whether err means that this member no longer serves requests. In that case the request was not
// carried out.
func servesNothing(err error) bool {
	var stale *raft.StaleImageError
	var contradicted *raft.ContradictedError
	return errors.Is(err, raft.ErrClosed) || errors.Is(err, node.ErrWiped) || errors.Is(err, raft.ErrRemoved) || errors.As(err, &stale) || errors.As(err, &contradicted)
}

// health reports whether the node runs.
func (s *Server) health(*http.Request, []byte) answer {
	if err := s.node.Err(); err != nil {
		return fail(api.Errorf(api.Closed, "restart this member; its log says more", "the node has ended: %v", err))
	}
	return reply(http.StatusOK, map[string]string{"status": "ok"})
}

// ready answers whether the log is replayed and a leader is known.
func (s *Server) ready(r *http.Request, _ []byte) answer {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := s.node.Ready(ctx)
	switch {
	case servesNothing(err): // waiting would not help
		e := s.explain(err)
		return fail(api.Errorf(api.NotReady, e.Remedy, "%s", e.Message))
	case err != nil:
		return fail(api.Errorf(api.NotReady, "ask another member; `raftkv status` says what this one waits for", "%v", err))
	}
	return reply(http.StatusOK, map[string]string{"status": "ready"})
}

// applied returns the header for an answer that this version of the store gives.
func applied(v kv.View) http.Header {
	h := http.Header{}
	h.Set(api.AppliedHeader, strconv.FormatUint(uint64(v.Applied()), 10))
	return h
}
