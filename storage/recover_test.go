package storage

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
)

var (
	formerCluster = raft.ClusterID{4}
	survivorN2    = raft.Identity{Cluster: "orders", ID: "n2", Fresh: 2, Nonce: 5}
)

// survivorIn fills a store of n2, one of three members: entry 1, and commands up to the index last.
func survivorIn(t testing.TB, kind Kind, last raft.Index) (dir string) {
	leaks.Check(t)
	dir = filepath.Join(t.TempDir(), "data")
	store, err := Open(dir, Options{New: kind, SegmentBytes: 4 << 10})
	require.NoError(t, err)
	stored, err := store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	var members []raft.Member
	for i, id := range []raft.NodeID{"n1", "n2", "n3"} {
		members = append(members, raft.Member{ID: id, Address: string(id) + ":1", Incarnation: raft.Incarnation(i + 1)})
	}
	write, err := stored.Initialize("n2", formerCluster, raft.NewConfiguration(members))
	require.NoError(t, err)
	for i := raft.Index(2); i <= last; i++ {
		write.Log.Entries = append(write.Log.Entries, raft.Entry{Index: i, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 100)})
	}
	write.Hard = &raft.HardState{Term: 7, Vote: raft.Peer{ID: "n3", Incarnation: 3}, Lease: 5}
	write.Memory = &raft.Sightings{Seen: []raft.Sighting{{Peer: raft.Peer{ID: "n3", Incarnation: 3}, Start: raft.StartID{Count: 1, Nonce: 1}}}}
	require.NoError(t, store.Write(write))
	require.NoError(t, store.Close())
	return dir
}

// loadedFrom loads a store as a start of n2 does.
func loadedFrom(t *testing.T, dir string) raft.Stored {
	t.Helper()
	store, err := Open(dir, Options{})
	require.NoError(t, err)
	stored, err := store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	return stored
}

func assertRecovered(t *testing.T, done Recovery, stored raft.Stored, last raft.Index) {
	t.Helper()
	assert.Equal(t, raft.EntryID{Term: 7 + 1<<32, Index: last + 1}, stored.Log.Last)
	assert.Equal(t, raft.HardState{Term: 7 + 1<<32, Cluster: done.Cluster}, stored.Hard)
	assert.Equal(t, done.Cluster, stored.Cluster())
	assert.NotEqual(t, raft.Incarnation(2), stored.Incarnation)
	config := stored.Log.Configuration()
	assert.Equal(t, []raft.Member{{ID: "n2", Address: "n2:1", Incarnation: stored.Incarnation}}, config.Members)
	assert.Empty(t, stored.Memory.Seen)
	assert.Nil(t, stored.Mark)
}

// contradict marks a store as contradicting its cluster.
func contradict(t *testing.T, dir string) {
	t.Helper()
	store, err := Open(dir, Options{})
	require.NoError(t, err)
	_, err = store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	require.NoError(t, store.Write(raft.StorageWrite{Mark: &raft.Mark{Kind: raft.MarkContradicted, By: raft.Peer{ID: "n1", Incarnation: 1}}}))
	require.NoError(t, store.Close())
}

func TestRecover_TheLogIsThatOfANewCluster(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		t.Run(string(kind), func(t *testing.T) {
			dir := survivorIn(t, kind, 100)
			done, err := Recover(t.Context(), dir, "orders", RecoverOptions{})
			require.NoError(t, err)
			assert.Equal(t, formerCluster, done.Former)
			assert.Equal(t, raft.EntryID{Term: 1, Index: 100}, done.Last)
			assert.Len(t, done.Before.Members, 3)
			stored := loadedFrom(t, dir)
			assertRecovered(t, done, stored, 100)
			_, err = Recover(t.Context(), dir, "orders", RecoverOptions{})
			var refused *raft.NotRecoverableError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, raft.EntryID{Term: 7 + 1<<32, Index: 101}, loadedFrom(t, dir).Log.Last, "nothing has changed")
			contradict(t, dir)
			again, err := Recover(t.Context(), dir, "orders", RecoverOptions{Despite: true})
			require.NoError(t, err)
			assert.Equal(t, done.Cluster, again.Former)
			assert.Equal(t, raft.EntryID{Term: 7 + 2<<32, Index: 102}, loadedFrom(t, dir).Log.Last)
			_, err = Migrate(t.Context(), dir, KindBolt, MigrateOptions{})
			require.NoError(t, err, "the segments of the former incarnation still are this store's")
			assert.Equal(t, raft.EntryID{Term: 7 + 2<<32, Index: 102}, loadedFrom(t, dir).Log.Last)
		})
	}
}

// A snapshot stays that of the member, although its file names the former cluster.
func TestRecover_KeepsTheSnapshot(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		t.Run(string(kind), func(t *testing.T) {
			dir, state := backedUpIn(t, kind)
			done, err := Recover(t.Context(), dir, "orders", RecoverOptions{})
			require.NoError(t, err)
			stored := loadedFrom(t, dir)
			assertRecovered(t, done, stored, 60)
			require.NoError(t, stored.Check())
			assert.Equal(t, done.Cluster, stored.Log.Base.Cluster)
			assert.Equal(t, done.Cluster, stored.Snapshot.Cluster)
			assert.Equal(t, state, stateIn(t, dir, stored.Snapshot))
			v, err := Verify(t.Context(), dir)
			require.NoError(t, err)
			require.NoError(t, v.Err())
		})
	}
}

// The process ends behind the transaction, before the entry is in the log, or in the middle of its write. The next start completes
// the recovery, also if it is ended in the same way.
func TestRecover_AStartCompletesIt(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		t.Run(string(kind), func(t *testing.T) {
			dir := survivorIn(t, kind, 30)
			done, err := recordRecovery(t.Context(), dir, "orders", 0, RecoverOptions{}.recovery())
			require.NoError(t, err)
			interrupted := filepath.Join(t.TempDir(), "interrupted")
			require.NoError(t, os.CopyFS(interrupted, os.DirFS(dir)))
			assertRecovered(t, done, loadedFrom(t, dir), 30)
			assertRecovered(t, done, loadedFrom(t, dir), 30)
			if kind == KindSegments { // the records of the complete recovery, and the log as it was before
				require.NoError(t, os.RemoveAll(filepath.Join(dir, LogDir)))
				require.NoError(t, os.CopyFS(filepath.Join(dir, LogDir), os.DirFS(filepath.Join(interrupted, LogDir))))
			}
			assertRecovered(t, done, loadedFrom(t, interrupted), 30)
		})
	}
}

func TestRecover_Refusals(t *testing.T) {
	dir := survivorIn(t, KindSegments, 3)
	_, err := Recover(t.Context(), filepath.Join(dir, "nothing"), "orders", RecoverOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	assert.NoDirExists(t, filepath.Join(dir, "nothing"))
	_, err = Recover(t.Context(), dir, "order", RecoverOptions{})
	var other *raft.IdentityError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, raft.IdentityError{What: "cluster", Stored: "orders", Given: "order"}, *other)

	store, err := Open(dir, Options{})
	require.NoError(t, err)
	_, err = Recover(t.Context(), dir, "orders", RecoverOptions{})
	require.ErrorIs(t, err, raft.ErrLocked)
	require.NoError(t, store.Close())
	contradict(t, dir)
	_, err = Recover(t.Context(), dir, "orders", RecoverOptions{})
	var contradicted *raft.ContradictedError
	require.ErrorAs(t, err, &contradicted)
	before := loadedFrom(t, dir)
	assert.Equal(t, raft.HardState{Term: 7, Vote: raft.Peer{ID: "n3", Incarnation: 3}, Lease: 5}, before.Hard, "nothing has changed")
	done, err := Recover(t.Context(), dir, "orders", RecoverOptions{Despite: true})
	require.NoError(t, err)
	assertRecovered(t, done, loadedFrom(t, dir), 3)

	empty := filepath.Join(t.TempDir(), "empty")
	store, err = Open(empty, Options{})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	_, err = Recover(t.Context(), empty, "orders", RecoverOptions{})
	require.ErrorContains(t, err, "no member has ever been started on what is there")
}
