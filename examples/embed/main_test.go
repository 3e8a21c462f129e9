package main

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "put this example into the README (make fix)")

const (
	readme     = "../../README.md"
	blockBegin = "```go\n"
	blockEnd   = "```\n"
)

// What the README shows is what compiles and runs here, byte for byte.
func TestREADME_ShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), blockBegin)
	require.True(t, found, "no Go block in the README")
	shown, after, found := strings.Cut(rest, blockEnd)
	require.True(t, found, "the Go block of the README has no end")
	if *update {
		whole := before + blockBegin + string(program) + blockEnd + after
		require.NoError(t, os.WriteFile(readme, []byte(whole), 0o644))
		return
	}
	assert.Equal(t, string(program), shown, "README and example differ; make fix copies the example")
}

func TestCounter_IsAStateMachine(t *testing.T) {
	rafttest.CheckFSM(t, func() raft.FSM { return &counter{} }, [][]byte{[]byte("+"), []byte("++"), []byte("+++")})
}

func TestExample_CountsAndReads(t *testing.T) {
	stdout := os.Stdout
	r, w, err := os.Pipe()
	require.NoError(t, err)
	os.Stdout = w
	err = run(t.Context(), t.TempDir())
	os.Stdout = stdout
	require.NoError(t, w.Close())
	require.NoError(t, err)
	var printed bytes.Buffer
	_, err = printed.ReadFrom(r)
	require.NoError(t, err)
	assert.Equal(t, "counted to 1\ncounted to 2\ncounted to 3\nn2 is up to date\n", printed.String())
}

// Three members count under faults: some crash, restart, and are restored from snapshots.
func TestCounter_CountsUnderFaults(t *testing.T) {
	rafttest.Simulate(t, 50, func() raft.FSM { return &counter{} }, func(r *rand.Rand) []byte {
		return bytes.Repeat([]byte("+"), 1+r.IntN(3))
	})
}
