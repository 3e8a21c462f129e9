package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNothing_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return nothing{} }, [][]byte{[]byte("a"), []byte("b"), []byte("c")})
}

// watched shows the writes to a resource, and holds back those of one member.
type watched struct {
	resource Resource

	mu      sync.Mutex
	taken   []Write
	refused []Write
	holding bool        // the next write is held, and those that its member makes after it
	held    raft.NodeID // whose writes wait until release is closed; "": nobody's
	holds   chan Write  // gets the first of them
	release chan struct{}
	changed chan struct{} // gets a value after a write; capacity 1
}

func (w *watched) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var write Write
	_ = json.Unmarshal(body, &write)
	w.mu.Lock()
	if w.holding {
		w.holding, w.held = false, write.From
	}
	held, release := w.held == write.From, w.release
	w.mu.Unlock()
	if held {
		select {
		case w.holds <- write:
		default:
		}
		<-release
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	w.resource.ServeHTTP(answer, r)
	out.WriteHeader(answer.Code)
	switch answer.Code {
	case http.StatusOK:
		w.taken = append(w.taken, write)
	case http.StatusConflict:
		w.refused = append(w.refused, write)
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits for a write after which the condition holds.
func (w *watched) await(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for {
		w.mu.Lock()
		held := holds()
		w.mu.Unlock()
		if held {
			return
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// latest returns the latest write that was taken, once it satisfies the condition.
func (w *watched) latest(ctx context.Context, t *testing.T, what string, holds func(Write) bool) (last Write) {
	t.Helper()
	w.await(ctx, t, what, func() bool {
		if len(w.taken) > 0 {
			last = w.taken[len(w.taken)-1]
		}
		return holds(last)
	})
	return last
}

// One member after another does the job, and one that is suspended in the middle of it does no harm when it continues.
func TestExample_OnlyTheLatestLeaderWrites(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := &watched{holds: make(chan Write, 1), changed: make(chan struct{}, 1), release: make(chan struct{})}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	ports := &local.Layout{}
	t.Cleanup(ports.Close)
	var members []raft.Member
	for _, id := range []raft.NodeID{"n1", "n2", "n3"} {
		address, err := ports.Reserve()
		require.NoError(t, err)
		members = append(members, raft.Member{ID: id, Address: address})
	}
	list, err := json.Marshal(members)
	require.NoError(t, err)
	running := map[raft.NodeID]*local.Process{}
	dir := t.TempDir()
	start := func(id raft.NodeID) {
		own := filepath.Join(dir, string(id))
		running[id], err = local.StartProcess(os.Args[0], []string{string(list), string(id), own, server.URL}, own+".log")
		require.NoError(t, err)
		t.Cleanup(running[id].Kill)
	}
	for _, m := range members {
		start(m.ID)
	}

	w.latest(ctx, t, "the first writes", func(last Write) bool { return last.Number > 3 })
	w.mu.Lock()
	w.holding = true
	w.mu.Unlock()
	late := <-w.holds // its request is on its way when the process is suspended
	if err := running[late.From].Freeze(); errors.Is(err, local.ErrNoFreeze) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
	}
	second := w.latest(ctx, t, "another leader", func(last Write) bool { return last.Term > late.Term })
	close(w.release)
	w.await(ctx, t, "a refusal", func() bool { return len(w.refused) > 0 })
	require.NoError(t, running[late.From].Resume())

	running[second.From].Kill()
	third := w.latest(ctx, t, "a leader after a kill", func(last Write) bool { return last.Term > second.Term })
	start(second.From)
	process, err := os.FindProcess(running[third.From].PID())
	require.NoError(t, err)
	require.NoError(t, process.Signal(syscall.SIGTERM)) // it transfers its leadership
	require.NoError(t, running[third.From].Err(), "it ends well")
	w.latest(ctx, t, "a leader after a transfer", func(last Write) bool { return last.Term > third.Term })

	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(t, late, w.refused[0], "the resource refuses what comes late")
	for i, next := range w.taken[1:] {
		last := w.taken[i]
		assert.True(t, next.Term > last.Term || next.Term == last.Term && next.From == last.From && next.Number > last.Number, "%+v after %+v", next, last)
	}
}
