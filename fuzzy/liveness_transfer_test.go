package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A feasible transfer that is refused, or takes too long, is noticed.
func TestLiveness_ATransferMustComeAbout(t *testing.T) {
	for _, fails := range []func(c *cluster, r *request){
		func(_ *cluster, r *request) { r.state = answeredNo },
		func(c *cluster, r *request) { r.opened = c.now() - (transferUnits+1)*c.profile.unit() },
	} {
		c, lead, _ := running(t)
		c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, random: lead.random}
		require.False(t, c.live.handedOver())
		require.Nil(t, c.failure)
		fails(c, &c.work.requests[c.live.handover])
		c.live.handedOver()
		expectBreach(t, c, "L13")
	}
}

// What a transfer cannot be asked of is let be.
func TestLiveness_NobodyIsAskedForWhatHeCannotDo(t *testing.T) {
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, random: lead.random}
	assert.True(t, c.live.handedOver(), "others meddle")
	c.live.exiled = true
	c.profile.World.Pause = 1
	assert.True(t, c.live.handedOver(), "a process may stand still meanwhile")
	assert.Zero(t, c.live.handover)
}

// A request that waits for too long is noticed, though it may be answered in the end.
func TestLiveness_AnswersComeInTime(t *testing.T) {
	c, lead, _ := running(t)
	c.live = &liveness{c: c, core: 7, leader: lead, exiled: true, asked: len(c.work.requests), stage: serving}
	c.work.ask(request{kind: readRequest, node: lead})
	c.live.prompt()
	require.Nil(t, c.failure)
	c.work.requests[len(c.work.requests)-1].opened -= (ticketUnits + c.live.backlog() + 1) * c.profile.unit()
	c.live.prompt()
	expectBreach(t, c, "L14")
}
