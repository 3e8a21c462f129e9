package main_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/require"
)

// newFounders returns three members that have one command line, but for their ids, directories and addresses.
func newFounders(t *testing.T) cluster {
	t.Helper()
	c := newCluster(t)
	var ids, seeds []string
	for _, n := range c.Nodes {
		ids, seeds = append(ids, n.ID), append(seeds, n.RaftAddr)
	}
	c.Emptied = func(local.Node) bool { return true } // none gets --peers
	c.More = func(local.Node) []string {
		return []string{"--founders", strings.Join(ids, ","), "--seeds", strings.Join(seeds, ",")}
	}
	return c
}

func TestEndToEnd_OneCommandLineBeginsAClusterAndBringsBackALostDisk(t *testing.T) {
	t.Parallel()
	c := newFounders(t)
	began := time.Now()
	require.NoError(t, c.Start())
	c.write()
	t.Logf("three empty directories to the first acknowledged write: %v", time.Since(began).Round(time.Millisecond))

	w, verify := c.work()
	writes(t, w, 20)
	for _, lost := range []local.Node{c.others(c.leader("").ID)[0], c.leader("")} {
		before := c.status(lost)
		c.Kill(lost.ID)
		require.NoError(t, os.RemoveAll(c.DataDir(lost.ID)))
		began = time.Now()
		require.NoError(t, c.Start(lost.ID))
		asked := c.clients()[slices.Index(c.Nodes, c.others(lost.ID)[0])]
		require.Eventually(t, func() bool {
			now, err := asked.Members(t.Context())
			if err != nil || !now.Committed || now.Change != nil || len(now.Of(lost.ID)) != 1 {
				return false
			}
			m := now.Of(lost.ID)[0]
			return m.Kind == "voter" && m.Incarnation != before.Incarnation
		}, patience, poll, "%s counts again", lost.ID)
		t.Logf("%s, which was the %s, lost its disk; from its start until it counts again: %v", lost.ID, before.Role, time.Since(began).Round(time.Millisecond))
		c.await(lost, "serves", func(s api.Status) bool { return s.Leader != "" && s.Incarnation != before.Incarnation })
		c.caughtUp()
		writes(t, w, 20)
	}
	verify()
	now, err := c.clients()[0].Members(t.Context())
	require.NoError(t, err)
	for _, n := range c.Nodes {
		require.Equal(t, n.URL(), now.Of(n.ID)[0].URL, "clients find all members")
	}
}
