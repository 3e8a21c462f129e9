package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSnapshot_IsTakenOnRequest(t *testing.T) {
	m := newMember(t)
	m.SetStatus(node.Status{ID: "n1", Snapshot: node.SnapshotStatus{Bytes: 512}})
	r := m.do(t, "POST", "/snapshot", "")
	assert.Equal(t, 200, r.StatusCode)
	assert.JSONEq(t, `{"id":"n1","taken":true,"last":0,"term":1,"bytes":512}`, r.body)
	assert.Equal(t, admin.MethodNotAllowed, m.do(t, "GET", "/snapshot", "").failure(t).Code)
	for _, row := range []struct {
		err    error
		code   admin.Code
		status int
		says   string
		remedy string
	}{
		{&node.SnapshotError{Op: "write", Err: &raft.SpaceError{Need: 100, Free: 50, Reserve: 20}}, admin.NoRoom, 507,
			"it needs 100 bytes, 50 are free", "make room on the disk of this member"},
		{&raft.SpaceError{Need: 40, Free: 50, Reserve: 20}, admin.NoRoom, 507, "it needs 40 bytes",
			"make room on the disk of this member, or lower Config.SnapshotReserveBytes"},
		{&node.SnapshotError{Op: "freeze", Err: errors.New("because")}, admin.SnapshotFailed, 500, "because",
			"look at the log of this member; it tries again by itself"},
		{node.ErrSnapshotUnsupported, admin.Unsupported, 501, "keeps no snapshots", "ask another member"},
		{raft.ErrOverloaded, admin.Overloaded, 429, "", "try again in a second"},
		{raft.ErrClosed, admin.Closed, 503, "", "ask another member"},
	} {
		m.Fail(row.err)
		r := m.do(t, "POST", "/snapshot", "")
		failure := r.failure(t)
		assert.Equal(t, row.code, failure.Code, row.err)
		assert.Equal(t, row.status, r.StatusCode, row.err)
		assert.Contains(t, failure.Message, row.says)
		assert.Equal(t, row.remedy, failure.Remedy)
	}
}

// slow is a node whose snapshots take at least as long as the caller waits.
type slow struct{ *rafttest.Fake[raft.FSM] }

func (slow) Snapshot(ctx context.Context) (raft.EntryID, error) {
	<-ctx.Done()
	return raft.EntryID{}, ctx.Err()
}

// post sends POST /snapshot with a context directly to the handler.
func post(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, direct(ctx, http.MethodPost, admin.SnapshotPath, ""))
	return w
}

func TestSnapshot_ALargeOneGoesOnAfterTheAnswer(t *testing.T) {
	n := slow{newFake()}
	n.SetStatus(node.Status{ID: "n1", Applied: 7})
	handler := admin.Handler(n, admin.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := post(ctx, handler)
	assert.Equal(t, http.StatusAccepted, w.Code)
	assert.JSONEq(t, `{"id":"n1","taken":false,"last":7}`, w.Body.String())
}

func TestSnapshot_FewRequestsWait(t *testing.T) {
	n := slow{newFake()}
	handler := admin.Handler(n, admin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	codes := make(chan int, 2*admin.SnapshotsMax)
	var all sync.WaitGroup
	for range cap(codes) {
		all.Go(func() { codes <- post(ctx, handler).Code })
	}
	for range admin.SnapshotsMax {
		assert.Equal(t, http.StatusTooManyRequests, <-codes, "the others wait")
	}
	cancel()
	all.Wait()
}

func TestStatus_SaysHowFarSnapshotsAre(t *testing.T) {
	m := newMember(t)
	m.SetStatus(node.Status{
		ID: "n1", Base: raft.EntryID{Term: 1, Index: 3}, LogBytes: 4096, Snapshot: node.SnapshotStatus{
			Last: raft.EntryID{Term: 1, Index: 5}, Bytes: 512, At: time.Now().Add(-time.Minute), Err: errors.New("because"), SendErr: errors.New("gone"), ReceiveErr: errors.New("damaged"),
			Sending: &node.Transfer{ID: raft.EntryID{Term: 1, Index: 5}, Peer: "n2", Done: 10, Total: 512, Since: time.Second},
			Taking:  &node.Transfer{ID: raft.EntryID{Term: 1, Index: 6}, Total: -1},
		},
	})
	var status admin.Status
	require.NoError(t, json.Unmarshal([]byte(m.do(t, "GET", "/status", "").body), &status))
	assert.Equal(t, []uint64{3, 4096}, []uint64{status.Base, uint64(status.LogBytes)})
	s := status.Snapshot
	assert.InDelta(t, 60_000, s.AgeMS, 30_000)
	s.AgeMS = 0
	assert.Equal(t, admin.Snapshot{
		Last: 5, Bytes: 512, Error: "because", SendErr: "gone", RecvErr: "damaged", Sending: &admin.Transfer{Last: 5, Peer: "n2", Done: 10, Total: 512, ForMS: 1000},
		Taking: &admin.Transfer{Last: 6, Total: -1},
	}, s)
	m.SetStatus(node.Status{ID: "n1"})
	assert.Contains(t, m.do(t, "GET", "/status", "").body, `"snapshot":{"last":0,"bytes":0,"age_ms":-1}`)
}
