package server_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stream lasts longer than the server waits for other requests, and ends when the server drains.
func TestLive_AStreamEndsWhenTheServerDrains(t *testing.T) {
	n := rafttest.NewFake("n1", &kv.Store{})
	handler := server.New(n, n.FSM, admin.Options{})
	m := listening(t, n, handler)
	answer, err := http.Get(m.URL + admin.EventsPath)
	require.NoError(t, err)
	defer answer.Body.Close()
	var begin [len("event: status")]byte
	_, err = io.ReadFull(answer.Body, begin[:])
	require.NoError(t, err)
	handler.Drain(t.Context())
	_, err = io.Copy(io.Discard, answer.Body)
	assert.NoError(t, err, "the stream has an orderly end")
}

func TestLive_ThePageIsWhereAPersonLooks(t *testing.T) {
	m := newMember(t, "n1")
	r := m.do(t, "GET", "/", "")
	assert.Equal(t, admin.LivePath, r.Request.URL.Path)
	for path := range admin.Page {
		assert.Equal(t, http.StatusOK, m.do(t, "GET", path, "").StatusCode, path)
	}
	assert.Contains(t, m.do(t, "GET", admin.DoctorPath, "").body, `"verdict":`)
	assert.Equal(t, admin.CrossSite, m.do(t, "GET", admin.EventsPath, "", "Origin", "http://evil.example").failure(t).Code)
	members := threeVoters()
	members.Configuration.Members[1] = raft.Member{ID: "n2", Meta: "http://n2.kv.example:4001"}
	m.SetMembers(members)
	of := m.do(t, "GET", admin.DoctorPath, "", "Origin", "http://n2.kv.example:4001")
	assert.Equal(t, "http://n2.kv.example:4001", of.Header.Get("Access-Control-Allow-Origin"))
}
