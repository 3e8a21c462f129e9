package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
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

// changing is a node that records the changes that callers request.
type changing struct {
	*rafttest.Fake[raft.FSM]
	asked   raft.Change
	ifIndex raft.Index
}

func (n *changing) ChangeMembers(ctx context.Context, c raft.Change, ifIndex raft.Index) (node.Members, error) {
	n.asked, n.ifIndex = c, ifIndex
	return n.Fake.ChangeMembers(ctx, c, ifIndex)
}

func TestMembers_ShowsTheConfiguration(t *testing.T) {
	m := newMember(t)
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
	assert.Equal(t, admin.MethodNotAllowed, m.do(t, "PUT", "/members", "").failure(t).Code)
}

func TestMembers_SaysHowFarAChangeIs(t *testing.T) {
	m := newMember(t)
	get := func(c node.Members) (now admin.Members) {
		m.SetMembers(c)
		require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/members", "").body), &now))
		return now
	}
	standings := func(now admin.Members) (all []string) {
		for _, member := range now.Members {
			all = append(all, member.ID+" "+member.Standing)
		}
		return all
	}
	assert.Nil(t, get(node.Members{}).Change, "there is no cluster yet")
	assert.Nil(t, get(threeVoters()).Change)
	c := threeVoters()
	c.Committed = false
	assert.Equal(t, &admin.Changing{Stage: admin.StageCommits}, get(c).Change)

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
	assert.Equal(t, &admin.Changing{Stage: admin.StageCatchesUp, Waiting: []string{"n4"}}, now.Change)
	assert.Equal(t, []string{"n1 to be removed", "n2 to be demoted", "n3 voter", "n4 joins", "n5 learner"}, standings(now))
	assert.Equal(t, &admin.CatchUp{Match: 7, Last: 90, Snapshot: &admin.Transfer{Last: 6, Peer: "n4", Done: 10, Total: 40}}, now.Members[3].CatchUp)
	assert.Equal(t, &admin.CatchUp{Match: 89, Last: 90, Rate: 2.5, LeftMS: 400, IdleMS: 1000}, now.Members[4].CatchUp)
	m.SetStatus(node.Status{ID: "n1", Members: []node.MemberStatus{{Member: c.Configuration.Members[3]}}})
	assert.Nil(t, get(c).Members[3].CatchUp, "only the leader knows the progress")

	c = threeVoters()
	for _, member := range c.Configuration.Members {
		c.Outgoing = append(c.Outgoing, member.Peer())
	}
	c.Configuration.Members[0].Kind, c.Configuration.Members[1].Kind = raft.Leaving, raft.Learner
	c.Configuration.Members = append(c.Configuration.Members, raft.Member{ID: "n4", Incarnation: 4})
	now = get(c)
	assert.Equal(t, &admin.Changing{Stage: admin.StageJoint}, now.Change)
	assert.Equal(t, "joint: n1 n2 n3 → n3 n4", now.Phase)
	assert.Equal(t, []string{"n1 leaves", "n2 leaves", "n3 voter", "n4 enters"}, standings(now))
}

func TestChange_SaysAllThatAChangeCan(t *testing.T) {
	n := &changing{Fake: newFake()}
	n.SetMembers(threeVoters())
	address, url, five, never := "h:1", "http://h:2", raft.Priority(5), raft.PriorityNever
	lease := 100 * time.Millisecond
	w := postMembers(t.Context(), admin.Handler(n, admin.Options{}), `{
		"add":[{"id":"n4","address":"h:4","url":"http://h:4"},{"id":"n5","address":"h:5","url":"http://h:5","kind":"learner"}],
		"promote":[{"id":"n6"}],"demote":[{"id":"n7","incarnation":"00000000000000ff"}],"remove":[{"id":"n8"}],
		"replace":[{"old":{"id":"n2"},"new":{}},{"old":{"id":"n3"},"new":{"address":"h:3","url":"http://h:3"}},
			{"old":{"id":"n1"},"new":{"id":"n9","address":"h:9","url":"http://h:9"}}],
		"update":[{"id":"n1","address":"h:1"},{"id":"n2","url":"http://h:2","priority":5},{"id":"n3","priority":0}],"despite":["n2"],"patience":"90s","lease_duration":"100ms","if_index":8}`)
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
		Despite: []raft.NodeID{"n2"}, Patience: 90 * time.Second, LeaseDuration: &lease,
	}, n.asked)
	var reply admin.Changed
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply))
	assert.True(t, reply.Done)
	assert.Equal(t, []string{"n1", "n2", "n3"}, reply.Voters())

	assert.Equal(t, 200, postMembers(t.Context(), admin.Handler(n, admin.Options{}), `{"cancel":true}`).Code)
	assert.Equal(t, raft.Change{Cancel: true}, n.asked)
}

// After a replacement that was given up, two members have the same id. The server decides which of them the request means, or
// explains the problem.
func TestChange_OneOfTwoMembersWithAnID(t *testing.T) {
	n := &changing{Fake: newFake()}
	n.SetStatus(node.Status{ID: "n1", Leadership: raft.Leadership{Term: 3, Leader: "n1", Role: raft.Leader}})
	twins := threeVoters()
	twins.Configuration.Members = append(twins.Configuration.Members,
		raft.Member{ID: "n3", Incarnation: 4, Address: "h:4", Meta: "http://h:4", Kind: raft.Learner})
	n.SetMembers(twins)
	s := admin.Handler(n, admin.Options{})
	for _, body := range []string{`{"replace":[{"old":{"id":"n3"},"new":{}}]}`, `{"replace":[{"old":{"id":"n3","incarnation":"3"},"new":{}}]}`} {
		assert.Equal(t, 200, postMembers(t.Context(), s, body).Code)
		assert.Equal(t, "h:4", n.asked.Replace[0].New.Address, "that of the learner")
	}
	for body, says := range map[string]string{
		`{"promote":[{"id":"n3"}]}`:                  "a replacement of n3 puts the learner in the place of the voter",
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
	m := newMember(t)
	m.SetMembers(threeVoters())
	for _, asked := range []node.Status{{ID: "n1", Leadership: raft.Leadership{Leader: "n1", Role: raft.Leader}}, {ID: "n2", Leadership: raft.Leadership{Leader: "n1"}}} {
		m.SetStatus(asked)
		failure := m.do(t, "POST", "/members", `{"replace":[{"old":{"id":"n1"},"new":{}}]}`).failure(t)
		assert.Equal(t, "n1 leads, and cannot be replaced by itself", failure.Message)
		assert.Contains(t, failure.Remedy, "POST /transfer")
	}
}

// older is a member that cannot learn of the configuration in force.
type older struct{ *rafttest.Fake[raft.FSM] }

func (older) ReadIndex(context.Context) (raft.Index, error) { return 0, node.ErrReadTimedOut }

func TestChange_AMemberThatMayNotBeUpToDateLeavesTheChecksToTheLeader(t *testing.T) {
	n := older{newFake()}
	n.SetMembers(threeVoters())
	n.SetStatus(node.Status{ID: "n2", Leadership: raft.Leadership{Leader: "n1"}, LeaderMember: &raft.Member{ID: "n1", Meta: "http://n1"}})
	s := admin.Handler(n, admin.Options{})
	assert.Equal(t, 200, postMembers(t.Context(), s, `{"update":[{"id":"n2","incarnation":"9"}]}`).Code)
	assert.Contains(t, postMembers(t.Context(), s, `{"replace":[{"old":{"id":"n9"},"new":{}}]}`).Body.String(), `"leader_url":"http://n1"`)
}

// lasting is a node whose changes take longer than the caller waits.
type lasting struct{ *rafttest.Fake[raft.FSM] }

func (lasting) ChangeMembers(ctx context.Context, _ raft.Change, _ raft.Index) (node.Members, error) {
	<-ctx.Done()
	return node.Members{}, fmt.Errorf("%w: %w", node.ErrOutcomeUnknown, ctx.Err())
}

func TestChange_ALongOneGoesOnAfterTheAnswer(t *testing.T) {
	n := lasting{newFake()}
	c := threeVoters()
	c.Configuration.Members[2].Kind, c.Configuration.Members[2].Next = raft.Learner, raft.NextVoter
	n.SetMembers(c)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := postMembers(ctx, admin.Handler(n, admin.Options{}), `{"promote":[{"id":"n3"}]}`)
	assert.Equal(t, http.StatusAccepted, w.Code)
	var reply admin.Changed
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &reply))
	assert.False(t, reply.Done)
	assert.Equal(t, []string{"n3"}, reply.Change.Waiting)
}

func TestChange_FewRequestsWait(t *testing.T) {
	n := lasting{newFake()}
	handler := admin.Handler(n, admin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	codes := make(chan int, 2*admin.ChangesMax)
	var all sync.WaitGroup
	for range cap(codes) {
		all.Go(func() { codes <- postMembers(ctx, handler, `{"remove":[{"id":"n3"}]}`).Code })
	}
	for range admin.ChangesMax {
		assert.Equal(t, http.StatusTooManyRequests, <-codes, "the others wait")
	}
	cancel()
	all.Wait()
}

func postMembers(ctx context.Context, h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, direct(ctx, http.MethodPost, admin.MembersPath, body))
	return w
}

func TestChange_BadBodies(t *testing.T) {
	n := newFake()
	handler := admin.Handler(n, admin.Options{CheckChange: func(c raft.Change) *admin.Error {
		if len(c.Remove) > 0 {
			return &admin.Error{Code: admin.BadRequest, Message: "this program removes nobody", Remedy: "add somebody"}
		}
		return nil
	}})
	for body, says := range map[string]string{
		"":                                 "not a change in JSON",
		"{}{}":                             "something follows",
		`{"ad":[]}`:                        `unknown field "ad"`,
		`{"add":[{"id":"n4","kind":"x"}]}`: `its kind is "x"`,
		`{"update":[{"id":"n1","priority":101}]}`:   `member "n1": priority 101: it takes 1 to 100, or 0`,
		`{"update":[{"id":"n1","priority":1.5}]}`:   "not a change in JSON",
		`{"patience":"1"}`:                          `patience "1"`,
		`{"lease_duration":"1"}`:                    `lease_duration "1"`,
		`{"remove":[{"id":"n","incarnation":"x"}]}`: `"x" is not an incarnation`,
		`{"remove":[{"id":"n"}]}`:                   "this program removes nobody",
	} {
		w := postMembers(t.Context(), handler, body)
		assert.Equal(t, 400, w.Code, body)
		var failure admin.Error
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &failure))
		assert.Equal(t, admin.BadRequest, failure.Code)
		assert.Contains(t, failure.Message, says)
		assert.NotEmpty(t, failure.Remedy)
	}
	assert.Equal(t, 200, postMembers(t.Context(), handler, `{"cancel":true}`).Code)
}

// A body that trickles is given up after BodyTimeout, and few bodies are read at a time.
func TestChange_BodiesThatTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{make(chan net.Conn)}
		web := &http.Server{Handler: admin.Handler(newFake(), admin.Options{})}
		var all sync.WaitGroup
		all.Go(func() { _ = web.Serve(listener) })
		codes := make(chan int, admin.BodiesMax+1)
		for range admin.BodiesMax + 1 {
			client, accepted := net.Pipe()
			listener.conns <- accepted
			all.Go(func() {
				defer client.Close()
				_, _ = io.WriteString(client, "POST /members HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
				answer, err := http.ReadResponse(bufio.NewReader(client), nil)
				if assert.NoError(t, err) {
					codes <- answer.StatusCode
				}
			})
		}
		assert.Equal(t, http.StatusTooManyRequests, <-codes)
		began := time.Now()
		for range admin.BodiesMax {
			assert.Equal(t, http.StatusRequestTimeout, <-codes)
		}
		assert.Equal(t, admin.BodyTimeout, time.Since(began))
		require.NoError(t, web.Close())
		all.Wait()
	})
}

// pipes is a listener of pipes, which obey the clock of a synctest bubble.
type pipes struct{ conns chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	if conn, open := <-p.conns; open {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error   { close(p.conns); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
