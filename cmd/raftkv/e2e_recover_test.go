package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	more := c.More
	c.More = func(n local.Node) []string {
		if !n.Joins {
			return more(n)
		}
		return append(more(n), "--join", survivor.URL())
	}
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
