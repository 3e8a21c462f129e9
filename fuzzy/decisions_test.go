package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/enums"
)

func TestDecisions_NameEveryKindOfNote(t *testing.T) {
	kinds, err := enums.Of("..", "TraceEventKind")
	require.NoError(t, err)
	for name, kind := range kinds {
		known := false
		for _, place := range decisionOf[kind] {
			known = known || place >= 0
		}
		assert.True(t, known, "no decision stands for %s", name)
		assert.NotEqual(t, "unknown trace event", raft.TraceEvent{Kind: raft.TraceEventKind(kind)}.String(), name)
	}
	reasons, err := enums.Of("..", "DenyReason")
	require.NoError(t, err)
	for name, reason := range reasons {
		assert.Less(t, int(reason), denyReasons, "%s would count as another reason", name)
	}
}

// Two dozen seeds reach every decision but the rarest, so a mark that stays at 0 in a campaign means
// something.
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
