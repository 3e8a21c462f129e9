package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/node"
)

// Limits of forwarding.
const (
	forwardDialTimeout   = time.Second
	forwardIdleMax       = 64      // idle connections to the leader
	forwardResponseBytes = 1 << 20 // maximum size of a forwarded answer

	// leaderPatience is how long a read or a write waits for a leader that takes it, and leaderPause how long it waits at most
	// before it tries again.
	leaderPatience = time.Second
	leaderPause    = 50 * time.Millisecond
	// answerTime is how long a former leader may take to answer, once another member leads.
	answerTime = 100 * time.Millisecond
)

// forwarder forwards requests to the leader. A forwarded request is never forwarded again. If a member receives such a
// request and does not lead, it answers "not_leader".
type forwarder struct {
	client *http.Client

	mu      sync.Mutex
	waiting map[*waiter]struct{} // at most RequestsMax
}

// waiter is a forwarded request without an answer yet.
type waiter struct {
	leader raft.NodeID
	cancel context.CancelCauseFunc
}

func newForwarder() forwarder {
	return forwarder{
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:            (&net.Dialer{Timeout: forwardDialTimeout}).DialContext,
				MaxIdleConnsPerHost:    forwardIdleMax,
				IdleConnTimeout:        IdleTimeout / 2,
				MaxResponseHeaderBytes: HeaderBytesMax,
				DisableCompression:     true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		waiting: map[*waiter]struct{}{},
	}
}

// Run follows the leadership until the context or the node ends. It gives up a request to a former leader after answerTime,
// with an unknown outcome, because that leader may be frozen or cut off and may never answer. A leader that has transferred its
// leadership answers.
func (s *Server) Run(ctx context.Context) {
	defer s.forward.client.CloseIdleConnections()
	later := time.AfterFunc(time.Hour, func() {})
	defer func() { later.Stop() }()
	for now := range s.node.Watch(ctx) {
		later.Stop()
		if now.Leader != "" && !now.ByTransfer {
			later = time.AfterFunc(answerTime, func() { s.forward.giveUpUnless(now.Leader) })
		}
	}
}

func (f *forwarder) giveUpUnless(leader raft.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.waiting {
		if w.leader != leader {
			w.cancel(fmt.Errorf("%s leads now, and the request had gone to %s", leader, w.leader))
		}
	}
}

// wait registers a request to the leader. The caller must call done when the request has ended.
func (f *forwarder) wait(ctx context.Context, leader raft.NodeID) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &waiter{leader, cancel}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[w] = struct{}{}
	return ctx, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting, w)
	}
}

// untilLed makes attempts until one does not fail for want of a leader. It tries again whenever a leader is known, so that a
// change of the leader delays a request and does not fail it. A forwarded request gets one attempt, because the member that
// forwarded it tries again. attempt reports whether the request was refused for want of a leader, and which leader was asked.
func (s *Server) untilLed(r *http.Request, attempt func() (refused bool, by raft.NodeID)) {
	ctx, cancel := context.WithTimeout(r.Context(), leaderPatience)
	defer cancel()
	for {
		refused, by := attempt()
		if !refused || ctx.Err() != nil || r.Header.Get(api.ForwardedHeader) != "" {
			return
		}
		s.awaitLeader(ctx, by)
	}
}

// awaitLeader waits until a leader is known other than the one that has refused a request, but not longer than leaderPause:
// the same member may lead again.
func (s *Server) awaitLeader(ctx context.Context, by raft.NodeID) {
	ctx, cancel := context.WithTimeout(ctx, leaderPause)
	defer cancel()
	for now := range s.node.Watch(ctx) {
		if now.Leader != "" && now.Leader != by {
			return
		}
	}
}

// leaderOf returns the leader that an error of the node names, or "". refused is true if the error says that this member does
// not lead.
func leaderOf(err error) (refused bool, leader raft.NodeID) {
	var notLeader *node.NotLeaderError
	if refused = errors.As(err, &notLeader); refused && notLeader.Leader != nil {
		leader = notLeader.Leader.ID
	}
	return refused, leader
}

// unled reports whether the answer says that nothing was carried out, because the member that answered, or that was to answer,
// does not lead.
func (a *answer) unled() bool {
	if a.status != http.StatusServiceUnavailable {
		return false
	}
	var failure admin.Error
	_ = json.Unmarshal(a.body, &failure)
	return slices.Contains([]admin.Code{admin.NoLeader, admin.NotLeader, api.LeaderUnreachable, admin.Closed}, failure.Code)
}

// failOrForward answers a request that this member's node refused with err. If another member leads, failOrForward forwards
// the request.
func (s *Server) failOrForward(r *http.Request, body []byte, err error) answer {
	refused := func() answer { return fail(s.explain(err)) }
	var notLeader *node.NotLeaderError
	if !errors.As(err, &notLeader) || notLeader.Leader == nil {
		return refused()
	}
	return s.forwardTo(r, body, *notLeader.Leader, refused)
}

// forwardTo forwards a refused request to the leader, unless it was forwarded already, or this member itself leads by now.
func (s *Server) forwardTo(r *http.Request, body []byte, leader raft.Member, refused func() answer) answer {
	if string(leader.ID) == s.id {
		return refused()
	}
	if by := r.Header.Get(api.ForwardedHeader); by != "" {
		return fail(api.Errorf(admin.NotLeader, "try again in a second",
			"%s forwarded the request to %s, which does not lead", by, s.id))
	}
	there, err := s.forward.send(r, body, leader, s.id)
	if err == nil && r.URL.Path == admin.MembersPath {
		err = checkRelease(there, leader)
	}
	if err != nil {
		there = fail(s.explain(err))
	}
	a := answer{there.status, http.Header{}, there.body}
	a.header.Set(api.ForwardedHeader, s.id)
	for _, name := range []string{"Content-Type", "ETag", "Retry-After", api.NodeHeader} {
		if value := there.header.Get(name); value != "" {
			a.header.Set(name, value)
		}
	}
	return a
}

// checkRelease returns an error if the leader's answer shows that it runs an earlier release, which cannot make the change.
func checkRelease(there answer, leader raft.Member) error {
	var failure admin.Error
	if there.status < http.StatusBadRequest || json.Unmarshal(there.body, &failure) != nil || !api.OfEarlierRelease(&failure) {
		return nil
	}
	return api.Errorf(admin.EarlierRelease, fmt.Sprintf("upgrade %s first, then try again", leader.ID),
		"%s leads, and runs an earlier release, which cannot make this change", leader.ID)
}

// send forwards the request and returns the complete answer. An answer that breaks off in the middle is an error.
func (f *forwarder) send(r *http.Request, body []byte, leader raft.Member, by string) (answer, error) {
	target, err := url.Parse(leader.Meta)
	if err != nil || !api.IsURL(leader.Meta) {
		return answer{}, api.Errorf(api.LeaderUnreachable, "set its URL in --peers",
			"%s leads, but its URL is %q", leader.ID, leader.Meta)
	}
	ctx := r.Context()
	if r.URL.Path != admin.TransferPath { // a transfer succeeds when another member leads
		var done func()
		ctx, done = f.wait(ctx, leader.ID)
		defer done()
	}
	there := *r.URL
	there.Scheme, there.Host = target.Scheme, target.Host
	request, err := http.NewRequestWithContext(ctx, r.Method, there.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, api.Errorf(admin.BadRequest, "send another request", "%v", err)
	}
	for _, name := range []string{"If-Match", "If-None-Match", "Content-Type"} {
		request.Header[name] = r.Header[name]
	}
	request.Header.Set(api.ForwardedHeader, by)
	response, err := api.Send(f.client, request)
	if api.CodeOf(err) == api.Unreachable {
		return answer{}, api.Errorf(api.LeaderUnreachable, "try again in a second", "%s leads, but: %v", leader.ID, err)
	}
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	whole := answer{status: response.StatusCode, header: response.Header}
	whole.body, err = io.ReadAll(io.LimitReader(response.Body, forwardResponseBytes))
	if err != nil {
		return answer{}, api.Unanswered(target.Host, err)
	}
	return whole, nil
}
