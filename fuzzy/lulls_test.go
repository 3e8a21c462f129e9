package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// resting returns a cluster that has come to rest in a lull.
func resting(t *testing.T) (c *cluster, lead, follower *node) {
	c, lead, follower = running(t)
	c.lulls.begin()
	require.True(t, c.lulls.heal())
	c.until(t, c.now()+10*c.profile.ElectionTimeout)
	require.Empty(t, c.lulls.rest.unrest())
	c.profile.Members.Admins, c.profile.Members.Patience = 1, c.profile.ElectionTimeout
	return c, lead, follower
}

func TestLulls_NobodyBeginsARequestBeforeTheEnd(t *testing.T) {
	c, _, _ := resting(t)
	begun := c.work.begun
	c.until(t, c.now()+10*c.profile.ElectionTimeout)
	assert.Equal(t, begun, c.work.begun)
	assert.Len(t, c.lulls.held, len(c.work.clients))
	assert.True(t, c.lulls.extends(), "the safety phase does not end in a lull")
	c.lulls.next()
	require.Nil(t, c.failure)
	assert.False(t, c.lulls.on())
	assert.True(t, c.lulls.extends(), "it makes up for the lull")
	assert.False(t, c.lulls.extends())
	c.until(t, c.now()+10*c.profile.ElectionTimeout)
	assert.Greater(t, c.work.begun, begun)
}

// givesUp makes a leader give up a change that waits for a follower.
func givesUp(c *cluster, lead, follower *node) {
	config := awaiting(lead, follower)
	config.Patience = time.Minute
	c.lulls.healed = c.now() - sim.In(2*time.Minute)
	lead.rule(config)
	c.lulls.checkGivenUp(lead, &raft.Output{Trace: []raft.TraceEvent{{Kind: raft.TraceChangeGivenUp}}})
}

func TestInvariants_AClusterThatDoesNotComeToRest(t *testing.T) {
	for _, row := range []struct {
		what   string
		breach func(c *cluster, lead, follower *node)
	}{
		{"a leader that does not run", func(c *cluster, lead, _ *node) { lead.frozen = true }},
		{"a joint configuration", func(_ *cluster, lead, _ *node) { lead.rule(jointWith(lead)) }},
		{"a shorter log", func(_ *cluster, _, follower *node) { follower.status.Last.Index-- }},
		{"entries that are not applied", func(_ *cluster, _, follower *node) { follower.applied-- }},
		{"an append in flight", func(_ *cluster, lead, _ *node) { lead.status.Peers[0].Inflight = 1 }},
		{"a probe", func(_ *cluster, lead, _ *node) { lead.status.Peers[0].State = "probe" }},
		{"a removed member is served", func(_ *cluster, lead, _ *node) { lead.status.Peers[0].Departing = true }},
		{"a read", func(_ *cluster, _, follower *node) { follower.status.Reads = 1 }},
		{"a snapshot that is taken", func(_ *cluster, _, follower *node) { follower.status.Taking.Index = 1 }},
		{"an unanswered request", func(c *cluster, lead, _ *node) { c.work.ask(request{kind: snapshotRequest, node: lead}) }},
		{"a removed member does not know", func(_ *cluster, lead, follower *node) {
			lead.rule(*lead.config())
			lead.seen.inOffice.gone = []departure{{peer: follower.peer(), index: lead.status.ConfigIndex, known: lead.seen.now}}
		}},
		{"a change is given up", givesUp},
	} {
		c, lead, follower := resting(t)
		row.breach(c, lead, follower)
		if c.failure == nil {
			require.NotEmpty(t, c.lulls.rest.unrest(), row.what)
			c.lulls.watch()
			assert.Nil(t, c.failure, "%s: it has time", row.what)
			c.lulls.rest.since = c.now() - c.lulls.rest.limit() - 1
			c.lulls.since = c.lulls.rest.since
			c.lulls.watch()
		}
		expectBreach(t, c, "L21")
	}
}

// A member that has known its removal may forget it when it restarts, and a leader need not tell it again. The same holds for
// a member that was unreachable until its leader had served it for the whole time.
func TestLulls_AMemberThatTheLeaderNeedNotTell(t *testing.T) {
	for _, excuse := range []func(c *cluster, lead, follower *node){
		func(_ *cluster, _, follower *node) { follower.removedIn = 1 },
		func(c *cluster, lead, _ *node) {
			lead.seen.inOffice.gone[0].known -= departTimeouts * lead.timeout()
			c.lulls.healed = c.now()
		},
		func(_ *cluster, lead, follower *node) { follower.status.Commit = lead.status.Base.Index - 1 },
	} {
		c, lead, follower := resting(t)
		lead.seen.inOffice.gone = []departure{{peer: follower.peer(), known: lead.seen.now}}
		lead.status.Base.Index = 1
		require.True(t, c.lulls.untold() == follower)
		excuse(c, lead, follower)
		assert.True(t, c.lulls.untold() == nil)
	}
}
