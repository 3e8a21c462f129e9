package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy/processes"
	"github.com/coxswain/raft/internal/built"
)

// patience is the limit of each wait for something that must happen.
const patience = time.Minute

// program builds raftlab.
func program(t *testing.T) (path string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs real processes")
	}
	path = filepath.Join(t.TempDir(), "raftlab")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(built.Remove)
	return path
}

// builtChaos returns the command "raftlab chaos" of a built program, with its own temporary directory. From then on, the test
// runs in parallel with other tests that call builtChaos.
func builtChaos(t *testing.T, program string, args ...string) (cmd *exec.Cmd, out *bytes.Buffer, temp string) {
	t.Helper()
	t.Parallel()
	raftkv, err := built.Raftkv()
	require.NoError(t, err)
	temp = t.TempDir()
	args = append([]string{"chaos", "--binary", raftkv}, args...)
	cmd, out = exec.Command(program, args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out, temp
}

// left returns the processes and mounts that name the directory.
func left(t *testing.T, dir string) (all []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			all = append(all, line)
		}
	}
	for _, file := range []string{"cmdline", "environ"} { // a member's command line names it, and the environment of a disk's server
		processes, err := filepath.Glob("/proc/[0-9]*/" + file)
		require.NoError(t, err)
		for _, process := range processes {
			if text, err := os.ReadFile(process); err == nil && strings.Contains(string(text), dir) {
				all = append(all, process)
			}
		}
	}
	return all
}

// inFullSwing waits until the members of a run have started.
func inFullSwing(t *testing.T, temp string) {
	t.Helper()
	require.Eventually(t, func() bool {
		diaries, err := filepath.Glob(filepath.Join(temp, "raftlab-chaos-*", "chaos.log"))
		if err != nil || len(diaries) == 0 {
			return false
		}
		diary, err := os.ReadFile(diaries[0])
		return err == nil && strings.Contains(string(diary), "kill")
	}, patience, 10*time.Millisecond)
	require.NotEmpty(t, left(t, temp), "there is something to clean up")
}

func TestChaos_TheBuiltProgram(t *testing.T) {
	path := program(t)
	t.Run("reports what it ran", func(t *testing.T) { reportsWhatItRan(t, path) })
	t.Run("interrupted, leaves nothing behind", func(t *testing.T) { leavesNothing(t, path, syscall.SIGINT) })
	t.Run("asked to end, leaves nothing behind", func(t *testing.T) { leavesNothing(t, path, syscall.SIGTERM) })
	t.Run("killed, takes its processes and mounts along", func(t *testing.T) { takesThemAlong(t, path) })
}

func reportsWhatItRan(t *testing.T, program string) {
	cmd, said, _ := builtChaos(t, program, "--duration", "2s", "--nodes", "3", "--faults", "kill,drop", "--seed", "2f", "--json")
	var report bytes.Buffer
	cmd.Stdout = &report
	require.NoError(t, cmd.Run(), said.String())
	var r processes.Report
	require.NoError(t, json.Unmarshal(report.Bytes(), &r), "standard output holds the report alone")
	assert.Equal(t, "clean", r.Verdict)
	assert.Equal(t, "2f", r.Seed)
	assert.Positive(t, r.Faults[processes.Kill])
	assert.Positive(t, r.Operations.Writes)
	assert.Contains(t, r.Origin, "commit ")
}

func leavesNothing(t *testing.T, program string, signal syscall.Signal) {
	cmd, out, temp := builtChaos(t, program, "--duration", "1h", "--nodes", "3")
	require.NoError(t, cmd.Start())
	inFullSwing(t, temp)
	require.NoError(t, cmd.Process.Signal(signal))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, exitFailed, exit.ExitCode(), out.String())
	assert.Contains(t, out.String(), "interrupted: nothing was judged")
	assert.Empty(t, left(t, temp))
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func takesThemAlong(t *testing.T, program string) {
	cmd, _, temp := builtChaos(t, program, "--duration", "1h", "--nodes", "3")
	require.NoError(t, cmd.Start())
	inFullSwing(t, temp)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return len(left(t, temp)) == 0 }, patience, 10*time.Millisecond)
}
