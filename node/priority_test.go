package node_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

func prefers(id raft.NodeID, p raft.Priority) attempt {
	return func(ctx context.Context, n *node.Node) (node.Members, error) { return n.SetPriority(ctx, id, p) }
}

// priorities returns the priorities that a member's status shows as JSON.
func priorities(t *testing.T, n *node.Node) (all []int) {
	data, err := json.Marshal(n.Status())
	require.NoError(t, err)
	var s struct{ Members []struct{ Priority int } }
	require.NoError(t, json.Unmarshal(data, &s))
	for _, m := range s.Members {
		all = append(all, m.Priority)
	}
	return all
}

func TestSetPriority_IsReplicatedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 3, newJournal)
		m, err := c.Leader().SetPriority(t.Context(), "n2", 5)
		require.NoError(t, err)
		assert.True(t, m.Committed)
		assert.EqualValues(t, 2, m.Level)
		_, err = c.Leader().SetPriority(t.Context(), "n3", raft.PriorityNever)
		require.NoError(t, err)
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []int{1, 5, 0}, priorities(t, c.Node(id)), "%s", id)
			assert.Equal(t, raft.PriorityNever, c.Node(id).Status().Members[2].Priority)
		}

		c.Crash("n3")
		c.Replace("n3")
		c.Restart("n2")
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []int{1, 5, 0}, priorities(t, c.Node(id)), "%s: also after a replacement and a restart", id)
		}
		c.Join("n4")
		m, err = c.Leader().AddMember(t.Context(), raft.Member{ID: "n4", Address: "n4:1", Priority: 7}, node.ChangeOptions{})
		require.NoError(t, err)
		assert.Equal(t, raft.Priority(7), m.Members[3].Priority)
	})
}

func TestSetPriority_WhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 2, newJournal)
		c.Join("n3")
		n := c.Leader()
		_, err := n.AddLearner(t.Context(), c.Member("n3"), node.ChangeOptions{})
		require.NoError(t, err)
		outOfRange := refused[*raft.PriorityError](t, n, prefers("n1", 101), `Change.Update: member "n1": the priority is 101; it takes 1 to 100`)
		assert.Equal(t, raft.PriorityError{ID: "n1", Number: 101}, *outOfRange)
		refused[*raft.PriorityError](t, n, prefers("n1", -2), "the priority is -2; it takes 1 to 100, or 0 (PriorityNever)")
		learner := refused[*raft.PriorityError](t, n, prefers("n3", 5), "make it a voter first")
		assert.Equal(t, raft.PriorityError{ID: "n3", Number: 5, Learner: true}, *learner)
		refused[*raft.UnknownMemberError](t, n, prefers("n9", 5), "there is no n9")

		_, err = n.SetPriority(t.Context(), "n1", raft.PriorityNever)
		require.NoError(t, err)
		c.Await("n1 gives its leadership to n2", func() bool { return c.Leader() == c.Node("n2") })
		const words = "raft: the members were not changed: of the voters n1 n2 none would lead, because all would have priority 0: " +
			"first give one of them a priority above 0, as in SetPriority(n1, 1)"
		n = c.Leader()
		assert.Equal(t, raft.NodeID("n1"), refused[*raft.NotElectableError](t, n, prefers("n2", raft.PriorityNever), words).Raise)
		refused[*raft.NotElectableError](t, n, removes("n2", node.ChangeOptions{}), "of the voters n1 none would lead")
		refused[*raft.NotElectableError](t, n, demotes("n2"), "as in SetPriority(n1, 1)")
	})
}

func TestSetPriority_AnEarlierReleaseIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withEarly(t, "n3")
		c.Leader()
		require.NoError(t, c.Leader().TransferLeadership(t.Context(), "n1"))
		e := refused[*raft.EarlierReleaseError](t, c.Leader(), prefers("n2", 5), "n3 speaks protocol 2, and this needs 4: upgrade first")
		assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"n3"}, Speaks: 2, Needs: 4}, *e)
	})
}

// A member that is to join must be able to read the configuration in force.
func TestSetPriority_AnEarlierReleaseDoesNotJoinAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := withEarly(t, "n4")
		_, err := c.Leader().SetPriority(t.Context(), "n2", 5)
		require.NoError(t, err)
		c.Join("n4")
		e := refused[*raft.EarlierReleaseError](t, c.Leader(), adds(c.Member("n4")), "n4 speaks protocol 2, and this needs 4: upgrade first")
		assert.Equal(t, raft.EarlierReleaseError{IDs: []raft.NodeID{"n4"}, Speaks: 2, Needs: 4}, *e)
	})
}

func TestInitial_WithPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		initial := func(cfg *node.Config, numbers ...raft.Priority) {
			cfg.Initial = append([]raft.Member(nil), cfg.Initial...)
			for i, p := range numbers {
				cfg.Initial[i].Priority = p
			}
		}
		c := startAll(t, rafttest.Options{NewFSM: newJournal, Configure: func(cfg *node.Config) { initial(cfg, 1, 9, raft.PriorityNever) }})
		propose(t, c.Leader(), "a")
		c.Converge()
		for _, id := range c.IDs() {
			assert.Equal(t, []int{1, 9, 0}, priorities(t, c.Node(id)), "%s", id)
			assert.EqualValues(t, 2, c.Node(id).Status().Level)
			c.Restart(id)
		}
		propose(t, c.Leader(), "b")

		cfg := node.Config{ID: "n1", Cluster: "c", Initial: []raft.Member{{ID: "n1", Address: "h:1"}, {ID: "n2", Address: "h:2"}}}
		require.NoError(t, cfg.Validate())
		initial(&cfg, raft.PriorityNever, raft.PriorityNever)
		var none *raft.NotElectableError
		require.ErrorAs(t, cfg.Validate(), &none)
		assert.Equal(t, raft.NotElectableError{Voters: []raft.NodeID{"n1", "n2"}, Raise: "n1"}, *none)
		initial(&cfg, 101)
		var outOfRange *raft.PriorityError
		require.ErrorAs(t, cfg.Validate(), &outOfRange)
		initial(&cfg, 1)
		cfg.Initial[1].Kind = raft.Learner
		require.ErrorAs(t, cfg.Validate(), &outOfRange)
		assert.True(t, outOfRange.Learner)
	})
}
