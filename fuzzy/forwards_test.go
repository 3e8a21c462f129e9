package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/forward"
)

// Members forward writes in the runs of this profile, and leaders apply some of them.
func TestForwards_WritesReachTheLeader(t *testing.T) {
	var sent, applied int
	for number := range uint64(20) {
		p, err := Draw(Seed{Profile: "forwards", Number: number})
		require.NoError(t, err)
		r := RunProfile(Seed{Profile: "forwards", Number: number}, p, nil)
		require.Nil(t, r.Failure)
		sent, applied = sent+r.Stats.Forwards, applied+r.Stats.Forwarded
	}
	t.Logf("%d sent, %d applied", sent, applied)
	assert.Greater(t, sent, 200)
	assert.Greater(t, applied, 50)
}

// Members forward changes and transfers in many runs, and leaders carry some of them out.
func TestErrands_AreCarriedOut(t *testing.T) {
	var sent, done int
	for number := range uint64(40) {
		r, err := Run(Seed{"forwards", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure)
		sent, done = sent+r.Stats.Errands, done+r.Stats.ErrandsDone
	}
	t.Logf("%d sent, %d carried out", sent, done)
	assert.Greater(t, sent, 100)
	assert.Greater(t, done, 10)
}

// H7 judges what takes effect, and what clients are told about it.
func TestInvariants_ErrandsTakeEffectOnce(t *testing.T) {
	for _, breach := range []func(c *cluster, lead, follower *node, asked, carried raft.RequestID){
		func(c *cluster, lead, _ *node, _, carried raft.RequestID) {
			again := c.work.ask(c.work.requests[carried])
			c.check.recordEffect(lead, again)
		},
		func(_ *cluster, _, follower *node, asked, _ raft.RequestID) {
			follower.endErrand(asked, forward.Failed)
		},
		func(_ *cluster, _, follower *node, asked, _ raft.RequestID) { follower.endErrand(asked, forward.Done) },
		func(_ *cluster, _, follower *node, asked, _ raft.RequestID) {
			follower.checkAgain(asked, raft.ForwardNotApplied)
		},
	} {
		c, lead, follower := running(t)
		e := &errand{}
		asked := c.work.ask(request{kind: transferRequest, node: follower, errand: e})
		carried := c.work.ask(request{kind: transferRequest, node: lead, errand: e, client: -1})
		c.check.recordEffect(lead, carried)
		c.check.recordEffect(lead, carried) // TimeoutNow is repeated
		require.Nil(t, c.failure)
		breach(c, lead, follower, asked, carried)
		expectBreach(t, c, "H7")
	}
}
