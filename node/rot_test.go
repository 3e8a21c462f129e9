package node_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/rafttest"
)

// rotting is a storage whose present snapshots can be damaged, and not the later ones.
type rotting struct {
	raft.SnapshotStorage
	mu    sync.Mutex
	files map[raft.SnapshotID]bool // whether each is damaged
}

func (r *rotting) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[file] = false
	return r.SnapshotStorage.CreateSnapshot(file)
}

func (r *rotting) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	r.mu.Lock()
	damaged := r.files[file]
	r.mu.Unlock()
	from, err := r.SnapshotStorage.OpenSnapshot(file)
	if err != nil || !damaged {
		return from, err
	}
	return rottenReader{from}, nil
}

func (r *rotting) rot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for file := range r.files {
		r.files[file] = true
	}
}

// The state in memory is whole. Until the next snapshot is due, nobody could help the follower, and a restart of the
// leader would fail.
func TestStream_ALeaderReplacesASnapshotThatIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := map[raft.NodeID]*rotting{}
		c, leader, _ := awayOn(t, rafttest.Options{
			NewFSM: newJournal, Configure: often,
			Storage: func(id raft.NodeID, s raft.Storage) raft.Storage {
				disks[id] = &rotting{SnapshotStorage: s.(raft.SnapshotStorage), files: map[raft.SnapshotID]bool{}}
				return disks[id]
			},
		}, "")
		commands := 41
		for s := leader.Status(); s.Applied <= s.Snapshot.Last.Index; s = leader.Status() {
			propose(t, leader, "behind the snapshot")
			commands++
			synctest.Wait()
		}
		before := leader.Status().Snapshot.Last
		disks[leader.Status().ID].rot()
		c.Heal()
		same(t, c, commands)
		assert.Greater(t, leader.Status().Snapshot.Last.Index, before.Index)
	})
}
