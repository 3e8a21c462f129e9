package node_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// addressless returns the list without addresses.
func addressless(list []raft.Member) []raft.Member {
	list = slices.Clone(list)
	for i := range list {
		list[i].Address, list[i].Meta = "", ""
	}
	return list
}

// A founder that was told of a cluster holds up the bootstrap until it is restarted, and both say so.
func TestHeard_HoldsUpTheBootstrapUntilARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := unlisted(t, 3)
		give := func(id raft.NodeID) error { return c.Node(id).Bootstrap(within(t, time.Second), list) }
		require.NoError(t, c.Node("n2").Heard(raft.ClusterID{7}, "n9"))
		var waits *node.NotReadyError
		require.ErrorAs(t, give("n1"), &waits)
		require.ErrorAs(t, give("n3"), &waits)
		require.ErrorAs(t, give("n2"), &waits)
		told := "told by n9 of cluster " + raft.ClusterID{7}.String()
		assert.ErrorContains(t, waits, "no cluster yet: this member was "+told+": it bootstraps none, and waits to be added")
		assert.ErrorContains(t, waits, "it was last told so at 2000-01-01T")
		assert.True(t, anyContains(c.Node("n1").Status().Missing, "n2 was "+told), c.Node("n1").Status().Missing)
		assert.NotContains(t, strings.Join(c.Node("n1").Status().Missing, ";"), "n3")

		c.Restart("n2")
		require.NoError(t, give("n2"))
		require.NoError(t, c.Node("n2").Heard(raft.ClusterID{7}, "n9"), "a member of a cluster")
		propose(t, c.Leader(), "a")
		c.Converge()
	})
}

// A bootstrapper that was told before it has a list probes nobody.
func TestHeard_BeforeTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := unlisted(t, 1)
		n := c.Node("n1")
		require.NoError(t, n.Heard(raft.ClusterID{}, "n9"))
		var waits *node.NotReadyError
		require.ErrorAs(t, n.Bootstrap(within(t, time.Second), list), &waits)
		assert.ErrorContains(t, waits, "told by n9 of a cluster:")
		assert.False(t, n.Status().Bootstrapped)
		c.Restart("n1")
		require.NoError(t, c.Node("n1").Bootstrap(t.Context(), list))
	})
}

func TestHeard_BadCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := unlisted(t, 1)
		n := c.Node("n1")
		for _, from := range []raft.NodeID{"", "n 9", raft.NodeID(strings.Repeat("x", raft.NodeIDBytesMax+1))} {
			var problem *raft.ConfigError
			require.ErrorAs(t, n.Heard(raft.ClusterID{7}, from), &problem)
			assert.Equal(t, "From", problem.Field)
		}
		require.NoError(t, n.Close())
		assert.ErrorIs(t, n.Heard(raft.ClusterID{7}, "n9"), raft.ErrClosed)
	})
}

// Only the bootstrapper knows the addresses. The others dial it once it has called them, and dial each other once there is a
// cluster, whose configuration is the bootstrapper's list.
func TestBootstrap_OthersNeedNoAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []raft.Member
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			if list = slices.Clone(cfg.Initial); cfg.ID != "n1" {
				cfg.Initial = addressless(list)
			}
		}})
		propose(t, c.Leader(), "a")
		c.Converge()
		for _, id := range c.IDs() {
			s := slices.Clone(c.Node(id).Members().Members)
			for i := range s {
				s[i].Incarnation = 0
			}
			assert.Equal(t, list, s)
		}
		for _, id := range []raft.NodeID{"n2", "n3"} {
			require.NoError(t, c.Node(id).Bootstrap(t.Context(), list))
			require.NoError(t, c.Node(id).Bootstrap(t.Context(), addressless(list)))
		}
		var problem *raft.ConfigError
		require.ErrorAs(t, c.Node("n1").Bootstrap(t.Context(), addressless(list)), &problem)
		assert.ErrorContains(t, problem, "has no address")
	})
}

// Until then, a member without addresses names only the bootstrapper as missing.
func TestBootstrap_OpenAddressesAreNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := unlisted(t, 3)
		var waits *node.NotReadyError
		require.ErrorAs(t, c.Node("n2").Bootstrap(within(t, time.Second), addressless(list)), &waits)
		assert.Equal(t, []string{"n1 has not been heard"}, c.Node("n2").Status().Missing)
		require.ErrorAs(t, c.Node("n1").Bootstrap(within(t, time.Second), list), &waits)
		assert.Empty(t, c.Node("n2").Status().Missing)
		require.NoError(t, c.Node("n3").Bootstrap(within(t, time.Second), addressless(list)))
	})
}

// The same over TCP.
func TestLoopback_OthersNeedNoAddresses(t *testing.T) {
	l := openLoopback(t, 3, true)
	done := make(chan error, 3)
	for i, n := range l.nodes {
		list := l.members
		if i > 0 {
			list = addressless(list)
		}
		go func() { done <- n.Bootstrap(within(t, time.Minute), list) }()
	}
	for range l.nodes {
		require.NoError(t, <-done)
	}
	for _, n := range l.nodes {
		require.NoError(t, n.Ready(t.Context()))
	}
}
