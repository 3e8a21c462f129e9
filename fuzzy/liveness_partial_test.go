package fuzzy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// If links are permanently cut, in each of the four ways, a member leads and commits.
func TestParted_AMemberThatReachesAQuorumLeads(t *testing.T) {
	parted := map[string]int{}
	for number := range uint64(60) {
		p := calmOfThree(t)
		p.Length, p.Voters = p.ElectionTimeout*10, 5
		r := RunProfile(Seed{"calm", number}, p, func(r *Record) {
			if _, how, ok := strings.Cut(r.Text, "permanently: "); ok {
				parted[how]++
			}
		})
		require.Nil(t, r.Failure)
	}
	assert.GreaterOrEqual(t, len(parted), 4, "%v", parted)
}

// A leader that has no quorum after the cut gets no request. With an entry that no other member holds, it would prevent the
// election of another leader.
func TestParted_ALeaderWithoutAQuorumGetsNoRequest(t *testing.T) {
	c, lead, follower := running(t)
	c.live = &liveness{c: c, core: 0b111, stage: parted, leader: lead}
	for _, n := range c.nodes {
		if n != lead && n != follower {
			c.net.Links.CutBoth(sim.Partitions, lead.index, n.index)
		}
	}
	before := len(c.work.writes)
	c.live.obeyed()
	assert.Greater(t, len(c.work.writes), before, "two of three are a quorum")

	c.net.Links.CutBoth(sim.Partitions, lead.index, follower.index)
	before, c.live.probe = len(c.work.writes), 0
	c.live.obeyed()
	assert.Len(t, c.work.writes, before)
	assert.True(t, lead.leads(), "not yet deposed")
}

// A read to a leader that was not healed may wait for an earlier request, and then as long for its own.
func TestLiveness_AReadMayWaitForAnEarlierOne(t *testing.T) {
	c, lead, follower := running(t)
	live := &liveness{c: c, core: 0b111 &^ (1 << lead.index), leader: lead}
	for _, n := range c.nodes {
		n.life++ // it owes no answers yet
	}
	i := int(c.work.ask(request{kind: readRequest, node: follower}))
	r := &c.work.requests[i]
	r.opened -= 2 * readsAskedMax * c.profile.ElectionTimeout
	assert.Equal(t, -1, live.unanswered())
	r.opened--
	assert.Equal(t, i, live.unanswered())
}
