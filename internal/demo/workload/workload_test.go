package workload_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/coxswain/raft/internal/demo/server"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// store is a correct server. A function of the test may intercept the requests of clients.
type store struct {
	*rafttest.Fake[*kv.Store]
	real     http.Handler
	requests atomic.Int64
	between  func(n int64, w http.ResponseWriter, r *http.Request)
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.between(s.requests.Add(1), w, r)
}

// run runs a workload until it has made enough requests, and returns the verdict. between may be nil.
func run(t *testing.T, between func(s *store, n int64, w http.ResponseWriter, r *http.Request)) (workload.Verdict, string) {
	t.Helper()
	const requests = 3000
	s := &store{Fake: rafttest.NewFake("n1", &kv.Store{})}
	s.real = server.New(s, s.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.between = func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == requests {
			cancel()
		}
		if between == nil || n > requests {
			s.real.ServeHTTP(w, r)
			return
		}
		between(s, n, w, r)
	}
	listening := httptest.NewServer(s)
	defer listening.Close()
	dir := t.TempDir()
	w := workload.New(workload.Config{Servers: []string{listening.URL}, Clients: 8, Prefix: "test/", Dir: dir})
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	running.Wait()
	verdict, err := w.Verify(t.Context())
	require.NoError(t, err)
	return verdict, dir
}

func TestWorkload_FindsNothingWrongWithACorrectStore(t *testing.T) {
	verdict, _ := run(t, nil)
	require.NoError(t, verdict.Err())
	assert.Greater(t, verdict.Acknowledged, uint64(1000))
	assert.Zero(t, verdict.Lost)
	assert.Positive(t, verdict.Histories)
	assert.Contains(t, verdict.String(), " 0 lost;")
	assert.True(t, strings.HasSuffix(verdict.String(), "linearizable"), verdict)
}

func TestWorkload_TakesUnknownOutcomesAndRefusalsAsTheyAre(t *testing.T) {
	verdict, _ := run(t, func(s *store, n int64, w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			s.real.ServeHTTP(w, r)
		case n%20 == 0: // carried out, but not answered
			s.real.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case n%20 == 1: // neither carried out nor answered
			panic(http.ErrAbortHandler)
		case n%20 == 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"` + string(admin.NoLeader) + `","message":"m","remedy":"r"}`))
		default:
			s.real.ServeHTTP(w, r)
		}
	})
	require.NoError(t, verdict.Err())
	assert.Positive(t, verdict.Unknown)
	assert.Positive(t, verdict.Acknowledged)
}

// rollBack restores an older state of the store. All writes after this state are then lost.
func rollBack(t *testing.T, s *store, former []byte) {
	assert.NoError(t, s.FSM.Restore(context.Background(), raft.EntryID{}, bytes.NewReader(former)))
}

func snapshot(t *testing.T, s *store) []byte {
	frozen, err := s.FSM.Snapshot()
	assert.NoError(t, err)
	var file bytes.Buffer
	assert.NoError(t, frozen.WriteTo(context.Background(), &file))
	return file.Bytes()
}

func TestWorkload_FindsLostWrites(t *testing.T) {
	var mu sync.Mutex
	var former []byte
	verdict, _ := run(t, func(s *store, n int64, w http.ResponseWriter, r *http.Request) {
		mu.Lock() // one request at a time, so that each write is either answered already or begins later
		defer mu.Unlock()
		switch n {
		case 500:
			former = snapshot(t, s)
		case 600:
			rollBack(t, s, former)
		}
		s.real.ServeHTTP(w, r)
	})
	assert.Error(t, verdict.Err())
	assert.Positive(t, verdict.Lost)
	assert.Contains(t, verdict.String(), "NOT linearizable")
}

func TestWorkload_LooksOnceMoreAtEveryKeyThatItKeeps(t *testing.T) {
	s := &store{Fake: rafttest.NewFake("n1", &kv.Store{})}
	s.real = server.New(s, s.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	former := snapshot(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.between = func(n int64, w http.ResponseWriter, r *http.Request) {
		s.real.ServeHTTP(w, r)
		if n == 4000 {
			cancel()
		}
	}
	listening := httptest.NewServer(s)
	defer listening.Close()
	dir := t.TempDir()
	var requests atomic.Int64
	w := workload.New(workload.Config{
		Servers: []string{listening.URL}, Clients: 2, Prefix: "test/", Dir: dir, Keep: true,
		History: filepath.Join(dir, "history.ndjson"), Observe: func(workload.Request) { requests.Add(1) },
	})
	w.Run(ctx)
	verdict, err := w.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, verdict.Err())
	assert.Equal(t, int64(verdict.Operations), requests.Load(), "every request is in a history")
	assert.Equal(t, verdict.Histories, verdict.Scanned)
	assert.Greater(t, verdict.Scanned, 6, "chains continue with new keys, too")
	assert.Len(t, w.Keys(), verdict.Scanned)

	rollBack(t, s, former) // everything is lost, and no running client could notice that
	verdict, err = w.Verify(t.Context())
	require.NoError(t, err)
	assert.Greater(t, verdict.Lost, uint64(6))
	assert.ErrorContains(t, verdict.Err(), "at the end \"\" of revision 0 is there: see ")
	pages, err := filepath.Glob(filepath.Join(dir, "violation-*.html"))
	require.NoError(t, err)
	assert.NotEmpty(t, pages)
}

func TestWorkload_FindsStaleReadsAndDrawsThem(t *testing.T) {
	var mu sync.Mutex
	old := rafttest.NewFake("n1", &kv.Store{})
	stale := server.New(old, old.FSM, admin.Options{Metrics: http.NotFoundHandler()})
	verdict, dir := run(t, func(s *store, n int64, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n%100 == 0 {
			assert.NoError(t, old.FSM.Restore(context.Background(), raft.EntryID{}, bytes.NewReader(snapshot(t, s))))
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "register") {
			stale.ServeHTTP(w, r)
			return
		}
		s.real.ServeHTTP(w, r)
	})
	require.Error(t, verdict.Err())
	assert.Zero(t, verdict.Lost, "the writes are there")
	pictures, err := filepath.Glob(filepath.Join(dir, "violation-*.html"))
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
	info, err := os.Stat(pictures[0])
	require.NoError(t, err)
	assert.Positive(t, info.Size())
}

func TestNextAcknowledged_IsAWriteThatBeganAfterTheMoment(t *testing.T) {
	n := rafttest.NewFake("n1", &kv.Store{})
	listening := httptest.NewServer(server.New(n, n.FSM, admin.Options{Metrics: http.NotFoundHandler()}))
	defer listening.Close()
	w := workload.New(workload.Config{Servers: []string{listening.URL}, Clients: 2, Prefix: "test/", Pause: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	n.Fail(&node.NotLeaderError{})
	moment := time.Now()
	n.Fail(nil)
	at, err := w.NextAcknowledged(t.Context(), moment)
	require.NoError(t, err)
	assert.True(t, at.After(moment))
	cancel()
	running.Wait()
	_, err = w.NextAcknowledged(ctx, moment)
	assert.ErrorIs(t, err, context.Canceled)
}
