package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// While contact is made with a member that does not call back, no other change makes contact. A leader that hands over makes
// none any more, and says so at once.
func TestChange_ContactIsMadeByOneLeaderForOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		dials.Store(false)
		c.Join("n4")
		c.Join("n5")
		n := c.Leader()
		first := make(chan error, 1)
		begin := time.Now()
		go func() {
			_, err := n.AddMember(t.Context(), c.Member("n4"), node.ChangeOptions{})
			first <- err
		}()
		synctest.Wait()
		refused[*raft.ChangePendingError](t, n, adds(c.Member("n5")), "")

		require.NoError(t, n.TransferLeadership(t.Context(), ""))
		var e *node.NotLeaderError
		require.ErrorAs(t, <-first, &e)
		assert.Less(t, time.Since(begin), 4*time.Second, "contact may take five")
		c.Add("n5")
	})
}

// A caller that tries again at once makes contact anew: what the connection of the former try has shown is not lost.
func TestChange_ContactIsMadeAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dials, _ := withMute(t)
		dials.Store(false)
		c.Join("n4")
		n := c.Leader()
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := n.AddMember(ctx, c.Member("n4"), node.ChangeOptions{})
			require.ErrorContains(t, err, "it answers, but has not reached this member")
			cancel()
		}
	})
}

// Only one that answers where its replacement is to be is taken for that.
func TestChange_AMemberThatRunsIsReplacedByAnotherMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewNetwork()
		n, old := startPair(t, network)
		if n.Status().Role != raft.Leader {
			n, old = old, n
		}
		defer func() { assert.NoError(t, n.Close()) }()
		propose(t, n, "first")
		id := old.Status().ID
		cfg := node.Config{ID: id, Cluster: "test", Seed: 9}
		by, err := node.Start(t.Context(), cfg, newJournal(), storage.NewMemory(), network.JoinAt(id, "elsewhere:1"))
		require.NoError(t, err)
		defer func() { assert.NoError(t, by.Close()) }()
		m, err := n.ReplaceMember(t.Context(), id, raft.Member{Address: "elsewhere:1"}, node.ChangeOptions{})
		require.NoError(t, err)
		now, _ := m.Member(id)
		assert.Equal(t, by.Status().Incarnation, now.Incarnation)
		select {
		case <-old.Done():
		case <-time.After(time.Minute):
		}
		assert.ErrorIs(t, old.Close(), raft.ErrRemoved)
	})
}
