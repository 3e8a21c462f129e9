package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func leaderIs(id raft.NodeID, url string) error {
	return &node.NotLeaderError{Leader: &raft.Member{ID: id, Address: "127.0.0.1:1", Meta: url}}
}

func TestForward_AFollowerPassesWritesOnAndSaysSo(t *testing.T) {
	leader, follower := newMember(t, "n1"), newMember(t, "n2")
	follower.Fail(leaderIs("n1", leader.URL))
	value := strings.Repeat("\x00\xff", 1000)
	path := api.KeyPath("a/../b?c")
	r := follower.do(t, "PUT", path, value, "If-None-Match", "*")
	assert.Equal(t, 200, r.StatusCode)
	assert.JSONEq(t, `{"revision":1,"existed":false}`, r.body)
	assert.Equal(t, `"1"`, r.Header.Get("ETag"))
	assert.Equal(t, "n1", r.Header.Get(api.NodeHeader))
	assert.Equal(t, "n2", r.Header.Get(api.ForwardedHeader))
	assert.Equal(t, value, leader.do(t, "GET", path, "").body)

	assert.Equal(t, 412, follower.do(t, "PUT", path, value, "If-None-Match", "*").StatusCode, "conditions are forwarded")
	assert.Equal(t, 200, follower.do(t, "DELETE", path, "", "If-Match", `"1"`).StatusCode)
	assert.JSONEq(t, `{"leader":"n2"}`, follower.do(t, "POST", "/transfer?to=n2", "").body)
}

func TestForward_NeverLoops(t *testing.T) {
	a, b := newMember(t, "n1"), newMember(t, "n2")
	a.Fail(leaderIs("n2", b.URL))
	b.Fail(leaderIs("n1", a.URL))
	r := a.do(t, "PUT", "/kv/k", "v")
	assert.Equal(t, 503, r.StatusCode)
	assert.Equal(t, admin.NotLeader, r.failure(t).Code)
	assert.Equal(t, "1", r.Header.Get("Retry-After"))

	a.Fail(leaderIs("n1", a.URL))
	assert.Equal(t, admin.NotLeader, a.do(t, "PUT", "/kv/k", "v").failure(t).Code, "a leader that does not know yet that it leads")
}

func TestForward_ALeaderThatCannotBeReachedHasSeenNothing(t *testing.T) {
	gone, follower := httptest.NewServer(http.NotFoundHandler()), newMember(t, "n2")
	gone.Close()
	for _, url := range []string{gone.URL, "", "no url", "ftp://127.0.0.1"} {
		follower.Fail(leaderIs("n1", url))
		r := follower.do(t, "PUT", "/kv/k", "v")
		assert.Equal(t, api.LeaderUnreachable, r.failure(t).Code, url)
		assert.Equal(t, 503, r.StatusCode, url)
	}
}

func TestForward_ALeaderThatBreaksOffLeavesTheOutcomeUnknown(t *testing.T) {
	follower := newMember(t, "n2")
	for rule, handler := range map[string]http.HandlerFunc{
		"before the answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"within the answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		},
	} {
		leader := httptest.NewServer(handler)
		follower.Fail(leaderIs("n1", leader.URL))
		r := follower.do(t, "PUT", "/kv/k", "v")
		assert.Equal(t, 504, r.StatusCode, rule)
		assert.Equal(t, admin.OutcomeUnknown, r.failure(t).Code, rule)
		leader.Close()
	}
}

func TestForward_IsGivenUpWhenAnotherMemberLeads(t *testing.T) {
	follower := newMember(t, "n2")
	arrived, release := make(chan struct{}), make(chan struct{})
	frozen := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer frozen.Close()
	defer close(release)
	follower.Fail(leaderIs("n1", frozen.URL))
	answered := make(chan response, 1)
	go func() { answered <- follower.do(t, "PUT", "/kv/k", "v") }()
	<-arrived
	follower.Leader <- raft.Leadership{Term: 1, Leader: "n1"}
	follower.Leader <- raft.Leadership{Term: 1} // no leader is known, and the former one may return
	select {
	case <-answered:
		require.Fail(t, "given up although nobody else leads")
	default:
	}
	follower.Leader <- raft.Leadership{Term: 2, Leader: "n3"}
	r := <-answered
	assert.Equal(t, admin.OutcomeUnknown, r.failure(t).Code)
	assert.Contains(t, r.failure(t).Message, "n3 leads now")
}

func TestForward_ATransferIsNotGivenUpWhenItSucceeds(t *testing.T) {
	follower := newMember(t, "n2")
	arrived, release := make(chan struct{}), make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write([]byte(`{"leader":"n3"}`))
	}))
	defer leader.Close()
	follower.Fail(leaderIs("n1", leader.URL))
	answered := make(chan response, 1)
	go func() { answered <- follower.do(t, "POST", "/transfer", "") }()
	<-arrived
	follower.Leader <- raft.Leadership{Term: 2, Leader: "n3"}
	follower.Leader <- raft.Leadership{Term: 2, Leader: "n3"} // the server has handled the previous value
	close(release)
	assert.JSONEq(t, `{"leader":"n3"}`, (<-answered).body)
}

// A leader that has transferred its leadership answers the requests that it has, however long that takes.
func TestForward_IsNotGivenUpAfterATransfer(t *testing.T) {
	follower := newMember(t, "n2")
	arrived, release := make(chan struct{}), make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write([]byte(`{"revision":1,"existed":false}`))
	}))
	defer leader.Close()
	follower.Fail(leaderIs("n1", leader.URL))
	answered := make(chan response, 1)
	go func() { answered <- follower.do(t, "PUT", "/kv/k", "v") }()
	<-arrived
	follower.Leader <- raft.Leadership{Term: 2, Leader: "n3", ByTransfer: true}
	<-time.After(200 * time.Millisecond) // twice the time that another former leader has
	close(release)
	assert.Equal(t, 200, (<-answered).StatusCode)
}

// While no leader is known, requests wait. If the member that was asked no longer leads, the next leader is asked.
func TestForward_ARequestFollowsTheLeader(t *testing.T) {
	former, leader, follower := newMember(t, "n1"), newMember(t, "n3"), newMember(t, "n2")
	for rule, was := range map[string]error{
		"no leader is known":           &node.NotLeaderError{},
		"the leader has just resigned": leaderIs("n1", former.URL),
		"the leader has just ended":    leaderIs("n1", "http://127.0.0.1:1"),
	} {
		former.Fail(leaderIs("n3", leader.URL))
		follower.Fail(was)
		answered := make(chan response, 1)
		go func() { answered <- follower.do(t, "PUT", "/kv/k", "v") }()
		select {
		case r := <-answered:
			require.Fail(t, "it does not wait", "%s: %s", rule, r.body)
		case <-time.After(20 * time.Millisecond):
		}
		follower.Fail(leaderIs("n3", leader.URL))
		r := <-answered
		assert.Equal(t, 200, r.StatusCode, "%s: %s", rule, r.body)
		assert.Equal(t, "n3", r.Header.Get(api.NodeHeader), rule)
	}
	follower.Fail(&node.NotLeaderError{})
	answered := make(chan response, 1)
	go func() { answered <- follower.do(t, "GET", "/kv/k", "") }()
	<-time.After(20 * time.Millisecond)
	follower.Fail(nil)
	r := <-answered
	assert.NotEqual(t, admin.NoLeader, r.failure(t).Code, "a read waits, too")
}

// A server that drains closes each connection after its next answer, and waits for the clients to leave.
func TestServer_ClosesConnectionsWhenItDrains(t *testing.T) {
	n := rafttest.NewFake("n1", &kv.Store{})
	handler := server.New(n, n.FSM, http.NotFoundHandler())
	web := httptest.NewUnstartedServer(nil)
	web.Config = handler.HTTP()
	web.Start()
	defer web.Close()
	ask := func() (closes bool) {
		answer, err := web.Client().Get(web.URL + "/healthz")
		require.NoError(t, err)
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		return answer.Close
	}
	assert.False(t, ask())
	cut, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	handler.Drain(cut)
	require.Error(t, cut.Err(), "the client has a connection")
	assert.True(t, ask())
	handler.Drain(t.Context())
}

func TestServer_RefusesMoreRequestsThanItsLimit(t *testing.T) {
	n := &blockingNode{Fake: rafttest.NewFake("n1", &kv.Store{}), release: make(chan struct{})}
	n.entered.Add(server.RequestsMax)
	handler := server.New(n, n.FSM, http.NotFoundHandler())
	read := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, direct(t.Context(), "GET", "/readyz", ""))
		return w
	}
	var waiting sync.WaitGroup
	for range server.RequestsMax {
		waiting.Go(func() { read() })
	}
	n.entered.Wait()
	w := read()
	assert.Equal(t, 429, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Contains(t, w.Body.String(), admin.Overloaded)
	close(n.release)
	waiting.Wait()
	assert.Equal(t, 404, func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, direct(t.Context(), "GET", "/nope", ""))
		return w.Code
	}(), "and continues when there is room")
}
