package demo

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/coxswain/raft/cmd/raftkv/internal/local"
	"github.com/coxswain/raft/cmd/raftkv/internal/workload"
	"github.com/stretchr/testify/assert"
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

// What is cut short because the demo ends, by its duration or its user, says nothing of the cluster.
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
		d.watch(ctx, "n1", "killed", time.Now(), time.Now())
		assert.Equal(t, "n1 killed → the demo ended before another one led\n", out.String(), name)
	}
}
