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

var update = flag.Bool("update", false, "put the part of this example into the README (make fix)")

const (
	readme     = "../../README.md"
	blockBegin = "```go\n"
	blockEnd   = "```\n"
	partBegin  = "// counter is "
	partEnd    = "\n// run starts "
)

// between splits the file at two marks. The middle part begins with the first mark, and the last part begins with the second
// mark.
func between(t *testing.T, file, begin, end string) (before, middle, after string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	at := strings.Index(string(text), begin)
	require.GreaterOrEqual(t, at, 0, "no %q in %s", begin, file)
	length := strings.Index(string(text[at+len(begin):]), end)
	require.GreaterOrEqual(t, length, 0, "no %q in %s", end, file)
	length += len(begin)
	return string(text[:at]), string(text[at : at+length]), string(text[at+length:])
}

// The Go code in the README is the important part of this program, byte for byte: from the state machine to its
// use.
func TestREADME_ShowsAPartOfThisProgram(t *testing.T) {
	_, part, _ := between(t, "main.go", partBegin, partEnd)
	before, shown, after := between(t, readme, blockBegin, blockEnd)
	if *update {
		require.NoError(t, os.WriteFile(readme, []byte(before+blockBegin+part+after), 0o644))
		return
	}
	assert.Equal(t, blockBegin+part, shown, "README and example differ; make fix copies the example into the README")
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
	assert.Equal(t, "counted to 1\ncounted to 2\ncounted to 3\n", printed.String())
}

// Three members count under faults: some crash, restart, and are restored from snapshots.
func TestCounter_CountsUnderFaults(t *testing.T) {
	rafttest.Simulate(t, 50, func() raft.FSM { return &counter{} }, func(r *rand.Rand) []byte {
		return bytes.Repeat([]byte("+"), 1+r.IntN(3))
	})
}
