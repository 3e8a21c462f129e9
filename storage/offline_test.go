package storage

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/leaks"
)

// treeIn describes every file and directory: name, mode, size, time of the last change, and content.
func treeIn(t *testing.T, dir string) map[string]string {
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		tree[path] = fmt.Sprintf("%v %d %v %08x", info.Mode(), len(content), info.ModTime(), crc32.ChecksumIEEE(content))
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return tree
}

// unchanged requires that the calls change nothing in the directory.
func unchanged(t *testing.T, dir string, calls func()) {
	t.Helper()
	before := treeIn(t, dir)
	calls()
	require.Equal(t, before, treeIn(t, dir), "nothing in the directory has changed")
}

func collect(ctx context.Context, dir string, from, to raft.Index) (entries []raft.Entry, err error) {
	for e, failed := range Entries(ctx, dir, from, to) {
		if err = failed; err == nil {
			entries = append(entries, e)
		}
	}
	return entries, err
}

func indexes(entries []raft.Entry) (all []raft.Index) {
	for _, e := range entries {
		all = append(all, e.Index)
	}
	return all
}

// Inspect returns what a start finds, and Entries returns its log.
func TestInspect_TellsWhatAStartFinds(t *testing.T) {
	for what, does := range histories {
		for _, kind := range bothKinds {
			t.Run(what+", in "+string(kind), func(t *testing.T) {
				p := newPlace(t)
				p.fill(t, kind, does)
				want, _ := p.holds(t)
				unchanged(t, p.dir, func() {
					got, err := Inspect(t.Context(), p.dir)
					require.NoError(t, err)
					assert.Equal(t, kind, got.Kind)
					assert.Equal(t, want.meta.Cluster, got.ClusterName)
					assert.EqualValues(t, want.meta.ID, got.ID)
					assert.EqualValues(t, want.meta.Incarnation, got.Stored.Incarnation)
					assert.Equal(t, want.meta.StartCount, got.Stored.StartCount)
					assert.Equal(t, want.lineage.starts, got.Stored.Lineage)
					assert.Equal(t, want.lineage.memory.Seen, got.Stored.Memory.Seen)
					assert.Equal(t, want.stored.Hard, got.Stored.Hard)
					assert.Equal(t, want.stored.Commit, got.Stored.Commit)
					assert.Equal(t, want.stored.Snapshot, got.Stored.Snapshot)
					assert.Equal(t, want.stored.Log, got.Stored.Log)
					checkFiles(t, got, does)
					entries, err := collect(t.Context(), p.dir, 0, 0)
					require.NoError(t, err)
					records := ""
					for _, e := range entries {
						records += string(e.Record())
					}
					assert.Equal(t, want.records, records)
					v, err := Verify(t.Context(), p.dir)
					require.NoError(t, err)
					started := want.stored
					started.Applied = want.base.ID
					if len(got.Stored.LeftOver) > 0 { // a start finishes the installation
						started.Log = emptyLog(got.Stored.Snapshot.Base)
						started.Applied = started.Log.Base.ID
					}
					assert.Equal(t, started.Check() == nil, v.Err() == nil, "%v", v.Err())
					assert.GreaterOrEqual(t, v.Files, 1+len(got.Segments))
				})
			})
		}
	}
}

// checkFiles requires that the segments hold the whole log, in order, and that the snapshot is listed.
func checkFiles(t *testing.T, got Inspection, does []act) {
	if got.Kind == KindSegments && got.Stored.Log.Last != got.Stored.Log.Base.ID {
		at := got.Stored.Log.Base.ID.Index
		for _, s := range got.Segments {
			assert.LessOrEqual(t, s.Used, s.Bytes)
			if s.Last > 0 {
				assert.Equal(t, at+1, s.First, "%+v", got.Segments)
				at = s.Last
			}
		}
		assert.Equal(t, got.Stored.Log.Last.Index, at)
	}
	if got.Stored.Snapshot.File != (raft.SnapshotID{}) {
		require.Len(t, got.Snapshots, 1)
		assert.True(t, got.Snapshots[0].Recorded)
		assert.Equal(t, got.Stored.Snapshot, got.Snapshots[0].Snapshot)
	}
	if got.Stored.Log.Base.ID.Index != 70 && len(does) > 1 { // else the base is not known
		assert.Equal(t, raft.ClusterID{1}, got.Cluster)
		assert.NotEmpty(t, got.Config.Members)
		assert.Positive(t, got.ConfigIndex)
	}
	assert.NotEmpty(t, got.Records)
}

func TestEntries_OfARange(t *testing.T) {
	for _, kind := range bothKinds {
		p := newPlace(t)
		p.fill(t, kind, histories["a compacted log"]) // entries 31 to 56
		for _, row := range []struct {
			rule        string
			from, to    raft.Index
			first, last raft.Index // 0: none
			is          error
			want        string
		}{
			{rule: "all", first: 31, last: 56},
			{rule: "from the first to one", to: 33, first: 31, last: 33},
			{rule: "from one to the last", from: 55, first: 55, last: 56},
			{rule: "one", from: 40, to: 40, first: 40, last: 40},
			{rule: "a compacted one", from: 30, to: 40, is: raft.ErrNotStored, want: "above 30@3 up to 56@6"},
			{rule: "beyond the last", from: 40, to: 57, is: raft.ErrNotStored, want: "from 40 to 57"},
			{rule: "after the last", from: 57, is: raft.ErrNotStored, want: "above 30@3 up to 56@6"},
			{rule: "exchanged", from: 41, to: 40, want: "from: 41 is above to, which is 40: exchange them"},
		} {
			entries, err := collect(t.Context(), p.dir, row.from, row.to)
			if row.want != "" {
				require.ErrorContains(t, err, row.want, row.rule)
				require.True(t, row.is == nil || errors.Is(err, row.is), row.rule)
				require.Empty(t, entries, row.rule)
				continue
			}
			require.NoError(t, err, row.rule)
			require.EqualValues(t, row.last-row.first+1, len(entries), row.rule)
			require.Equal(t, row.first, entries[0].Index, row.rule)
			require.Equal(t, row.last, entries[len(entries)-1].Index, row.rule)
		}
		seen := 0
		for range Entries(t.Context(), p.dir, 0, 0) {
			if seen++; seen == 3 {
				break
			}
		}
		assert.Equal(t, 3, seen, "the caller may end the loop")
		p.starts(t, kind) // the store is not in use any more
	}
}

// After damage, the entries before it can still be read.
func TestEntries_BeforeTheDamage(t *testing.T) {
	p := newPlace(t)
	p.fill(t, KindSegments, whole)
	found, err := Inspect(t.Context(), p.dir)
	require.NoError(t, err)
	third := found.Segments[2]
	flipped(t, third.File, 600)
	entries, err := collect(t.Context(), p.dir, 0, 0)
	var corrupt *raft.CorruptError
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, third.File, corrupt.File)
	require.NotEmpty(t, entries)
	last := entries[len(entries)-1].Index
	assert.Less(t, last, third.Last)
	for k, e := range entries {
		assert.EqualValues(t, k+1, e.Index)
	}
	got, err := Inspect(t.Context(), p.dir)
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, last, got.Stored.Log.Last.Index, "Inspect tells what can be read")
	assert.Equal(t, found.Stored.Hard, got.Stored.Hard)
	assert.Equal(t, found.Cluster, got.Cluster)
	some, err := collect(t.Context(), p.dir, 2, 4)
	require.ErrorAs(t, err, &corrupt)
	assert.Equal(t, []raft.Index{2, 3, 4}, indexes(some))
}

// What is not a store, or not one for this release, is refused with a remedy by each function, and stays as it is.
func TestOffline_RefusesWithARemedy(t *testing.T) {
	noStore := func(err error) bool {
		var none *NoStoreError
		return errors.As(err, &none) && errors.Is(err, fs.ErrNotExist)
	}
	for name, row := range map[string]struct {
		makes func(t *testing.T, dir string)
		is    func(error) bool
		want  string
	}{
		"missing":   {func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)) }, noStore, "that does not exist; name the directory of a member"},
		"empty":     {func(*testing.T, string) {}, noStore, "it is empty; name the directory of a member"},
		"a file":    {func(t *testing.T, dir string) { require.NoError(t, os.Remove(dir)); write(t, dir, "x") }, noStore, "that is a file; name the directory"},
		"not ours":  {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "index.html"), "x") }, noStore, "is not the directory of a member"},
		"its log":   {func(t *testing.T, dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, LogDir), 0o700)) }, noStore, "raft.db is missing beside log/"},
		"half made": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "raft.db.new-12"), "x") }, noStore, "start the member, which removes that"},
		"its parent": {func(t *testing.T, dir string) {
			for _, name := range []string{"n1", "n2"} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
				write(t, filepath.Join(dir, name, BoltFile), "x")
			}
		}, noStore, "it has directories of members, n1, n2; name one of them"},
		"of another program": {func(t *testing.T, dir string) { foreign(t, dir) }, func(err error) bool {
			var foreign *ForeignFileError
			return errors.As(err, &foreign)
		}, "move that file away"},
		"half set aside": {func(t *testing.T, dir string) {
			place{files.OS, dir}.fill(t, KindBolt, nil)
			write(t, filepath.Join(dir, asideRecord), `{"aside":"aside-1"}`)
		}, func(err error) bool {
			var unfinished *UnfinishedAsideError
			return errors.As(err, &unfinished)
		}, "call storage.SetAside again"},
		"of a later release": {func(t *testing.T, dir string) { ofFormat(t, dir, formatNewest+1) }, func(err error) bool {
			var later *raft.LaterVersionError
			return errors.As(err, &later)
		}, "start the newer release"},
		"of an early release": {func(t *testing.T, dir string) { ofFormat(t, dir, 1) }, func(err error) bool {
			var earlier *raft.EarlierVersionError
			return errors.As(err, &earlier)
		}, "start the earlier release"},
	} {
		t.Run(name, func(t *testing.T) {
			leaks.Check(t)
			dir := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.Mkdir(dir, 0o700))
			row.makes(t, dir)
			refusedByEach(t, dir, row.is, row.want)
		})
	}
}

func refusedByEach(t *testing.T, dir string, is func(error) bool, want string) {
	t.Helper()
	unchanged(t, dir, func() {
		_, inspect := Inspect(t.Context(), dir)
		_, entries := collect(t.Context(), dir, 0, 0)
		_, verify := Verify(t.Context(), dir)
		for _, err := range []error{inspect, entries, verify} {
			require.True(t, is(err), "%T: %v", err, err)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, dir)
		}
	})
}

func write(t *testing.T, name, content string) {
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// A store in use is refused, with the process that has it open. One process may read what another one reads.
func TestOffline_RefusesAStoreInUse(t *testing.T) {
	for _, kind := range bothKinds {
		p := newPlace(t)
		s, _, err := p.open(kind)
		require.NoError(t, err)
		refusedByEach(t, p.dir, func(err error) bool {
			var used *InUseError
			if !errors.As(err, &used) || !errors.Is(err, raft.ErrLocked) {
				return false
			}
			if _, err := os.Stat("/proc/self/fd"); err == nil {
				assert.Equal(t, os.Getpid(), used.Process)
				assert.NotEmpty(t, used.Command)
			}
			return true
		}, "end it, or name another directory")
		require.NoError(t, s.Close())
		for range Entries(t.Context(), p.dir, 0, 0) {
			require.Fail(t, "the log is empty")
		}
		reader, err := openReading(t.Context(), p.dir)
		require.NoError(t, err)
		_, err = Inspect(t.Context(), p.dir)
		assert.NoError(t, err)
		_, err = SetAside(p.dir)
		assert.ErrorIs(t, err, raft.ErrLocked)
		require.NoError(t, reader.close())
	}
}

// A reader cannot write, by its type.
func TestOffline_AReaderCannotWrite(t *testing.T) {
	for _, kind := range bothKinds {
		p := newPlace(t)
		p.fill(t, kind, whole)
		unchanged(t, p.dir, func() {
			s, err := openReading(t.Context(), p.dir)
			require.NoError(t, err)
			_, err = s.Load(t.Context(), orders)
			assert.Error(t, err)
			require.NoError(t, s.close())
		})
	}
}

func TestOffline_EndsWithItsContext(t *testing.T) {
	for _, kind := range bothKinds {
		p := newPlace(t)
		p.fill(t, kind, whole)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Inspect(ctx, p.dir)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = collect(ctx, p.dir, 0, 0)
		assert.ErrorIs(t, err, context.Canceled)
		_, err = Verify(ctx, p.dir)
		assert.ErrorIs(t, err, context.Canceled)
	}
}

// foreign makes a bbolt file as another program does.
func foreign(t *testing.T, dir string) {
	db, err := bbolt.Open(filepath.Join(dir, BoltFile), filePermissions, boltOptions(lockWaitDefault))
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("conf"))
		return err
	}))
	require.NoError(t, db.Update(func(*bbolt.Tx) error { return nil }))
	require.NoError(t, db.Close())
}

// ofFormat makes a store of that format.
func ofFormat(t *testing.T, dir string, format uint64) {
	place{files.OS, dir}.fill(t, KindSegments, whole)
	changed(t, dir, metaBucket, recordKey, func([]byte) []byte {
		b, err := metaRecord{Format: format, Cluster: "orders", ID: "n1", Incarnation: 7, StartCount: 1}.encode()
		require.NoError(t, err)
		return b
	})
}
