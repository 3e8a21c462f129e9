package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/leaks"
)

// A member ends by itself some time after it was removed or marked. If it is closed before, its timer ends with it.
func TestAfterTimeout_EndsWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaks.CheckTimers(t)
		n := &Node{stop: make(chan struct{})}
		n.cfg.ElectionTimeout = time.Second
		n.afterTimeout(func() { t.Error("called after the end") })
		began := time.Now()
		close(n.stop)
		n.wg.Wait()
		assert.Equal(t, began, time.Now(), "the node need not wait")
	})
}
