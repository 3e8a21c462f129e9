package screen

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/demo/workload"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newDemo returns a demo of members that were never started.
func newDemo() (*demo, *bytes.Buffer) {
	screen, out := newScreen(false)
	return &demo{
		cluster:  local.NewCluster("", "", &local.Layout{}),
		workload: workload.New(workload.Config{}),
		screen:   screen, down: map[string]bool{},
	}, out
}

// If the demo ends during a failover, the demo does not report the loss of a leader.
func TestEnd_IsNotTakenForTheLossOfALeader(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"its user": canceled, "its duration": expired} {
		d, out := newDemo()
		d.look(ctx)
		d.breakLeader(ctx, "killed", true)
		assert.Empty(t, out.String(), name)
		d.watch(ctx, "n1", "killed", time.Now(), time.Now(), 0)
		assert.Equal(t, "n1 killed → the demo ended before another one led\n", out.String(), name)
	}
}

// Without a majority, the failover cannot end. The demo reports this at once.
func TestKeys_WithoutAQuorumSayWhatHelps(t *testing.T) {
	d, out := newDemo()
	d.cluster = local.NewCluster("", "", &local.Layout{Nodes: []local.Node{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}, {ID: "n4"}}})
	d.removed = map[string]bool{"n4": true}
	d.watching = true
	for _, key := range "kzaxw" {
		out.Reset()
		assert.True(t, d.handleKey(t.Context(), byte(key)))
		assert.Equal(t, "nobody leads: 0 of 3 nodes run, and 2 are needed; r restarts the others\n", out.String(), string(key))
	}
}

func TestEnd_WhileItStartsIsNoErrorAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, Run(ctx, Options{Program: "go", Out: &out}))
	assert.Equal(t, "ended before there was a leader\n", out.String())
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestStart_AMemberThatEndsAtOnceSaysWhyAndNothingElse(t *testing.T) {
	// The go command has no "serve", so each member ends at once.
	err := Run(t.Context(), Options{Program: "go", Dir: t.TempDir(), Out: io.Discard})
	require.ErrorContains(t, err, " has ended (")
	assert.NotContains(t, err.Error(), "context canceled", "the reason is that the members ended")
}

func TestIntroduction_NamesCommandsThatWork(t *testing.T) {
	dir := t.TempDir()
	installed := filepath.Join(dir, "raftkv")
	require.NoError(t, os.WriteFile(installed, nil, 0o755))
	t.Setenv("PATH", dir)
	assert.Equal(t, "go run ./cmd/raftkv", command("/tmp/go-build2779522485/b001/exe/raftkv"))
	assert.Equal(t, "/opt/raftkv", command("/opt/raftkv"), "the raftkv in the PATH may be another one")
	if runtime.GOOS != "windows" { // where programs end with .exe
		assert.Equal(t, "raftkv", command(installed))
	}
}
