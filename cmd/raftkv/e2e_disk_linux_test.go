package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/cmd/raftkv/internal/local"
	"github.com/coxswain/raft/internal/namespace"
)

// startOnSmallDisks returns a cluster with a leader, whose members each have a disk of 4 MiB.
func startOnSmallDisks(t *testing.T) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	for _, n := range c.Nodes {
		dir := c.DataDir(n.ID)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// fillDisk fills the disk of a member. It returns the file whose removal makes room again.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	err := os.WriteFile(filler, make([]byte, 8<<20), 0o600)
	require.ErrorIs(t, err, syscall.ENOSPC)
	return filler
}

// awaitEnd waits until a member has ended by itself, and returns its exit code and its log.
func (c cluster) awaitEnd(id string) (code int, log string) {
	c.t.Helper()
	p := c.Process(id)
	select {
	case <-p.Done():
	case <-time.After(patience):
		require.Fail(c.t, "it still runs", id)
	}
	var exit *exec.ExitError
	require.True(c.t, errors.As(p.Err(), &exit), "%v", p.Err())
	all, err := os.ReadFile(filepath.Join(c.dir, id+".log"))
	require.NoError(c.t, err)
	return exit.ExitCode(), string(all)
}

func TestEndToEnd_AFullDiskEndsTheMemberAndTheOthersGoOn(t *testing.T) {
	namespace.WithMounts(t, func() {
		c, leader := startOnSmallDisks(t)
		w, verify := c.work()
		writes(t, w, 20)
		for _, full := range []local.Node{leader, c.others(leader.ID)[0]} {
			filler := fillDisk(t, c.DataDir(full.ID))
			code, log := c.awaitEnd(full.ID)
			assert.Equal(t, 1, code, full.ID)
			assert.Contains(t, log, "the node has ended: ", full.ID)
			assert.Contains(t, log, "no space left on the disk: make room and start again", full.ID)
			assert.Contains(t, log, "the last decisions are not kept", full.ID)
			writes(t, w, 20) // two of three go on

			require.NoError(t, os.Remove(filler))
			require.NoError(t, c.Start(full.ID))
			c.caughtUp()
		}
		verify() // nothing acknowledged is lost
	})
}

func TestEndToEnd_AReadOnlyDiskIsRefusedAndTheOthersGoOn(t *testing.T) {
	namespace.WithMounts(t, func() {
		c, leader := startOnSmallDisks(t)
		w, verify := c.work()
		writes(t, w, 20)
		c.Kill(leader.ID)
		dir := c.DataDir(leader.ID)
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		require.NoError(t, c.Start(leader.ID))
		code, log := c.awaitEnd(leader.ID)
		assert.Equal(t, 1, code)
		assert.Contains(t, log, "--data: storage: data directory is not writable: check the mount and the permissions")
		assert.Contains(t, log, dir)
		writes(t, w, 20) // two of three go on

		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
		require.NoError(t, c.Start(leader.ID))
		c.caughtUp()
		verify()
	})
}
