package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/namespace"
	"github.com/coxswain/raft/storage"
)

// startOnSmallDisks returns a cluster with a leader. Each member has a disk of 8 MiB, and keeps its log in a store of kind
// log.
func startOnSmallDisks(t *testing.T, log storage.Kind) (c cluster, leader local.Node) {
	t.Helper()
	c = newCluster(t)
	c.More = func(local.Node) []string { return []string{"--log", string(log)} }
	for _, n := range c.Nodes {
		dir := c.DataDir(n.ID)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	require.NoError(t, c.Start())
	return c, c.leader("")
}

// fillDisk fills the disk of a member. It returns a file. The test removes this file to make room again.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	err := os.WriteFile(filler, make([]byte, 16<<20), 0o600)
	require.ErrorIs(t, err, syscall.ENOSPC)
	return filler
}

// awaitLine waits until the log of a member has a line that contains a text.
func (c cluster) awaitLine(id, text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		all, err := os.ReadFile(filepath.Join(c.dir, id+".log"))
		return err == nil && strings.Contains(string(all), text)
	}, patience, poll, text)
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

// A member with its log in bbolt ends when its disk is full. It can be restarted when the disk has room again.
func TestEndToEnd_AFullDiskEndsAMemberWithItsLogInBbolt(t *testing.T) {
	t.Parallel()
	namespace.WithMounts(t, func() {
		c, leader := startOnSmallDisks(t, storage.KindBolt)
		w, verify := c.work()
		writes(t, w, 20)
		for _, full := range []local.Node{leader, c.others(leader.ID)[0]} {
			filler := fillDisk(t, c.DataDir(full.ID))
			code, log := c.awaitEnd(full.ID)
			assert.Equal(t, 1, code, full.ID)
			assert.Contains(t, log, "the node has ended: ", full.ID)
			assert.Contains(t, log, "no space left on the disk: make room and start again", full.ID)
			assert.Contains(t, log, "the last decisions could not be written", full.ID)
			writes(t, w, 20) // two of three members continue

			require.NoError(t, os.Remove(filler))
			require.NoError(t, c.Start(full.ID))
			c.caughtUp()
		}
		verify() // nothing acknowledged is lost
	})
}

// A leader with its log in segments transfers its leadership when its disk is full. It continues without a restart when the
// disk has room again.
func TestEndToEnd_AMemberWithItsLogInSegmentsWaitsForRoom(t *testing.T) {
	t.Parallel()
	namespace.WithMounts(t, func() {
		c, full := startOnSmallDisks(t, storage.KindSegments)
		_, verify := c.work()
		filler := fillDisk(t, c.DataDir(full.ID))
		value := make([]byte, 40<<10)
		require.Eventually(t, func() bool { // the first segment has 1 MiB, and the next one is made when a quarter of it is full
			c.writeValue(value)
			return c.leader("").ID != full.ID
		}, patience, poll)
		c.await(c.leader(""), "does not count it", func(s api.Status) bool {
			return strings.HasPrefix(s.Tolerance, "none: 2 of 3 voters count, ") &&
				strings.Contains(s.Tolerance, full.ID+" does not count: its disk has no room")
		})
		for range 30 { // two of three members continue when the segment of the third is full
			c.writeValue(value)
		}
		c.awaitLine(full.ID, `a problem has begun: verdict="no room" member=`+full.ID)
		require.Eventually(t, func() bool {
			err := c.clientOf(full).Ready(t.Context())
			return err != nil && strings.Contains(err.Error(), "its disk has no room for more entries of the log: make room")
		}, patience, poll, "it is not ready, and does not blame a disk that stalls")

		require.NoError(t, os.Remove(filler))
		c.caughtUp()
		c.awaitLine(full.ID, `a problem has ended: verdict="no room" member=`+full.ID)
		assert.NoError(t, c.Ended(full.ID), "it was not restarted")
		verify() // nothing acknowledged is lost
	})
}

func TestEndToEnd_AReadOnlyDiskIsRefusedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	namespace.WithMounts(t, func() {
		c, leader := startOnSmallDisks(t, storage.KindSegments)
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
		writes(t, w, 20) // two of three members continue

		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
		require.NoError(t, c.Start(leader.ID))
		c.caughtUp()
		verify()
	})
}
