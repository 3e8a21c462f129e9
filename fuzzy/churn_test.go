package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This test runs only a part of each run. raftlab runs twelve hours.
func TestChurn_TheNextLeaderFinishesAChangeLeftUnfinished(t *testing.T) {
	var sum Handed
	for number := range uint64(fewer(8)/thrift + 1) {
		s := Seed{"churn", number}
		p, err := Draw(s)
		require.NoError(t, err)
		p.Length = sim.In(2 * time.Minute)
		r := RunProfile(s, p, nil)
		require.Nil(t, r.Failure, "replay it: go run ./cmd/raftlab replay %s", s)
		sum.Add(&r.Handed)
	}
	assert.Equal(t, sum.Left, sum.Finished+sum.GivenUp+sum.PassedOn+sum.Dropped+sum.Open, "each change ends in one way")
	assert.Positive(t, sum.Finished)
	assert.Positive(t, sum.Joint)
	assert.Positive(t, sum.Undisturbed)
}

// awaiting returns a configuration in which a member is to become a voter. It is otherwise the configuration of the leader's
// log, in which the member has no vote.
func awaiting(lead, joiner *node) raft.Configuration {
	c := voteless(lead, joiner)
	c.Members[joiner.index].Next, c.Patience = raft.NextVoter, 500*time.Millisecond
	return c
}

// tenured returns a cluster whose leader has had a configuration since the run began. The leader has reached all members for
// the whole time.
func tenured(t *testing.T, config func(lead, follower *node) raft.Configuration) (c *cluster, lead, follower *node) {
	c, lead, follower = withSpare(t)
	c.profile.Members.Bound = sim.In(time.Second)
	c.check.recordTenure(lead)
	require.Nil(t, c.failure)
	lead.rule(config(lead, follower))
	c.check.recordTenure(lead)
	require.Nil(t, c.failure, "the tenure has only begun")
	c.check.tenure.since = 0
	for i := range c.nodes {
		c.check.tenure.reached[i] = reach{now: true}
	}
	return c, lead, follower
}

func joint(lead, _ *node) raft.Configuration { return jointWith(lead) }

func TestInvariants_ALeaderThatLeavesItsChangeUnfinished(t *testing.T) {
	for _, row := range []struct {
		what   string
		config func(lead, follower *node) raft.Configuration
		reach  reach // of the follower
	}{
		{"a joint configuration", joint, reach{now: true}},
		{"a joint configuration, without one of three", joint, reach{}},
		{"all awaited members are reached", awaiting, reach{now: true}},
		{"an awaited member is not reached", awaiting, reach{}},
	} {
		c, _, follower := tenured(t, row.config)
		c.check.tenure.reached[follower.index] = row.reach
		c.check.checkLeavesNothing(c.profile.Members.Bound)
		expectBreach(t, c, "L20")
	}
}

// A fault that reaches the quorum extends the time that the leader has. So does a member that comes and goes.
func TestInvariants_ALeaderThatHasTimeForItsChange(t *testing.T) {
	for _, config := range []func(lead, follower *node) raft.Configuration{joint, awaiting} {
		c, lead, follower := tenured(t, config)
		c.check.tenure.reached[follower.index].since = c.now()
		if len(c.check.tenure.in.Outgoing) > 0 {
			c.check.tenure.reached[(follower.index+1)%3].since = c.now()
			c.check.tenure.reached[lead.index].since = c.now()
		}
		c.check.checkLeavesNothing(c.profile.Members.Bound)
		assert.Nil(t, c.failure)
	}
}
