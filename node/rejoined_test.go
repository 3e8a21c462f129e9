package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// A member learns of its removal, and then learns that it was added again. It serves calls again and does not end.
func TestRemoved_AMemberThatHasJoinedAgainContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{ID: "n1", Cluster: "test"}
		n := newNode(cfg.withDefaults(), nil, alone{}, raft.Stored{Incarnation: 1, Hard: raft.HardState{Term: 1}})
		ends := func() bool {
			time.Sleep(2 * n.cfg.ElectionTimeout)
			synctest.Wait()
			select {
			case <-n.stop:
				return true
			default:
				return false
			}
		}
		n.noticeRemoved(5)
		require.Equal(t, &raft.RemovedError{Index: 5}, n.usable(t.Context()))
		require.Error(t, n.requests.ended)
		require.Error(t, n.applied.ended)
		n.noticeRemoved(0)
		require.NoError(t, n.usable(t.Context()))
		require.NoError(t, n.requests.ended)
		require.NoError(t, n.applied.ended)
		assert.False(t, ends())

		n.noticeRemoved(5)
		n.noticeRemoved(5)
		assert.True(t, ends())
		assert.Equal(t, &raft.RemovedError{Index: 5}, n.err)

		n.noticeRemoved(0)
		assert.Equal(t, &raft.RemovedError{Index: 5}, n.ended(), "it is too late")
	})
}
