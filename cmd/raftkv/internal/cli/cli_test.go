package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/cmd/raftkv/internal/cli"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs raftkv with the arguments, and input as its standard input.
func run(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(input), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// newDemo starts a server that the commands find without flags.
func newDemo(t *testing.T) *rafttest.Fake[*kv.Store] {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", t.TempDir())
	n := rafttest.NewFake("n1", &kv.Store{})
	listening := httptest.NewServer(server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}))
	t.Cleanup(listening.Close)
	require.NoError(t, client.Place{PID: os.Getpid(), Servers: []string{listening.URL}}.Save())
	return n
}

func TestCommands_FindTheDemoAndUseIt(t *testing.T) {
	n := newDemo(t)
	n.SetStatus(node.Status{ID: "n1", Tolerance: "one more failure", Leadership: raft.Leadership{Term: 1, Leader: "n1", Role: raft.Leader}})
	for _, row := range []struct {
		input string
		args  string // separated by spaces
		code  int
		want  string // of the output
	}{
		{"", "put greeting hello", 0, "1\n"},
		{"", "get greeting", 0, "hello"},
		{"from stdin\x00", "put blob", 0, "2\n"},
		{"", "get blob", 0, "from stdin\x00"},
		{"dash", "put blob -", 0, "3\n"},
		{"", "get --revision blob", 0, "3\n"},
		{"", "get --consistency stale blob", 0, "dash"},
		{"", "put blob x --if-absent", 4, ""},
		{"", "put blob x --if-revision 3", 0, "5\n"},
		{"", "delete blob --if-revision 3", 4, ""},
		{"", "delete blob", 0, "7\n"},
		{"", "get blob", 3, ""},
		{"", "put a/1 x", 0, "8\n"},
		{"", "list a/", 0, "a/1\trevision 8\t1 bytes\n"},
		{"", "list --limit 1", 0, "a/1\trevision 8\t1 bytes\n"},
		{"", "list --after a/1", 0, "greeting\trevision 1\t5 bytes\n"},
		{"", "transfer n1", 0, "n1 leads\n"},
		{"", "snapshot n1", 0, "n1: the newest snapshot covers entry 8: 0 B\n"},
		{"", "snapshot", 0, "n1: the newest snapshot covers entry 8: 0 B\n"},
		{"", "snapshot n7", 1, ""},
		{strings.Repeat("x", 1<<20+1), "put large", 1, ""},
	} {
		code, out, errs := run(t, row.input, strings.Fields(row.args)...)
		assert.Equal(t, row.code, code, "%s: %s", row.args, errs)
		assert.Equal(t, row.want, out, row.args)
		assert.Equal(t, code != 0, errs != "", row.args)
	}
	code, out, _ := run(t, "", "status")
	assert.Equal(t, 0, code)
	assert.Contains(t, out, "one more failure")
	_, out, _ = run(t, "", "status", "--json")
	assert.Contains(t, out, `"tolerance":"one more failure"`)
	n.SetStatus(node.Status{ID: "n1", Wiped: true})
	_, out, _ = run(t, "", "status")
	assert.Contains(t, out, "emptied disk")
	n.Fail(node.ErrOutcomeUnknown)
	code, _, _ = run(t, "", "put", "greeting", "x")
	assert.Equal(t, 5, code)
}

// Exit code 1 means that the command changed nothing. A command reports only completed work as done.
func TestCommands_HaveChangedSomethingEvenIfTheyCannotSaySo(t *testing.T) {
	n := newDemo(t)
	n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Term: 1, Leader: "n1", Role: raft.Leader}})
	joins, joined := at(6, "n1 voter", "n4 joins"), at(7, "n1 voter", "n4 voter")
	continues := newSteward(t, at(5, "n1 voter"), reply{status: 202, views: []admin.Members{joins}})
	ends := newSteward(t, at(5, "n1 voter"), reply{status: 200, views: []admin.Members{joined}})
	const add = "members add n4 n4:1 " + anyURL + " --server "
	for _, row := range []struct{ args, says string }{
		{"put greeting hello", "the command succeeded"},
		{"delete greeting", "the command succeeded"},
		{"transfer n1", "the command succeeded"},
		{"snapshot", "the command succeeded"},
		{"snapshot --server " + says(t, waiting, none, half, whole), "the command succeeded"},
		{add + ends.URL, "the command succeeded"},
		{add + ends.URL + " --no-wait", "the command succeeded"},
		{add + continues.URL + " --no-wait", "the change is accepted, and may still be given up"},
	} {
		var errs strings.Builder
		code := cli.Run(t.Context(), strings.Fields(row.args), cli.Streams{Out: unwritable{}, Err: &errs})
		assert.Equal(t, 5, code, row.args)
		assert.Contains(t, errs.String(), "raftkv: "+row.says+", but its output could not be written: no space left on device\n", row.args)
	}
}

// A member whose disk is too small, or whose certificate ends soon, still serves, but status says so.
func TestStatus_NamesSmallDisksAndCertificates(t *testing.T) {
	server := func(id, more string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"bootstrapped":true,"id":%q,"leader":"n1",%s,"members":[{"id":"n1","connected":true},{"id":"n2","connected":true}]}`, id, more)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	urls := server("n1", `"role":"leader","small_disk":"its disk is small"`) + "," + server("n2", `"role":"follower","small_disk":"its disk is tiny","certificate":"it ends"`)
	code, out, _ := run(t, "", "status", "--server", urls)
	assert.Zero(t, code)
	assert.Contains(t, out, "\nn1: its disk is small\nn2: its disk is tiny\nn2: it ends\n")
}

// status says who would take over, why the leader did, and which member would not for a while.
func TestStatus_SaysWhoWouldTakeOver(t *testing.T) {
	n := newDemo(t)
	lead := raft.Leadership{Term: 4, Leader: "n1", Role: raft.Leader}
	n.SetStatus(node.Status{
		ID: "n1", Leadership: lead, LeaderReason: "n1 leads in term 4: it took over 11ms after the process of n2 had ended",
		InOffice: 90 * time.Second, Cause: raft.CauseNews, Successors: []raft.NodeID{"n3", "n2"}, Caretaker: true,
		Members: []node.MemberStatus{{Member: raft.Member{ID: "n2"}, Connected: true, Backoff: 12 * time.Second}},
	})
	_, out, _ := run(t, "", "status")
	assert.Contains(t, out, "\nn1 leads in term 4: it took over 11ms after the process of n2 had ended\n"+
		"n1 has led for 1m30s; its successors, in this order: n3 n2\n"+
		"n1 leads as a caretaker: its priority is 0, and it transfers its leadership once another voter can lead\n"+
		"n2 has lost its leadership lately: it counts as one with priority 0 for another 12s\n")
	_, out, _ = run(t, "", "status", "--json")
	for _, field := range []string{`"in_office_ms":90000`, `"leader_cause":"news"`, `"successors":["n3","n2"]`, `"backoff_ms":12000`, `"caretaker":true`} {
		assert.Contains(t, out, field)
	}
	n.SetStatus(node.Status{ID: "n1", Leadership: lead})
	_, out, _ = run(t, "", "status")
	assert.NotContains(t, out, "successors")
}

// status reports why a member is kept out. Otherwise only the leader's log would contain the reason.
func TestStatus_SaysWhyAMemberIsNotConnected(t *testing.T) {
	bootstrapped := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"bootstrapped":%v,`, bootstrapped)
		_, _ = w.Write([]byte(`"id":"n1","role":"leader","tolerance":"none","leader_reason":"n1 leads; n4: known",
			"members":[{"id":"n1","connected":true},{"id":"n2","connected":false,"connection_error":"too old"},
			{"id":"n3","connected":true,"connection_error":"earlier"},{"id":"n4","connected":false,"connection_error":"known"}]}`))
	}))
	defer server.Close()
	code, out, _ := run(t, "", "status", "--server", server.URL)
	assert.Equal(t, 6, code)
	assert.Contains(t, out, "\nnone\nn1 leads; n4: known\nn2: too old\n")
	assert.NotContains(t, out, "earlier")
	assert.Equal(t, 1, strings.Count(out, "n4"), "nothing is said twice")

	bootstrapped = false
	_, out, _ = run(t, "", "status", "--server", server.URL)
	assert.NotContains(t, out, "too old", "before the bootstrap, the other sentences say whom it waits for, and why")
}

func TestStatus_ExitsByTheHealthOfTheClusterAndSaysWhatIsWrongWithEachMember(t *testing.T) {
	const leads = `{"id":"n1","role":"leader","leader":"n1","term":2,"members":[{"id":"n1","connected":true},{"id":"n2","connected":true}]}`
	const follows = `{"id":"n2","role":"follower","leader":"n1","term":2,"members":[]}`
	for _, row := range []struct {
		rule    string
		answers []string // "": the server is down
		code    int
		line    string // of the table
		says    string // on standard error
	}{
		{"all is well", []string{leads, follows}, 0, "0 keys  ok", ""},
		{"a follower is asked alone", []string{follows}, 0, "0 keys  ok", ""},
		{"a server is down", []string{leads, ""}, 6, "does not answer: ", "degraded: http://127.0.0.1"},
		{"the leader misses a member", []string{`{"id":"n1","role":"leader","leader":"n1","bootstrapped":true,"members":[
			{"id":"n2","connected":true,"problem":"it has not been heard for 3s"}]}`}, 6, "n2: it has not been heard for 3s", "degraded: n2: it has not"},
		{"a disk was emptied", []string{leads, `{"id":"n2","role":"follower","wiped":true,"members":[]}`}, 6, "its disk was emptied", "n2: its disk was emptied"},
		{"leaders change too often", []string{`{"id":"n1","role":"leader","leader":"n1","term":2,"slow_election":"7 leaders","members":[{"id":"n1","connected":true}]}`, follows}, 6,
			"0 keys  7 leaders", "degraded: n1: 7 leaders"},
		{"leaders change too often, and a follower is asked alone", []string{`{"id":"n2","role":"follower","leader":"n1","term":2,"slow_election":"7 leaders","members":[]}`}, 6,
			"0 keys  7 leaders", "degraded: n2: 7 leaders"},
		{"no leader", []string{`{"id":"n2","role":"candidate","leader_reason":"no leader: because","members":[]}`, ""}, 7,
			"no leader: because", "does not serve: n2 says: no leader: because"},
		{"the leader's disk has stalled", []string{`{"id":"n1","role":"leader","leader":"n1","disk_stalled":true,"leader_reason":"its disk",
			"members":[{"id":"n1","problem":"its disk has stalled"}]}`}, 7, "its disk has stalled", "does not serve: n1 says: its disk"},
		{"the leader's disk is full", []string{`{"id":"n1","role":"leader","leader":"n1","no_room":"make room","leader_reason":"n1 leads, but: make room",
			"members":[{"id":"n1","problem":"make room"}]}`}, 7, "make room", "does not serve: n1 says: n1 leads, but: make room"},
		{"the leader's disk has stalled, and others follow it", []string{follows, `{"id":"n1","role":"leader","leader":"n1","term":2,
			"disk_stalled":true,"leader_reason":"its disk","members":[{"id":"n1","problem":"its disk has stalled"}]}`}, 7,
			"its disk has stalled", "does not serve: n1 says: its disk"},
		{"a leader whose disk stalled was followed by another", []string{follows, `{"id":"n3","role":"leader","leader":"n3","term":1,
			"disk_stalled":true,"leader_reason":"its disk","members":[{"id":"n3","problem":"its disk has stalled"}]}`}, 6,
			"its disk has stalled", "degraded: n3: its disk has stalled"},
		{"the emptied member alone answers", []string{`{"id":"n2","wiped":true,"members":[]}`, ""}, 8, "its disk was emptied",
			"no server that answers knows the cluster: n2: its disk was emptied; http://127.0.0.1"},
		{"an emptied member, and one without a leader", []string{`{"id":"n2","wiped":true,"members":[]}`,
			`{"id":"n1","leader_reason":"no leader: because","members":[]}`}, 7, "its disk was emptied", "does not serve: n1 says: no leader: because"},
		{"two clusters", []string{`{"id":"n1","cluster":"1","role":"leader","leader":"n1","term":2,"members":[]}`, follows,
			`{"id":"n1","cluster":"2","role":"leader","leader":"n1","term":2,"members":[]}`}, 8, "0 keys  it belongs to another cluster than n1", "belong to different clusters"},
		{"nobody answers", []string{"", ""}, 8, "does not answer: ", "no server answers"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			args := []string{"status"}
			for _, answer := range row.answers {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
				if args = append(args, "--server", server.URL); answer == "" {
					server.Close()
				} else {
					defer server.Close()
				}
			}
			code, out, errs := run(t, "", args...)
			assert.Equal(t, row.code, code, errs)
			assert.Contains(t, out, row.line)
			assert.Contains(t, errs, row.says)
			assert.Equal(t, code == 0, errs == "", errs)

			code, out, _ = run(t, "", append(args, "--json")...)
			assert.Equal(t, row.code, code)
			assert.Equal(t, len(row.answers), strings.Count(out, "\n"), "a line for each server: %s", out)
			assert.Equal(t, code != 0, strings.Contains(out, `"problem":"`), out)
		})
	}
	_, out, _ := run(t, "", "status", "--help")
	assert.Contains(t, out, "6 degraded")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", t.TempDir())
	code, _, _ := run(t, "", "status")
	assert.Equal(t, 8, code, "there is no demo to ask")
}

// A leader may have lost its quorum, or its followers' disks may be full. Such a leader reports no problem of its own.
func TestStatus_ALeaderThatIsNotReadyDoesNotServe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == admin.ReadyPath {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"not_ready","message":"the entries from 26 to 28 do not reach a quorum"}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"n1","role":"leader","leader":"n1","term":2,"members":[{"id":"n1","connected":true}]}`))
	}))
	defer server.Close()
	code, out, errs := run(t, "", "status", "--server", server.URL)
	assert.Equal(t, 7, code)
	assert.Contains(t, out, "do not reach a quorum")
	assert.Contains(t, errs, "does not serve: n1: the entries from 26 to 28 do not reach a quorum")
}

// The line of a member shows the leader's sentences about this member, even if the member answers and reports no problem
// itself.
func TestStatus_ShowsWhatTheLeaderSaysOfAMember(t *testing.T) {
	leader := says(t, "", `{"id":"n1","role":"leader","bootstrapped":true,"members":[{"id":"n1"},{"id":"n2","connected":true,"problem":"it lags"},
		{"id":"n3","connected":true}]}`)
	lags := says(t, "", `{"id":"n2","role":"follower","leader":"n1","bootstrapped":true}`)
	fine := says(t, "", `{"id":"n3","role":"follower","leader":"n1","bootstrapped":true,"members":[{"id":"n2","problem":"not heard"}]}`)
	args := []string{"status", "--server", lags, "--server", leader, "--server", fine}
	code, out, errs := run(t, "", args...)
	assert.Equal(t, 6, code)
	assert.Contains(t, out, "0 keys  n1 says: it lags\n")
	assert.Equal(t, 1, strings.Count(out, "it lags"), out)
	assert.Equal(t, 2, strings.Count(out, "0 keys  ok\n"), out)
	assert.Contains(t, errs, "degraded: n2: n1 says: it lags")
	_, out, _ = run(t, "", append(args, "--json")...)
	assert.Equal(t, 1, strings.Count(out, `"problem":"n1 says: it lags"`), out)
}

// A server may fail to answer, or may report a problem itself. Such a server also appears in the leader's status. The output
// shows its problem only once.
func TestStatus_SaysOnceWhatIsWrongWithAMember(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	emptied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"n3","wiped":true,"members":[]}`))
	}))
	defer emptied.Close()
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id":"n1","role":"leader","bootstrapped":true,"members":[{"id":"n2","url":%q,"problem":"connection refused"},
			{"id":"n3","problem":"it refuses the connection"}]}`, down.URL)
	}))
	defer leader.Close()
	code, out, errs := run(t, "", "status", "--server", leader.URL, "--server", down.URL, "--server", emptied.URL)
	assert.Equal(t, 6, code)
	assert.Contains(t, errs, "degraded: n2: does not answer: 127.0.0.1:")
	assert.Equal(t, 1, strings.Count(errs, "n2: "), errs)
	assert.Equal(t, 1, strings.Count(errs, "n3: "), errs)
	assert.Contains(t, out, "n2  "+down.URL+"  does not answer: 127.0.0.1:", "the leader knows its id")
	assert.NotContains(t, out, "unreachable: ", "a code for programs")
}

// A frozen server must not delay the answers of the other servers. It also must not make the answers differ in age. Here each
// server answers only once both are asked. If the machine is so slow that a request ends before, both are asked again.
func TestStatus_AsksAllServersAtTheSameTime(t *testing.T) {
	for end := time.Now().Add(time.Minute); ; {
		code, out, errs := askTwoAtOnce(t)
		if code != 0 && time.Now().Before(end) {
			continue
		}
		require.Equal(t, 0, code, errs)
		assert.Equal(t, 2, strings.Count(out, "leader  term 0"), out)
		assert.Equal(t, 1, strings.Count(out, "cause"), "nothing is said twice")
		return
	}
}

// askTwoAtOnce asks two servers for their status. Neither answers before the other one is asked, too.
func askTwoAtOnce(t *testing.T) (code int, out, errs string) {
	var asked atomic.Int32 // servers
	both := make(chan struct{})
	server := func() *httptest.Server {
		first := sync.OnceFunc(func() {
			if asked.Add(1) == 2 {
				close(both)
			}
		})
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first()
			select {
			case <-both:
			case <-r.Context().Done():
			}
			_, _ = w.Write([]byte(`{"id":"n1","role":"leader","leader_reason":"because","missing":["cause"]}`))
		}))
	}
	one, other := server(), server()
	defer one.Close()
	defer other.Close()
	return run(t, "", "status", "--server", one.URL, "--server", other.URL)
}

func TestCommands_SayWhatIsWrongWithTheCommandLine(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", t.TempDir())
	for _, row := range []struct {
		args string
		code int
		want []string // in the error
	}{
		{"get", 2, []string{"accepts 1 arg", "write raftkv get KEY"}},
		{"nonsense", 2, []string{`unknown command "nonsense"`}},
		{"get k --nonsense", 2, []string{"--nonsense"}},
		{"list --limit -1", 2, []string{"--limit -1"}},
		{"get k", 1, []string{"no running demo found", "raftkv demo"}},
		{"serve", 2, []string{"--id is missing", "--data is missing", "--raft-addr is missing", "--http-addr is missing"}},
		{"serve --id n1 --data d --raft-addr nope --http-addr :x --peers n1 --tls-cert c --log-level loud --log no", 2,
			[]string{"--log \"no\": use bbolt or segments", "--raft-addr: \"nope\"", "--http-addr", "--peers \"n1\"", "--tls-ca go together", "--log-level \"loud\""}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --peers n2=h:1=http://h:2", 2,
			[]string{`--peers: does not name this member, "n1": add it`}},
		{"serve --id n=1 --data d --raft-addr :1 --http-addr :2", 2, []string{`--id "n=1"`, "without = and ,"}},
		{"serve --id é --data d --raft-addr :1 --http-addr :2", 2, []string{"--id: ", "only printable ASCII"}},
		{"serve --id n1 --cluster é --data d --raft-addr :1 --http-addr :2", 2, []string{"--cluster: ", "only printable ASCII"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --peers n1=h:1=http://h,n1=g:1=http://g", 2,
			[]string{`--peers: member "n1" is listed twice`}},
		{"serve --id n1 --data d --raft-addr :99999 --http-addr ::1:1", 2, []string{"up to 65535", "as in 127.0.0.1:5001 or [::1]:5001"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --election-timeout 0s", 2, []string{"--election-timeout 0s: use 10ms to 1h"}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --join nonsense", 2, []string{`--join "nonsense": write http://host:port`}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --join http://h:3 --peers n1=h:1=http://h", 2,
			[]string{"--peers: must be empty with --founders, --seeds and --join, which take its place"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr 0.0.0.0:2 --join http://h:3", 2,
			[]string{`--advertise: missing: name the "host:port" at which the others reach this member`, `--url: "http://0.0.0.0:2" is not a URL at which others can reach a server`}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --join http://h:3 --url h:2", 2, []string{`--url: "h:2" is not a URL`}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --join http://h:3 --as king", 2, []string{`--as "king": use voter or learner`}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --as learner", 2, []string{"--as goes with --join"}},
		{"serve --id n1 --data d --raft-addr h:1 --http-addr h:2 --advertise h", 2, []string{`--advertise: "h" is no "host:port" with a port from 1 to 65535`}},
		{"serve --insecure=maybe", 2, []string{`--insecure "maybe": it takes true or false`}},
		{"put k v --if-absent --if-revision 1", 2, []string{"--if-absent and --if-revision: give one"}},
		{"put k v --if-revision 0", 2, []string{"--if-revision 0: revisions begin at 1"}},
		{"delete k --if-revision 0", 2, []string{"--if-revision 0: revisions begin at 1"}},
		{"delete k --if-revision -1", 2, []string{`--if-revision "-1": it takes a whole number`}},
		{"get k --timeout 1", 2, []string{`--timeout "1": it takes a time with its unit`}},
		{"demo --data /dev/null --duration 1s", 1, []string{"--data: "}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --peers n1=h:1=ftp://h", 2, []string{"is not a URL"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --peers n1=:1=http://h", 2, []string{`":1" names no machine, so the others cannot dial it`}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --via n2", 2, []string{"--via \"n2\": write id=host:port"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --via n2=h", 2, []string{"--via \"n2=h\""}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --election-timeout 1ms", 2, []string{"--election-timeout: 1ms; it takes 10 ms to 1 h"}},
		{"serve --id n1 --cluster= --data d --raft-addr :1 --http-addr :2", 2, []string{"--cluster is missing"}},
		{"serve --id n1 --data d --raft-addr :1 --http-addr :2 --peers n1=h:1=http://h,n2=h:1=http://h", 2,
			[]string{`--peers "n2=h:1=http://h": n1 has the same address`}},
		{"serve --id n1 --data d --raft-addr 192.0.2.1:1 --http-addr 127.0.0.1:0", 1, []string{"192.0.2.1:1", "--insecure"}},
		{"serve --id n1 --data d --raft-addr 127.0.0.1:0 --http-addr 192.0.2.1:1", 1, []string{"192.0.2.1:1", "this machine"}},
		{"get k --server nonsense", 2, []string{`--server "nonsense"`, "http://host:port"}},
		{"status --server ftp://host", 2, []string{`--server "ftp://host"`}},
		{"get k --timeout 0s", 2, []string{"--timeout 0s"}},
		{"demo --nodes 99", 2, []string{"--nodes 99", "1 to 9"}},
		{"demo --nodes -1", 2, []string{"--nodes -1"}},
		{"demo --nodes 0", 2, []string{"--nodes 0", "1 to 9"}},
		{"demo --duration -1s", 2, []string{"--duration -1s"}},
		{"demo --kill-every -1s", 2, []string{"--kill-every -1s"}},
	} {
		code, _, errs := run(t, "", strings.Fields(row.args)...)
		assert.Equal(t, row.code, code, row.args)
		for _, want := range row.want {
			assert.Contains(t, errs, want, row.args)
		}
		for _, internal := range []string{"Config.", "Options.", "strconv.", "raft: ", "transport: "} {
			assert.NotContains(t, errs, internal, row.args)
		}
	}
}

func TestServe_FoundersAndSeedsGoWithoutOtherLists(t *testing.T) {
	for more, want := range map[string][]string{
		"--founders n1,n2 --peers n1=h:1=http://h": {"--seeds: missing", "--peers: must be empty with --founders, --seeds and --join"},
		"--seeds g:1 --join http://h":              {"--join goes without --founders and --seeds"},
		"--set-aside --rejoin 8":                   {"--set-aside: needs --seeds", "--rejoin: needs --seeds"},
	} {
		code, _, errs := run(t, "", strings.Fields("serve --id n1 --data d --raft-addr h:1 --http-addr h:2 "+more)...)
		assert.Equal(t, 2, code, more)
		for _, text := range want {
			assert.Contains(t, errs, text)
		}
	}
}

func TestReads_AskForTheirConsistency(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("consistency"))
		w.Header().Set("ETag", api.ETag(1))
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	for _, args := range []string{"get k", "get k --consistency lease", "list", "list --consistency stale=2s", "list --consistency stale"} {
		code, _, errs := run(t, "", append(strings.Fields(args), "--server", server.URL)...)
		assert.Equal(t, 0, code, errs)
	}
	assert.Equal(t, []string{api.Linearizable, api.Lease, api.Linearizable, "stale=2s", api.Stale}, asked)
	for _, bad := range []string{"strong", "stale=", "stale=2", "stale=0s", "stale=-2s", "lease=2s"} {
		code, _, errs := run(t, "", "get", "k", "--consistency", bad, "--server", server.URL)
		assert.Equal(t, 2, code, bad)
		assert.Contains(t, errs, fmt.Sprintf("bad consistency %q", bad))
		assert.Contains(t, errs, "use linearizable, lease, stale=2s")
	}
}

func TestHelp_ShowsExamplesAndCompletes(t *testing.T) {
	for _, command := range []string{"", "serve", "demo", "migrate", "get", "put", "delete", "list", "status", "snapshot", "transfer"} {
		code, out, _ := run(t, "", strings.Fields(command+" --help")...)
		assert.Equal(t, 0, code, command)
		assert.Contains(t, out, "Examples:", command)
		assert.Contains(t, out, "raftkv "+command, command)
	}
	for _, command := range []string{"", "serve", "demo", "migrate", "completion"} {
		_, out, _ := run(t, "", strings.Fields(command+" --help")...)
		assert.NotContains(t, out, "--timeout", "%s asks no server", command)
	}
	_, out, _ := run(t, "", "get", "--help")
	assert.Contains(t, out, "--timeout")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, _ := run(t, "", "completion", shell)
		assert.Equal(t, 0, code)
		assert.Contains(t, out, "raftkv", shell)
	}
}

func TestVersion_SaysTheProtocol(t *testing.T) {
	code, out, _ := run(t, "", "--version")
	assert.Equal(t, 0, code)
	assert.Equal(t, "raftkv built without a version (protocol 9)\n", out)
}
