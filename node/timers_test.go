package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/rafttest"
)

// Callers that wait, a transfer and a snapshot are under way when the members are closed.
func TestClose_LeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaks.CheckTimers(t)
		c := rafttest.New(t, 3, newJournal)
		leader := c.Leader()
		for i := range 20 {
			propose(t, leader, string(rune('a'+i)))
		}
		_, err := leader.Snapshot(t.Context())
		require.NoError(t, err)
		c.Partition([]raft.NodeID{leader.Status().ID})
		for _, call := range []func(*node.Node){
			func(n *node.Node) { _, _ = n.Propose(t.Context(), []byte("x")) },
			func(n *node.Node) { _ = n.TransferLeadership(t.Context(), "") },
			func(n *node.Node) { _, _ = n.ReadIndex(t.Context()) },
			func(n *node.Node) { _ = n.Ready(t.Context()) },
			func(n *node.Node) { _, _ = n.Snapshot(t.Context()) },
		} {
			go call(leader)
		}
		synctest.Wait()
	})
}
