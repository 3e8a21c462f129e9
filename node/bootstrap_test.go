package node_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// elsewhere returns the list with another address of its second member.
func elsewhere(list []raft.Member) []raft.Member {
	list = slices.Clone(list)
	list[1].Address = "elsewhere:1"
	return list
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Three members are started without a list, and are given one at different times. One of them is given another list first.
func TestLoopback_MembersAreGivenTheirListLater(t *testing.T) {
	l := openLoopback(t, 3, true)
	for i, n := range l.nodes {
		assert.Empty(t, n.Members().Members, "n%d", i+1)
	}
	var waits *node.NotReadyError
	require.ErrorAs(t, l.nodes[1].Bootstrap(within(t, 50*time.Millisecond), l.members), &waits)
	assert.ErrorIs(t, waits, context.DeadlineExceeded)
	assert.ErrorContains(t, waits, "waits for the bootstrapper, n1")

	first := make(chan error, 1)
	go func() { first <- l.nodes[0].Bootstrap(t.Context(), l.members) }()
	require.Eventually(t, func() bool {
		return anyContains(l.nodes[0].Status().Missing, "n3") && !anyContains(l.nodes[0].Status().Missing, "n2")
	}, time.Minute, 10*time.Millisecond, "n2 keeps its list after its caller has stopped waiting")

	other := elsewhere(l.members)
	refused := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { refused <- l.nodes[2].Bootstrap(ctx, other) }()
	require.Eventually(t, func() bool {
		return anyContains(l.nodes[2].Status().Missing, "initial list differs", l.members[1].Address, "elsewhere:1")
	}, time.Minute, 10*time.Millisecond)
	cancel()
	err := <-refused
	require.ErrorAs(t, err, &waits)
	for _, names := range []string{l.members[1].Address, "elsewhere:1", "give all members the same list"} {
		assert.ErrorContains(t, err, names)
	}
	var conflict *node.BootstrapError
	require.ErrorAs(t, l.nodes[2].Bootstrap(t.Context(), l.members), &conflict)
	for _, names := range []string{l.members[1].Address, "elsewhere:1", "restart"} {
		assert.ErrorContains(t, conflict, names)
	}
	assert.NotErrorIs(t, conflict, raft.ErrInitialized)
	for _, n := range l.nodes {
		assert.False(t, n.Status().Bootstrapped)
	}

	require.NoError(t, l.nodes[2].Close())
	l.restart(2)
	require.NoError(t, l.nodes[2].Bootstrap(t.Context(), l.members))
	require.NoError(t, <-first)
	for _, n := range l.nodes {
		require.NoError(t, n.Bootstrap(t.Context(), l.members), "the same call may be repeated")
	}
	propose(t, l.leader(), "a")
	require.ErrorAs(t, l.nodes[0].Bootstrap(t.Context(), other), &conflict)
	assert.ErrorIs(t, conflict, raft.ErrInitialized)
	assert.Equal(t, l.nodes[0].Status().Cluster, conflict.Cluster)

	require.NoError(t, l.nodes[0].Close())
	l.restart(0)
	assert.ErrorIs(t, l.nodes[0].Bootstrap(t.Context(), l.members), raft.ErrInitialized, "its store has a cluster")
	require.NoError(t, l.nodes[0].Ready(t.Context()))
}

// unlisted prepares a cluster whose members get no list from Config.Initial. list is the list that they should have.
func unlisted(t *testing.T, members int) (c *rafttest.Cluster, list []raft.Member) {
	c = rafttest.Prepare(t, rafttest.Options{Members: members, NewFSM: newJournal, Configure: func(cfg *node.Config) {
		if len(cfg.Initial) > 0 {
			list = slices.Clone(cfg.Initial)
		}
		cfg.Initial = nil
	}})
	for _, id := range c.IDs() {
		c.Start(id)
	}
	return c, list
}

// A list that was given is forgotten with the process, unless the disk already holds the first entry of the cluster.
func TestBootstrap_ACrashBeforeTheFirstEntryForgetsTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := unlisted(t, 3)
		give := func(id raft.NodeID) error { return c.Node(id).Bootstrap(within(t, time.Second), list) }
		var waits *node.NotReadyError
		require.ErrorAs(t, give("n1"), &waits)
		require.ErrorAs(t, give("n2"), &waits)
		c.Restart("n2")
		assert.Empty(t, c.Node("n2").Members().Members)
		require.ErrorAs(t, give("n3"), &waits)
		assert.Zero(t, c.Node("n1").Status().Term, "n1 may have written the first entry, but n2 does not take it")
		require.NoError(t, c.Node("n2").Bootstrap(within(t, time.Second), list), "now all have it")
		propose(t, c.Leader(), "a")
		c.Converge()
	})
}

// The first entry of the cluster is on two disks when all members crash. They finish without being given the list again.
func TestBootstrap_ACrashAfterTheFirstEntryContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		var list []raft.Member
		c := startAll(t, rafttest.Options{NewFSM: newJournal,
			Configure: func(cfg *node.Config) { list, cfg.Initial = slices.Clone(cfg.Initial), nil },
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				return &trap{Storage: s, before: func(w raft.StorageWrite) error {
					if stuck.Load() && id == "n3" && w.Log != nil {
						return errors.New("no first entry yet")
					}
					return nil
				}}
			}})
		stuck.Store(true)
		for _, id := range c.IDs() {
			go func() { _ = c.Node(id).Bootstrap(t.Context(), list) }()
		}
		c.Await("n1 and n2 to hold the first entry", func() bool {
			return c.Node("n1").Status().Bootstrapped && c.Node("n2").Status().Bootstrapped && c.Node("n3").Err() != nil
		})
		require.Zero(t, c.Node("n1").Status().Term)
		stuck.Store(false)
		for _, id := range c.IDs() {
			c.Restart(id)
		}
		var conflict *node.BootstrapError
		require.ErrorAs(t, c.Node("n2").Bootstrap(t.Context(), elsewhere(list)), &conflict)
		assert.ErrorContains(t, conflict, "holds the first entry of cluster")
		require.NoError(t, c.Node("n3").Bootstrap(t.Context(), list), "only its store is empty")
		require.NoError(t, c.Node("n2").Bootstrap(t.Context(), list))
		propose(t, c.Leader(), "a")
	})
}

func TestBootstrap_BadListsAreRefusedAsAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, list := unlisted(t, 3)
		n := c.Node("n1")
		counted := slices.Clone(list)
		counted[1].Incarnation = 7
		for rule, bad := range map[string][]raft.Member{
			"is empty": nil, "does not name this member": list[1:], "has an incarnation": counted,
			"n2": {list[0], list[1], list[1]},
		} {
			err := n.Bootstrap(t.Context(), bad)
			var problem *raft.ConfigError
			require.ErrorAs(t, err, &problem, rule)
			assert.Equal(t, "Initial", problem.Field, rule)
			assert.ErrorContains(t, err, rule)
			if len(bad) > 0 {
				assert.EqualError(t, err, node.Config{ID: "n1", Cluster: "c", Initial: bad}.Validate().Error(), rule)
			}
		}
		assert.Empty(t, n.Members().Members, "nothing has changed")
		require.NoError(t, n.Close())
		assert.ErrorIs(t, n.Bootstrap(t.Context(), list), raft.ErrClosed)
	})
}

// A member of a cluster, one with Config.Initial, and one whose disk was emptied.
func TestBootstrap_OfAMemberThatHasACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []raft.Member
		unlist := false
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) {
			if len(list) == 0 {
				list = slices.Clone(cfg.Initial)
			}
			if unlist {
				cfg.Initial = nil
			}
		}})
		propose(t, c.Leader(), "a")
		require.NoError(t, c.Node("n1").Bootstrap(t.Context(), list), "as Config.Initial has done")
		unlist = true
		c.Crash("n3")
		c.Wipe("n3")
		c.Start("n3")
		assert.ErrorIs(t, c.Node("n3").Bootstrap(t.Context(), list), node.ErrWiped)

		c.Join("n4")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Node("n4").Bootstrap(ctx, append(list[:3:3], c.Member("n4"))) }()
		synctest.Wait()
		c.Add("n4")
		var conflict *node.BootstrapError
		require.ErrorAs(t, <-ended, &conflict, "it has joined another cluster meanwhile")
		cancel()
		assert.ErrorIs(t, conflict, raft.ErrInitialized)
		require.ErrorAs(t, c.Node("n4").Bootstrap(t.Context(), append(list[:3:3], c.Member("n4"))), &conflict)
		assert.Equal(t, c.Node("n1").Status().Cluster, conflict.Cluster)
	})
}
