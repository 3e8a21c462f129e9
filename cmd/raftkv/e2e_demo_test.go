package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raftkv runs the program until it succeeds, and returns its output. Several attempts may be necessary, because the leader
// may change at any time.
func raftkv(t *testing.T, args ...string) string {
	t.Helper()
	var out []byte
	require.Eventually(t, func() (done bool) {
		var err error
		out, err = exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		return err == nil
	}, patience, poll, "%v", args)
	return string(out)
}

func TestEndToEnd_TheDemoKillsItsLeadersAndLosesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	demo := exec.CommandContext(t.Context(), program, "demo", "--duration", "4s", "--kill-every", "1500ms")
	printed, err := demo.CombinedOutput()
	out := string(printed)
	t.Log(out)
	require.NoError(t, err)
	assert.Regexp(t, regexp.MustCompile(`verdict: \d+ writes acknowledged, 0 lost; .*, linearizable\n$`), out)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	for _, entry := range left {
		assert.NotContains(t, entry.Name(), "raftkv-demo-", "temporary data is removed")
	}
}

func TestEndToEnd_TheCommandsFindTheDemoAndASecondRunResumesIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	data := t.TempDir()
	for round, want := range []string{"", "of the first run"} {
		demo := exec.CommandContext(t.Context(), program, "demo", "--data", data, "--nodes", "3")
		stdout, err := demo.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, demo.Start())
		introduction := readUntil(t, stdout.Read, "8 clients write and read")
		assert.Equal(t, 3, strings.Count(introduction, "  pid "))
		if round == 0 {
			raftkv(t, "put", "note", "of the first run")
			want = "of the first run"
		}
		assert.Equal(t, want, raftkv(t, "get", "note"))
		assert.Contains(t, raftkv(t, "list", "note"), "note\trevision ")
		assert.Equal(t, 3, strings.Count(raftkv(t, "status"), "applied "))
		raftkv(t, "transfer")
		require.NoError(t, demo.Process.Signal(os.Interrupt))
		verdict := readUntil(t, stdout.Read, "linearizable\n")
		assert.Contains(t, verdict, "0 lost")
		require.NoError(t, demo.Wait())
	}
	out, err := exec.CommandContext(t.Context(), program, "get", "note").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "no running demo found")
}

// readUntil reads until the output contains one of the texts. It returns the output.
func readUntil(t *testing.T, read func([]byte) (int, error), texts ...string) string {
	t.Helper()
	var got bytes.Buffer
	var chunk [4096]byte
	come := func(text string) bool { return strings.Contains(got.String(), text) }
	for !slices.ContainsFunc(texts, come) {
		n, err := read(chunk[:])
		got.Write(chunk[:n])
		require.NoError(t, err, "waiting for %q: %s", texts, got.String())
	}
	return got.String()
}

func TestEndToEnd_NothingOutlivesAKilledDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	data := t.TempDir()
	demo := exec.CommandContext(t.Context(), program, "demo", "--data", data)
	stdout, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	readUntil(t, stdout.Read, "8 clients write and read")
	require.NoError(t, demo.Process.Kill())
	assert.Error(t, demo.Wait())
	require.Eventually(t, func() bool { // retry until the ports and the data are free again
		out, err := exec.CommandContext(t.Context(), program, "demo", "--data", data, "--duration", "100ms").CombinedOutput()
		return err == nil && strings.Contains(string(out), "linearizable")
	}, patience, poll)
}
