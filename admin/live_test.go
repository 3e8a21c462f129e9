package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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

// deciding is a fake with decisions, and a reason of the leader that differs at each look.
type deciding struct {
	*rafttest.Fake[raft.FSM]
	decisions []node.Decision
	noise     int // bytes of the reason
	looks     *atomic.Int64
}

func (d deciding) Decisions(after uint64) []node.Decision {
	if after > uint64(len(d.decisions)) {
		return nil
	}
	return d.decisions[after:]
}

func (d deciding) Status() node.Status {
	s := d.Fake.Status()
	if d.noise > 0 {
		s.LeaderReason = fmt.Sprint(d.looks.Add(1), strings.Repeat("x", d.noise))
	}
	return s
}

// reading reads the events of a stream.
type reading struct {
	t  *testing.T
	in *bufio.Reader
}

// listen opens a stream.
func listen(t *testing.T, url string) reading {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	return reading{t, bufio.NewReader(answer.Body)}
}

// next returns the next event with this name.
func (r reading) next(name string) (data string) {
	r.t.Helper()
	for {
		line, err := r.in.ReadString('\n')
		require.NoError(r.t, err, "waiting for "+name)
		if strings.TrimSpace(line) != "event: "+name {
			continue
		}
		line, err = r.in.ReadString('\n')
		require.NoError(r.t, err)
		return strings.TrimPrefix(strings.TrimSpace(line), "data: ")
	}
}

// served serves a handler on loopback. All streams have ended before it is closed.
func served(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func TestEvents_TheFirstStatusIsWholeAndTheOthersSayWhatHasChanged(t *testing.T) {
	n := newFake()
	s := n.Status()
	s.Members = []node.MemberStatus{{Member: raft.Member{ID: "n1"}, State: "self"}, {Member: raft.Member{ID: "n2"}, State: "replicate", Match: 5}}
	n.SetStatus(s)
	stream := listen(t, served(t, admin.Handler(n, admin.Options{})).URL+admin.EventsPath)
	first := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(stream.next("status")), &first))
	assert.Equal(t, "leader", first["role"])
	assert.EqualValues(t, 5, first["members"].(map[string]any)["n2"].(map[string]any)["match"])
	assert.JSONEq(t, `{}`, stream.next("status"), "nothing has changed, and the member runs")
	s.Commit, s.Missing = 9, []string{"n3"}
	s.Members = []node.MemberStatus{s.Members[0], {Member: raft.Member{ID: "n2"}, State: "replicate", Match: 9}}
	n.SetStatus(s)
	assert.JSONEq(t, `{"commit":9,"missing":["n3"],"members":{"n2":{"match":9}}}`, stream.next("status"))
	s.Missing, s.Members = nil, s.Members[:1]
	n.SetStatus(s)
	assert.JSONEq(t, `{"missing":null,"members":{"n2":null}}`, stream.next("status"), "null means that it is gone")
}

func TestEvents_AClientThatComesBackHearsOnlyWhatIsNew(t *testing.T) {
	n := deciding{Fake: newFake(), decisions: []node.Decision{
		{Number: 1, At: time.UnixMilli(7), TraceEvent: raft.TraceEvent{Kind: raft.TraceLeader, Term: 3, Text: "11ms after the process of n2 had ended"}},
		{Number: 2, At: time.UnixMilli(8), TraceEvent: raft.TraceEvent{Kind: raft.TraceVoteGranted, Peer: "n2"}},
		{Number: 3, At: time.UnixMilli(9), TraceEvent: raft.TraceEvent{Kind: raft.TraceTransfer, Peer: "n2"}},
	}}
	s := n.Fake.Status()
	s.StartCount = 4
	n.SetStatus(s)
	url := served(t, admin.Handler(n, admin.Options{})).URL + admin.EventsPath
	const last = `{"start":4,"number":3,"at":9,"kind":"leader","says":"hands its leadership to n2"}`
	all := `[{"start":4,"number":1,"at":7,"kind":"leader","says":"took over 11ms after the process of n2 had ended"},` + last + `]`
	assert.JSONEq(t, all, listen(t, url).next("happened"))
	assert.JSONEq(t, `[`+last+`]`, listen(t, url+"?start=4&after=1").next("happened"))
	assert.JSONEq(t, all, listen(t, url+"?start=3&after=17").next("happened"), "another process of this member has other numbers")
	assert.JSONEq(t, all, listen(t, url+"?start=x").next("happened"))
}

func TestEvents_ASlowReaderIsDropped(t *testing.T) {
	n := deciding{Fake: newFake(), noise: 8 << 20, looks: &atomic.Int64{}}
	handler := admin.Handler(n, admin.Options{})
	admin.SetStreamTimeout(handler, 100*time.Millisecond)
	dropped := make(chan struct{})
	s := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		close(dropped)
	}))
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", admin.EventsPath)
	require.NoError(t, err)
	<-dropped // it reads nothing
}

// timed records how long each write may take.
type timed struct {
	*httptest.ResponseRecorder
	deadline time.Time
	given    []time.Duration
	written  func(n int)
}

func (w *timed) SetWriteDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func (w *timed) Write(p []byte) (int, error) {
	w.given = append(w.given, time.Until(w.deadline))
	w.written(len(w.given))
	return w.ResponseRecorder.Write(p)
}

func TestEvents_TheTimeoutIsThatOfEachMessageNotOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &timed{ResponseRecorder: httptest.NewRecorder(), written: func(n int) {
			if n == 3 {
				cancel()
			}
		}}
		admin.Handler(newFake(), admin.Options{}).ServeHTTP(w, direct(ctx, http.MethodGet, admin.EventsPath, ""))
		assert.Equal(t, []time.Duration{admin.StreamTimeout, admin.StreamTimeout, admin.StreamTimeout}, w.given)
	})
}

func TestEvents_ALeaderThatIsElectedAgainLeadsSinceThen(t *testing.T) {
	n := newFake()
	s := n.Status()
	s.InOffice = time.Hour
	n.SetStatus(s)
	stream := listen(t, served(t, admin.Handler(n, admin.Options{})).URL+admin.EventsPath)
	since := func() int64 {
		var now struct {
			LeaderSince int64 `json:"leader_since"`
		}
		require.NoError(t, json.Unmarshal([]byte(stream.next("status")), &now))
		return now.LeaderSince
	}
	first := since()
	s.Term, s.InOffice = s.Term+1, 0
	n.SetStatus(s)
	assert.GreaterOrEqual(t, since()-first, time.Hour.Milliseconds())
}

func TestEvents_StreamsAreBounded(t *testing.T) {
	s := served(t, admin.Handler(newFake(), admin.Options{}))
	for range admin.StreamsMax {
		listen(t, s.URL+admin.EventsPath)
	}
	answer, err := http.Get(s.URL + admin.EventsPath)
	require.NoError(t, err)
	defer answer.Body.Close()
	var failure admin.Error
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&failure))
	assert.Equal(t, admin.Overloaded, failure.Code)
	assert.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
}

func TestEvents_DoNotHoldUpAShutdown(t *testing.T) {
	s := served(t, admin.Handler(newFake(), admin.Options{}))
	listen(t, s.URL+admin.EventsPath).next("status")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Config.Shutdown(ctx))
}

func TestEvents_HeadersCanBeAskedFor(t *testing.T) {
	r := newMember(t).do(t, http.MethodHead, admin.EventsPath, "")
	assert.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	assert.Empty(t, r.body)
}

// A page that one member has served reads from the others. Nobody else's page does, and it reads nothing else.
func TestEvents_PagesOfTheMembersReadThem(t *testing.T) {
	n := newFake()
	members := threeVoters()
	members.Configuration.Members[1].Meta = "http://N2.kv.example:80/"
	n.SetMembers(members)
	handler := admin.Handler(n, admin.Options{Origins: []string{"https://ops.example"}})
	for _, row := range []struct {
		rule, method, path, host, origin string
		want                             admin.Code // "": it is allowed
	}{
		{"the origin of a member", "GET", admin.EventsPath, "127.0.0.1:4001", "http://n2.kv.example", ""},
		{"a listed one", "GET", admin.DoctorPath, "127.0.0.1:4001", "https://ops.example", ""},
		{"another port", "GET", admin.EventsPath, "127.0.0.1:4001", "http://n2.kv.example:81", admin.CrossSite},
		{"another program of its machine", "GET", admin.EventsPath, "127.0.0.1:4001", "http://127.0.0.1:3000", admin.CrossSite},
		{"another scheme", "GET", admin.EventsPath, "127.0.0.1:4001", "https://n2.kv.example", admin.CrossSite},
		{"another site", "GET", admin.EventsPath, "127.0.0.1:4001", "http://evil.example", admin.CrossSite},
		{"a page without an origin", "GET", admin.EventsPath, "127.0.0.1:4001", "null", admin.CrossSite},
		{"a name that is not its own", "GET", admin.EventsPath, "evil.example:4001", "http://n2.kv.example", admin.WrongHost},
		{"a change", "POST", "/members", "127.0.0.1:4001", "http://n2.kv.example", admin.CrossSite},
		{"a transfer", "POST", "/transfer", "127.0.0.1:4001", "https://ops.example", admin.CrossSite},
		{"the trace", "GET", "/trace", "127.0.0.1:4001", "http://n2.kv.example", admin.CrossSite},
		{"a preflight", "OPTIONS", admin.EventsPath, "127.0.0.1:4001", "http://n2.kv.example", admin.CrossSite},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // one event is enough
		w, r := httptest.NewRecorder(), direct(ctx, row.method, row.path, "")
		r.Host = row.host
		r.Header.Set("Origin", row.origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "cors")
		handler.ServeHTTP(w, r)
		var failure admin.Error
		_ = json.Unmarshal(w.Body.Bytes(), &failure) // events are no JSON
		if row.want == "" {
			assert.Equal(t, row.origin, w.Header().Get("Access-Control-Allow-Origin"), row.rule)
			assert.Equal(t, "Origin", w.Header().Get("Vary"), row.rule)
			assert.Equal(t, http.StatusOK, w.Code, row.rule)
		} else {
			assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), row.rule)
			assert.Equal(t, row.want, failure.Code, row.rule)
		}
		assert.Empty(t, w.Header().Get("Access-Control-Allow-Credentials"), row.rule)
		assert.NotEqual(t, "*", w.Header().Get("Access-Control-Allow-Origin"), row.rule)
	}
}
