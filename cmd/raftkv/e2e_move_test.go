package main_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told waits until every member reports the present addresses of all members, and reports that no change is running.
func (c cluster) told() {
	c.t.Helper()
	clients := c.clients()
	for i, n := range c.Nodes {
		require.Eventually(c.t, func() bool {
			now, err := clients[i].Members(c.t.Context())
			right := err == nil && now.Change == nil && now.Committed
			for _, other := range c.Nodes {
				of := now.Of(other.ID)
				right = right && len(of) == 1 && of[0].Address == other.RaftAddr && of[0].URL == other.URL()
			}
			return right
		}, c.patience, poll, "%s: the addresses of all", n.ID)
	}
}

// moved gives a stopped member other addresses. It returns the member.
func (c cluster) moved(id string) (n local.Node) {
	c.t.Helper()
	require.NoError(c.t, c.Move(id))
	for _, at := range c.Nodes {
		if at.ID == id {
			n = at
		}
	}
	return n
}

func TestEndToEnd_AMemberThatHasMovedCorrectsItsEntry(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	w, verify := c.work()
	writes(t, w, 20)
	c.More = func(n local.Node) []string { return []string{"--advertise", n.RaftAddr, "--url", n.URL()} } // beside --peers
	for _, n := range []local.Node{c.others(leader.ID)[0], leader} {
		c.Kill(n.ID)
		at := c.moved(n.ID)
		require.NoError(t, c.Start(at.ID))
		c.told()
		writes(t, w, 20)
	}
	verify()
	out, _ := c.members(c.Nodes[0], 0)
	for _, n := range c.Nodes {
		assert.Contains(t, out, n.RaftAddr)
	}
	c.Kill()
	require.NoError(t, c.Start()) // the former addresses are not needed
	c.leader("")
	c.write()
	c.told()
}

func TestEndToEnd_AllMembersMoveAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := startCluster(t)
	c.write()
	c.Kill()
	for _, id := range []string{"n1", "n2", "n3"} {
		c.moved(id)
	}
	require.NoError(t, c.Start()) // with the new addresses only in --peers
	for _, n := range c.Nodes {
		c.await(n, "what it does with --peers", func(s api.Status) bool {
			return slices.ContainsFunc(s.Missing, func(m string) bool { return strings.Contains(m, "start each with --seeds") })
		})
	}
	c.Kill()
	c.Emptied = func(local.Node) bool { return true } // none gets --peers
	c.More = func(local.Node) (seeds []string) {      // the same for each member
		for _, n := range c.Nodes {
			seeds = append(seeds, "--seeds", n.RaftAddr)
		}
		return seeds
	}
	require.NoError(t, c.Start())
	c.leader("")
	c.told()
	c.Emptied, c.More = nil, nil
	c.Kill()
	require.NoError(t, c.Start())
	c.leader("")
	c.write()
	c.caughtUp()
}
