package node_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
)

// The store of a leader that has closed does not say that it still leads, which its next start would count as a loss.
func TestClose_OfALeaderIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := rafttest.New(t, 1, newJournal)
		_, err := c.Leader().SetPriority(t.Context(), "n1", 5)
		require.NoError(t, err)
		synctest.Wait()
		stored, err := c.Image("n1").Load(t.Context(), raft.Identity{Cluster: "test", ID: "n1", Fresh: 1, Nonce: 1})
		require.NoError(t, err)
		require.True(t, stored.Hard.Leading)
		c.Close("n1")
		stored, err = c.Image("n1").Load(t.Context(), raft.Identity{Cluster: "test", ID: "n1", Fresh: 1, Nonce: 1})
		require.NoError(t, err)
		assert.False(t, stored.Hard.Leading)
		assert.Zero(t, stored.Hard.Losses)
	})
}
