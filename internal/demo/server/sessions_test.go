package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/coxswain/raft/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withSessions returns a server whose store keeps sessions, its node, and the id of a session.
func withSessions(t *testing.T) (member, *rafttest.Fake[raft.SessionFSM], string) {
	t.Helper()
	store := &kv.Store{}
	fsm, err := session.Wrap(store)
	require.NoError(t, err)
	n := rafttest.NewFake("n1", fsm)
	status := n.Status()
	status.Cluster = raft.ClusterID{1}
	n.SetStatus(status)
	listening := httptest.NewServer(server.New(n, store, admin.Options{Metrics: http.NotFoundHandler()}))
	t.Cleanup(listening.Close)
	m := member{Server: listening}
	var opened api.Session
	require.NoError(t, json.Unmarshal([]byte(m.do(t, "POST", api.SessionPath, "").body), &opened))
	return m, n, opened.Session
}

func TestSession_ARepeatedWriteTakesEffectOnce(t *testing.T) {
	m, _, id := withSessions(t)
	first := m.do(t, "PUT", "/kv/k", "v", "Session", id, "Session-Number", "1", "Session-Floor", "1")
	assert.JSONEq(t, `{"revision":2,"existed":false}`, first.body)
	m.do(t, "DELETE", "/kv/k", "") // without a session, as always
	again := m.do(t, "PUT", "/kv/k", "v", "Session", id, "Session-Number", "1", "Session-Floor", "1")
	assert.Equal(t, 200, again.StatusCode)
	assert.Equal(t, first.body, again.body)
	assert.Equal(t, first.Header.Get("ETag"), again.Header.Get("ETag"))
	assert.Equal(t, admin.NotFound, m.do(t, "GET", "/kv/k", "").failure(t).Code, "the write has not happened again")
}

func TestSession_BadHeadersSayWhatToSend(t *testing.T) {
	m, n, id := withSessions(t)
	send := func(number, floor string) response {
		return m.do(t, "PUT", "/kv/k", "v", "Session", id, "Session-Number", number, "Session-Floor", floor)
	}
	for _, header := range [][]string{
		{"Session", id},
		{"Session-Number", "1", "Session-Floor", "1"},
		{"Session", id, "Session", id, "Session-Number", "1", "Session-Floor", "1"},
		{"Session", "nonsense", "Session-Number", "1", "Session-Floor", "1"},
		{"Session", id, "Session-Number", "0", "Session-Floor", "0"},
		{"Session", id, "Session-Number", "1", "Session-Floor", "2"},
		{"Session", id, "Session-Number", "-1", "Session-Floor", "1"},
		{"Session", id, "Session-Number", "9223372036854775808", "Session-Floor", "1"},
	} {
		r := m.do(t, "PUT", "/kv/k", "v", header...)
		assert.Equal(t, 400, r.StatusCode, header)
		e := r.failure(t)
		assert.Equal(t, api.BadSession, e.Code, header)
		assert.Contains(t, e.Remedy, "POST /session")
	}
	assert.Equal(t, admin.NotFound, m.do(t, "GET", "/kv/k", "").failure(t).Code)

	assert.Equal(t, 200, send("3", "3").StatusCode)
	for _, row := range []struct {
		r      response
		code   admin.Code
		status int
		says   string
	}{
		{send("2", "2"), api.SessionAnswered, 409, "write 2 is below Session-Floor 3"},
		{send("100", "3"), api.SessionWindow, 409, "write 100 is not among the 64 from Session-Floor 3 on"},
		{m.do(t, "PUT", "/kv/k", "v", "Session", session.ID{Index: 7}.String(), "Session-Number", "1", "Session-Floor", "1"), api.SessionExpired, 410, "has ended"},
	} {
		e := row.r.failure(t)
		assert.Equal(t, row.code, e.Code)
		assert.Equal(t, row.status, row.r.StatusCode)
		assert.Contains(t, e.Message, row.says)
		assert.NotEmpty(t, e.Remedy)
		assert.True(t, api.Uncertain(&e), "an earlier copy may have been carried out")
	}

	n.Fail(&raft.EarlierReleaseError{IDs: []raft.NodeID{"n2"}})
	assert.Equal(t, admin.EarlierRelease, m.do(t, "POST", api.SessionPath, "").failure(t).Code)
	n.Fail(&node.NotMemberError{})
	assert.Equal(t, admin.Closed, send("4", "4").failure(t).Code, "as without a session")
}
