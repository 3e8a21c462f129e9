package fuzzy

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Some runs give running members other limits or their list.
func TestGiven_LimitsAndListsWhileMembersRun(t *testing.T) {
	var total Stats
	for _, profile := range []string{"swarm", "bootstrap"} {
		for number := range uint64(12) {
			r, err := Run(Seed{profile, number}, nil)
			require.NoError(t, err)
			require.Nil(t, r.Failure, "%s %d", profile, number)
			total.Given += r.Given
			total.ByFault[Retune] += r.ByFault[Retune]
		}
	}
	assert.Positive(t, total.Given)
	assert.Positive(t, total.ByFault[Retune])
}

// A lower limit takes back nothing, and lets nothing more in. In the step of a change, both limits may count.
func TestInvariants_OfLimitsThatChange(t *testing.T) {
	for _, row := range []struct {
		rule string
		more func(n *node)
	}{
		{"proposals", func(n *node) { n.status.Pending++ }},
		{"their bytes", func(n *node) { n.status.PendingBytes++ }},
		{"reads", func(n *node) { n.status.Reads++ }},
		{"appends in flight", func(n *node) { n.status.Peers[0].Inflight++ }},
		{"their bytes in flight", func(n *node) { n.status.Peers[0].InflightBytes++ }},
	} {
		c, n, _ := running(t)
		s := &n.status
		n.limits = generousLimits()
		s.Pending, s.PendingBytes, s.Reads = 900, 1<<20, 900
		s.Peers = append([]raft.PeerProgress(nil), s.Peers...)
		s.Peers[0].Inflight, s.Peers[0].InflightBytes = 60, 1<<20
		before := *s
		before.Peers = append([]raft.PeerProgress(nil), s.Peers...)
		low := raft.LimitsChanged{Limits: raft.Limits{CommandBytesMax: 100, ProposalsMax: 3, ProposalBytesMax: 200, UnappliedMax: 8,
			AppendBytesMax: 1, InflightMax: 2, InflightBytesMax: 100}}
		n.takeGiven(&before, []raft.Event{low})
		lowest, highest := n.bounds()
		assert.Equal(t, 3, lowest.ProposalsMax)
		assert.Equal(t, 1000, highest.ProposalsMax)
		n.takeGiven(&before, nil)
		c.check.checkBounds(n, &before)
		require.Nil(t, c.failure, row.rule)
		row.more(n)
		c.check.checkBounds(n, &before)
		expectBreach(t, c, "N10")
	}
}
