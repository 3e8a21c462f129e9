package rafttest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/storage"
)

func TestPower_NothingReachesTheDiskOnceItIsOff(t *testing.T) {
	p := &power{SnapshotStorage: storage.NewMemory()}
	_, err := p.Load(t.Context(), raft.Identity{Cluster: "test", ID: "n1", Fresh: 1})
	require.NoError(t, err)
	vote := raft.StorageWrite{Hard: &raft.HardState{Term: 1}}
	require.NoError(t, p.Write(vote))
	w, err := p.CreateSnapshot(raft.SnapshotID{1})
	require.NoError(t, err)
	_, err = w.Write([]byte("text"))
	require.NoError(t, err)
	_, err = p.Prune()
	require.NoError(t, err)

	p.cut()
	assert.ErrorIs(t, p.Write(vote), errNoPower)
	_, err = w.Write([]byte("text"))
	assert.ErrorIs(t, err, errNoPower)
	assert.ErrorIs(t, w.Finish(raft.Snapshot{}), errNoPower)
	assert.ErrorIs(t, w.Abort(), errNoPower)
	assert.ErrorIs(t, p.DiscardSnapshot(raft.SnapshotID{1}), errNoPower)
	_, err = p.CreateSnapshot(raft.SnapshotID{2})
	assert.ErrorIs(t, err, errNoPower)
	_, err = p.Prune()
	assert.ErrorIs(t, err, errNoPower)
}
