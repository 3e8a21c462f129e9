package main_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/backup"
	"github.com/coxswain/raft/internal/demo/kv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keysIn restores a backup into a store, and returns how many keys it has.
func keysIn(t *testing.T, name string) int {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	r, err := backup.NewReader(bufio.NewReader(f))
	require.NoError(t, err)
	var store kv.Store
	require.NoError(t, store.Restore(t.Context(), r.Head().Base.ID, r))
	_, err = r.Entry()
	require.ErrorIs(t, err, io.EOF)
	view, err := store.View()
	require.NoError(t, err)
	return view.Len()
}

func TestEndToEnd_ABackupIsACompleteFileOrNone(t *testing.T) {
	t.Parallel()
	c, leader := startSnapshotting(t, "--snapshot-rate", "192KiB")
	const keys, valueBytes = 100, 4 << 10
	c.fill(0, keys, valueBytes)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	code, out := c.run("backup", whole, "--server", strings.Join(c.urls(), ","))
	require.Zero(t, code, out)
	assert.Regexp(t, `a backup of entry \d+ of cluster [0-9a-f]+, taken by n\d: \d+.* in `, out)
	assert.NotContains(t, out, "taken by "+leader.ID+":", "followers come first")
	assert.GreaterOrEqual(t, keysIn(t, whole), keys, "everything that was acknowledged before")

	// The only member that is asked dies in the middle.
	killed := c.others(leader.ID)[0]
	name := filepath.Join(dir, "cut")
	var says bytes.Buffer
	command := exec.CommandContext(t.Context(), program, "backup", name, "--server", killed.URL())
	command.Stderr = &says
	require.NoError(t, command.Start())
	require.Eventually(t, func() bool {
		info, err := os.Stat(name + ".part")
		return err == nil && info.Size() > 0
	}, c.patience, time.Millisecond)
	c.Kill(killed.ID)
	var exit *exec.ExitError
	require.ErrorAs(t, command.Wait(), &exit, "%s", &says)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Contains(t, says.String(), "broke off")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1, "nothing of it is left")
	require.NoError(t, c.Start(killed.ID))
	c.caughtUp()
}
