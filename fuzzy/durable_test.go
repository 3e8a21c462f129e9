package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// The profile reaches its purpose: it compacts logs, and brings members up to date from frozen states.
func TestDurable_LogsAreCompacted(t *testing.T) {
	var compactions, commits, passed, freezes, streams, restores int
	for number := range uint64(20) {
		r, err := Run(Seed{"durable", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, "seed %d", number)
		compactions, commits = compactions+r.Compactions, commits+r.Commits
		passed += r.Passed
		freezes, streams, restores = freezes+r.Freezes, streams+r.Streams, restores+r.Restores
	}
	t.Logf("%d compactions, %d freezes, %d streams, %d restores, %d members passed by the base, %d commits", compactions, freezes, streams, restores, passed, commits)
	assert.Positive(t, passed)
	assert.Greater(t, compactions, 50)
	assert.Greater(t, freezes, 20)
	assert.Greater(t, restores, 10)
	assert.Positive(t, commits)
}

// A simulated disk keeps the slots up to its base only for the checks, and serves none of them.
func TestDisk_ServesNothingUpToItsBase(t *testing.T) {
	_, lead, _ := running(t)
	d := &lead.disk
	d.base = d.baseAt(5)
	_, err := d.Entries(raft.Span{After: 4, Last: 7}, 1<<20)
	require.ErrorIs(t, err, raft.ErrNotStored)
	entries, err := d.Entries(raft.Span{After: 5, Last: 7}, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, raft.Index(6), entries[0].Index)

	stored, err := d.load()
	require.NoError(t, err)
	assert.Equal(t, d.base, stored.Log.Base)
	assert.Equal(t, raft.Index(6), stored.Log.Runs[0].First)
	assert.Nil(t, stored.Log.Bootstrap)
}
