package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft"
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
	handler := server.New(n, n.FSM, http.NotFoundHandler())
	listening := httptest.NewUnstartedServer(handler)
	listening.Config, listening.Listener = handler.HTTP(), server.Listener(listening.Listener)
	listening.Start()
	t.Cleanup(listening.Close)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { handler.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
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

func (r response) failure(t *testing.T) api.Error {
	t.Helper()
	var e api.Error
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
	assert.Equal(t, api.NotFound, m.do(t, "GET", "/kv/k", "").failure(t).Code)
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
		want                     api.Code
		status                   int
	}{
		{"no key", "GET", "/kv/", "", nil, api.BadKey, 400},
		{"a long key", "PUT", "/kv/" + strings.Repeat("k", kv.KeyBytesMax+1), "", nil, api.BadKey, 400},
		{"a key of bad UTF-8", "PUT", "/kv/%FF", "", nil, api.BadKey, 400},
		{"a large value", "PUT", "/kv/k", strings.Repeat("v", kv.ValueBytesMax+1), nil, api.ValueTooLarge, 413},
		{"a tag of another store", "PUT", "/kv/k", "", []string{"If-Match", `"abc"`}, api.BadCondition, 400},
		{"a weak tag", "PUT", "/kv/k", "", []string{"If-Match", `W/"1"`}, api.BadCondition, 400},
		{"two tags", "PUT", "/kv/k", "", []string{"If-Match", `"1", "2"`}, api.BadCondition, 400},
		{"two conditions", "PUT", "/kv/k", "", []string{"If-Match", `"1"`, "If-None-Match", "*"}, api.BadCondition, 400},
		{"write unless a revision", "PUT", "/kv/k", "", []string{"If-None-Match", `"1"`}, api.BadCondition, 400},
		{"an unknown consistency", "GET", "/kv/k?consistency=strong", "", nil, api.BadRequest, 400},
		{"a limit of none", "GET", "/kv?limit=0", "", nil, api.BadRequest, 400},
		{"a limit over the limit", "GET", "/kv?limit=1001", "", nil, api.BadRequest, 400},
		{"a limit in words", "GET", "/kv?limit=ten", "", nil, api.BadRequest, 400},
		{"another method on a key", "POST", "/kv/k", "", nil, api.MethodNotAllowed, 405},
		{"another method on the list", "PUT", "/kv", "", nil, api.MethodNotAllowed, 405},
		{"a transfer by reading", "GET", "/transfer", "", nil, api.MethodNotAllowed, 405},
		{"metrics by writing", "POST", "/metrics", "", nil, api.MethodNotAllowed, 405},
		{"another path", "GET", "/nope", "", nil, api.NotFound, 404},
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
		want   api.Code
		status int
		retry  string
	}{
		{"outcome unknown", node.ErrOutcomeUnknown, api.OutcomeUnknown, 504, ""},
		{"cancelled, perhaps in the log", errors.Join(node.ErrOutcomeUnknown, context.DeadlineExceeded), api.OutcomeUnknown, 504, ""},
		{"cancelled before the log", context.DeadlineExceeded, api.NoLeader, 503, "1"},
		{"overloaded", raft.ErrOverloaded, api.Overloaded, 429, "1"},
		{"closed", raft.ErrClosed, api.Closed, 503, ""},
		{"an older image", &raft.StaleImageError{}, api.Closed, 503, ""},
		{"contradicted", &raft.ContradictedError{}, api.Closed, 503, ""},
		{"no leader", &node.NotLeaderError{}, api.NoLeader, 503, "1"},
		{"a leader without a URL", &node.NotLeaderError{Leader: &raft.Member{ID: "n2"}}, api.LeaderUnreachable, 503, "1"},
		{"too large", &raft.TooLargeError{Bytes: 2, Limit: 1}, api.ValueTooLarge, 413, ""},
		{"anything else", errors.New("disk on fire"), api.Internal, 500, ""},
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
	assert.Equal(t, api.NoLeader, m.do(t, "GET", "/kv/k", "").failure(t).Code)
	assert.Equal(t, api.NoLeader, m.do(t, "GET", "/kv?consistency=linearizable", "").failure(t).Code)
	assert.Equal(t, "v", m.do(t, "GET", "/kv/k?consistency=stale", "").body)
	assert.Equal(t, 200, m.do(t, "GET", "/kv?consistency=stale", "").StatusCode)
	m.Fail(node.ErrReadTimedOut)
	assert.Equal(t, api.ReadTimedOut, m.do(t, "GET", "/kv/k", "").failure(t).Code)
	m.Fail(context.DeadlineExceeded)
	assert.Equal(t, api.ReadTimedOut, m.do(t, "GET", "/kv/k", "").failure(t).Code)
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

func TestStatus_SaysItAll(t *testing.T) {
	m := newMember(t, "n1")
	m.do(t, "PUT", "/kv/k", "v")
	leader := raft.Member{ID: "n2", Address: "127.0.0.1:1", Meta: "http://127.0.0.1:2", Incarnation: 255}
	m.SetStatus(node.Status{
		ID: "n1", ClusterName: "c", Bootstrapped: true, Leadership: raft.Leadership{Term: 3, Leader: "n2", Role: raft.Follower},
		LeaderMember: &leader, Last: raft.EntryID{Term: 3, Index: 9}, Commit: 8, Applied: 7, Tolerance: "one more",
		SlowElection: "slow", MajorityLost: "gone", DiskStalled: true, FSMHangs: true, NoRoom: "make room", SmallDisk: "small", Applying: time.Second, Certificate: &node.CertificateStatus{Problem: "renew it"},
		Members: []node.MemberStatus{{Member: leader, LastContact: -1, Connected: true}}, Err: errors.New("ended"),
	})
	var status api.Status
	require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/status", "").body), &status))
	assert.Equal(t, api.Status{
		ID: "n1", Incarnation: "0000000000000000", ClusterName: "c", Cluster: strings.Repeat("0", 32), Bootstrapped: true,
		Role: "follower", Term: 3, Leader: "n2", LeaderURL: leader.Meta, Last: 9, Commit: 8, Applied: 7, Keys: 1,
		Tolerance: "one more", SlowElection: "slow", MajorityLost: "gone", DiskStalled: true, FSMHangs: true, NoRoom: "make room", SmallDisk: "small", Certificate: "renew it", ApplyingMS: 1000, Error: "ended", Snapshot: api.Snapshot{AgeMS: -1},
		Members: []api.Member{{
			ID: "n2", Address: "127.0.0.1:1", URL: leader.Meta, Kind: "voter", Incarnation: "00000000000000ff",
			Connected: true, LastContactMS: -1,
		}},
	}, status)
}

func TestHealth_IsTheNodeAndReadinessTheLeader(t *testing.T) {
	m := newMember(t, "n1")
	assert.Equal(t, 200, m.do(t, "GET", "/healthz", "").StatusCode)
	assert.Equal(t, 200, m.do(t, "GET", "/readyz", "").StatusCode)
	m.Fail(node.ErrWiped)
	assert.Contains(t, m.do(t, "GET", "/readyz", "").failure(t).Remedy, "ask another member; raftkv members replace", "waiting would not help")
	m.SetStatus(node.Status{Wiped: true, MajorityLost: "the disks of 2 of 3 voters are lost"})
	lost := m.do(t, "GET", "/readyz", "").failure(t)
	assert.Equal(t, "the disks of 2 of 3 voters are lost; see docs/membership.md", lost.Message+"; "+lost.Remedy, "nobody can replace it")
	assert.Equal(t, lost.Message, m.do(t, "PUT", "/kv/k", "v").failure(t).Message)
	m.Fail(&node.NotLeaderError{Reason: "no leader"})
	assert.Equal(t, lost.Message, m.do(t, "PUT", "/kv/k", "v").failure(t).Message)
	m.SetStatus(node.Status{})
	m.Fail(context.DeadlineExceeded)
	m.End(&node.StorageError{Op: "write", Err: errors.New("no space")})
	r := m.do(t, "GET", "/healthz", "")
	assert.Equal(t, 503, r.StatusCode)
	assert.Contains(t, r.failure(t).Message, "no space")
	assert.Equal(t, api.NotReady, m.do(t, "GET", "/readyz", "").failure(t).Code)
}

func TestTransfer_AnswersWithTheLeader(t *testing.T) {
	m := newMember(t, "n1")
	assert.JSONEq(t, `{"leader":"n2"}`, m.do(t, "POST", "/transfer?to=n2", "").body)
	m.Fail(node.ErrNoTarget)
	assert.Equal(t, api.TransferFailed, m.do(t, "POST", "/transfer?to=nobody", "").failure(t).Code)
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
