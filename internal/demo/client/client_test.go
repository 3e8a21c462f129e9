package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newClient(t *testing.T, handler http.Handler) *client.Client {
	t.Helper()
	listening := httptest.NewServer(handler)
	t.Cleanup(listening.Close)
	return client.New(listening.URL+"/", client.NewHTTP(4, 10*time.Second))
}

func newStore(t *testing.T) (*client.Client, *rafttest.Fake[*kv.Store]) {
	n := rafttest.NewFake("n1", &kv.Store{})
	return newClient(t, server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})), n
}

func TestClient_DoesWhatTheServerOffers(t *testing.T) {
	c, _ := newStore(t)
	ctx := t.Context()
	written, err := c.Put(ctx, "a/ü", []byte("1"), client.Condition{Absent: true})
	require.NoError(t, err)
	assert.Equal(t, api.Written{Revision: 1}, written)
	_, err = c.Put(ctx, "a/ü", []byte("2"), client.Condition{Absent: true})
	assert.Equal(t, api.ConditionFailed, api.CodeOf(err))
	written, err = c.Put(ctx, "a/ü", []byte("3"), client.Condition{Revision: 1})
	require.NoError(t, err)
	assert.Equal(t, api.Written{Revision: 3, Existed: true}, written)
	value, err := c.Get(ctx, "a/ü", api.Linearizable)
	require.NoError(t, err)
	assert.Equal(t, client.Value{Data: []byte("3"), Revision: 3, Node: "n1"}, value)
	listing, err := c.List(ctx, "a/", "", 1, api.Linearizable)
	require.NoError(t, err)
	assert.Equal(t, []api.Listed{{Key: "a/ü", Revision: 3, Bytes: 1}}, listing.Items)
	_, err = c.Delete(ctx, "a/ü", client.Condition{Revision: 3})
	require.NoError(t, err)
	_, err = c.Get(ctx, "a/ü", api.Stale)
	assert.Equal(t, admin.NotFound, api.CodeOf(err))
	transferred, err := c.Transfer(ctx, "n2")
	require.NoError(t, err)
	assert.Equal(t, "n2", transferred.Leader)
	status, err := c.Status(ctx)
	require.NoError(t, err)
	assert.Equal(t, "n1", status.ID)
}

func TestClient_TellsWhatWasNotSentFromWhatWasNotAnswered(t *testing.T) {
	nobody := client.New("http://127.0.0.1:1", client.NewHTTP(1, time.Second)) // a port that no server of this test can get
	const silent = "no answer comes"
	breaking := newClient(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	other := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	failing := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }))
	moved := newClient(t, http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect))
	for _, row := range []struct {
		rule      string
		c         *client.Client
		write     admin.Code
		uncertain bool
		read      admin.Code
	}{
		{"nobody listens", nobody, api.Unreachable, false, api.Unreachable},
		{silent, breaking, admin.OutcomeUnknown, true, api.Unreachable},
		{"not our server", other, api.BadResponse, true, api.BadResponse},
		{"a proxy in between", failing, api.BadResponse, true, api.BadResponse},
		{"redirects are not followed", moved, api.BadResponse, true, api.BadResponse},
	} {
		_, err := row.c.Put(t.Context(), "k", nil, client.Condition{})
		assert.Equal(t, row.write, api.CodeOf(err), row.rule)
		assert.Equal(t, row.uncertain, api.Uncertain(err), row.rule)
		_, err = row.c.Get(t.Context(), "k", api.Linearizable)
		assert.Equal(t, row.read, api.CodeOf(err), row.rule)
		if row.rule == silent {
			assert.Equal(t, 1, strings.Count(err.Error(), "did not answer"), "%v", err)
			assert.NotContains(t, err.Error(), "carried out", "a read changes nothing")
		}
	}
}

// A leader of an earlier release has to be asked itself: the member that was asked names it.
func TestClient_GoesToTheLeader(t *testing.T) {
	n := rafttest.NewFake("n1", &kv.Store{})
	leader := httptest.NewServer(server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}))
	defer leader.Close()
	follower, fake := newStore(t)
	fake.Fail(&node.NotLeaderError{Leader: &raft.Member{ID: "n1", Meta: leader.URL + "/"}})
	written, err := follower.Put(t.Context(), "k", []byte("v"), client.Condition{Absent: true})
	require.NoError(t, err)
	assert.Equal(t, api.Written{Revision: 1}, written)
	_, err = follower.Put(t.Context(), "k", nil, client.Condition{Absent: true})
	assert.Equal(t, api.ConditionFailed, api.CodeOf(err), "it gets the whole request")

	n.Fail(&node.NotLeaderError{Leader: &raft.Member{ID: "n2", Meta: leader.URL}})
	_, err = follower.Put(t.Context(), "k", nil, client.Condition{})
	assert.Equal(t, admin.NotLeader, api.CodeOf(err), "it goes there once")
	for _, url := range []string{"", "no url", "http://127.0.0.1:1"} {
		fake.Fail(&node.NotLeaderError{Leader: &raft.Member{ID: "n1", Meta: url}})
		_, err = follower.Put(t.Context(), "k", nil, client.Condition{})
		assert.Equal(t, admin.NotLeader, api.CodeOf(err), url)
	}
}

func TestTry_AsksOneAfterTheOtherUntilOneCan(t *testing.T) {
	down, fake := newStore(t)
	fake.Fail(&node.NotLeaderError{})
	up, _ := newStore(t)
	put := func(c *client.Client) (api.Written, error) {
		return c.Put(t.Context(), "k", nil, client.Condition{})
	}
	written, err := client.Try(t.Context(), []*client.Client{down, down, up}, put)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), written.Revision)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Try(ctx, []*client.Client{down}, put)
	assert.Equal(t, admin.NoLeader, api.CodeOf(err), "the last answer says why")

	nobody := client.New("http://127.0.0.1:1", client.NewHTTP(1, time.Second)) // a port that no server of this test can get
	emptied, other := newStore(t)
	other.Fail(node.ErrWiped)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Try(ctx, []*client.Client{nobody, down, emptied, nobody}, put)
	assert.Equal(t, admin.NoLeader, api.CodeOf(err), "an answer is more informative than silence")
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Try(ctx, []*client.Client{nobody, emptied, nobody}, put)
	assert.Equal(t, admin.Closed, api.CodeOf(err))

	fake.Fail(node.ErrOutcomeUnknown)
	_, err = client.Try(t.Context(), []*client.Client{down, up}, put)
	assert.Equal(t, admin.OutcomeUnknown, api.CodeOf(err), "a write that may have happened is not repeated")

	fake.Fail(&node.NotLeaderError{})
	silent, slow := newStore(t)
	slow.Fail(node.ErrOutcomeUnknown)
	_, err = client.Try(t.Context(), []*client.Client{down, silent}, put)
	assert.Equal(t, admin.OutcomeUnknown, api.CodeOf(err))
	assert.ErrorContains(t, err, "; before that: ", "it says what the others said")

	_, err = client.Try(t.Context(), nil, put)
	assert.Error(t, err)
}

// While a member restores a snapshot, it has nothing to read. Here the snapshot is damaged, so the member stays in this
// state.
func TestTry_ReadsFromAnotherMemberWhileOneRestores(t *testing.T) {
	restoring, fake := newStore(t)
	require.Error(t, fake.FSM.Restore(t.Context(), raft.EntryID{Term: 1, Index: 1}, strings.NewReader("damaged")))
	up, _ := newStore(t)
	_, err := up.Put(t.Context(), "k", []byte("v"), client.Condition{})
	require.NoError(t, err)
	get := func(c *client.Client) (client.Value, error) { return c.Get(t.Context(), "k", api.Stale) }
	value, err := client.Try(t.Context(), []*client.Client{restoring, up}, get)
	require.NoError(t, err)
	assert.Equal(t, "v", string(value.Data))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Try(ctx, []*client.Client{restoring}, get)
	assert.Equal(t, api.Restoring, api.CodeOf(err))
}

func TestETag_IsReadAsItIsWritten(t *testing.T) {
	revision, err := api.ParseETag(api.ETag(1<<64 - 1))
	require.NoError(t, err)
	assert.Equal(t, uint64(1<<64-1), revision)
	for _, bad := range []string{"", `"`, `""`, "1", `"1`, `1"`, `"x"`, `W/"1"`, `"-1"`, `"1", "2"`} {
		_, err := api.ParseETag(bad)
		assert.Error(t, err, bad)
	}
}

func TestCodeOf_AnyErrorHasACode(t *testing.T) {
	assert.Equal(t, admin.Code(""), api.CodeOf(nil))
	assert.Equal(t, admin.Internal, api.CodeOf(errors.New("x")))
	assert.True(t, api.Uncertain(errors.New("x")))
	assert.False(t, api.Uncertain(nil))
}
