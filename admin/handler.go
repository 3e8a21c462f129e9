// Package admin serves the administration of a member over HTTP: its status, health and readiness, the members and their
// changes, transfers of leadership, snapshots, metrics and trace events. It starts no goroutine. GET /live is a page for people:
// it shows the members and what happens among them as long as one of them answers.
//
// A [Handler] authenticates nobody: it belongs behind the authentication of your program, because its callers can change the
// members and so end the cluster. It refuses what a browser sends for pages of other sites, see [Guard].
//
//	mux.Handle("/raft/", onlyOperators(http.StripPrefix("/raft", admin.Handler(n, admin.Options{}))))
//
// The page reads what each member says about itself from that member: from the origin of the URL in its Meta, below the same
// prefix. So serve all members alike. The browser lets it, because a member allows pages of the origins of its members to read
// [EventsPath] and [DoctorPath], by GET, without cookies; nothing else, and nobody else. The page changes nothing.
//
// Answers are JSON, except the page and its parts, events, metrics and trace events. Every answer that is not a success is an [Error].
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
)

// Paths.
const (
	StatusPath   = "/status"
	HealthPath   = "/healthz"
	ReadyPath    = "/readyz"
	MembersPath  = "/members"
	TransferPath = "/transfer"
	SnapshotPath = "/snapshot"
	MetricsPath  = "/metrics"
	TracePath    = "/trace"
	LivePath     = "/live"   // the page
	EventsPath   = "/events" // server-sent events for the page
	DoctorPath   = "/doctor" // what Diagnose finds, asked by this member
)

// Limits of a Handler. Set the other limits of a connection, such as ReadHeaderTimeout, at the http.Server.
const (
	RequestTimeout = 5 * time.Second
	ReadyTimeout   = time.Second      // of GET /readyz
	ChangeTimeout  = 10 * time.Second // of POST /members: longer than the contact with a new member takes
	WaitingMax     = 512              // GET /readyz and POST /transfer that wait; the answer to others is Overloaded
	SnapshotsMax   = 16               // POST /snapshot that wait, likewise
	ChangesMax     = 16               // POST /members that wait, likewise
	TracesMax      = 4                // GET /trace whose answers are being written, likewise
	StreamsMax     = 64               // GET /events, likewise
	StreamTimeout  = 10 * time.Second // in which a client of GET /events takes what is sent to it
	BodyBytesMax   = 1 << 20
	BodiesMax      = 64 // bodies that are being read
	BodyTimeout    = 10 * time.Second

	learnTimeout = time.Second // see leaderAfter
	learnPoll    = 5 * time.Millisecond
)

const jsonType = "application/json"

// Member is what a Handler needs of a member. *node.Node is one.
type Member interface {
	Status() node.Status
	Members() node.Members
	Ready(ctx context.Context) error
	ReadIndex(ctx context.Context) (raft.Index, error)
	Err() error
	ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (node.Members, error)
	TransferLeadership(ctx context.Context, to raft.NodeID) error
	Snapshot(ctx context.Context) (raft.EntryID, error)
	WriteTrace(w io.Writer) error
	Decisions(after uint64) []node.Decision
	Metrics() node.Metrics
}

var _ Member = (*node.Node)(nil)

// Options of a Handler. The zero value is usable.
type Options struct {
	// Metrics answers GET /metrics, for instance promhttp.HandlerFor with the collectors of package metrics. If it is nil, there
	// is no such path.
	Metrics http.Handler
	// Hosts are further names under which clients reach the handler, for instance that of a proxy. See Guard.
	Hosts []string
	// Origins are further origins, as https://ops.example, whose pages may read GET /events and GET /doctor, for instance that
	// of a proxy at which people open the page.
	Origins []string
	// Client asks the other members for their status, for GET /doctor. Nil: a client without settings of its own.
	Client *http.Client
	// CheckChange may refuse a change that the library accepts, for instance because of its Meta. Before it is called, this
	// member has learned of the configuration in force, if that was possible. Nil: no change is refused.
	CheckChange func(raft.Change) *Error
}

// handler answers the requests of Handler.
type handler struct {
	member  Member
	options Options
	routes  map[string]map[string]http.HandlerFunc // by path and method
	// These semaphores limit what waits at a time.
	waiting, snapshots, changes, traces, bodies, streams chan struct{}
	// streamTimeout is StreamTimeout, except in tests.
	streamTimeout time.Duration
	live          live
	doctor        doctor
}

// Handler returns a handler for the paths of this package. If it is mounted under a prefix, remove the prefix with
// http.StripPrefix. Any number of requests may run at a time, but those that wait are limited.
//
// Changes and transfers reach the leader from any member that forwards. Without forwarding, a member that does not lead answers
// with the code NotLeader and names the leader. If a change or a snapshot takes longer than a request may, it continues, and the answer has the status 202.
func Handler(m Member, o Options) http.Handler {
	h := &handler{
		member: m, options: o, waiting: make(chan struct{}, WaitingMax), snapshots: make(chan struct{}, SnapshotsMax),
		changes: make(chan struct{}, ChangesMax), traces: make(chan struct{}, TracesMax), bodies: make(chan struct{}, BodiesMax),
		streams: make(chan struct{}, StreamsMax), streamTimeout: StreamTimeout,
	}
	h.live.ended = make(chan struct{})
	get := func(f answer) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{http.MethodGet: h.serve(f)}
	}
	post := func(f answer) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{http.MethodPost: h.serve(f)}
	}
	h.routes = map[string]map[string]http.HandlerFunc{
		StatusPath:   get(h.status),
		HealthPath:   get(h.health),
		ReadyPath:    get(h.ready),
		MembersPath:  {http.MethodGet: h.serve(h.members), http.MethodPost: h.serve(h.changeMembers)},
		TransferPath: post(h.transfer),
		SnapshotPath: post(h.snapshot),
		TracePath:    {http.MethodGet: h.trace},
		EventsPath:   {http.MethodGet: h.events},
		DoctorPath:   get(h.diagnosis),
	}
	for path := range Page {
		h.routes[path] = map[string]http.HandlerFunc{http.MethodGet: h.page}
	}
	if o.Metrics != nil {
		h.routes[MetricsPath] = map[string]http.HandlerFunc{http.MethodGet: o.Metrics.ServeHTTP}
	}
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused := h.guard(w, r); refused != nil {
		refused.Write(w)
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		errorf(BadRequest, "escape the query as in a URL", "bad query: %v", err).Write(w)
		return
	}
	table, found := h.routes[r.URL.Path]
	if !found {
		errorf(NotFound, "the paths are "+strings.Join(slices.Sorted(maps.Keys(h.routes)), ", "), "no such path: %s", r.URL.Path).Write(w)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if answers, allowed := table[method]; allowed {
		answers(w, r)
		return
	}
	methods := slices.Sorted(maps.Keys(table))
	w.Header().Set("Allow", strings.Join(methods, ", "))
	errorf(MethodNotAllowed, "use "+strings.Join(methods, " or "), "%s is not allowed for %s", r.Method, r.URL.Path).Write(w)
}

// answer carries out a request. It returns the status and the body of the answer.
type answer func(w http.ResponseWriter, r *http.Request) (status int, body any, err error)

func (h *handler) serve(f answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, body, err := f(w, r)
		if err != nil {
			Explain(h.member, err).Write(w)
			return
		}
		writeJSON(w, status, body)
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		errorf(Internal, "report this", "%v", err).Write(w)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// enter takes a slot of the semaphore. The caller must call leave.
func enter(slots chan struct{}, what string) (leave func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	default:
		return nil, errorf(Overloaded, "try again in a second", "%d requests %s", cap(slots), what)
	}
}

// readBody reads the whole body of the request within BodyTimeout. The error is an *Error.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	leave, err := enter(h.bodies, "are being read")
	if err != nil {
		w.Header().Set("Connection", "close") // otherwise http.Server would wait for the body before it answers
		return nil, err
	}
	defer leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyBytesMax))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{}) // otherwise the deadline would end the request while it is carried out
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, errorf(ValueTooLarge, "send less at once", "the body is over the limit of %d bytes", BodyBytesMax)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errorf(BodyTimedOut, "send it faster", "the body did not arrive within %v", BodyTimeout)
	}
	return nil, errorf(BadRequest, "send it again", "the body broke off: %v", err)
}

// status answers with the member's status.
func (h *handler) status(http.ResponseWriter, *http.Request) (int, any, error) {
	return http.StatusOK, StatusOf(h.member), nil
}

// members answers with the configuration in force, as this member knows it. It never waits.
func (h *handler) members(http.ResponseWriter, *http.Request) (int, any, error) {
	return http.StatusOK, h.membersNow(), nil
}

func (h *handler) membersNow() Members { return describeMembers(h.member.Members(), h.member.Status()) }

// health reports whether the node runs.
func (h *handler) health(http.ResponseWriter, *http.Request) (int, any, error) {
	if err := h.member.Err(); err != nil {
		return 0, nil, errorf(Closed, "restart this member; its log says more", "the node has ended: %v", err)
	}
	return http.StatusOK, map[string]string{"status": "ok"}, nil
}

// ready answers whether the log is replayed and a leader is known.
func (h *handler) ready(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	leave, err := enter(h.waiting, "wait until this member is ready")
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), ReadyTimeout)
	defer cancel()
	err = h.member.Ready(ctx)
	switch {
	case servesNothing(err): // waiting would not help
		e := Explain(h.member, err)
		return 0, nil, errorf(NotReady, e.Remedy, "%s", e.Message)
	case err != nil:
		return 0, nil, errorf(NotReady, "ask another member; `GET /status` says what this one waits for", "%v", err)
	}
	return http.StatusOK, map[string]string{"status": "ready"}, nil
}

// transfer transfers the leadership to the member that ?to= names. Without a name, the node chooses the best candidate.
func (h *handler) transfer(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	leave, err := enter(h.waiting, "wait for a transfer")
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
	defer cancel()
	for name := range r.URL.Query() {
		if name != "to" {
			return 0, nil, errorf(BadRequest, "write POST "+TransferPath+"?to=ID, or leave it out", "unknown parameter %q", name)
		}
	}
	if r.ContentLength != 0 {
		return 0, nil, errorf(BadRequest, "write POST "+TransferPath+"?to=ID", "a transfer takes no body")
	}
	before, to := h.member.Status().Leader, raft.NodeID(r.URL.Query().Get("to"))
	if err := h.member.TransferLeadership(ctx, to); err != nil {
		return 0, nil, err
	}
	if to == "" {
		to = h.leaderAfter(ctx, before)
	}
	return http.StatusOK, Transferred{Leader: string(to)}, nil
}

// leaderAfter returns the next leader. If another member has transferred its leadership, this member learns of it a little
// later.
func (h *handler) leaderAfter(ctx context.Context, before raft.NodeID) raft.NodeID {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	for {
		now := h.member.Status().Leader
		if now != "" && now != before {
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-time.After(learnPoll):
		}
	}
}

// snapshot makes this member take a snapshot. If that takes longer than a request may, the answer has status 202, and /status
// shows the progress.
func (h *handler) snapshot(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	leave, err := enter(h.snapshots, "wait for a snapshot")
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), RequestTimeout)
	defer cancel()
	before := h.member.Status()
	last, err := h.member.Snapshot(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusAccepted, Snapshotted{ID: string(before.ID), Last: uint64(before.Applied)}, nil
	case err != nil:
		return 0, nil, err
	}
	return http.StatusOK, Snapshotted{
		ID: string(before.ID), Taken: true, Last: uint64(last.Index), Term: uint64(last.Term), Bytes: h.member.Status().Snapshot.Bytes,
	}, nil
}

// trace answers with the latest decisions of the member, as lines of JSON. `raftlab trace --from FILE` shows them.
func (h *handler) trace(w http.ResponseWriter, _ *http.Request) {
	leave, err := enter(h.traces, "read trace events")
	if err != nil {
		Explain(h.member, err).Write(w)
		return
	}
	defer leave()
	var events bytes.Buffer
	if err := h.member.WriteTrace(&events); err != nil {
		Explain(h.member, err).Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = w.Write(events.Bytes())
}
