package main_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/storage/storagetest/powercut"
)

// onDisksOfTheirOwn gives each member a separate disk whose syncs can stall. Call it before the start of the members.
func (c cluster) onDisksOfTheirOwn() map[string]*powercut.FS {
	c.t.Helper()
	disks := map[string]*powercut.FS{}
	for _, n := range c.Nodes {
		require.NoError(c.t, os.MkdirAll(c.DataDir(n.ID), 0o700))
		disk, err := powercut.Mount(c.DataDir(n.ID))
		if err != nil {
			c.t.Skipf("cannot mount a disk that stalls: %v", err)
		}
		disks[n.ID] = disk
		c.t.Cleanup(func() {
			_ = disk.ResumeSyncs() // otherwise its member could not end
			c.Stop()
			assert.NoError(c.t, disk.Close())
		})
	}
	return disks
}

func TestEndToEnd_ALeaderWhoseDiskStallsIsReplacedAndFollowsOnceItIsBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	disks := c.onDisksOfTheirOwn()
	require.NoError(t, c.Start())
	c.leader("")
	w, verify := c.work()
	for range 2 {
		writes(t, w, 20)
		stalled := c.leader("")
		before := c.status(stalled)
		began := time.Now()
		require.NoError(t, disks[stalled.ID].StallSyncs(time.Hour))
		next := c.leader(stalled.ID)
		led := time.Since(began)
		stopped := nextWrite(t, w, time.Now()).Sub(began)
		t.Logf("the disk of %s is stalled: %s leads after %v, and the next write is acknowledged after %v",
			stalled.ID, next.ID, led.Round(time.Millisecond), stopped.Round(time.Millisecond))
		writes(t, w, 20)
		behind := c.status(stalled)
		assert.Less(t, behind.Persisted, behind.Last, "its disk is still stalled")

		require.NoError(t, disks[stalled.ID].ResumeSyncs())
		c.caughtUp()
		c.await(stalled, "follows", func(s api.Status) bool {
			return s.Role == "follower" && s.Leader != "" && s.Term > before.Term && s.Persisted > behind.Persisted
		})
		require.True(t, c.Process(stalled.ID).Running(), "it never ended")
	}
	verify() // nothing acknowledged is lost
}
