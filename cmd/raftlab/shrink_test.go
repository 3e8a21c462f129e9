package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The command finds a known bug, shrinks it, writes a case, and replays the case. The case fails with the bug and passes
// without it. All of this runs in another build, which the command makes.
func TestShrink_WritesACaseOfAMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("builds raftlab with the mutants in it")
	}
	path := filepath.Join(t.TempDir(), "case.txt")
	code, out, errOut := lab("shrink", "--mutant", "R01", "--rolls", "4", "--out", path)
	require.Equal(t, exitClean, code, errOut)
	assert.Empty(t, out)
	assert.Contains(t, errOut, "nothing more can be removed")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{"raftlab case 1\n", "\nmutant R01\n", "\nexpect G6\n", "\nvoters 1\n", "\nstory\n", "\nend\n"} {
		assert.Contains(t, string(text), want)
	}
	assert.Less(t, strings.Count(string(text), "\n"), 60)

	code, out, _ = lab("replay", path)
	assert.Equal(t, exitSafety, code, "the case names its mutant")
	assert.Contains(t, out, "lead term 1")
	code, out, errOut = lab("replay", path, "--mutant", "no-op")
	assert.Equal(t, exitClean, code, out+errOut)
}

func TestReplay_ChecksWhatACaseExpects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.txt")
	for expected, code := range map[string]int{"clean": exitClean, "N1": exitFailed} {
		text := "raftlab case 1\nexpect " + expected + "\nnumber 1\nvoters 3\nlength 1s\nclients 1\nrequests all\nend\n"
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, out, errOut := lab("replay", path)
		assert.Equal(t, code, got, out+errOut)
		got, _, _ = lab("trace", path, "--format", "ndjson")
		assert.Equal(t, code, got)
	}
	require.NoError(t, os.WriteFile(path, []byte("raftlab case 1\nexpect N1\n"), 0o600))
	code, _, errOut := lab("replay", path)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "cut short")
}
