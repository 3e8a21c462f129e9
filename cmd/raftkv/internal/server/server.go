// Package server is the HTTP side of a member of the demo store.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/cmd/raftkv/internal/api"
	"github.com/coxswain/raft/cmd/raftkv/internal/kv"
)

// Limits of the server.
const (
	RequestTimeout    = 5 * time.Second // of carrying out one request
	readyTimeout      = time.Second
	ReadHeaderTimeout = 5 * time.Second
	ReadTimeout       = 30 * time.Second
	WriteTimeout      = 30 * time.Second
	IdleTimeout       = 2 * time.Minute
	HeaderBytesMax    = 16 << 10
	RequestsMax       = 512 // that may wait, at the same time; more are answered "overloaded"
)

// Node is what the server needs of a *raft.Node.
type Node interface {
	Propose(ctx context.Context, cmd []byte) (raft.Result, error)
	ReadIndex(ctx context.Context) (raft.Index, error)
	TransferLeadership(ctx context.Context, to raft.NodeID) error
	Watch(ctx context.Context) iter.Seq[raft.Leadership]
	Ready(ctx context.Context) error
	Status() raft.Status
	Err() error
}

var _ Node = (*raft.Node)(nil)

// Server answers HTTP requests from a member's node and store. It is an http.Handler.
type Server struct {
	node    Node
	store   *kv.Store
	id      string
	mux     *http.ServeMux
	running chan struct{} // a semaphore of RequestsMax
	forward forwarder
}

// New returns the server of the member; metrics answers /metrics.
func New(node Node, store *kv.Store, metrics http.Handler) *Server {
	s := &Server{
		node: node, store: store, id: string(node.Status().ID),
		mux: http.NewServeMux(), running: make(chan struct{}, RequestsMax), forward: newForwarder(),
	}
	s.mux.HandleFunc(api.KeysPath, methods(methodTable{http.MethodGet: s.list}))
	s.mux.HandleFunc(api.StatusPath, methods(methodTable{http.MethodGet: s.status}))
	s.mux.HandleFunc(api.HealthPath, methods(methodTable{http.MethodGet: s.health}))
	s.mux.HandleFunc(api.ReadyPath, methods(methodTable{http.MethodGet: s.ready}))
	s.mux.HandleFunc(api.TransferPath, methods(methodTable{http.MethodPost: s.transfer}))
	s.mux.HandleFunc(api.MetricsPath, methods(methodTable{http.MethodGet: metrics.ServeHTTP}))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, api.Errorf(api.NotFound, "the paths are /kv, /kv/{key}, /status, /healthz, /readyz, /metrics, /transfer",
			"no such path: %s", r.URL.Path))
	})
	return s
}

// HTTP returns an http.Server around the handler, with all limits set.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       ReadTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    HeaderBytesMax,
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(api.NodeHeader, s.id)
	switch r.URL.Path {
	case api.HealthPath, api.StatusPath, api.MetricsPath: // they never wait, and have to work under load
		s.mux.ServeHTTP(w, r)
		return
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	default:
		fail(w, api.Errorf(api.Overloaded, "try again in a second", "%d requests are being carried out", RequestsMax))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	// Keys are taken from the path as it was sent: a ServeMux would resolve dots and double slashes.
	if escaped, found := strings.CutPrefix(r.URL.EscapedPath(), api.KeysPath+"/"); found {
		s.serveKey(w, r, escaped)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// methodTable says which handler answers which method.
type methodTable map[string]http.HandlerFunc

func methods(table methodTable) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if handler, found := table[method]; found {
			handler(w, r)
			return
		}
		allowed := make([]string, 0, len(table))
		for method := range table {
			allowed = append(allowed, method)
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		fail(w, api.Errorf(api.MethodNotAllowed, "use "+strings.Join(allowed, " or "),
			"%s is not for %s", r.Method, r.URL.Path))
	}
}

// reply writes the value as JSON.
func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client has gone: nobody to tell
}

// fail writes the error.
func fail(w http.ResponseWriter, err *api.Error) {
	switch err.Code {
	case api.Overloaded, api.NoLeader, api.NotLeader, api.LeaderUnreachable:
		w.Header().Set("Retry-After", "1")
	}
	reply(w, err.Status(), err)
}

// explain sorts an error of the node by what the caller should do.
func explain(err error) *api.Error {
	var mine *api.Error
	var notLeader *raft.NotLeaderError
	var tooLarge *raft.TooLargeError
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.Is(err, raft.ErrOutcomeUnknown):
		return api.Errorf(api.OutcomeUnknown, "it may or may not be carried out: read before you try again", "%v", err)
	case errors.Is(err, raft.ErrOverloaded):
		return api.Errorf(api.Overloaded, "try again in a second", "%v", err)
	case errors.Is(err, raft.ErrClosed):
		return api.Errorf(api.Closed, "ask another member", "%v", err)
	case errors.Is(err, raft.ErrReadTimedOut):
		return api.Errorf(api.ReadTimedOut, "try again, or read with ?consistency=stale", "%v", err)
	case errors.Is(err, raft.ErrWiped):
		return api.Errorf(api.Closed, "ask another member", "%v", err)
	case errors.Is(err, raft.ErrNoTarget), errors.Is(err, raft.ErrTransferTimedOut):
		return api.Errorf(api.TransferFailed, "look at /status, and try again", "%v", err)
	case errors.As(err, &notLeader) && notLeader.Leader != nil:
		return api.Errorf(api.NotLeader, "ask the leader, or try again", "%v", err)
	case errors.As(err, &notLeader):
		return api.Errorf(api.NoLeader, "try again in a second; /status says why there is none", "%v", err)
	case errors.As(err, &tooLarge):
		return api.Errorf(api.ValueTooLarge, "store less under one key", "%v", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return api.Errorf(api.NoLeader, "try again; /status says why it took so long", "it did not begin in time: %v", err)
	}
	return api.Errorf(api.Internal, "look at the log of this member", "%v", err)
}

// health says whether the node runs.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.node.Err(); err != nil {
		fail(w, api.Errorf(api.Closed, "restart this member; its log says more", "the node has ended: %v", err))
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready says whether the log is replayed and a leader known.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := s.node.Ready(ctx)
	switch {
	case errors.Is(err, raft.ErrWiped), errors.Is(err, raft.ErrClosed): // waiting would not help
		fail(w, api.Errorf(api.NotReady, explain(err).Remedy, "%v", err))
		return
	case err != nil:
		fail(w, api.Errorf(api.NotReady, "wait", "%s", strings.TrimSpace(s.node.Status().LeaderReason+" ("+err.Error()+")")))
		return
	}
	reply(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Server) setApplied(w http.ResponseWriter) {
	w.Header().Set(api.AppliedHeader, strconv.FormatUint(uint64(s.store.Applied()), 10))
}
