package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/cmd/raftkv/internal/cli"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// steward acts as a server that changes its members. Each request for a change gets the next reply. After that reply, the
// server shows the configurations of this reply in order, and repeats the last one.
type steward struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []admin.Change
	answers []reply
	views   []admin.Members

	statuses  []api.Status // likewise, for requests for the status
	transfers int          // requests for a transfer
}

// reply is the answer to one request, with the configurations that the server shows afterwards.
type reply struct {
	status int
	body   any // an admin.Error, or nil: an admin.Changed of the first configuration
	views  []admin.Members
}

func newSteward(t *testing.T, first admin.Members, answers ...reply) *steward {
	t.Helper()
	s := &steward{answers: answers, views: []admin.Members{first}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *steward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case admin.StatusPath:
		_ = json.NewEncoder(w).Encode(s.statuses[0])
		s.statuses = s.statuses[min(1, len(s.statuses)-1):]
		return
	case admin.TransferPath:
		s.transfers++
		_ = json.NewEncoder(w).Encode(admin.Transferred{})
		return
	}
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(s.views[0])
		s.views = s.views[min(1, len(s.views)-1):]
		return
	}
	var change admin.Change
	data, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(data, &change)
	s.asked = append(s.asked, change)
	next := s.answers[0]
	s.answers = s.answers[min(1, len(s.answers)-1):]
	if next.views != nil {
		s.views = next.views
	}
	if next.body == nil {
		next.body = admin.Changed{Done: next.status == 200, Members: s.views[0]}
	}
	w.WriteHeader(next.status)
	_ = json.NewEncoder(w).Encode(next.body)
}

// refuses returns an answer that refuses the change.
func refuses(code admin.Code) reply {
	e, w := api.Errorf(code, "a remedy", "because"), httptest.NewRecorder()
	e.Write(w)
	return reply{status: w.Code, body: e}
}

const anyURL = "http://127.0.0.1:1" // where nobody listens

// at returns a committed configuration. A member is written as "n1 voter". With an incarnation and an address, it is written
// as "n1.7 voter h:7".
func at(index uint64, members ...string) admin.Members {
	m := admin.Members{ID: "n1", Leader: "n1", Term: 1, Index: index, Committed: true, Level: 1}
	for _, text := range members {
		name, standing, _ := strings.Cut(text, " ")
		id, incarnation, _ := strings.Cut(name, ".")
		address := id + ":1"
		if kind, elsewhere, given := strings.Cut(standing, " "); given && strings.Contains(elsewhere, ":") {
			standing, address = kind, elsewhere
		}
		member := admin.ClusterMember{
			ID: id, Incarnation: incarnation, Address: address, URL: anyURL, Kind: standing, Standing: standing,
		}
		switch standing {
		case admin.StandingJoins:
			member.Kind, m.Change = "learner", &admin.Changing{Stage: admin.StageCatchesUp, Waiting: []string{id}}
		case admin.StandingRemoved, admin.StandingDemoted, admin.StandingEnters:
			member.Kind = "voter"
		}
		m.Members = append(m.Members, member)
	}
	return m
}

func joint(m admin.Members, phase string) admin.Members {
	m.Phase, m.Committed, m.Change = phase, false, &admin.Changing{Stage: admin.StageJoint}
	return m
}

func withLease(m admin.Members, duration string) admin.Members {
	m.LeaseDuration = duration
	return m
}

// withPriority gives a member another priority than 1.
func withPriority(m admin.Members, id string, priority int) admin.Members {
	for i := range m.Members {
		if m.Members[i].ID == id {
			m.Members[i].Priority = &priority
		}
	}
	return m
}

func (s *steward) run(t *testing.T, args string) (code int, out, errs string) {
	t.Helper()
	return run(t, "", append(strings.Fields(args), "--server", s.URL)...)
}

func TestMembers_AsksForTheChangeAndSaysWhatTheMembersAre(t *testing.T) {
	url := anyURL
	for _, row := range []struct {
		args, want string
		after      admin.Members
	}{
		{"add n4 n4:1 " + url, `{"add":[{"id":"n4","address":"n4:1","url":"http://127.0.0.1:1"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter", "n4 voter")},
		{"add n4", `{"promote":[{"id":"n4"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter", "n4 voter")},
		{"learner n4 n4:1 " + url, `{"add":[{"id":"n4","address":"n4:1","url":"http://127.0.0.1:1","kind":"learner"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter", "n4 learner")},
		{"remove n2", `{"remove":[{"id":"n2"}]}`, at(8, "n1 voter", "n3.3 voter")},
		{"demote n2 --despite n3", `{"demote":[{"id":"n2"}],"despite":["n3"]}`, at(8, "n1 voter", "n2.00000000000000ab learner", "n3.3 voter")},
		{"replace n3", `{"replace":[{"old":{"id":"n3"},"new":{"id":"n3"}}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.4 voter")},
		{"replace n3 n4", `{"replace":[{"old":{"id":"n3"},"new":{"id":"n4"}}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n4 voter")},
		{"replace n3 n3:2 " + url, `{"replace":[{"old":{"id":"n3"},"new":{"id":"n3","address":"n3:2","url":"http://127.0.0.1:1"}}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.4 voter n3:2")},
		{"replace n3 n4 n4:1 " + url, `{"replace":[{"old":{"id":"n3"},"new":{"id":"n4","address":"n4:1","url":"http://127.0.0.1:1"}}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n4 voter")},
		{"address n2 n2:9", `{"update":[{"id":"n2","address":"n2:9"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter n2:9", "n3.3 voter")},
		{"address n2 n2:9 " + url, `{"update":[{"id":"n2","address":"n2:9","url":"http://127.0.0.1:1"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter n2:9", "n3.3 voter")},
		{"priority n2 5", `{"update":[{"id":"n2","priority":5}]}`, withPriority(at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter"), "n2", 5)},
		{"priority n2.00000000000000ab 0", `{"update":[{"id":"n2","incarnation":"00000000000000ab","priority":0}]}`,
			withPriority(at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter"), "n2", 0)},
		{"lease 100ms", `{"lease_duration":"100ms"}`, withLease(at(8, "n1 voter"), "100ms")},
		{"lease off", `{"lease_duration":"0s"}`, at(8, "n1 voter")},
		{"cancel --if-index 7", `{"cancel":true,"if_index":7}`, at(8, "n1 voter")},
		{"remove n2 --patience 90s", `{"remove":[{"id":"n2"}],"patience":"1m30s"}`, at(8, "n1 voter", "n3.3 voter")},
		{"remove n2 --despite n1,n3", `{"remove":[{"id":"n2"}],"despite":["n1","n3"]}`, at(8, "n1 voter", "n3.3 voter")},
		{"remove n2 --timeout 0s", `{"remove":[{"id":"n2"}]}`, at(8, "n1 voter", "n3.3 voter")},
		{"remove n2 --no-wait", `{"remove":[{"id":"n2"}]}`, at(8, "n1 voter", "n3.3 voter")},
		{"demote n2.00000000000000ab", `{"demote":[{"id":"n2","incarnation":"00000000000000ab"}]}`, at(8, "n1 voter", "n2.00000000000000ab learner", "n3.3 voter")},
		{"add n2.00000000000000ab", `{"promote":[{"id":"n2","incarnation":"00000000000000ab"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter")},
		{"replace n2.00000000000000ab", `{"replace":[{"old":{"id":"n2","incarnation":"00000000000000ab"},"new":{"id":"n2"}}]}`, at(8, "n1 voter", "n2.ac voter", "n3.3 voter")},
		{"replace n2.00000000000000ab n4", `{"replace":[{"old":{"id":"n2","incarnation":"00000000000000ab"},"new":{"id":"n4"}}]}`, at(8, "n1 voter", "n3.3 voter", "n4 voter")},
		{"remove n2.00000000000000ab", `{"remove":[{"id":"n2","incarnation":"00000000000000ab"}]}`, at(8, "n1 voter", "n3.3 voter")},
		{"address n2.00000000000000ab n2:9", `{"update":[{"id":"n2","incarnation":"00000000000000ab","address":"n2:9"}]}`, at(8, "n1 voter", "n2.00000000000000ab voter n2:9", "n3.3 voter")},
		{"remove n2.ab", `{"remove":[{"id":"n2.ab"}]}`, at(8, "n1 voter", "n3.3 voter")},
	} {
		row.after.Tolerance = "no failure is survived"
		first := at(5, "n1 voter", "n2.00000000000000ab voter", "n3.3 voter")
		s := newSteward(t, first, reply{status: 200, views: []admin.Members{row.after}})
		code, out, errs := s.run(t, "members "+row.args)
		assert.Equal(t, 0, code, "%s: %s", row.args, errs)
		assert.Equal(t, "done: configuration 8, voters "+api.List(row.after.Voters())+"; no failure is survived\n", out)
		require.Len(t, s.asked, 1)
		asked, err := json.Marshal(s.asked[0])
		require.NoError(t, err)
		assert.JSONEq(t, row.want, string(asked), row.args)
	}
}

// Several things may happen: the leader's answer is lost, the answer comes before the change is done, or another change is
// running.
func TestMembers_WaitsUntilTheChangeIsDone(t *testing.T) {
	joins, enters := at(10, "n1 voter", "n4 joins"), joint(at(12, "n1 voter", "n4 enters"), "joint: n1 → n1 n4")
	joins.Members[1].CatchUp = &admin.CatchUp{Match: 41, Last: 100}
	done := at(14, "n1 voter", "n4 voter")
	continues := []admin.Members{joins, joins, joins, enters, enters, done}
	const wait, told = "n4 catches up: entry 41 of 100\n", "voters: n1 → n1 n4\n"
	for _, row := range []struct {
		rule    string
		answers []reply
		asks    int
	}{
		{"a long change continues after the answer", []reply{{status: 202, views: continues}}, 1},
		{"the leader changes within the request", []reply{{504, api.Errorf(admin.OutcomeUnknown, "", "because"), continues}}, 1},
		{"another change is running, and is the same", []reply{{409, api.Errorf(admin.ChangePending, "", "because"), continues}}, 1},
		{"there is no leader for a moment", []reply{refuses(admin.NoLeader), {status: 202, views: continues}}, 2},
		{"what was asked for is rolled back", []reply{
			{status: 202, views: []admin.Members{joins, at(5, "n1 voter")}}, {status: 202, views: continues}}, 2},
		{"another change is running", []reply{
			{409, api.Errorf(admin.ChangePending, "", "because"), []admin.Members{joint(at(6, "n1 voter"), "joint: n1 n3 → n1"), at(7, "n1 voter")}},
			{status: 202, views: continues}}, 2},
	} {
		s := newSteward(t, at(5, "n1 voter"), row.answers...)
		code, out, errs := s.run(t, "members add n4 n4:1 http://127.0.0.1:1 --timeout 1m")
		assert.Equal(t, 0, code, "%s: %s", row.rule, errs)
		assert.Equal(t, "done: configuration 14, voters n1 n4\n", out, row.rule)
		assert.Len(t, s.asked, row.asks, row.rule)
		assert.Contains(t, errs, wait, row.rule)
		assert.Contains(t, errs, told, row.rule)
	}
}

func TestMembers_ExitCodes(t *testing.T) {
	now := at(5, "n1.1 voter", "n3.3 voter")
	joins := at(10, "n1.1 voter", "n3.3 to be removed", "n3.4 joins")
	left := at(11, "n1.1 voter", "n3.3 voter", "n3.4 learner")
	for _, row := range []struct {
		rule, args string
		answer     reply
		code       int
		says       string
	}{
		{"refused", "remove n3", refuses(admin.LastVoter), 1, "last_voter: because (a remedy)"},
		{"nobody would lead", "priority n3 0", refuses(admin.NotElectable), 1, "not_electable: because (a remedy)"},
		{"a server of a release without priorities", "priority n3 5",
			reply{400, api.Errorf(admin.BadRequest, "", `it is not a change in JSON: json: unknown field "priority"`), nil}, 1, "runs an earlier release, which cannot make this change"},
		{"a lease that is too long", "lease 1h", refuses(admin.LeaseTooLong), 1, "lease_too_long: because (a remedy)"},
		{"a new member without its place", "add n9", refuses(admin.UnknownMember), 1, "because (to add a new one: raftkv members add n9 ADDRESS URL)"},
		{"an unknown member", "remove n9", refuses(admin.UnknownMember), 1, "unknown_member: because"},
		{"the index has changed", "remove n3 --if-index 4", refuses(admin.ConfigChanged), 4, "config_changed"},
		{"given up while the request waits", "replace n3", refuses(admin.GivenUp), 1, "given_up"},
		{"given up later", "replace n3", reply{status: 202, views: []admin.Members{joins, joins, left}}, 1,
			"given_up: the change that began with configuration 10 was given up by configuration 11 (run the same command again: it continues from there)"},
		{"it takes longer than --timeout", "replace n3 --timeout 2s", reply{status: 202, views: []admin.Members{joins}}, 5,
			"--timeout ended"},
		{"a change of the voters cannot be canceled", "cancel", refuses(admin.ChangePending), 1, "change_pending"},
		{"its own fault", "remove n3", refuses(admin.Internal), 5, "internal"},
	} {
		s := newSteward(t, now, row.answer)
		code, out, errs := s.run(t, "members "+row.args)
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		assert.Empty(t, out, row.rule)
		assert.Contains(t, errs, row.says, row.rule)
	}
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	for _, args := range []string{"members", "members remove n1"} {
		code, _, errs := run(t, "", append(strings.Fields(args), "--server", down.URL)...)
		assert.Equal(t, 8, code, args)
		assert.Contains(t, errs, "no server answers")
	}
	another := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"not_found","message":"no such path: /members","remedy":"the paths are /kv"}`))
	}))
	defer another.Close()
	code, _, errs := run(t, "", "members", "--server", another.URL, "--server", down.URL)
	assert.Equal(t, 8, code)
	assert.Contains(t, errs, "not_found: no such path: /members (the paths are /kv); unreachable: ")
	assert.Equal(t, 1, strings.Count(errs, "\n"), "one line")

	newer := newSteward(t, now, reply{status: 200, views: []admin.Members{at(6, "n1.1 voter")}})
	code, out, errs := run(t, "", "members", "remove", "n3", "--server", another.URL, "--server", newer.URL)
	assert.Equal(t, 0, code, "the other one is asked: %s", errs)
	assert.Equal(t, "done: configuration 6, voters n1\n", out)
}

// An interrupted command reports the interruption, and the remedy.
func TestMembers_Interrupted(t *testing.T) {
	joins := at(10, "n1 voter", "n4 joins")
	s := newSteward(t, at(5, "n1 voter"), reply{status: 202, views: []admin.Members{joins}})
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	posted := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if posted {
			interrupt(errors.New("interrupt signal received"))
		}
		posted = posted || r.Method == http.MethodPost
	}))
	defer server.Close()
	var errs strings.Builder
	code := cli.Run(ctx, []string{"members", "add", "n4", "n4:1", anyURL, "--server", server.URL}, cli.Streams{Out: io.Discard, Err: &errs})
	assert.Equal(t, 5, code)
	assert.Contains(t, errs.String(), "raftkv: interrupt signal received, and ")
	assert.Contains(t, errs.String(), ": raftkv members shows it; run the same command to wait for it again\n")
}

func TestMembers_NoWaitEndsOnceTheChangeIsAccepted(t *testing.T) {
	now := at(5, "n1 voter", "n2 voter")
	joins, other := at(6, "n1 voter", "n2 voter", "n4 joins"), at(6, "n1 voter", "n2 to be removed")
	joins.Change, other.Change = &admin.Changing{Stage: admin.StageCatchesUp}, &admin.Changing{Stage: admin.StageCatchesUp}
	for _, row := range []struct {
		rule   string
		answer reply
		code   int
		says   string
	}{
		{"it continues", reply{status: 202, views: []admin.Members{joins}}, 0, "accepted: configuration 6; it continues by itself: raftkv members shows"},
		{"it is done at once", reply{status: 200, views: []admin.Members{at(6, "n1 voter", "n4 voter")}}, 0, "done: configuration 6"},
		{"another change is running", reply{409, api.Errorf(admin.ChangePending, "", "because"), []admin.Members{other}}, 1, "change_pending"},
		{"it was made before", reply{409, api.Errorf(admin.MemberExists, "", "because"), []admin.Members{at(6, "n4 voter")}}, 0, "nothing to do"},
		{"it is refused", refuses(admin.MemberUnreachable), 1, "member_unreachable"},
	} {
		s := newSteward(t, now, row.answer)
		code, out, errs := s.run(t, "members add n4 n4:1 http://127.0.0.1:1 --no-wait --timeout 1s")
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		assert.Contains(t, out+errs, row.says, row.rule)
	}
}

// A command is run again, because it was killed or because its answer was lost. The command finds that its change was already
// made.
func TestMembers_NothingToDo(t *testing.T) {
	lost := at(9, "n1 voter", "n4 voter")
	lost.Members[1].Replace = true
	removed := at(9, "n1 voter", "n4 voter")
	removed.Removed = []admin.Removed{{ID: "n3", Index: 7}}
	for _, row := range []struct {
		rule, args string
		now        admin.Members
		refusal    admin.Code
		code       int
	}{
		{"the member is there", "add n4 n4:1 http://127.0.0.1:1", at(9, "n1 voter", "n4 voter"), admin.MemberExists, 0},
		{"it is at another address", "add n4 n4:2 http://127.0.0.1:1", at(9, "n1 voter", "n4 voter"), admin.MemberExists, 1},
		{"it has no vote", "add n4 n4:1 http://127.0.0.1:1", at(9, "n1 voter", "n4 learner"), admin.MemberExists, 1},
		{"its disk is lost", "replace n4", lost, admin.MemberExists, 1},
		{"a leader of an earlier release has not asked it", "replace n4", at(9, "n1 voter", "n4 voter"), admin.MemberExists, 1},
		{"two incarnations are there", "replace n4", at(9, "n1 voter", "n4.1 voter", "n4.2 learner"), admin.MemberExists, 1},
		{"no such incarnation", "demote n4.00000000000000aa", at(9, "n1 voter", "n4 learner"), admin.UnknownMember, 1},
		{"it was removed", "remove n3", removed, admin.UnknownMember, 0},
		{"it never was there", "remove n5", removed, admin.UnknownMember, 1},
		{"it was replaced", "replace n3 n4", removed, admin.UnknownMember, 0},
		{"another one was replaced", "replace n5 n4", removed, admin.UnknownMember, 1},
		{"there is nothing to promote", "add n5", removed, admin.UnknownMember, 1},
	} {
		code, out, errs := newSteward(t, row.now, refuses(row.refusal)).run(t, "members "+row.args)
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		if row.code == 0 {
			assert.Equal(t, "nothing to do: configuration 9, voters n1 n4\n", out, row.rule)
		} else {
			assert.Contains(t, errs, string(row.refusal), row.rule)
		}
	}
}

// The old member, which the command would replace, has answered by itself.
func TestMembers_NothingToReplace(t *testing.T) {
	runs := reply{409, api.Errorf(admin.MemberRuns, "a remedy", "the members were not changed: n4 itself answers"), nil}
	now, lacks := at(9, "n1 voter", "n4.00000000000000ab voter"), at(9, "n1 voter", "n4.00000000000000ab voter")
	lacks.Members[1].Replace = true
	code, out, errs := newSteward(t, now, runs).run(t, "members replace n4")
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "nothing to do: configuration 9, voters n1 n4; n4 itself answers\n", out)
	code, _, _ = newSteward(t, lacks, runs).run(t, "members replace n4")
	assert.Equal(t, 1, code, "it has lost what it acknowledged")
	code, _, errs = newSteward(t, now, runs).run(t, "members replace n4.00000000000000ab")
	assert.Equal(t, 1, code, "this very one was to go")
	assert.Contains(t, errs, "n4 itself answers")
}

// A server reports that the change was made. The command still checks the members and their incarnations.
func TestMembers_ReadsBackWhatWasDone(t *testing.T) {
	now := at(9, "n1.1 voter", "n3.3 voter")
	later := at(12, "n1.1 voter", "n3.4 voter")
	follows := joint(at(11, "n1.1 voter", "n3.4 voter"), "joint: n1 n2 → n1")
	for _, row := range []struct {
		rule  string
		views []admin.Members
		code  int
	}{
		{"the old incarnation is still there", []admin.Members{at(9, "n1.1 voter", "n3.3 voter")}, 5},
		{"another change has followed", []admin.Members{follows, follows, later}, 0},
		{"a server does not know of the change yet", []admin.Members{follows, at(8, "n1.1 voter", "n3.2 voter"), later}, 0},
	} {
		code, out, errs := newSteward(t, now, reply{status: 200, views: row.views}).run(t, "members replace n3")
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		if row.code == 0 {
			assert.Equal(t, "done: configuration 12, voters n1 n3\n", out, row.rule)
		}
	}
}

// The outcome of a request is not known. The present member with the same id may still be the old member.
func TestMembers_AReplacementIsDoneOnceTheOldIncarnationIsGone(t *testing.T) {
	before, after := at(5, "n1.1 voter", "n3.3 voter"), at(9, "n1.1 voter", "n3.4 voter")
	unknown := api.Errorf(admin.OutcomeUnknown, "", "because")
	s := newSteward(t, before, reply{504, unknown, []admin.Members{before}}, reply{504, unknown, []admin.Members{after}})
	code, out, errs := s.run(t, "members replace n3")
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "done: configuration 9, voters n1 n3\n", out)
	assert.Len(t, s.asked, 2, "after the first one nothing had changed")
}

func TestMembers_FindsTheOtherServersAndTheLeaderThatTheyFollow(t *testing.T) {
	leader := newSteward(t, at(9, "n1 voter", "n2 voter"), reply{status: 200})
	stale := at(7, "n1 voter", "n2 voter", "n3 voter")
	stale.ID, stale.Members[0].URL = "n2", leader.URL
	follower := newSteward(t, stale, refuses(admin.NoLeader))
	_, out, _ := follower.run(t, "members")
	assert.Contains(t, out, "configuration 7\n", "the only one that is known initially")
	code, out, errs := follower.run(t, "members remove n3")
	assert.Equal(t, 0, code, errs)
	assert.Equal(t, "done: configuration 9, voters n1 n2\n", out)
}

func TestMembers_PrintsATable(t *testing.T) {
	m := at(10, "n1 voter", "n2 voter", "n3.3 to be removed", "n3.4 joins", "n5 learner")
	for i, url := range []string{"http://127.0.0.1:4001", "", "", "", ""} {
		m.Members[i].URL = url
	}
	m.Members[1].Problem, m.Members[2].Problem, m.Members[2].Replace = "it is not connected", "its disk was emptied", true
	m.Members[3].CatchUp = &admin.CatchUp{Snapshot: &admin.Transfer{Done: 40 << 20, Total: 100 << 20, ForMS: 2000, LeftMS: 3000}}
	m.Tolerance = "the cluster survives 1 failure more"
	m.Members[4].CatchUp = &admin.CatchUp{Match: 41, Last: 1000, Rate: 3.14159, LeftMS: 61_400}
	for i, protocol := range []uint16{3, 3, 0, 2, 3} {
		m.Members[i].Protocol = protocol
	}
	m.Members[0].Release, m.Members[4].Release = "v0.2.0", "v0.2.0"
	m.Departing = []admin.Departing{{ID: "n9", Index: 9, LeftMS: 1234, Address: "n9:1"}, {ID: "n2", Incarnation: "7", Index: 10}}
	s := newSteward(t, m)
	code, out, _ := s.run(t, "members")
	assert.Equal(t, 0, code)
	assert.Equal(t, `n1    voter          n1:1  http://127.0.0.1:4001  leads
n2    voter          n2:1  -                      it is not connected
n3.3  to be removed  n3:1  -                      its disk was emptied
n3.4  joins          n3:1  -                      40.0 MiB of 100 MiB, 40 %, 3s left
n5    learner        n5:1  -                      entry 41 of 1000, 3.1 entries/s, 1m1s left
n9    removed        n9:1  -                      by configuration 9; the leader tells it so until it answers, for 1.2s at most
n2.7  removed        -     -                      by configuration 10
configuration 10
the cluster survives 1 failure more
releases: n1 n5 v0.2.0 (protocol 3); n2 protocol 3; n3 protocol 2; n3 not known
`, out)
	_, table, _ := newSteward(t, withPriority(withPriority(at(10, "n1 voter", "n2 voter", "n3 learner"), "n1", 1), "n2", 0)).run(t, "members")
	assert.Contains(t, table, "n1  voter, priority 1  n1:1  "+anyURL+"  leads\nn2  voter, priority 0  n2:1  "+anyURL+"  ok\nn3  learner            n3:1  ",
		"priorities are shown if they differ")
	_, out, _ = s.run(t, "members --json")
	var again admin.Members
	require.NoError(t, json.Unmarshal([]byte(out), &again))
	assert.Equal(t, m, again)
	_, out, _ = newSteward(t, joint(at(12, "n1 voter"), "joint: n1 n2 → n1")).run(t, "members")
	assert.Contains(t, out, "configuration 12, joint: n1 n2 → n1\n")
	uncommitted := at(12, "n1 voter")
	uncommitted.Committed, uncommitted.Change = false, &admin.Changing{Stage: admin.StageCommits}
	_, out, _ = newSteward(t, uncommitted).run(t, "members")
	assert.Contains(t, out, "configuration 12, not committed yet\n")
	_, out, _ = newSteward(t, admin.Members{ID: "n4"}).run(t, "members")
	assert.Equal(t, "n4 knows no cluster yet\n", out)
}

// Two members may swap their addresses. This is possible only in one change.
func TestMembers_SeveralAddressesChangeTogether(t *testing.T) {
	swapped := at(10, "n1 voter n2:1", "n2 voter n1:1")
	swapped.Members[1].URL = "http://n1:2"
	s := newSteward(t, at(9, "n1 voter", "n2 voter"), reply{status: http.StatusOK, views: []admin.Members{swapped}})
	code, _, errs := s.run(t, "members address n1=n2:1 n2=n1:1=http://n1:2")
	assert.Equal(t, 0, code, errs)
	first, second, url := "n2:1", "n1:1", "http://n1:2"
	assert.Equal(t, []admin.Change{{Update: []admin.Update{
		{Peer: admin.Peer{ID: "n1"}, Address: &first}, {Peer: admin.Peer{ID: "n2"}, Address: &second, URL: &url},
	}}}, s.asked)
	for _, args := range []string{"n1=", "=h:1", "n1=h:1=", "n1=h:1 n2"} {
		code, _, errs := s.run(t, "members address "+args)
		assert.Equal(t, 2, code)
		assert.Contains(t, errs, "is not ID=ADDRESS or ID=ADDRESS=URL")
	}
}

// The remedy for a lost disk depends on whether another disk is about to replace it.
func TestMembers_SaysHowToReplaceALostDisk(t *testing.T) {
	for _, row := range []struct {
		twin, hint string
	}{
		{"", "it is lost; start it with an empty --data directory, and run: raftkv members replace n3"},
		{"n3.4 joins", "it is lost\n"},
		{"n3.4 learner", "it is lost; the learner is to take its place: start the learner, and run: raftkv members replace n3"},
	} {
		m := at(5, "n1 voter", "n3.3 voter", row.twin)
		m.Members[1].Problem, m.Members[1].Replace = "it is lost", true
		_, out, _ := newSteward(t, m).run(t, "members")
		assert.Contains(t, out, row.hint, row.twin)
	}
}

// After a replacement that was given up, two members have the same id. A command may name either member. The address of the
// other member does not matter.
func TestMembers_TheAddressOfOneOfTwoWithAnID(t *testing.T) {
	const voter, learner = "n3.00000000000000a1", "n3.00000000000000a2"
	moved := func(which int) admin.Members {
		m := at(10, "n1 voter", voter+" voter", learner+" learner")
		m.Members[which].Address = "n3:9"
		return m
	}
	for _, row := range []struct {
		name        string
		which, code int
	}{
		{voter, 1, 0}, {learner, 2, 0}, {"n3", 1, 0},
		{voter, 2, 1}, {learner, 1, 1}, {"n3", 2, 1},
	} {
		begun := moved(row.which)
		begun.Index, begun.Committed, begun.Change = 9, false, &admin.Changing{Stage: admin.StageCommits}
		s := newSteward(t, at(8, "n1 voter", voter+" voter", learner+" learner"),
			reply{status: http.StatusAccepted, views: []admin.Members{begun, moved(row.which)}})
		code, _, errs := s.run(t, "members address "+row.name+" n3:9")
		assert.Equal(t, row.code, code, "%+v: %s", row, errs)
	}
}

func TestMembers_SaysWhatIsWrongWithTheCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"members n4":                             `unknown command "n4"`,
		"members add":                            "accepts 1 or 3 args, received 0: write raftkv members add ID [ADDRESS URL]",
		"members add n4 h:4":                     "accepts 1 or 3 args, received 2",
		"members priority n4":                    "write raftkv members priority ID[.INCARNATION] PRIORITY",
		"members priority n4 high":               `the priority is "high"; it takes a whole number from 0, never, to 100`,
		"members priority n4 101":                `the priority is "101"`,
		"members priority n4 257":                `the priority is "257"`,
		"members priority n4 -1":                 "-1",
		"members lease":                          "write raftkv members lease DURATION|off",
		"members lease 100":                      `the lease is "100"; it takes a time with its unit, as in 100ms, or off`,
		"members lease 0s":                       `the lease is "0s"`,
		"members drain":                          "write raftkv members drain ID[.INCARNATION]",
		"members drain n4 n5":                    "accepts 1 arg",
		"members drain n4 --priority 5":          "--priority 5: it needs --undo",
		"members drain n4 --undo --priority 0":   "--priority 0: it needs --undo, and takes a whole number from 1 to 100",
		"members drain n4 --undo --priority 101": "--priority 101: it needs --undo, and takes",
		"members drain n4 --undo --priority x":   `--priority "x": it takes a whole number`,
		"members drain n4 --timeout -1s":         "--timeout -1s",
		"members learner n4":                     "write raftkv members learner ID ADDRESS URL",
		"members remove":                         "write raftkv members remove ID[.INCARNATION]",
		"members replace":                        "write raftkv members replace ID[.INCARNATION] [WITH-ID] [ADDRESS URL]",
		"members remove n4 --patience 0s":        "--patience 0s: use more than 0",
		"members remove n4 --patience 1":         `--patience "1": it takes a time with its unit`,
		"members remove n4 --timeout -1s":        "--timeout -1s",
		"members remove n4 --if-index -1":        `--if-index "-1": it takes a whole number`,
		"members remove n4 --server nonsense":    `--server "nonsense"`,
		"members --timeout 0s":                   "--timeout 0s",
	} {
		code, _, errs := run(t, "", strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Contains(t, errs, want, args)
	}
	for _, command := range []string{"", " add", " learner", " remove", " demote", " replace", " address", " priority", " lease", " drain", " cancel"} {
		code, out, _ := run(t, "", strings.Fields("members"+command+" --help")...)
		assert.Equal(t, 0, code, command)
		assert.Contains(t, out, "Examples:", command)
		assert.Contains(t, out, fmt.Sprintf("raftkv members%s", command))
	}
}

func TestStatus_SaysWhoDoesNotVoteAndHowTheVotersChange(t *testing.T) {
	leader := says(t, "", `{"id":"n1","role":"leader","bootstrapped":true,"phase":"joint: n1 n2 → n1",
		"members":[{"id":"n1","connected":true},{"id":"n2","connected":true,"standing":"leaves"},{"id":"n4","connected":true,"standing":"joins"}]}`)
	joining := says(t, "", `{"id":"n4","incarnation":"7","role":"follower","leader":"n1","members":[{"id":"n4","incarnation":"7","standing":"joins"}]}`)
	code, out, errs := run(t, "", "status", "--server", leader, "--server", joining)
	assert.Equal(t, 0, code, errs)
	assert.Contains(t, out, "n4  "+joining+"  joins   term 0")
	assert.Contains(t, out, "the voters change, joint: n1 n2 → n1\n")
}

// During a rolling upgrade, any server that knows the releases reports them. The leader may be the last member to be
// upgraded, and its release may not know them.
func TestStatus_SaysWhoRunsWhichReleaseWhileTheyDiffer(t *testing.T) {
	leader := says(t, "", `{"id":"n1","role":"leader","bootstrapped":true,"members":[{"id":"n1","connected":true},{"id":"n2","connected":true}]}`)
	status := func(n1 string) string {
		upgraded := says(t, "", `{"id":"n2","role":"follower","leader":"n1","members":[{"id":"n1","connected":true,`+n1+`},
			{"id":"n2","connected":true,"protocol":3,"release":"v0.2.0"},{"id":"n3","connected":true}]}`)
		_, out, _ := run(t, "", "status", "--server", leader, "--server", upgraded)
		return out
	}
	assert.Contains(t, status(`"protocol":2`), "\nreleases: n2 v0.2.0 (protocol 3); n1 protocol 2; n3 not known\n")
	assert.Contains(t, status(`"protocol":3,"release":"v0.2.1"`), "\nreleases: n1 v0.2.1 (protocol 3); n2 v0.2.0 (protocol 3); n3 not known\n")
	assert.NotContains(t, status(`"protocol":3,"release":"v0.2.0"`), "releases")
	assert.NotContains(t, status(`"protocol":0`), "releases", "who is away is not said to run something else")
}

func TestStatus_SaysHowToReplaceAMember(t *testing.T) {
	leader := says(t, "", `{"id":"n1","role":"leader","bootstrapped":true,"members":[{"id":"n1","connected":true},
		{"id":"n3","connected":true,"problem":"its disk was emptied","replace":true}]}`)
	code, _, errs := run(t, "", "status", "--server", leader)
	assert.Equal(t, 6, code)
	assert.Contains(t, errs, "n3: its disk was emptied; start it with an empty --data directory, and run: raftkv members replace n3")
}
