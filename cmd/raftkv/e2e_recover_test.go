package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/storage"
)

// Two of three disks are lost for good, and the last one begins a new cluster. A member of the former cluster that comes back with its
// disk is refused. With empty disks, both are members again. No acknowledged write is lost, because one member was lost first: what
// was acknowledged after that is on the survivor's disk.
func TestEndToEnd_AMajorityIsLostForGood(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	w, verify := c.work()
	writes(t, w, 50)
	survivor, lost := c.others(leader.ID)[0], c.others(leader.ID)[1]
	c.Kill(lost.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(lost.ID)))
	writes(t, w, 50)
	code, out := c.run("snapshot", survivor.ID, "--server", survivor.URL())
	require.Zero(t, code, out)
	writes(t, w, 5)
	c.Kill(leader.ID, survivor.ID)

	done, err := storage.Recover(t.Context(), c.DataDir(survivor.ID), "demo", storage.RecoverOptions{})
	require.NoError(t, err)
	assert.Len(t, done.Before.Members, 3)
	require.NoError(t, c.Start(survivor.ID))
	writes(t, w, 50)
	c.await(survivor, "belongs to the new cluster", func(s api.Status) bool { return s.Cluster == done.Cluster.String() })

	require.NoError(t, c.Start(leader.ID))
	c.await(leader, "is refused", func(s api.Status) bool {
		return s.Leader == "" && strings.Contains(s.LeaderReason, "refuses the connection")
	})
	c.Kill(leader.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(leader.ID)))
	c.joinBy(survivor)
	require.NoError(t, c.Join(leader.ID))
	require.NoError(t, c.Join(lost.ID))
	c.voters(survivor, "n1", "n2", "n3")
	c.caughtUp()
	c.Kill(survivor.ID) // now nothing is committed without both
	writes(t, w, 20)
	require.NoError(t, c.Start(survivor.ID))
	c.caughtUp()
	verify()
}

// All disks are lost, and a backup is left. What was acknowledged before the backup is there again, and the cluster grows to three
// members with empty disks. A former member that was forgotten somewhere, with its disk and at its address, is refused.
func TestEndToEnd_EverythingIsLostButABackup(t *testing.T) {
	t.Parallel()
	c, leader := startSteady(t)
	const keys = 200
	c.fill(0, keys, 100)
	name := filepath.Join(t.TempDir(), "backup")
	code, out := c.run("backup", name, "--server", leader.URL())
	require.Zero(t, code, out)
	c.fill(keys, keys+50, 100) // after the backup
	first, forgotten := c.others(leader.ID)[0], c.others(leader.ID)[1]
	c.Kill(leader.ID, first.ID, forgotten.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(leader.ID)))
	require.NoError(t, os.RemoveAll(c.DataDir(first.ID)))

	from, err := os.Open(name)
	require.NoError(t, err)
	defer from.Close()
	info, done, err := storage.Restore(t.Context(), c.DataDir(first.ID), from, storage.RestoreOptions{
		ID: raft.NodeID(first.ID), Address: first.RaftAddr,
	})
	require.NoError(t, err)
	assert.Equal(t, raft.NodeID(leader.ID), info.ID)
	assert.NotEqual(t, info.Cluster, done.Cluster)
	require.NoError(t, c.Start(first.ID))
	c.voters(first, first.ID)
	require.NoError(t, c.Start(forgotten.ID))
	c.await(forgotten, "is refused", func(s api.Status) bool {
		return s.Leader == "" && strings.Contains(s.LeaderReason, "refuses the connection")
	})
	c.Kill(forgotten.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(forgotten.ID)))
	c.joinBy(first)
	require.NoError(t, c.Join(leader.ID))
	require.NoError(t, c.Join(forgotten.ID))
	c.voters(first, "n1", "n2", "n3")
	c.caughtUp()
	again := filepath.Join(t.TempDir(), "again")
	code, out = c.run("backup", again, "--server", leader.URL())
	require.Zero(t, code, out)
	assert.Equal(t, keysIn(t, name), keysIn(t, again))
	assert.GreaterOrEqual(t, keysIn(t, again), keys)
	w, verify := c.work()
	c.Kill(first.ID) // now nothing is committed without both
	writes(t, w, 20)
	require.NoError(t, c.Start(first.ID))
	c.caughtUp()
	verify()
}

// joinBy makes members that join ask the given one.
func (c *cluster) joinBy(seed local.Node) {
	more := c.More
	c.More = func(n local.Node) []string {
		if !n.Joins {
			return more(n)
		}
		return append(more(n), "--join", seed.URL())
	}
}
