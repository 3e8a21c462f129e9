package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The profile must reach what it is for: snapshots that are streamed, installed and restored, also after a crash
// between the record and the reset of the log.
func TestSnapshots_AreSentAndInstalled(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 10
	}
	var restores, streams, ended, commits int
	for number := range uint64(seeds) {
		r, err := Run(Seed{"snapshots", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, "seed %d", number)
		restores, streams, ended, commits = restores+r.Restores, streams+r.Streams, ended+r.EndedInstalls, commits+r.Commits
	}
	t.Logf("%d restores, %d streams, %d installs ended by a start, %d commits", restores, streams, ended, commits)
	assert.Greater(t, restores, seeds)
	assert.Positive(t, streams)
}
