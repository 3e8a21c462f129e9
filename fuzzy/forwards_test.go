package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
