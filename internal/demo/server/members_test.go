package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// threeVoters is the configuration of entry 8: n1, n2 and n3 vote.
func threeVoters() node.Members {
	var members []raft.Member
	for i := range 3 {
		members = append(members, raft.Member{
			ID: raft.NodeID(fmt.Sprintf("n%d", i+1)), Incarnation: raft.Incarnation(i + 1),
			Address: fmt.Sprintf("127.0.0.1:500%d", i+1), Meta: fmt.Sprintf("http://127.0.0.1:400%d", i+1),
		})
	}
	config := raft.NewConfiguration(members)
	config.Level = 1
	return node.Members{Configuration: config, Index: 8, Committed: true}
}

func TestMembers_ShowsTheConfiguration(t *testing.T) {
	m := newMember(t, "n1")
	now := threeVoters()
	now.Configuration.Members[2].Priority = raft.PriorityNever
	now.Removed = []raft.Removal{{Peer: raft.Peer{ID: "n9", Incarnation: 9}, Index: 7}}
	m.SetMembers(now)
	m.SetStatus(node.Status{ID: "n1", ClusterName: "c", Cluster: raft.ClusterID{1}, Leadership: raft.Leadership{Term: 3, Leader: "n1", Role: raft.Leader}, Tolerance: "one more", Members: []node.MemberStatus{
		{Member: now.Configuration.Members[1], Problem: "it is not connected", Replace: true, LastContact: 1500 * time.Millisecond,
			Protocol: 2, Release: "v0.1.0"},
	}, Departing: []node.DepartingMember{{ID: "n9", Incarnation: 9, Removal: 7, Left: time.Second, Connected: true, Dialed: "h:9"}}})
	r := m.do(t, "GET", "/members", "")
	assert.Equal(t, 200, r.StatusCode)
	assert.JSONEq(t, `{"id":"n1","cluster_name":"c","cluster_id":"01000000000000000000000000000000","term":3,"leader":"n1","tolerance":"one more","index":8,"committed":true,"level":1,"members":[
		{"id":"n1","incarnation":"0000000000000001","address":"127.0.0.1:5001","url":"http://127.0.0.1:4001","kind":"voter","priority":1,"standing":"voter","last_contact_ms":-1},
		{"id":"n2","incarnation":"0000000000000002","address":"127.0.0.1:5002","url":"http://127.0.0.1:4002","kind":"voter","priority":1,"standing":"voter","last_contact_ms":1500,
			"problem":"it is not connected","protocol":2,"release":"v0.1.0","replace":true},
		{"id":"n3","incarnation":"0000000000000003","address":"127.0.0.1:5003","url":"http://127.0.0.1:4003","kind":"voter","priority":0,"standing":"voter","last_contact_ms":-1}],
		"removed":[{"id":"n9","incarnation":"0000000000000009","index":7}],
		"departing":[{"id":"n9","incarnation":"0000000000000009","index":7,"left_ms":1000,"address":"h:9","connected":true}]}`, r.body)
	assert.Equal(t, api.MethodNotAllowed, m.do(t, "PUT", "/members", "").failure(t).Code)
}

func TestMembers_SaysHowFarAChangeIs(t *testing.T) {
	m := newMember(t, "n1")
	get := func(c node.Members) (now api.Members) {
		m.SetMembers(c)
		require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/members", "").body), &now))
		return now
	}
	standings := func(now api.Members) (all []string) {
		for _, member := range now.Members {
			all = append(all, member.ID+" "+member.Standing)
		}
		return all
	}
	assert.Nil(t, get(node.Members{}).Change, "there is no cluster yet")
	assert.Nil(t, get(threeVoters()).Change)
	c := threeVoters()
	c.Committed = false
	assert.Equal(t, &api.Changing{Stage: api.StageCommits}, get(c).Change)

	c = threeVoters()
	c.Configuration.Members[0].Next, c.Configuration.Members[1].Next = raft.NextRemoved, raft.NextLearner
	c.Configuration.Members = append(c.Configuration.Members, raft.Member{ID: "n4", Incarnation: 4, Kind: raft.Learner, Next: raft.NextVoter},
		raft.Member{ID: "n5", Incarnation: 5, Kind: raft.Learner})
	sent := node.Transfer{ID: raft.EntryID{Index: 6}, Peer: "n4", Done: 10, Total: 40}
	m.SetStatus(node.Status{
		ID: "n1", Leadership: raft.Leadership{Role: raft.Leader}, Last: raft.EntryID{Index: 90}, Snapshot: node.SnapshotStatus{Sending: &sent},
		Members: []node.MemberStatus{{Member: c.Configuration.Members[3], Match: 7}, {Member: c.Configuration.Members[4], Match: 89,
			CatchUp: &node.CatchUp{Rate: 2.5, Left: 400 * time.Millisecond, Idle: time.Second}}},
	})
	now := get(c)
	assert.Equal(t, &api.Changing{Stage: api.StageCatchesUp, Waiting: []string{"n4"}}, now.Change)
	assert.Equal(t, []string{"n1 to be removed", "n2 to be demoted", "n3 voter", "n4 joins", "n5 learner"}, standings(now))
	assert.Equal(t, &api.CatchUp{Match: 7, Last: 90, Snapshot: &api.Transfer{Last: 6, Peer: "n4", Done: 10, Total: 40}}, now.Members[3].CatchUp)
	assert.Equal(t, &api.CatchUp{Match: 89, Last: 90, Rate: 2.5, LeftMS: 400, IdleMS: 1000}, now.Members[4].CatchUp)
	m.SetStatus(node.Status{ID: "n1", Members: []node.MemberStatus{{Member: c.Configuration.Members[3]}}})
	assert.Nil(t, get(c).Members[3].CatchUp, "only the leader knows the progress")

	c = threeVoters()
	for _, member := range c.Configuration.Members {
		c.Outgoing = append(c.Outgoing, member.Peer())
	}
	c.Configuration.Members[0].Kind, c.Configuration.Members[1].Kind = raft.Leaving, raft.Learner
	c.Configuration.Members = append(c.Configuration.Members, raft.Member{ID: "n4", Incarnation: 4})
	now = get(c)
	assert.Equal(t, &api.Changing{Stage: api.StageJoint}, now.Change)
	assert.Equal(t, "joint: n1 n2 n3 → n3 n4", now.Phase)
	assert.Equal(t, []string{"n1 leaves", "n2 leaves", "n3 voter", "n4 enters"}, standings(now))
}

// changing is a node that records the changes that callers request.
type changing struct {
	*rafttest.Fake[*kv.Store]
	asked   raft.Change
	ifIndex raft.Index
}

func (n *changing) ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (node.Members, error) {
	n.asked, n.ifIndex = c, ifIndex
	return n.Fake.ChangeMembers(ctx, c, ifIndex)
}

func postMembers(ctx context.Context, h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, direct(ctx, http.MethodPost, api.MembersPath, body))
	return w
}

func TestChange_SaysAllThatAChangeCan(t *testing.T) {
	n := &changing{Fake: rafttest.NewFake("n1", &kv.Store{})}
	n.SetMembers(threeVoters())
	address, url, five, never := "h:1", "http://h:2", raft.Priority(5), raft.PriorityNever
	w := postMembers(t.Context(), server.New(n, n.FSM, http.NotFoundHandler()), `{
		"add":[{"id":"n4","address":"h:4","url":"http://h:4"},{"id":"n5","address":"h:5","url":"http://h:5","kind":"learner"}],
		"promote":[{"id":"n6"}],"demote":[{"id":"n7","incarnation":"00000000000000ff"}],"remove":[{"id":"n8"}],
		"replace":[{"old":{"id":"n2"},"new":{}},{"old":{"id":"n3"},"new":{"address":"h:3","url":"http://h:3"}},
			{"old":{"id":"n1"},"new":{"id":"n9","address":"h:9","url":"http://h:9"}}],
		"update":[{"id":"n1","address":"h:1"},{"id":"n2","url":"http://h:2","priority":5},{"id":"n3","priority":0}],"despite":["n2"],"patience":"90s","if_index":8}`)
	assert.Equal(t, 200, w.Code, w.Body)
	assert.Equal(t, raft.Index(8), n.ifIndex)
	assert.Equal(t, raft.Change{
		Add:     []raft.Member{{ID: "n4", Address: "h:4", Meta: "http://h:4"}, {ID: "n5", Address: "h:5", Meta: "http://h:5", Kind: raft.Learner}},
		Promote: []raft.Peer{{ID: "n6"}}, Demote: []raft.Peer{{ID: "n7", Incarnation: 255}}, Remove: []raft.Peer{{ID: "n8"}},
		Replace: []raft.Replacement{
			{Old: raft.Peer{ID: "n2"}, New: raft.Member{ID: "n2", Address: "127.0.0.1:5002", Meta: "http://127.0.0.1:4002"}},
			{Old: raft.Peer{ID: "n3"}, New: raft.Member{ID: "n3", Address: "h:3", Meta: "http://h:3"}},
			{Old: raft.Peer{ID: "n1"}, New: raft.Member{ID: "n9", Address: "h:9", Meta: "http://h:9"}},
		},
		Update: []raft.Update{
			{Peer: raft.Peer{ID: "n1"}, Address: &address}, {Peer: raft.Peer{ID: "n2"}, Meta: &url, Priority: &five},
			{Peer: raft.Peer{ID: "n3"}, Priority: &never},
		},
		Despite: []raft.NodeID{"n2"}, Patience: 90 * time.Second,
	}, n.asked)
	var reply api.Changed
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply))
	assert.True(t, reply.Done)
	assert.Equal(t, []string{"n1", "n2", "n3"}, reply.Voters())

	assert.Equal(t, 200, postMembers(t.Context(), server.New(n, n.FSM, http.NotFoundHandler()), `{"cancel":true}`).Code)
	assert.Equal(t, raft.Change{Cancel: true}, n.asked)
}

func TestChange_BadBodies(t *testing.T) {
	m := newMember(t, "n1")
	for body, says := range map[string]string{
		"":                                     "not a change in JSON",
		"{}{}":                                 "something follows",
		`{"ad":[]}`:                            `unknown field "ad"`,
		`{"add":[{"id":"n4","kind":"x"}]}`:     `its kind is "x"`,
		`{"add":[{"id":"n4","url":"h:4"}]}`:    `"h:4" is not a URL`,
		`{"add":[{"id":"n4","address":"h"}]}`:  `member "n4": others cannot dial "h"; write host:port`,
		`{"add":[{"id":"n4","address":":4"}]}`: `cannot dial ":4"`,
		`{"update":[{"id":"n1","address":"h:0"}]}`:                           `cannot dial "h:0"`,
		`{"update":[{"id":"n1","address":"h:99999"}]}`:                       `cannot dial "h:99999"`,
		`{"update":[{"id":"n1","url":"h"}]}`:                                 `"h" is not a URL`,
		`{"replace":[{"old":{"id":"n1"},"new":{"address":"0.0.0.0:5001"}}]}`: `cannot dial "0.0.0.0:5001"`,
		`{"update":[{"id":"n1","priority":101}]}`:                            `member "n1": priority 101: it takes 1 to 100, or 0`,
		`{"update":[{"id":"n1","priority":-1}]}`:                             `member "n1": priority -1: it takes`,
		`{"update":[{"id":"n1","priority":1.5}]}`:                            "not a change in JSON",
		`{"patience":"1"}`:                                                   `patience "1"`,
		`{"remove":[{"id":"n","incarnation":"x"}]}`:                          `"x" is not an incarnation`,
	} {
		r := m.do(t, "POST", "/members", body)
		failure := r.failure(t)
		assert.Equal(t, 400, r.StatusCode, body)
		assert.Equal(t, api.BadRequest, failure.Code)
		assert.Contains(t, failure.Message, says)
		assert.NotEmpty(t, failure.Remedy)
	}
}

func TestChange_EachRefusalHasItsCodeAndItsRemedy(t *testing.T) {
	m := newMember(t, "n1")
	exists := threeVoters().Configuration.Members[1]
	for _, row := range []struct {
		err    error
		code   api.Code
		status int
		remedy string
	}{
		{&raft.UnknownMemberError{ID: "n9"}, api.UnknownMember, 404, "raftkv members"},
		{&raft.MemberExistsError{Member: exists}, api.MemberExists, 409, "raftkv members replace n2"},
		{&raft.MemberExistsError{Member: exists, Answers: true}, api.MemberRuns, 409, "members --json"},
		{&raft.ChangePendingError{Waits: []raft.NodeID{"n4"}}, api.ChangePending, 409, "raftkv members cancel"},
		{&raft.ChangePendingError{Joint: true}, api.ChangePending, 409, "try again when it is done"},
		{&raft.ConfigChangedError{}, api.ConfigChanged, 412, "decide again"},
		{&raft.LastVoterError{ID: "n1"}, api.LastVoter, 409, "raftkv members add"},
		{&raft.NotElectableError{Raise: "n2"}, api.NotElectable, 409, "raftkv members priority n2 1"},
		{&raft.ConfigError{Field: "Change.Update", Err: &raft.PriorityError{ID: "n4", Number: 5, Learner: true}}, api.BadRequest, 400, "raftkv members add n4"},
		{&raft.QuorumLossError{Silent: []raft.NodeID{"n2", "n3"}}, api.QuorumLoss, 409, "--despite n2,n3"},
		{&node.UnreachableError{ID: "n4", Address: "h:4", Err: context.DeadlineExceeded}, api.MemberUnreachable, 502, "check that n4 runs, that it listens at h:4"},
		{&node.UnreachableError{ID: "n4", Address: "h:4", Err: &transport.InsecureError{Address: "h:4"}}, api.MemberUnreachable, 502, "--insecure"},
		{&raft.NotEmptyError{ID: "n4"}, api.NotEmpty, 409, "start n4 with an empty --data"},
		{&raft.NotEmptyError{ID: "n4", Removed: 7}, api.WasRemoved, 409, "start n4 with an empty --data"},
		{&raft.WasRemovedError{ID: "n4"}, api.WasRemoved, 409, "start n4 with an empty --data"},
		{&raft.AddressInUseError{ID: "n4"}, api.AddressInUse, 409, "its own address"},
		{&raft.EarlierReleaseError{IDs: []raft.NodeID{"n2"}}, api.EarlierRelease, 409, "upgrade n2 first"},
		{&raft.CatchUpError{ID: "n4"}, api.GivenUp, 504, "run the same command again"},
		{raft.ErrChangeGivenUp, api.GivenUp, 504, "raftkv members shows"},
		{&raft.RemovedError{Index: 7}, api.RemovedMember, 410, "ask another member"},
		{&raft.ConfigError{Field: "Change", Err: errors.New("because")}, api.BadRequest, 400, "--help"},
		{errors.Join(&raft.ConfigError{Field: "Change", Err: errors.New("because")}, &raft.ConfigError{Field: "Meta", Err: errors.New("too long")}),
			api.BadRequest, 400, "--help"},
		{raft.ErrOverloaded, api.Overloaded, 429, "try again in a second"},
		{&raft.NoRoomError{Err: errors.New("full")}, api.Overloaded, 429, "which disk needs room"},
		{node.ErrWiped, api.Closed, 503, "ask another member"},
		{context.DeadlineExceeded, api.NoLeader, 503, "try again"},
		{node.ErrOutcomeUnknown, api.OutcomeUnknown, 504, "read before"},
	} {
		m.Fail(fmt.Errorf("node: %w", row.err))
		r := m.do(t, "POST", "/members", `{"remove":[{"id":"n9"}]}`)
		failure := r.failure(t)
		assert.Equal(t, row.code, failure.Code, row.err)
		assert.Equal(t, row.status, r.StatusCode, row.err)
		if insecure := (*transport.InsecureError)(nil); !errors.As(row.err, &insecure) { // that error names fields, not flags
			assert.Contains(t, failure.Message, strings.ReplaceAll(row.err.Error(), "\n", "; "))
		}
		assert.NotContains(t, failure.Message, "\n", "it is printed on one line")
		assert.Contains(t, failure.Remedy, row.remedy, row.err)
		retry := failure.Code == api.ChangePending || r.StatusCode == 429 || failure.Code == api.NoLeader
		assert.Equal(t, retry, r.Header.Get("Retry-After") != "", row.err)
	}
}

func TestChange_NoTwoMembersHaveOneURL(t *testing.T) {
	m := newMember(t, "n1")
	m.SetMembers(threeVoters())
	const two = "http://127.0.0.1:4002"
	for body, leadsTo := range map[string]int{
		`{"add":[{"id":"n4","address":"h:4","url":"` + two + `"}]}`:                               409,
		`{"update":[{"id":"n1","url":"` + two + `"}]}`:                                            409,
		`{"update":[{"id":"n2","url":"` + two + `"}]}`:                                            200,
		`{"replace":[{"old":{"id":"n2"},"new":{"id":"n4","address":"h:4","url":"` + two + `"}}]}`: 200,
		`{"replace":[{"old":{"id":"n3"},"new":{"id":"n4","address":"h:4","url":"` + two + `"}}]}`: 409,
		`{"remove":[{"id":"n2"}],"add":[{"id":"n4","address":"h:4","url":"` + two + `"}]}`:        200,
	} {
		m.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Role: raft.Leader}})
		r := m.do(t, "POST", "/members", body)
		assert.Equal(t, leadsTo, r.StatusCode, body)
		if leadsTo == 409 {
			failure := r.failure(t)
			assert.Equal(t, api.AddressInUse, failure.Code)
			assert.Contains(t, failure.Message, "cannot have the URL "+two+": it is the URL of n2")
		}
		m.SetStatus(node.Status{ID: "n1"})
		assert.Equal(t, 200, m.do(t, "POST", "/members", body).StatusCode, "a follower may know a former configuration")
	}
}

// After a replacement that was given up, two members have the same id. The server decides which of them the request means, or
// explains the problem.
func TestChange_OneOfTwoMembersWithAnID(t *testing.T) {
	n := &changing{Fake: rafttest.NewFake("n1", &kv.Store{})}
	n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Term: 3, Leader: "n1", Role: raft.Leader}})
	twins := threeVoters()
	twins.Configuration.Members = append(twins.Configuration.Members,
		raft.Member{ID: "n3", Incarnation: 4, Address: "h:4", Meta: "http://h:4", Kind: raft.Learner})
	n.SetMembers(twins)
	s := server.New(n, n.FSM, http.NotFoundHandler())
	for _, body := range []string{`{"replace":[{"old":{"id":"n3"},"new":{}}]}`, `{"replace":[{"old":{"id":"n3","incarnation":"3"},"new":{}}]}`} {
		assert.Equal(t, 200, postMembers(t.Context(), s, body).Code)
		assert.Equal(t, "h:4", n.asked.Replace[0].New.Address, "that of the learner")
	}
	for body, says := range map[string]string{
		`{"promote":[{"id":"n3"}]}`:                  "raftkv members replace n3 puts the learner in the place of the voter",
		`{"update":[{"id":"n2","incarnation":"9"}]}`: "no n2 has the incarnation 0000000000000009; there is one with 0000000000000002",
		`{"demote":[{"id":"n3","incarnation":"9"}]}`: "no n3 has the incarnation 0000000000000009",
	} {
		w := postMembers(t.Context(), s, body)
		assert.NotEqual(t, 200, w.Code, body)
		assert.Contains(t, w.Body.String(), says)
	}
	for _, body := range []string{`{"promote":[{"id":"n3","incarnation":"4"}]}`, `{"promote":[{"id":"n2"}]}`,
		`{"update":[{"id":"n2","incarnation":"9"}],"if_index":8}`} {
		assert.Equal(t, 200, postMembers(t.Context(), s, body).Code, body)
	}
}

func TestChange_TheLeaderDoesNotReplaceItself(t *testing.T) {
	m := newMember(t, "n1")
	m.SetMembers(threeVoters())
	m.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Role: raft.Leader}})
	failure := m.do(t, "POST", "/members", `{"replace":[{"old":{"id":"n1"},"new":{}}]}`).failure(t)
	assert.Equal(t, "n1 leads, and cannot be replaced by itself", failure.Message)
	assert.Contains(t, failure.Remedy, "raftkv transfer")
}

func TestChange_IsForwardedOnce(t *testing.T) {
	leader, follower := newMember(t, "n1"), newMember(t, "n2")
	leader.SetMembers(threeVoters())
	follower.Fail(leaderIs("n1", leader.URL))
	r := follower.do(t, "POST", "/members", `{"remove":[{"id":"n3"}]}`)
	assert.Equal(t, 200, r.StatusCode, r.body)
	assert.Equal(t, "n1", r.Header.Get(api.NodeHeader))
	assert.Equal(t, "n2", r.Header.Get(api.ForwardedHeader))

	follower.SetStatus(node.Status{ID: "n2", LeaderMember: &raft.Member{ID: "n1", Meta: leader.URL}})
	r = follower.do(t, "POST", "/members", `{"replace":[{"old":{"id":"n3"},"new":{}}]}`)
	assert.Equal(t, 200, r.StatusCode, "the leader knows where n3 is: "+r.body)
	follower.SetStatus(node.Status{ID: "n2", Leadership: raft.Leadership{Role: raft.Leader}})
	r = follower.do(t, "POST", "/members", `{"replace":[{"old":{"id":"n3"},"new":{}}]}`)
	assert.Equal(t, api.UnknownMember, r.failure(t).Code, "a leader knows it")

	leader.Fail(leaderIs("n2", follower.URL))
	r = follower.do(t, "POST", "/members", `{"remove":[{"id":"n3"}]}`)
	assert.Equal(t, api.NotLeader, r.failure(t).Code)
}

func TestChange_ALeaderOfAnEarlierReleaseIsNamed(t *testing.T) {
	follower := newMember(t, "n2")
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"not_found","message":"no such path: /members","remedy":"the paths are /kv"}`))
	}))
	defer older.Close()
	follower.Fail(leaderIs("n1", older.URL))
	r := follower.do(t, "POST", "/members", `{"remove":[{"id":"n3"}]}`)
	assert.Equal(t, 409, r.StatusCode)
	assert.Equal(t, api.EarlierRelease, r.failure(t).Code)
	assert.Equal(t, "upgrade n1 first, then try again", r.failure(t).Remedy)
}

// lasting is a node whose changes take longer than the caller waits.
type lasting struct{ *rafttest.Fake[*kv.Store] }

func (lasting) ChangeMembers(ctx context.Context, _ raft.Change, _ raft.Index) (node.Members, error) {
	<-ctx.Done()
	return node.Members{}, fmt.Errorf("%w: %w", node.ErrOutcomeUnknown, ctx.Err())
}

func TestChange_ALongOneGoesOnAfterTheAnswer(t *testing.T) {
	n := lasting{rafttest.NewFake("n1", &kv.Store{})}
	c := threeVoters()
	c.Configuration.Members[2].Kind, c.Configuration.Members[2].Next = raft.Learner, raft.NextVoter
	n.SetMembers(c)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := postMembers(ctx, server.New(n, n.FSM, http.NotFoundHandler()), `{"promote":[{"id":"n3"}]}`)
	assert.Equal(t, http.StatusAccepted, w.Code)
	var reply api.Changed
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply))
	assert.False(t, reply.Done)
	assert.Equal(t, []string{"n3"}, reply.Change.Waiting)
}

func TestChange_FewRequestsWait(t *testing.T) {
	n := lasting{rafttest.NewFake("n1", &kv.Store{})}
	handler := server.New(n, n.FSM, http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	codes := make(chan int, 2*server.ChangesMax)
	var all sync.WaitGroup
	for range cap(codes) {
		all.Go(func() { codes <- postMembers(ctx, handler, `{"remove":[{"id":"n3"}]}`).Code })
	}
	for range server.ChangesMax {
		assert.Equal(t, http.StatusTooManyRequests, <-codes, "the others wait")
	}
	cancel()
	all.Wait()
}
