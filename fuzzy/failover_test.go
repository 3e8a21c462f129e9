package fuzzy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFailovers_EachLostLeaderIsReplaced(t *testing.T) {
	for _, f := range []Failovers{
		{Members: 3, Trials: 30},
		{Members: 5, Trials: 20, Silent: true},
		{Members: 3, Trials: 20, LossPercent: 20, Silent: true},
	} {
		took, err := f.Run()
		require.NoError(t, err)
		require.Len(t, took.Times, f.Trials)
		assert.Positive(t, slices.Min(took.Times), "an election takes time")
		assert.LessOrEqual(t, took.Split, took.Wasted)
		again, err := f.Run()
		require.NoError(t, err)
		assert.Equal(t, took, again, "the same seed gives the same times")
	}
}

// A member that hears nothing waits for at least an election timeout, less the age of the last heartbeat.
func TestFailovers_SilenceIsNoticedByItsTimeoutAlone(t *testing.T) {
	took, err := Failovers{Members: 3, Trials: 50, Silent: true}.Run()
	require.NoError(t, err)
	assert.Greater(t, slices.Min(took.Times), 90*time.Millisecond)
}
