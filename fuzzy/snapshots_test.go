package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// The profile must reach its purpose: snapshots are streamed, installed and restored. This includes runs with a crash between
// the record and the reset of the log.
func TestSnapshots_AreSentAndInstalled(t *testing.T) {
	seeds := fewer(30)
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

// A healed disk also ends its work for snapshots. A client that has requested a snapshot gets its answer then, and need not
// wait for the scheduled end of the stall.
func TestSnapshots_AHealedDiskEndsWhatItDoesForThem(t *testing.T) {
	p := calmOfThree(t)
	p.Snapshots = Snapshots{On: true, BytesMax: 100, ChunkBytes: 64, WindowChunks: 2}
	p.Limits.SnapshotEntries = 1000
	c := newCluster(Seed{"calm", 2}, p)
	c.prepare()
	turnFor(c, 2*time.Second)
	n := c.nodes[0]
	n.disk.stallTill = c.now() + sim.In(time.Hour)
	asked := c.work.snapshot(n, 0)
	n.vaultIn(n.disk.took(n), vaultRestored)
	n.vaultIn(n.disk.took(n), vaultSpool)
	n.vault.held = &heldState{}
	n.writeHeldLater()
	turnFor(c, time.Second)
	require.True(t, n.vault.writing)
	(&liveness{c: c, core: 1<<len(c.nodes) - 1}).heal()
	turnFor(c, time.Second)
	require.Nil(t, c.failure)
	assert.False(t, n.vault.writing)
	assert.Equal(t, answeredWell, c.work.requests[asked].state)
	assert.Zero(t, n.vault.ends)
	assert.Zero(t, n.vault.held.writesAt)
}

func turnFor(c *cluster, d time.Duration) {
	for until := c.now() + sim.In(d); c.now() < until; {
		c.turn()
	}
}
