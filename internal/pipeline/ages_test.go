package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

func fresh(at raft.Time, index raft.Index) raft.Freshness {
	return raft.Freshness{Since: raft.Moment{StartCount: 1, At: at}, Index: index}
}

func TestAges_TheNewestWhoseIndexIsAppliedCounts(t *testing.T) {
	var none Ages
	assert.Zero(t, none.Since(100), "nothing is proved")
	a := none.With(fresh(10, 5), 5).With(fresh(20, 7), 5).With(fresh(30, 9), 5)
	for _, row := range []struct {
		applied raft.Index
		since   raft.Time
	}{{4, 0}, {5, 10}, {6, 10}, {7, 20}, {8, 20}, {9, 30}, {100, 30}} {
		assert.Equal(t, row.since, a.Since(row.applied), "applied %d", row.applied)
	}
	assert.Len(t, a, 3)
	b := a.With(fresh(40, 9), 9)
	assert.Equal(t, Ages{fresh(30, 9), fresh(40, 9)}, b, "what is older than an applied one no longer matters")
	assert.Len(t, a, 3, "readers of the former value are not disturbed")
}

// A member whose FSM lags keeps proofs of the whole lag: as it catches up, its age falls step by step.
func TestAges_ALaggingFSMKeepsAnAgeNearItsLag(t *testing.T) {
	const lag = 1000
	var a Ages
	for now := range raft.Time(20 * lag) {
		applied := raft.Index(max(now, lag) - lag)
		a = a.With(fresh(now+1, raft.Index(now)), applied)
		require.LessOrEqual(t, len(a), agesMax)
		if now < 4*lag {
			continue
		}
		since := a.Since(applied)
		require.NotZero(t, since)
		require.LessOrEqual(t, since, raft.Time(applied)+1, "the index is applied")
		require.GreaterOrEqual(t, since, raft.Time(applied)-lag/2, "at %d", now)
	}
}
