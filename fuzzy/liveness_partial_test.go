package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// With links cut for good, somebody leads and commits.
func TestParted_WhoReachesAQuorumLeads(t *testing.T) {
	ways := map[string]bool{}
	for number := range uint64(40) {
		c, lead, _ := running(t)
		c.seed.Number, c.phase, c.work.stopped = number, livenessPhase, true
		c.live = &liveness{c: c, core: 7, leader: lead, exiled: true}
		before := c.check.committed()
		if !c.live.part() {
			continue
		}
		ways[c.severed()] = true
		for c.failure == nil && c.phase != ended {
			c.turn()
		}
		require.Nil(t, c.failure)
		assert.Greater(t, c.check.committed(), before)
	}
	assert.Len(t, ways, 3, "each link of the three is cut in turn")
}
