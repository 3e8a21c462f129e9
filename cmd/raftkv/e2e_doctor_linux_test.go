package main_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/namespace"
	"github.com/coxswain/raft/storage"
)

// A full disk needs a file system of its own.
func TestDoctor_NamesAFullDisk(t *testing.T) {
	t.Parallel()
	namespace.WithMounts(t, func() {
		c, leader := startOnSmallDisks(t, storage.KindSegments)
		full := c.others(leader.ID)[0]
		fillDisk(t, c.DataDir(full.ID))
		require.Eventually(t, func() bool { // the first segment has 1 MiB, and the next one is made when a quarter of it is full
			c.writeValue(make([]byte, 40<<10))
			return c.doctor().Verdict == "no room"
		}, patience, poll)
	})
}

// Disks that stall or are slow need FUSE.
func TestDoctor_NamesAStalledAndASlowDisk(t *testing.T) {
	t.Parallel()
	t.Run("disk stalled", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		disks := c.onDisksOfTheirOwn()
		stalled := c.others(c.serving().ID)[0].ID
		require.NoError(t, disks[stalled].StallSyncs(time.Hour))
		t.Cleanup(func() { _ = disks[stalled].ResumeSyncs() }) // otherwise its member could not end
		c.write()
		c.diagnosed("disk stalled")
	})
	t.Run("disk slow", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		disks := c.onDisksOfTheirOwn()
		leader := c.serving()
		for _, n := range c.Nodes {
			if n.ID != leader.ID { // the leader commits at the speed of the other one
				require.NoError(t, disks[n.ID].StallSyncs(100*time.Millisecond))
			}
		}
		require.Eventually(t, func() bool {
			c.write()
			return c.doctor().Verdict == "disk slow"
		}, patience, poll)
	})
	t.Run("timeout too short", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		disks := c.onDisksOfTheirOwn()
		for _, n := range c.Nodes {
			require.NoError(t, disks[n.ID].StallSyncs(100*time.Millisecond))
		}
		c.More = func(local.Node) []string { return []string{"--election-timeout", "10ms"} }
		require.NoError(t, c.Start())
		c.diagnosed("timeout too short")
	})
}

// The limit of open files of a running process can be lowered. The doctor's connection to it was open before.
func TestDoctor_NamesAProcessWithoutDescriptors(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	without := c.others(c.serving().ID)[0]
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	look := func() *admin.Diagnosis { return admin.Diagnose(t.Context(), c.urls(), admin.Asking(shared)) }
	look()
	pid := c.Process(without.ID).PID()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit))
	limit.Cur = uint64(len(open))
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil))
	require.Eventually(t, func() bool {
		c.writeValue(make([]byte, 40<<10))
		return look().Verdict == "no descriptors"
	}, patience, poll)
}

// A frozen process is not heard, until its connections are closed because it is silent: that may be soon.
func TestDoctor_NamesAFrozenProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader := c.serving()
	frozen := c.others(leader.ID)[0]
	require.NoError(t, c.Process(frozen.ID).Freeze())
	defer func() { require.NoError(t, c.Process(frozen.ID).Resume()) }()
	require.Eventually(t, func() bool {
		d := c.doctor(leader.ID)
		return (d.Verdict == "not heard" || d.Verdict == "not connected") && d.Findings[0].Member == frozen.ID
	}, patience, poll)
}

func TestDoctor_ClockJump(t *testing.T) {
	t.Skip("a clock cannot be set for one process, and this machine's clock is not this test's: node.TestClockWatch feeds the same code with readings")
}
