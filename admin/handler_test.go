package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newFake() *rafttest.Fake[raft.FSM] { return rafttest.NewFake[raft.FSM]("n1", nil) }

// member is a fake node with its handler, mounted as a program does it.
type member struct {
	*rafttest.Fake[raft.FSM]
	handler http.Handler
}

func newMember(t *testing.T) member {
	t.Helper()
	n := newFake()
	mux := http.NewServeMux()
	mux.Handle("/raft/", http.StripPrefix("/raft", admin.Handler(n, admin.Options{})))
	return member{n, mux}
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
	w, r := httptest.NewRecorder(), direct(t.Context(), method, "/raft"+path, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	m.handler.ServeHTTP(w, r)
	return response{w.Result(), w.Body.String()}
}

func TestHandler_EveryErrorIsInJSON(t *testing.T) {
	m := newMember(t)
	for _, row := range []struct {
		rule, method, path string
		want               admin.Code
		status             int
	}{
		{"an unknown path", "GET", "/nope", admin.NotFound, 404},
		{"metrics that are not there", "GET", "/metrics", admin.NotFound, 404},
		{"a path below one that has none", "GET", "/status/", admin.NotFound, 404},
		{"another method", "BREW", "/status", admin.MethodNotAllowed, 405},
		{"a transfer by reading", "GET", "/transfer", admin.MethodNotAllowed, 405},
		{"a bad escape in the query", "POST", "/transfer?to=%zz", admin.BadRequest, 400},
		{"a large body", "POST", "/members", admin.ValueTooLarge, 413},
	} {
		r := m.do(t, row.method, row.path, strings.Repeat(" ", admin.BodyBytesMax+1))
		assert.Equal(t, row.status, r.StatusCode, row.rule)
		assert.Equal(t, row.want, r.failure(t).Code, row.rule)
		assert.NotEmpty(t, r.failure(t).Remedy, row.rule)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"), row.rule)
	}
	assert.Equal(t, "GET, POST", m.do(t, "PUT", "/members", "").Header.Get("Allow"))
	assert.Equal(t, 200, m.do(t, "HEAD", "/status", "").StatusCode)
}

func TestHandler_MetricsAreThoseOfTheProgram(t *testing.T) {
	h := admin.Handler(newFake(), admin.Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "up 1")
	})})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, direct(t.Context(), "GET", "/metrics", ""))
	assert.Equal(t, "up 1", w.Body.String())
}

// traced has decided one thing.
type traced struct {
	*rafttest.Fake[raft.FSM]
	err error
}

func (n traced) WriteTrace(w io.Writer) error {
	_, _ = io.WriteString(w, "{}\n")
	return n.err
}

func TestHandler_TraceIsThatOfTheNode(t *testing.T) {
	for want, err := range map[string]error{"{}\n": nil, `"code":"internal"`: errors.New("because")} {
		w := httptest.NewRecorder()
		admin.Handler(traced{newFake(), err}, admin.Options{}).ServeHTTP(w, direct(t.Context(), "GET", "/trace", ""))
		assert.Contains(t, w.Body.String(), want)
	}
}

func TestHandler_NamesTheLeaderThatItIsNot(t *testing.T) {
	m := newMember(t)
	m.Fail(&node.NotLeaderError{Leader: &raft.Member{ID: "n2", Meta: "http://h:2"}})
	for path, body := range map[string]string{"/transfer": "", "/members": "{}"} {
		r := m.do(t, "POST", path, body)
		assert.Equal(t, 503, r.StatusCode)
		assert.Equal(t, "1", r.Header.Get("Retry-After"))
		failure := r.failure(t)
		assert.Equal(t, admin.NotLeader, failure.Code)
		assert.Equal(t, []string{"n2", "http://h:2"}, []string{failure.Leader, failure.LeaderURL})
	}
}

func TestStatus_SaysItAll(t *testing.T) {
	m := newMember(t)
	leader := raft.Member{ID: "n2", Address: "127.0.0.1:1", Meta: "http://127.0.0.1:2", Incarnation: 255}
	m.SetStatus(node.Status{
		ID: "n1", ClusterName: "c", Bootstrapped: true, Leadership: raft.Leadership{Term: 3, Leader: "n2", Role: raft.Follower},
		LeaderMember: &leader, Last: raft.EntryID{Term: 3, Index: 9}, Commit: 8, Applied: 7, Tolerance: "one more",
		SlowElection: "slow", MajorityLost: "gone", DiskStalled: true, FSMHangs: true, NoRoom: "make room", SmallDisk: "small", Applying: time.Second,
		Members: []node.MemberStatus{{Member: leader, LastContact: -1, Connected: true}}, Err: errors.New("ended"),
	})
	var status admin.Status
	require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/status", "").body), &status))
	assert.Equal(t, admin.Status{
		ID: "n1", Incarnation: "0000000000000000", ClusterName: "c", Cluster: strings.Repeat("0", 32), Bootstrapped: true,
		Role: "follower", Term: 3, Leader: "n2", LeaderURL: leader.Meta, Last: 9, Commit: 8, Applied: 7,
		Tolerance: "one more", SlowElection: "slow", MajorityLost: "gone", DiskStalled: true, FSMHangs: true, NoRoom: "make room", SmallDisk: "small", ApplyingMS: 1000, Error: "ended", Snapshot: admin.Snapshot{AgeMS: -1},
		Members: []admin.MemberStatus{{
			ID: "n2", Address: "127.0.0.1:1", URL: leader.Meta, Kind: "voter", Incarnation: "00000000000000ff",
			Connected: true, LastContactMS: -1,
		}},
	}, status)
}

func TestHealth_IsTheNodeAndReadinessTheLeader(t *testing.T) {
	m := newMember(t)
	assert.JSONEq(t, `{"status":"ok"}`, m.do(t, "GET", "/healthz", "").body)
	assert.JSONEq(t, `{"status":"ready"}`, m.do(t, "GET", "/readyz", "").body)
	m.Fail(node.ErrWiped)
	assert.Contains(t, m.do(t, "GET", "/readyz", "").failure(t).Remedy, "ask another member; a replacement puts", "waiting would not help")
	m.SetStatus(node.Status{Wiped: true, MajorityLost: "the disks of 2 of 3 voters are lost"})
	lost := m.do(t, "GET", "/readyz", "").failure(t)
	assert.Equal(t, "the disks of 2 of 3 voters are lost; see docs/recovery.md", lost.Message+"; "+lost.Remedy, "nobody can replace it")
	m.Fail(context.DeadlineExceeded)
	assert.Contains(t, m.do(t, "GET", "/readyz", "").failure(t).Remedy, "`GET /status`")
	m.End(&node.StorageError{Op: "write", Err: errors.New("no space")})
	r := m.do(t, "GET", "/healthz", "")
	assert.Equal(t, 503, r.StatusCode)
	assert.Contains(t, r.failure(t).Message, "no space")
}

// late is a member that learns of the next leader after the transfer.
type late struct{ *rafttest.Fake[raft.FSM] }

func (n late) TransferLeadership(context.Context, raft.NodeID) error {
	time.AfterFunc(20*time.Millisecond, func() { n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Leader: "n3"}}) })
	return nil
}

func TestTransfer_ThroughAFollowerAnswersWithTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := late{newFake()}
		n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Leader: "n2"}})
		w := httptest.NewRecorder()
		admin.Handler(n, admin.Options{}).ServeHTTP(w, direct(t.Context(), http.MethodPost, admin.TransferPath, ""))
		assert.JSONEq(t, `{"leader":"n3"}`, w.Body.String())
	})
}

func TestTransfer_AnswersWithTheLeader(t *testing.T) {
	m := newMember(t)
	assert.JSONEq(t, `{"leader":"n2"}`, m.do(t, "POST", "/transfer?to=n2", "").body)
	for _, bad := range []response{m.do(t, "POST", "/transfer?member=n2", ""), m.do(t, "POST", "/transfer", `{"to":"n2"}`)} {
		assert.Equal(t, admin.BadRequest, bad.failure(t).Code, "nobody knows where the leadership was meant to go")
	}
	m.Fail(node.ErrNoTarget)
	assert.Equal(t, admin.TransferFailed, m.do(t, "POST", "/transfer?to=nobody", "").failure(t).Code)
}

// deadlines notes the last read deadline of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.last = at
	return nil
}

// The deadline for the body must not end a change that takes longer: http.Server would cancel the request.
func TestHandler_TheDeadlineOfABodyEndsWithIt(t *testing.T) {
	during := time.Now()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	n := watching{newFake(), func() { during = w.last }}
	c := threeVoters()
	c.Configuration.Members[2].Kind = raft.Learner
	n.SetMembers(c)
	admin.Handler(n, admin.Options{}).ServeHTTP(w, direct(t.Context(), http.MethodPost, admin.MembersPath, `{"promote":[{"id":"n3"}]}`))
	assert.Zero(t, during, "while the change is carried out")
}

// watching is a node that says when its members are changed.
type watching struct {
	*rafttest.Fake[raft.FSM]
	changes func()
}

func (n watching) ChangeMembers(context.Context, raft.Change, raft.Index) (node.Members, error) {
	n.changes()
	return node.Members{}, nil
}
