package storage_test

import (
	"context"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/storage"
)

func baseAt(id raft.EntryID) raft.Base {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: member.Fresh}
	return raft.Base{
		ID: id, Cluster: raft.ClusterID{1}, Bootstrapper: n1.Peer(), ConfigIndex: 1, Config: raft.NewConfiguration([]raft.Member{n1}),
	}
}

func described(id raft.EntryID, number byte, data []byte) raft.Snapshot {
	return raft.Snapshot{
		Base: baseAt(id), File: raft.SnapshotID{number}, Size: int64(len(data)),
		Sum: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)),
	}
}

// take writes a snapshot of the given entry.
func take(store raft.SnapshotStorage, id raft.EntryID, number byte, data []byte) (raft.Snapshot, error) {
	s := described(id, number, data)
	w, err := store.CreateSnapshot(s.File)
	if err != nil {
		return s, err
	}
	if _, err = w.Write(data); err == nil {
		err = w.Finish(s)
	}
	if err != nil {
		err = errors.Join(err, w.Abort())
	}
	return s, err
}

// recorded makes a closed store with 20 entries and a snapshot of entry 10, and returns its directory.
func recorded(t *testing.T) (dir string, s raft.Snapshot) {
	leaks.Check(t)
	dir = t.TempDir()
	b, _ := mustLoad(t, dir)
	require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 1)))
	require.NoError(t, b.Write(logWrite(raft.EntryID{Index: 1}, 1, 19)))
	s, err := take(b, raft.EntryID{Term: 1, Index: 10}, 1, make([]byte, 200_000))
	require.NoError(t, err)
	require.NoError(t, b.Write(raft.StorageWrite{Snapshot: &s}))
	require.NoError(t, b.Close())
	return dir, s
}

func snapshotPath(dir string, s raft.Snapshot) string {
	return filepath.Join(dir, "snapshots", s.File.String()+".snap")
}

// If the recorded snapshot of a store is missing or replaced, Load returns an error and changes nothing. Without the snapshot
// the log may lack committed entries.
func TestBolt_ASnapshotOfAnother(t *testing.T) {
	for _, row := range []struct {
		what  string
		place func(t *testing.T, name string)
		want  string
	}{
		{"missing", func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) }, "is missing: the store has recorded this snapshot of entry 10@1; put the file back"},
		{"renamed", func(t *testing.T, name string) { require.NoError(t, os.Rename(name, name+".old")) }, "is missing: "},
		{"of another member", func(t *testing.T, name string) {
			dir := t.TempDir()
			b, _ := mustLoad(t, dir)
			s, err := take(b, raft.EntryID{Term: 1, Index: 10}, 9, []byte("x"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(snapshotPath(dir, s), name))
		}, "under the name of another snapshot"},
		{"an older one", func(t *testing.T, name string) {
			dir := t.TempDir()
			b, _ := mustLoad(t, dir)
			s, err := take(b, raft.EntryID{Term: 1, Index: 9}, 1, []byte("older"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(snapshotPath(dir, s), name))
		}, "a snapshot of entry 9@1"},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir, s := recorded(t)
			name := snapshotPath(dir, s)
			row.place(t, name)
			before, err := os.ReadFile(filepath.Join(dir, storage.BoltFile))
			require.NoError(t, err)
			b, err := storage.OpenBolt(dir, storage.BoltOptions{})
			require.NoError(t, err)
			_, err = b.Load(context.Background(), member)
			require.NoError(t, b.Close())
			var corrupt *raft.CorruptError
			require.ErrorAs(t, err, &corrupt)
			assert.Equal(t, name, corrupt.File)
			assert.ErrorContains(t, err, row.want)
			assert.ErrorContains(t, err, "replace the member (Node.ReplaceMember)")
			after, err := os.ReadFile(filepath.Join(dir, storage.BoltFile))
			require.NoError(t, err)
			assert.Equal(t, before, after, "nothing was changed")
		})
	}
}

// A start finds damage to the head or the end of a snapshot. A reader finds damage to a block when it reads the block.
func TestBolt_ADamagedSnapshot(t *testing.T) {
	dir, s := recorded(t)
	name := snapshotPath(dir, s)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, row := range []struct {
		at    int
		where string
		loads bool
	}{{10, "its head", false}, {len(whole) - 10, "its end", false}, {100_000, "offset 65570", true}} {
		whole[row.at] ^= 4
		require.NoError(t, os.WriteFile(name, whole, 0o600))
		whole[row.at] ^= 4
		b, err := storage.OpenBolt(dir, storage.BoltOptions{})
		require.NoError(t, err)
		_, err = b.Load(context.Background(), member)
		if row.loads {
			require.NoError(t, err)
			r, openErr := b.OpenSnapshot(s.File)
			require.NoError(t, openErr)
			_, err = r.ReadAt(make([]byte, s.Size), 0)
			require.NoError(t, r.Close())
		}
		require.NoError(t, b.Close())
		var corrupt *raft.CorruptError
		require.ErrorAs(t, err, &corrupt)
		assert.Equal(t, name, corrupt.File)
		assert.Equal(t, row.where, corrupt.Where)
	}
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	_, stored := mustLoad(t, dir)
	assert.Equal(t, s, stored.Snapshot)
}

func TestBolt_ASnapshotOfALaterReleaseIsNotDamage(t *testing.T) {
	dir, s := recorded(t)
	name := snapshotPath(dir, s)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	whole[8] = 2
	sum := crc32.Checksum(whole[:26], crc32.MakeTable(crc32.Castagnoli))
	whole[26], whole[27], whole[28], whole[29] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Load(context.Background(), member)
	var later *raft.LaterVersionError
	require.ErrorAs(t, err, &later)
	assert.Equal(t, raft.LaterVersionError{File: name, Record: "the snapshot", Found: 2, Known: 1}, *later)
	left, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, whole, left)
}

// stores are the two kinds of stores, each with 20 entries.
func stores(t *testing.T) map[string]raft.SnapshotStorage {
	leaks.Check(t)
	b, _ := mustLoad(t, t.TempDir())
	m := storage.NewMemory()
	_, err := m.Load(t.Context(), member)
	require.NoError(t, err)
	all := map[string]raft.SnapshotStorage{"bolt": b, "memory": m}
	for _, s := range all {
		require.NoError(t, s.Write(logWrite(raft.EntryID{}, 0, 1)))
		require.NoError(t, s.Write(logWrite(raft.EntryID{Index: 1}, 1, 19)))
	}
	return all
}

func TestStores_RecordOnlyWhatAStartCanUse(t *testing.T) {
	id := raft.EntryID{Term: 1, Index: 10}
	for what, change := range map[string]func(*raft.StorageWrite){
		"a file that is not there": func(*raft.StorageWrite) {},
		"bytes in memory":          func(w *raft.StorageWrite) { w.Snapshot.Held = true },
		"no cluster":               func(w *raft.StorageWrite) { w.Snapshot.Cluster = raft.ClusterID{} },
		"a base without a cluster": func(w *raft.StorageWrite) { w.Snapshot, w.Base = nil, &raft.Base{ID: id} },
	} {
		for kind, store := range stores(t) {
			s := described(id, 1, []byte("x"))
			w := raft.StorageWrite{Snapshot: &s}
			change(&w)
			assert.Error(t, store.Write(w), "%s: %s", kind, what)
		}
	}
}

func TestBolt_LoadNamesTheSnapshotsThatItDeletes(t *testing.T) {
	dir, s := recorded(t)
	b, stored := mustLoad(t, dir)
	assert.Empty(t, stored.LeftOver)
	old, err := take(b, raft.EntryID{Term: 1, Index: 12}, 2, []byte("x"))
	require.NoError(t, err)
	_, err = b.CreateSnapshot(raft.SnapshotID{3})
	require.NoError(t, err)
	require.NoError(t, b.Close())
	_, stored = mustLoad(t, dir)
	assert.Equal(t, s, stored.Snapshot)
	assert.Equal(t, []string{old.File.String() + ".snap", raft.SnapshotID{3}.String() + ".part"}, stored.LeftOver)
}

func TestStores_KeepTheRecordedSnapshot(t *testing.T) {
	for kind, store := range stores(t) {
		s, err := take(store, raft.EntryID{Term: 1, Index: 10}, 1, []byte("bytes"))
		require.NoError(t, err)
		require.NoError(t, store.Write(raft.StorageWrite{Snapshot: &s}))
		assert.ErrorContains(t, store.DiscardSnapshot(s.File), "is the recorded snapshot", kind)
		_, err = store.CreateSnapshot(s.File)
		assert.ErrorIs(t, err, fs.ErrExist, kind)
		r, err := store.OpenSnapshot(s.File)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.NoError(t, store.Close())
		_, err = store.OpenSnapshot(s.File)
		assert.ErrorIs(t, err, storage.ErrStoreClosed, kind)
		_, err = store.CreateSnapshot(raft.SnapshotID{2})
		assert.ErrorIs(t, err, storage.ErrStoreClosed, kind)
		assert.ErrorIs(t, store.DiscardSnapshot(s.File), storage.ErrStoreClosed, kind)
		_, err = store.FreeBytes()
		assert.ErrorIs(t, err, storage.ErrStoreClosed, kind)
		_, err = store.Prune()
		assert.ErrorIs(t, err, storage.ErrStoreClosed, kind)
	}
}

// A start reads only the entries that compaction has left in the log. The test counts how often the start checks its context.
// The start does that once for a fixed number of entries.
func TestBolt_LoadOnlyReadsWhatIsLeftOfTheLog(t *testing.T) {
	const total, left = 40_000, 100
	dir := quickDir(t)
	b, _ := mustLoad(t, dir)
	require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 1)))
	for i := raft.Index(1); i < total; i += 4_000 {
		require.NoError(t, b.Write(logWrite(raft.EntryID{Term: min(1, raft.Term(i-1)), Index: i}, 1, min(4_000, int(total-i)))))
	}
	full := b.LogBytes()
	before := loadChecks(t, dir, b)

	b, stored := mustLoad(t, dir)
	require.EqualValues(t, total, stored.Log.Last.Index)
	base := baseAt(raft.EntryID{Term: 1, Index: total - left})
	require.NoError(t, b.Write(raft.StorageWrite{Base: &base}))
	calls := 1
	for more := true; more; calls++ {
		var err error
		more, err = b.Prune()
		require.NoError(t, err)
	}
	assert.Equal(t, calls-1, (total-left+4095)/4096, "a bounded number of entries in each call")
	assert.Less(t, b.LogBytes(), full*left/total*2)
	after := loadChecks(t, dir, b)
	assert.Greater(t, before, total/1024)
	assert.LessOrEqual(t, after, 3)
}

// loadChecks closes the store. It then returns how often another Load checks its context.
func loadChecks(t *testing.T, dir string, b *storage.Bolt) int {
	t.Helper()
	require.NoError(t, b.Close())
	b, err := storage.OpenBolt(dir, storage.BoltOptions{})
	require.NoError(t, err)
	defer b.Close()
	ctx := &countingContext{Context: context.Background()}
	_, err = b.Load(ctx, member)
	require.NoError(t, err)
	return ctx.checks
}

type countingContext struct {
	context.Context
	checks int
}

func (c *countingContext) Err() error {
	c.checks++
	return c.Context.Err()
}

// The file grows only up to the maximum size of the log, because later entries reuse the room of pruned entries.
func TestBolt_TheRoomOfPrunedEntriesIsReused(t *testing.T) {
	dir := quickDir(t)
	b, _ := mustLoad(t, dir)
	last := raft.EntryID{}
	sizes := []int64{}
	for range 40 {
		for range 20 {
			w := logWrite(last, 1, 50)
			for i := range w.Log.Entries {
				if e := &w.Log.Entries[i]; e.Index > 1 {
					e.Data = make([]byte, 1000)
				}
			}
			require.NoError(t, b.Write(w))
			last = w.Log.Entries[49].ID()
		}
		base := baseAt(last)
		require.NoError(t, b.Write(raft.StorageWrite{Base: &base}))
		for more := true; more; {
			var err error
			more, err = b.Prune()
			require.NoError(t, err)
		}
		info, err := os.Stat(filepath.Join(dir, storage.BoltFile))
		require.NoError(t, err)
		sizes = append(sizes, info.Size())
	}
	t.Logf("a log of 1 MB, compacted 40 times: %d bytes after the 5th, %d after the last", sizes[4], sizes[39])
	assert.Equal(t, sizes[4], sizes[39])
}

// Entries of a replaced log may still be in the file. Prune also limits its work in bytes.
func TestBolt_PruneIsBoundedInBytes(t *testing.T) {
	b, _ := mustLoad(t, quickDir(t))
	require.NoError(t, b.Write(logWrite(raft.EntryID{}, 0, 1)))
	last := raft.EntryID{Index: 1}
	for range 10 {
		w := logWrite(last, 1, 1)
		w.Log.Entries[0].Data = make([]byte, 3<<20)
		require.NoError(t, b.Write(w))
		last = w.Log.Entries[0].ID()
	}
	base := baseAt(last)
	require.NoError(t, b.Write(raft.StorageWrite{Base: &base}))
	for left := 9; left >= 0; left-- {
		more, err := b.Prune()
		require.NoError(t, err)
		assert.Equal(t, left > 0, more)
		assert.InDelta(t, left*3<<20, b.LogBytes(), 1000)
	}
	_, err := b.Entries(raft.Span{After: 0, Last: 1}, math.MaxInt)
	assert.ErrorIs(t, err, raft.ErrNotStored)
	more, err := b.Prune()
	require.NoError(t, err)
	assert.False(t, more)
}

func TestMemory_ReopenForgetsWhatWasNotFinished(t *testing.T) {
	m := storage.NewMemory()
	_, err := m.Load(t.Context(), member)
	require.NoError(t, err)
	require.NoError(t, m.Write(logWrite(raft.EntryID{}, 0, 1)))
	require.NoError(t, m.Write(logWrite(raft.EntryID{Index: 1}, 1, 9)))
	s, err := take(m, raft.EntryID{Term: 1, Index: 5}, 1, []byte("bytes"))
	require.NoError(t, err)
	require.NoError(t, m.Write(raft.StorageWrite{Snapshot: &s, Base: &s.Base}))
	unfinished, err := m.CreateSnapshot(raft.SnapshotID{2})
	require.NoError(t, err)

	image, again := m.Copy(), m.Reopen()
	_, err = unfinished.Write(make([]byte, 100_000))
	assert.Error(t, err, "the store was reopened")
	for _, next := range []*storage.Memory{again, image} {
		stored, err := next.Load(t.Context(), member)
		require.NoError(t, err)
		assert.Equal(t, s, stored.Snapshot)
		assert.Equal(t, s.ID, stored.Log.Base.ID)
		r, err := next.OpenSnapshot(s.File)
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = r.ReadAt(got, 0)
		require.NoError(t, err)
		assert.Equal(t, "bytes", string(got))
		_, err = take(next, raft.EntryID{Term: 1, Index: 7}, 2, []byte("again"))
		require.NoError(t, err, "the unfinished file is gone")
	}
}
