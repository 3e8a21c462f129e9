package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A member is killed while clients write. Then its log is moved. The move itself is also killed, and then repeated. After
// that, the member continues with all its data. The way back is the same.
func TestEndToEnd_AMemberGoesOnWithItsLogMoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	moved := c.Nodes[0]
	c.More = func(n local.Node) []string {
		kind := storage.KindSegments
		if n.ID == moved.ID {
			kind = storage.KindBolt
		}
		return []string{"--log", string(kind), "--snapshot-entries", "300"}
	}
	require.NoError(t, c.Start())
	w, verify := c.work()
	for _, to := range []storage.Kind{storage.KindSegments, storage.KindBolt} {
		writes(t, w, 20)
		code, says := c.migrate(moved, to)
		assert.Equal(t, 1, code)
		assert.Contains(t, says, "stop the member first")
		c.Kill(moved.ID)
		writes(t, w, 20)
		c.killedMigrate(moved, to)
		code, says = c.migrate(moved, to)
		require.Zero(t, code, says)
		assert.Regexp(t, "moved the log from|already", says)
		// A kill may come after the removal of the last segment and before the removal of the directory. Then the directory
		// remains.
		segments, _ := filepath.Glob(filepath.Join(c.DataDir(moved.ID), storage.LogDir, "*"))
		assert.Equal(t, to == storage.KindSegments, len(segments) > 0, "%v", segments)
		require.NoError(t, c.Start(moved.ID))
		c.caughtUp()
	}
	verify()
}

func migrateArgs(dir string, to storage.Kind) []string {
	return []string{"migrate", "--data", dir, "--to", string(to)}
}

// migrate runs the command until it ends.
func (c cluster) migrate(n local.Node, to storage.Kind) (code int, says string) {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), program, migrateArgs(c.DataDir(n.ID), to)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.True(c.t, errors.As(err, &exit), "%v", err)
		code = exit.ExitCode()
	}
	return code, string(out)
}

// killedMigrate kills the command when the command begins to copy, unless the command ends earlier.
func (c cluster) killedMigrate(n local.Node, to storage.Kind) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program, migrateArgs(c.DataDir(n.ID), to)...)
	said, err := cmd.StderrPipe()
	require.NoError(c.t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(c.t, cmd.Start())
	lines := bufio.NewScanner(said)
	require.True(c.t, lines.Scan(), "it says that it begins")
	require.Contains(c.t, lines.Text(), "copied 0 of ")
	_ = cmd.Process.Kill() // the command may have ended
	_ = cmd.Wait()
	c.t.Logf("%s to %s, killed: %q", n.ID, to, out.String())
}
