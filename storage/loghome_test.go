package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
)

// logOf returns the directory of a closed store with the given number of entries in segments of 4 KiB.
func logOf(t *testing.T, entries int) string {
	leaks.Check(t)
	dir := t.TempDir()
	l, err := OpenLog(dir, LogOptions{SegmentBytes: 4 << 10})
	require.NoError(t, err)
	_, err = l.Load(t.Context(), orders)
	require.NoError(t, err)
	after := raft.EntryID{Term: 1, Index: 1}
	for i := range entries {
		e := raft.Entry{Index: after.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 300)}
		require.NoError(t, l.Write(raft.StorageWrite{Log: &raft.LogWrite{After: after, Entries: []raft.Entry{e}, Reset: i == 0}}))
		after = e.ID()
	}
	require.NoError(t, l.Close())
	return dir
}

// loadedLog opens and loads the store, and closes it.
func loadedLog(t *testing.T, dir string) (raft.Stored, error) {
	store, err := Open(dir, Options{})
	require.NoError(t, err)
	defer store.Close()
	return store.Load(t.Context(), orders)
}

func segment(dir string, number byte) string {
	return filepath.Join(dir, LogDir, "000000000000000"+string('0'+number)+".seg")
}

// If the segments are damaged, Load returns an error that names the file. It changes nothing in the store.
func TestLog_RefusesWhatIsDamaged(t *testing.T) {
	for name, row := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"a missing segment": {func(t *testing.T, dir string) { require.NoError(t, os.Remove(segment(dir, 2))) }, "2.seg is missing"},
		"no segments":       {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, LogDir))) }, "1.seg is missing"},
		"a segment of another member": {func(t *testing.T, dir string) {
			other := logOf(t, 30)
			require.NoError(t, os.Rename(segment(other, 2), segment(dir, 2)))
		}, "2.seg is damaged at offset 0"},
		"segments that are older than raft.db": {func(t *testing.T, dir string) {
			older := logOf(t, 30)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, LogDir)))
			require.NoError(t, os.Rename(filepath.Join(older, LogDir), filepath.Join(dir, LogDir)))
		}, "1.seg is damaged at offset 0: it is another use of the file"},
		"a list of a later release": {func(t *testing.T, dir string) {
			changed(t, dir, segmentsBucket, recordKey, func(b []byte) []byte { b[0]++; return sealed(b[:len(b)-checksumBytes]) })
		}, "the list of the segments in "},
		"a damaged list": {func(t *testing.T, dir string) {
			changed(t, dir, segmentsBucket, recordKey, func(b []byte) []byte { b[5]++; return b })
		}, "raft.db is damaged at the list of the segments: checksum does not match"},
		"no list": {func(t *testing.T, dir string) {
			db, err := bbolt.Open(filepath.Join(dir, BoltFile), filePermissions, boltOptions(lockWaitDefault))
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(segmentsBucket) }))
			require.NoError(t, db.Close())
		}, `raft.db is damaged at bucket "segments": it is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := logOf(t, 30)
			row.damage(t, dir)
			_, err := loadedLog(t, dir)
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, dir)
			var corrupt *raft.CorruptError
			var later *raft.LaterVersionError
			assert.True(t, errors.As(err, &corrupt) || errors.As(err, &later), "%v", err)
		})
	}
	stored, err := loadedLog(t, logOf(t, 30))
	require.NoError(t, err)
	assert.Equal(t, raft.EntryID{Term: 1, Index: 31}, stored.Log.Last)
	assert.EqualValues(t, 2, stored.StartCount)
}

// A store that keeps its log in segments has a later format than a Bolt, because an earlier release would find no entries in
// it.
func TestLog_IsOfALaterFormat(t *testing.T) {
	for kind, want := range map[Kind]uint64{KindBolt: formatVersion, KindSegments: formatSegments} {
		dir := t.TempDir()
		store, err := Open(dir, Options{New: kind})
		require.NoError(t, err)
		_, err = store.Load(t.Context(), orders)
		require.NoError(t, err)
		require.NoError(t, store.Close())
		changed(t, dir, metaBucket, recordKey, func(b []byte) []byte {
			meta, err := decodeMeta(b)
			require.NoError(t, err)
			assert.Equal(t, want, meta.Format)
			return b
		})
	}
}

// Load removes the left-overs of an interrupted write. It names them only once.
func TestLog_NamesWhatItCutsOff(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(dir, LogOptions{})
	require.NoError(t, err)
	_, err = l.Load(t.Context(), orders)
	require.NoError(t, err)
	l.GiveUp() // prevents a mark
	l.running.Wait()
	e := raft.Entry{Index: 2, Term: 1, Kind: raft.EntryCommand, Data: []byte("torn")}
	require.NoError(t, l.Write(raft.StorageWrite{Log: &raft.LogWrite{After: raft.EntryID{Term: 1, Index: 1}, Entries: []raft.Entry{e}, Reset: true}}))
	l.failed = errors.New("the process was killed")
	require.NoError(t, l.Close())
	f, err := os.OpenFile(segment(dir, 1), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("?"), 512+72+33)
	require.NoError(t, errors.Join(err, f.Close()))
	for _, want := range []int{1, 0} {
		stored, err := loadedLog(t, dir)
		require.NoError(t, err)
		require.Len(t, stored.LeftOver, want)
		require.Equal(t, raft.EntryID{Term: 1, Index: 1}, stored.Log.Last)
	}
}
