package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// backingUp is a fake node whose backups are what a test writes.
type backingUp struct {
	*rafttest.Fake[*kv.Store]
	write atomic.Pointer[func(ctx context.Context, w io.Writer) error]
}

func (n *backingUp) writes(f func(ctx context.Context, w io.Writer) error) { n.write.Store(&f) }

func (n *backingUp) Backup(ctx context.Context, w io.Writer) (raft.EntryID, error) {
	return raft.EntryID{}, (*n.write.Load())(ctx, w)
}

func TestBackup_ThatFailsNeverLooksComplete(t *testing.T) {
	n := &backingUp{Fake: rafttest.NewFake("n1", &kv.Store{})}
	handler := server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	listening := httptest.NewUnstartedServer(handler)
	listening.Config, listening.Listener = handler.HTTP(), server.Listener(listening.Listener)
	listening.Start()
	defer listening.Close()
	m := member{n.Fake, listening}
	for _, bytes := range []int{10, 10 << 10, 1 << 20} {
		data := make([]byte, bytes)
		n.writes(func(_ context.Context, w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		r := m.do(t, "GET", "/backup", "")
		assert.Equal(t, http.StatusOK, r.StatusCode)
		assert.Equal(t, "application/octet-stream", r.Header.Get("Content-Type"))
		assert.Len(t, r.body, bytes)

		n.writes(func(_ context.Context, w io.Writer) error {
			_, _ = w.Write(data)
			return errors.New("broken")
		})
		answer, err := listening.Client().Get(listening.URL + "/backup")
		if err == nil {
			_, err = io.ReadAll(answer.Body)
			require.NoError(t, answer.Body.Close())
		}
		require.Error(t, err, "%d bytes", bytes)
	}
	n.writes(func(context.Context, io.Writer) error { return node.ErrBackupRuns })
	assert.Equal(t, admin.Overloaded, m.do(t, "GET", "/backup", "").failure(t).Code)
	assert.Equal(t, admin.MethodNotAllowed, m.do(t, "POST", "/backup", "").failure(t).Code)

	gone, ended := make(chan struct{}), make(chan struct{})
	n.writes(func(ctx context.Context, w io.Writer) error {
		_, _ = w.Write(make([]byte, 1<<20))
		close(gone)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	answer, err := listening.Client().Get(listening.URL + "/backup")
	require.NoError(t, err)
	_, err = io.ReadFull(answer.Body, make([]byte, 1<<20))
	require.NoError(t, err)
	<-gone
	require.NoError(t, answer.Body.Close())
	<-ended // the client that has left ends the backup
}
