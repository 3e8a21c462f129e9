package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/enums"
)

func TestDecisions_NameEveryKindOfNote(t *testing.T) {
	for name, kind := range enums.Of(t, "..", "TraceEventKind") {
		known := false
		for _, place := range decisionOf[kind] {
			known = known || place >= 0
		}
		assert.True(t, known, "no decision stands for %s", name)
		assert.NotEqual(t, "unknown trace event", raft.TraceEvent{Kind: raft.TraceEventKind(kind)}.String(), name)
	}
	for name, reason := range enums.Of(t, "..", "DenyReason") {
		known := decisionOf[raft.TraceVoteDenied][reason] >= 0 || decisionOf[raft.TracePreVoteDenied][reason] >= 0
		assert.Equal(t, name != "Granted", known, "no decision stands for %s", name)
	}
	names, reached := map[string]bool{}, map[int16]bool{}
	for _, row := range decisionOf {
		for _, place := range row {
			reached[place] = true
		}
	}
	for place, d := range decisions {
		assert.False(t, names[d.Name], "%q appears twice", d.Name)
		names[d.Name] = true
		assert.True(t, reached[int16(place)], "another decision hides %q", d.Name)
	}
}

// Two dozen seeds reach every decision except the rarest ones. So a count that stays 0 in a campaign is significant.
func TestDecisions_AreCounted(t *testing.T) {
	var sum [len(decisions)]int
	for number := range uint64(24) {
		r, err := Run(Seed{"swarm", number}, nil)
		require.NoError(t, err)
		for i, count := range r.Decisions {
			sum[i] += count
		}
	}
	reached, possible := 0, 0
	for i, count := range sum {
		if decisions[i].kind >= raft.TraceTake {
			continue // the simulator takes no snapshots yet
		}
		possible++
		if count > 0 {
			reached++
		}
	}
	assert.Greater(t, reached, possible*3/4)
}
