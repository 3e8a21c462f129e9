package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// member is a listening server of a fake node.
type member struct {
	*rafttest.Fake[*kv.Store]
	*httptest.Server
}

func newMember(t *testing.T, id raft.NodeID) member {
	t.Helper()
	n := rafttest.NewFake(id, &kv.Store{})
	return listening(t, n, server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}))
}

func listening(t *testing.T, n *rafttest.Fake[*kv.Store], handler *server.Server) member {
	t.Helper()
	listening := httptest.NewUnstartedServer(handler)
	listening.Config, listening.Listener = handler.HTTP(), server.Listener(listening.Listener)
	listening.Start()
	t.Cleanup(listening.Close)
	return member{n, listening}
}

// direct returns a request that a test passes directly to a handler.
func direct(ctx context.Context, method, path, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Host = "localhost"
	return r
}

// response is a response whose body has been read.
type response struct {
	*http.Response
	body string
}

func (r response) failure(t *testing.T) admin.Error {
	t.Helper()
	var e admin.Error
	require.NoError(t, json.Unmarshal([]byte(r.body), &e), r.body)
	require.NotEmpty(t, e.Message)
	return e
}

// do makes a request. header holds pairs: name, value, name, value ...
func (m member) do(t *testing.T, method, path, body string, header ...string) response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, m.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	answer, err := m.Client().Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return response{answer, string(data)}
}

func TestKey_IsWrittenReadAndDeleted(t *testing.T) {
	m := newMember(t, "n1")
	value := string([]byte{0, 255, '\n', 0x80})
	written := m.do(t, "PUT", "/kv/k", value)
	assert.Equal(t, 200, written.StatusCode)
	assert.JSONEq(t, `{"revision":1,"existed":false}`, written.body)
	assert.Equal(t, `"1"`, written.Header.Get("ETag"))

	read := m.do(t, "GET", "/kv/k", "")
	assert.Equal(t, 200, read.StatusCode)
	assert.Equal(t, value, read.body)
	assert.Equal(t, `"1"`, read.Header.Get("ETag"))
	assert.Equal(t, "1", read.Header.Get(api.AppliedHeader))
	assert.Equal(t, "n1", read.Header.Get(api.NodeHeader))
	assert.Equal(t, 304, m.do(t, "GET", "/kv/k", "", "If-None-Match", `"1"`).StatusCode)
	assert.Equal(t, "", m.do(t, "HEAD", "/kv/k", "").body)

	deleted := m.do(t, "DELETE", "/kv/k", "")
	assert.JSONEq(t, `{"revision":2,"existed":true}`, deleted.body)
	assert.Equal(t, admin.NotFound, m.do(t, "GET", "/kv/k", "").failure(t).Code)
	assert.JSONEq(t, `{"revision":3,"existed":false}`, m.do(t, "DELETE", "/kv/k", "").body)
}

func TestKey_MayBeAnyText(t *testing.T) {
	m := newMember(t, "n1")
	for _, key := range []string{
		"a/b/c", "//", "/", ".", "..", "../../etc/passwd", "a//b", "ü ñ 日本", "50%", "a+b", "?x=1#y", "\x00\n", "a/", "%2F",
	} {
		path := api.KeyPath(key)
		require.Equal(t, 200, m.do(t, "PUT", path, "value of "+key).StatusCode, key)
		assert.Equal(t, "value of "+key, m.do(t, "GET", path, "").body, key)
	}
	m.do(t, "PUT", "/kv/plain/slashes", "1")
	assert.Equal(t, "1", m.do(t, "GET", "/kv/plain%2Fslashes", "").body, "escaped or not, it is one key")
}

func TestWrite_ComparesAndSets(t *testing.T) {
	m := newMember(t, "n1")
	for _, row := range []struct {
		rule         string
		method       string
		name, value  string
		want         int
		wantRevision string // ETag
	}{
		{"create what is not there", "PUT", "If-None-Match", "*", 200, `"1"`},
		{"create what is there", "PUT", "If-None-Match", "*", 412, `"1"`},
		{"the revision is another", "PUT", "If-Match", `"7"`, 412, `"1"`},
		{"the revision is right", "PUT", "If-Match", `"1"`, 200, `"4"`},
		{"a revision that has passed", "DELETE", "If-Match", `"1"`, 412, `"4"`},
		{"it exists", "PUT", "If-Match", "*", 200, `"6"`},
		{"deleting the revision seen", "DELETE", "If-Match", `"6"`, 200, ""},
		{"it exists no more", "PUT", "If-Match", "*", 412, ""},
	} {
		r := m.do(t, row.method, "/kv/k", row.rule, row.name, row.value)
		assert.Equal(t, row.want, r.StatusCode, row.rule)
		assert.Equal(t, row.wantRevision, r.Header.Get("ETag"), row.rule)
		if row.want == 412 {
			assert.Equal(t, api.ConditionFailed, r.failure(t).Code, row.rule)
		}
	}
}

func TestRequest_ThatIsBadSaysWhyAndWhatToDo(t *testing.T) {
	m := newMember(t, "n1")
	for _, row := range []struct {
		rule, method, path, body string
		header                   []string
		want                     admin.Code
		status                   int
	}{
		{"no key", "GET", "/kv/", "", nil, api.BadKey, 400},
		{"a long key", "PUT", "/kv/" + strings.Repeat("k", kv.KeyBytesMax+1), "", nil, api.BadKey, 400},
		{"a key of bad UTF-8", "PUT", "/kv/%FF", "", nil, api.BadKey, 400},
		{"a large value", "PUT", "/kv/k", strings.Repeat("v", kv.ValueBytesMax+1), nil, admin.ValueTooLarge, 413},
		{"a tag of another store", "PUT", "/kv/k", "", []string{"If-Match", `"abc"`}, api.BadCondition, 400},
		{"a weak tag", "PUT", "/kv/k", "", []string{"If-Match", `W/"1"`}, api.BadCondition, 400},
		{"two tags", "PUT", "/kv/k", "", []string{"If-Match", `"1", "2"`}, api.BadCondition, 400},
		{"two conditions", "PUT", "/kv/k", "", []string{"If-Match", `"1"`, "If-None-Match", "*"}, api.BadCondition, 400},
		{"write unless a revision", "PUT", "/kv/k", "", []string{"If-None-Match", `"1"`}, api.BadCondition, 400},
		{"an unknown consistency", "GET", "/kv/k?consistency=strong", "", nil, admin.BadRequest, 400},
		{"an age of none", "GET", "/kv?consistency=stale%3D0s", "", nil, admin.BadRequest, 400},
		{"a limit of none", "GET", "/kv?limit=0", "", nil, admin.BadRequest, 400},
		{"a limit over the limit", "GET", "/kv?limit=1001", "", nil, admin.BadRequest, 400},
		{"a limit in words", "GET", "/kv?limit=ten", "", nil, admin.BadRequest, 400},
		{"another method on a key", "POST", "/kv/k", "", nil, admin.MethodNotAllowed, 405},
		{"another method on the list", "PUT", "/kv", "", nil, admin.MethodNotAllowed, 405},
		{"a transfer by reading", "GET", "/transfer", "", nil, admin.MethodNotAllowed, 405},
		{"metrics by writing", "POST", "/metrics", "", nil, admin.MethodNotAllowed, 405},
		{"another path", "GET", "/nope", "", nil, admin.NotFound, 404},
	} {
		t.Run(row.rule, func(t *testing.T) {
			r := m.do(t, row.method, row.path, row.body, row.header...)
			assert.Equal(t, row.status, r.StatusCode)
			failure := r.failure(t)
			assert.Equal(t, row.want, failure.Code)
			assert.NotEmpty(t, failure.Remedy)
		})
	}
	assert.Equal(t, 200, m.do(t, "PUT", "/kv/k", strings.Repeat("v", kv.ValueBytesMax)).StatusCode, "the largest value")
}

func TestWrite_SaysWhetherItMayHaveHappened(t *testing.T) {
	m := newMember(t, "n1")
	for _, row := range []struct {
		rule   string
		err    error
		want   admin.Code
		status int
		retry  string
	}{
		{"outcome unknown", node.ErrOutcomeUnknown, admin.OutcomeUnknown, 504, ""},
		{"cancelled, perhaps in the log", errors.Join(node.ErrOutcomeUnknown, context.DeadlineExceeded), admin.OutcomeUnknown, 504, ""},
		{"cancelled before the log", context.DeadlineExceeded, admin.NoLeader, 503, "1"},
		{"overloaded", raft.ErrOverloaded, admin.Overloaded, 429, "1"},
		{"closed", raft.ErrClosed, admin.Closed, 503, ""},
		{"an older image", &raft.StaleImageError{}, admin.Closed, 503, ""},
		{"contradicted", &raft.ContradictedError{}, admin.Closed, 503, ""},
		{"no leader", &node.NotLeaderError{}, admin.NoLeader, 503, "1"},
		{"the leader takes no requests of others", &node.NotLeaderError{Leader: &raft.Member{ID: "n2"}}, admin.NotLeader, 503, "1"},
		{"too many are under way", &node.ForwardLimitError{}, admin.Overloaded, 429, "1"},
		{"not in the configuration", &node.NotMemberError{}, admin.Closed, 503, ""},
		{"too large", &raft.TooLargeError{Bytes: 2, Limit: 1}, admin.ValueTooLarge, 413, ""},
		{"anything else", errors.New("disk on fire"), admin.Internal, 500, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			m.Fail(row.err)
			r := m.do(t, "PUT", "/kv/k", "v")
			assert.Equal(t, row.status, r.StatusCode)
			assert.Equal(t, row.want, r.failure(t).Code)
			assert.Equal(t, row.retry, r.Header.Get("Retry-After"))
		})
	}
}

func TestRead_IsConfirmedUnlessItMayBeStale(t *testing.T) {
	m := newMember(t, "n1")
	m.do(t, "PUT", "/kv/k", "v")
	m.Fail(&node.NotLeaderError{})
	assert.Equal(t, admin.NoLeader, m.do(t, "GET", "/kv/k", "").failure(t).Code)
	assert.Equal(t, admin.NoLeader, m.do(t, "GET", "/kv?consistency=linearizable", "").failure(t).Code)
	assert.Equal(t, "v", m.do(t, "GET", "/kv/k?consistency=stale", "").body)
	assert.Equal(t, 200, m.do(t, "GET", "/kv?consistency=stale", "").StatusCode)
	m.Fail(&node.TooStaleError{Age: 3 * time.Second, MaxAge: time.Second})
	tooStale := m.do(t, "GET", "/kv/k?consistency=stale%3D1s", "")
	assert.Equal(t, 503, tooStale.StatusCode)
	refused := tooStale.failure(t)
	assert.Equal(t, admin.TooStale, refused.Code)
	assert.Contains(t, refused.Remedy, "?consistency=stale=AGE")
	assert.True(t, api.Transient(&refused), "another member may be fresher")
	m.Fail(node.ErrReadTimedOut)
	assert.Equal(t, admin.ReadTimedOut, m.do(t, "GET", "/kv/k", "").failure(t).Code)
	m.Fail(context.DeadlineExceeded)
	assert.Equal(t, admin.ReadTimedOut, m.do(t, "GET", "/kv/k", "").failure(t).Code)
}

// asked is a node that remembers how fresh its last read had to be.
type asked struct {
	*rafttest.Fake[*kv.Store]
	consistency raft.Consistency
}

func (n *asked) ReadIndexWith(ctx context.Context, c raft.Consistency) (raft.Index, error) {
	n.consistency = c
	return n.Fake.ReadIndexWith(ctx, c)
}

func TestRead_IsAsFreshAsTheRequestAsks(t *testing.T) {
	n := &asked{Fake: rafttest.NewFake("n1", &kv.Store{})}
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	for given, want := range map[string]raft.Consistency{
		"": raft.Linearizable, "linearizable": raft.Linearizable, "lease": raft.Lease, "stale=1500ms": raft.Stale(1500 * time.Millisecond),
	} {
		n.consistency = -2
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/kv?consistency="+url.QueryEscape(given), nil))
		assert.Equal(t, 200, w.Code, given)
		assert.Equal(t, want, n.consistency, given)
	}
}

// A snapshot is being restored: the old state is gone, and the new one is not complete.
func TestRead_IsRefusedWhileASnapshotIsRestored(t *testing.T) {
	m := newMember(t, "n1")
	m.do(t, "PUT", "/kv/k", "v")
	frozen, err := m.FSM.Snapshot()
	require.NoError(t, err)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- m.FSM.Restore(t.Context(), raft.EntryID{Term: 1, Index: 7}, r) }()
	_, err = w.Write(nil) // returns when Restore reads
	require.NoError(t, err)
	for _, path := range []string{"/kv/k", "/kv/k?consistency=stale", "/kv?consistency=stale"} {
		refused := m.do(t, "GET", path, "")
		assert.Equal(t, 503, refused.StatusCode, path)
		assert.Equal(t, api.Restoring, refused.failure(t).Code, path)
		assert.Equal(t, "ask another member", refused.failure(t).Remedy, path)
	}
	assert.Equal(t, 200, m.do(t, "GET", "/status", "").StatusCode)
	require.NoError(t, errors.Join(frozen.WriteTo(t.Context(), w), w.Close(), <-done))
	again := m.do(t, "GET", "/kv/k?consistency=stale", "")
	assert.Equal(t, "v", again.body)
	assert.Equal(t, "7", again.Header.Get(api.AppliedHeader))
}

func TestList_GivesPages(t *testing.T) {
	m := newMember(t, "n1")
	for _, key := range []string{"u/b", "u/a", "x", "u/c"} {
		m.do(t, "PUT", "/kv/"+key, "123")
	}
	assert.JSONEq(t, `{"items":[{"key":"u/a","revision":2,"bytes":3},{"key":"u/b","revision":1,"bytes":3}],"next":"u/b"}`,
		m.do(t, "GET", "/kv?prefix=u/&limit=2", "").body)
	assert.JSONEq(t, `{"items":[{"key":"u/c","revision":4,"bytes":3}]}`,
		m.do(t, "GET", "/kv?prefix=u/&limit=2&after=u/b", "").body)
	assert.JSONEq(t, `{"items":[]}`, m.do(t, "GET", "/kv?prefix=none", "").body)
}

func TestStatus_CountsTheKeys(t *testing.T) {
	m := newMember(t, "n1")
	m.do(t, "PUT", "/kv/k", "v")
	m.SetStatus(node.Status{ID: "n1", Commit: 8})
	var status api.Status
	require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/status", "").body), &status))
	assert.Equal(t, []any{"n1", uint64(8), 1}, []any{status.ID, status.Commit, status.Keys})
}

func TestHealth_IsTheNodeAndReadinessTheLeader(t *testing.T) {
	m := newMember(t, "n1")
	assert.Equal(t, 200, m.do(t, "GET", "/healthz", "").StatusCode)
	assert.Equal(t, 200, m.do(t, "GET", "/readyz", "").StatusCode)
	m.Fail(node.ErrWiped)
	assert.Contains(t, m.do(t, "GET", "/readyz", "").failure(t).Remedy, "ask another member; raftkv members replace", "waiting would not help")
	m.SetStatus(node.Status{Wiped: true, Leadership: raft.Leadership{Leader: "n1"}, MajorityLost: "the disks of 2 of 3 voters are lost"})
	lost := m.do(t, "GET", "/readyz", "").failure(t)
	assert.Equal(t, "the disks of 2 of 3 voters are lost; see docs/recovery.md", lost.Message+"; "+lost.Remedy, "nobody can replace it")
	assert.Equal(t, lost.Message, m.do(t, "PUT", "/kv/k", "v").failure(t).Message)
	m.Fail(&node.NotLeaderError{Reason: "no leader"})
	assert.Equal(t, lost.Message, m.do(t, "PUT", "/kv/k", "v").failure(t).Message)
	m.SetStatus(node.Status{})
	m.Fail(context.DeadlineExceeded)
	m.End(&node.StorageError{Op: "write", Err: errors.New("no space")})
	r := m.do(t, "GET", "/healthz", "")
	assert.Equal(t, 503, r.StatusCode)
	assert.Contains(t, r.failure(t).Message, "no space")
	assert.Equal(t, admin.NotReady, m.do(t, "GET", "/readyz", "").failure(t).Code)
}

func TestTransfer_AnswersWithTheLeader(t *testing.T) {
	m := newMember(t, "n1")
	assert.JSONEq(t, `{"leader":"n2"}`, m.do(t, "POST", "/transfer?to=n2", "").body)
	m.Fail(node.ErrNoTarget)
	assert.Equal(t, admin.TransferFailed, m.do(t, "POST", "/transfer?to=nobody", "").failure(t).Code)
}

// blockingNode blocks Ready until it is released.
type blockingNode struct {
	*rafttest.Fake[*kv.Store]
	entered sync.WaitGroup
	release chan struct{}
}

func (n *blockingNode) Ready(context.Context) error {
	n.entered.Done()
	<-n.release
	return nil
}

// While no leader is known, requests wait, but not so long that the client has no time left to ask another member.
func TestRequest_WaitsForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rafttest.NewFake("n2", &kv.Store{})
		handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
		do := func(method, path, body string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, direct(t.Context(), method, path, body))
			return w
		}
		for _, row := range []struct{ method, path, body string }{
			{"PUT", "/kv/k", "v"}, {"POST", "/transfer?to=n3", ""}, {"POST", "/members", `{"remove":[{"id":"n1"}]}`}, {"GET", "/kv/k", ""}, {"GET", "/backup", ""},
		} {
			n.SetStatus(node.Status{ID: "n2"})
			n.Fail(&node.NotLeaderError{})
			answered := make(chan int, 1)
			go func() { answered <- do(row.method, row.path, row.body).Code }()
			synctest.Wait()
			require.Empty(t, answered, "it waits: %s %s", row.method, row.path)
			n.Fail(nil)
			if row.method+row.path != "GET/kv/k" { // a read tries again by itself
				n.Leader <- raft.Leadership{Term: 1, Leader: "n1"}
			}
			assert.Equal(t, 200, <-answered, row.method)
		}
		n.SetStatus(node.Status{ID: "n2"})
		n.Fail(&node.NotLeaderError{})
		var e admin.Error
		require.NoError(t, json.Unmarshal(do("PUT", "/kv/k", "v").Body.Bytes(), &e))
		assert.Equal(t, admin.NoLeader, e.Code)
	})
}

// slowLeader is a node whose leader has just become known, and confirms no read.
type slowLeader struct{ *rafttest.Fake[*kv.Store] }

func (n slowLeader) ReadIndex(ctx context.Context) (raft.Index, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// A write that has waited for a leader does not fail because a read would take too long.
func TestRequest_AWriteDoesNotWaitForARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := slowLeader{rafttest.NewFake("n2", &kv.Store{})}
		n.SetStatus(node.Status{ID: "n2"})
		w := httptest.NewRecorder()
		server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}).ServeHTTP(w, direct(t.Context(), "PUT", "/kv/k", "v"))
		assert.Equal(t, 200, w.Code, w.Body)
	})
}

// A member that was removed or emptied has no leader, and says why it serves nothing.
func TestRequest_AMemberWithoutALeaderSaysWhy(t *testing.T) {
	m := newMember(t, "n2")
	m.SetStatus(node.Status{ID: "n2"})
	m.Fail(&raft.RemovedError{Index: 7})
	assert.Equal(t, admin.RemovedMember, m.do(t, "PUT", "/kv/k", "v").failure(t).Code)
}

// A server that drains closes each connection after its next answer, and waits for the clients to leave.
func TestServer_ClosesConnectionsWhenItDrains(t *testing.T) {
	n := rafttest.NewFake("n1", &kv.Store{})
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
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
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
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
