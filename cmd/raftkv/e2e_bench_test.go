package main_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bench can start a cluster of its own, and leaves nothing behind.
func TestBench_OnAClusterOfItsOwn(t *testing.T) {
	temporary := t.TempDir()
	cmd := exec.Command(program, "bench", "--nodes", "3", "--callers", "4",
		"--warmup", "0s", "--duration", "200ms", "--timeout", "60s")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "TMP="+temporary)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "4 callers in a closed loop")
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	assert.Empty(t, left)
}
