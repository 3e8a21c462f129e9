package storage

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
)

// snapshotOf writes a snapshot of the state up to an entry into the store, and compacts the log behind it.
func snapshotOf(t *testing.T, store raft.SnapshotStorage, base raft.Base, state []byte) {
	snapshotIn(t, store, base, state)
	require.NoError(t, store.Write(raft.StorageWrite{Base: &base}))
}

// snapshotIn writes a snapshot of the state up to an entry into the store, and records it.
func snapshotIn(t *testing.T, store raft.SnapshotStorage, base raft.Base, state []byte) {
	s := raft.Snapshot{Base: base, File: raft.SnapshotID{byte(base.ID.Index)}, Size: int64(len(state)), Sum: crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli))}
	to, err := store.CreateSnapshot(s.File)
	require.NoError(t, err)
	_, err = to.Write(state)
	require.NoError(t, err)
	require.NoError(t, to.Finish(s))
	require.NoError(t, store.Write(raft.StorageWrite{Snapshot: &s}))
}

// backedUpIn returns the directory of a stopped n2 whose snapshot covers the entries up to 40 of 60.
func backedUpIn(t *testing.T, kind Kind) (dir string, state []byte) {
	dir, state = survivorIn(t, kind, 60), bytes.Repeat([]byte("state "), 50_000)
	store, err := Open(dir, Options{})
	require.NoError(t, err)
	stored, err := store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	first := stored.Log.Configs[0]
	snapshotOf(t, store, raft.Base{
		ID: raft.EntryID{Term: 1, Index: 40}, Cluster: formerCluster, Bootstrapper: raft.Peer{ID: "n2", Incarnation: 2}, ConfigIndex: 1, Config: first.Config,
	}, state)
	require.NoError(t, store.Close())
	return dir, state
}

func backUp(t *testing.T, dir string) ([]byte, BackupInfo) {
	var to bytes.Buffer
	info, err := Backup(t.Context(), dir, &to)
	require.NoError(t, err)
	return to.Bytes(), info
}

// A restored member has the state and every entry behind it, in a new cluster of its own.
func TestRestore_TheStateAndTheEntriesOfANewCluster(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		t.Run(string(kind), func(t *testing.T) {
			from, state := backedUpIn(t, kind)
			saved, info := backUp(t, from)
			assert.Equal(t, raft.EntryID{Term: 1, Index: 40}, info.State)
			assert.Equal(t, raft.EntryID{Term: 1, Index: 60}, info.Last)
			assert.Equal(t, raft.Term(7), info.Term)
			assert.Equal(t, "n2:1", info.Address)
			checked, err := VerifyBackup(t.Context(), bytes.NewReader(saved))
			require.NoError(t, err)
			info.At = checked.At // as it was written, without the monotonic clock
			assert.Equal(t, info, checked)

			dir := filepath.Join(t.TempDir(), "new", "data")
			got, done, err := Restore(t.Context(), dir, iotest.HalfReader(bytes.NewReader(saved)), RestoreOptions{})
			require.NoError(t, err)
			assert.Equal(t, info, got)
			assert.Equal(t, formerCluster, done.Former)
			assert.GreaterOrEqual(t, done.Commit, raft.Index(40), "what the log begins behind is committed")
			stored := loadedFrom(t, dir)
			assertRecovered(t, done, stored, 60)
			assert.Equal(t, raft.EntryID{Term: 1, Index: 40}, stored.Log.Base.ID)
			assert.Equal(t, done.Cluster, stored.Snapshot.Cluster)
			require.NoError(t, stored.Check())
			v, err := Verify(t.Context(), dir)
			require.NoError(t, err)
			require.NoError(t, v.Err())
			assert.Empty(t, v.Findings)
			assert.Equal(t, state, stateIn(t, dir, stored.Snapshot))
			again, info := backUp(t, dir)
			assert.Equal(t, done.Cluster, info.Cluster)
			_, err = VerifyBackup(t.Context(), bytes.NewReader(again))
			require.NoError(t, err)
		})
	}
}

// stateIn returns the bytes of the recorded snapshot.
func stateIn(t *testing.T, dir string, s raft.Snapshot) []byte {
	store, err := Open(dir, Options{})
	require.NoError(t, err)
	defer store.Close()
	_, err = store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	r, err := store.OpenSnapshot(s.File)
	require.NoError(t, err)
	defer r.Close()
	all, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	require.NoError(t, err)
	return all
}

// Without a snapshot, the backup has the whole log, entry 1 among it. The new member may have another identity.
func TestRestore_AnotherMemberFromALogAlone(t *testing.T) {
	saved, info := backUp(t, survivorIn(t, KindSegments, 30))
	assert.Equal(t, uint64(30), info.Entries)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700), "a fresh file system holds it")
	_, done, err := Restore(t.Context(), dir, bytes.NewReader(saved), RestoreOptions{Name: "staging", ID: "s1", Address: "s1:9"})
	require.NoError(t, err)
	assert.Equal(t, raft.NodeID("s1"), done.ID)
	found, err := Inspect(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "staging", found.ClusterName)
	require.Len(t, found.Config.Members, 1)
	assert.Equal(t, raft.Member{ID: "s1", Address: "s1:9", Incarnation: found.Stored.Incarnation}, found.Config.Members[0])
	assert.Equal(t, raft.EntryID{Term: 7 + 1<<32, Index: 31}, found.Stored.Log.Last)
}

// The entries of a long log are restored in batches, each behind the one before.
func TestRestore_ALogOfSeveralBatches(t *testing.T) {
	from := survivorIn(t, KindBolt, 2)
	store, err := Open(from, Options{})
	require.NoError(t, err)
	stored, err := store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	after := stored.Log.Last
	for range 5 {
		e := raft.Entry{Index: after.Index + 1, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, batchBytes/2)}
		require.NoError(t, store.Write(raft.StorageWrite{Log: &raft.LogWrite{After: after, Entries: []raft.Entry{e}}}))
		after = e.ID()
	}
	require.NoError(t, store.Close())
	saved, info := backUp(t, from)
	assert.Equal(t, uint64(7), info.Entries)
	dir := filepath.Join(t.TempDir(), "data")
	_, done, err := Restore(t.Context(), dir, bytes.NewReader(saved), RestoreOptions{})
	require.NoError(t, err)
	assertRecovered(t, done, loadedFrom(t, dir), 7)
}

// The minimum for the application stays in force, and the new member counts as one that meets it.
func TestRestore_AClusterWithAMinimumForTheApplication(t *testing.T) {
	m := raft.Member{ID: "n2", Address: "n2:1", Incarnation: 2, AppVersion: 4}
	config := raft.NewConfiguration([]raft.Member{m})
	config.AppVersionMin, config.Level = 3, 3
	var to bytes.Buffer
	w, err := backup.NewWriter(&to, backup.Head{Name: "orders", Cluster: formerCluster, Member: m, Term: 7, At: time.Now(), Base: raft.Base{
		ID: raft.EntryID{Term: 7, Index: 40}, Cluster: formerCluster, Bootstrapper: m.Peer(), ConfigIndex: 30, Config: config,
	}})
	require.NoError(t, err)
	require.NoError(t, w.Finish())
	dir := filepath.Join(t.TempDir(), "data")
	_, _, err = Restore(t.Context(), dir, &to, RestoreOptions{})
	require.NoError(t, err)
	stored := loadedFrom(t, dir)
	got := stored.Log.Configuration()
	assert.EqualValues(t, 3, got.AppVersionMin)
	assert.EqualValues(t, 3, got.Members[0].AppVersion)
}

// A crash may leave a log that the recorded snapshot contradicts. The next start drops that log, and a backup has none of it.
func TestBackup_ALogThatTheSnapshotReplaces(t *testing.T) {
	for _, kind := range []Kind{KindBolt, KindSegments} {
		dir := survivorIn(t, kind, 60)
		store, err := Open(dir, Options{})
		require.NoError(t, err)
		stored, err := store.Load(t.Context(), survivorN2)
		require.NoError(t, err)
		snapshotIn(t, store, raft.Base{
			ID: raft.EntryID{Term: 3, Index: 40}, Cluster: formerCluster, Bootstrapper: raft.Peer{ID: "n2", Incarnation: 2}, ConfigIndex: 1, Config: stored.Log.Configs[0].Config,
		}, []byte("state"))
		require.NoError(t, store.Close())
		saved, info := backUp(t, dir)
		assert.Equal(t, raft.EntryID{Term: 3, Index: 40}, info.Last)
		assert.Zero(t, info.Entries)
		checked, err := VerifyBackup(t.Context(), bytes.NewReader(saved))
		require.NoError(t, err)
		assert.Equal(t, info.Last, checked.Last)
	}
}

func TestBackup_Refusals(t *testing.T) {
	refused := func(dir string) error {
		t.Helper()
		_, err := Backup(t.Context(), dir, io.Discard)
		require.Error(t, err)
		return err
	}
	require.ErrorIs(t, refused(filepath.Join(t.TempDir(), "nothing")), fs.ErrNotExist)

	fresh := filepath.Join(t.TempDir(), "fresh")
	store, err := OpenLog(fresh, LogOptions{})
	require.NoError(t, err)
	_, err = store.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	require.ErrorIs(t, refused(fresh), raft.ErrLocked)
	require.NoError(t, store.Close())
	var nothing *raft.NotRecoverableError
	require.ErrorAs(t, refused(fresh), &nothing)

	for _, compacted := range []bool{false, true} {
		durable := survivorIn(t, KindSegments, 30)
		store, err = OpenLog(durable, LogOptions{})
		require.NoError(t, err)
		stored, err := store.Load(t.Context(), survivorN2)
		require.NoError(t, err)
		base := raft.Base{
			ID: raft.EntryID{Term: 1, Index: 20}, Cluster: formerCluster, Bootstrapper: raft.Peer{ID: "n2", Incarnation: 2}, ConfigIndex: 1, Config: stored.Log.Configs[0].Config,
		}
		write := raft.StorageWrite{Snapshot: &raft.Snapshot{Base: base}}
		if compacted {
			write.Base = &base
		}
		require.NoError(t, store.Write(write))
		require.NoError(t, store.Close())
		var without *NoStateError
		require.ErrorAs(t, refused(durable), &without)
		assert.Equal(t, base.ID, without.ID)
	}

	marked := survivorIn(t, KindBolt, 3)
	any, err := Open(marked, Options{})
	require.NoError(t, err)
	_, err = any.Load(t.Context(), survivorN2)
	require.NoError(t, err)
	require.NoError(t, any.Write(raft.StorageWrite{Mark: &raft.Mark{Kind: raft.MarkContradicted}}))
	require.NoError(t, any.Close())
	require.Error(t, refused(marked))

	whole, _ := backedUpIn(t, KindSegments)
	snapshots, err := filepath.Glob(filepath.Join(whole, snapshotDir, "*"))
	require.NoError(t, err)
	for _, file := range snapshots {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(file, b, 0o600))
	}
	var damage *raft.CorruptError
	require.ErrorAs(t, refused(whole), &damage)
	broken := errors.New("the tape is full")
	_, err = Backup(t.Context(), survivorIn(t, KindBolt, 3), failingWriter{broken})
	require.ErrorIs(t, err, broken)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// A backup that is cut short or changed leaves nothing on which a member starts.
func TestRestore_ADamagedBackupMakesNoMember(t *testing.T) {
	from, _ := backedUpIn(t, KindSegments)
	saved, _ := backUp(t, from)
	for _, n := range []int{0, 5, 100, 1000, 100_000, len(saved) - 100, len(saved) - 1} {
		for what, b := range map[string][]byte{"cut": saved[:n], "changed": changedAt(saved, n)} {
			dir := filepath.Join(t.TempDir(), "data")
			_, _, err := Restore(t.Context(), dir, bytes.NewReader(b), RestoreOptions{})
			var damaged *DamagedBackupError
			require.ErrorAs(t, err, &damaged, "%s at %d", what, n)
			_, err = VerifyBackup(t.Context(), bytes.NewReader(b))
			require.ErrorAs(t, err, &damaged)
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				continue // the description was damaged, and nothing has begun
			}
			assertUnfinished(t, dir)
		}
	}
}

func changedAt(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 4
	return b
}

// assertUnfinished tries everything that opens a store.
func assertUnfinished(t *testing.T, dir string) {
	t.Helper()
	var unfinished *UnfinishedRestoreError
	_, err := Open(dir, Options{})
	require.ErrorAs(t, err, &unfinished)
	_, err = Inspect(t.Context(), dir)
	require.ErrorAs(t, err, &unfinished)
	_, err = Recover(t.Context(), dir, "orders", RecoverOptions{})
	require.ErrorAs(t, err, &unfinished)
	_, _, err = Restore(t.Context(), dir, bytes.NewReader(nil), RestoreOptions{})
	require.Error(t, err)
}

// The process may end between any two steps. Until the last one, nothing opens the directory.
func TestRestore_InterruptedAnywhere(t *testing.T) {
	from, _ := backedUpIn(t, KindSegments)
	saved, _ := backUp(t, from)
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := Restore(ctx, dir, bytes.NewReader(saved), RestoreOptions{})
	require.ErrorIs(t, err, context.Canceled)
	assertUnfinished(t, dir)
	require.NoError(t, os.RemoveAll(dir))

	_, done, err := Restore(t.Context(), dir, bytes.NewReader(saved), RestoreOptions{})
	require.NoError(t, err)
	there, err := os.ReadDir(dir)
	require.NoError(t, err)
	in := filepath.Join(dir, restoringDir)
	require.NoError(t, os.Mkdir(in, 0o700))
	for i := len(there) - 1; i >= 0; i-- { // as it was before it was moved
		assertUnfinished(t, dir)
		require.NoError(t, os.Rename(filepath.Join(dir, there[i].Name()), filepath.Join(in, there[i].Name())))
	}
	assertUnfinished(t, dir)
	require.NoError(t, moveUp(dir))
	assertRecovered(t, done, loadedFrom(t, dir), 60)
}

func TestRestore_OnlyIntoAnEmptyDirectory(t *testing.T) {
	saved, _ := backUp(t, survivorIn(t, KindSegments, 3))
	for _, dir := range []string{survivorIn(t, KindSegments, 3), survivorIn(t, KindBolt, 3)} {
		before := contentOf(t, dir)
		_, _, err := Restore(t.Context(), dir, bytes.NewReader(saved), RestoreOptions{})
		var there *NotEmptyError
		require.ErrorAs(t, err, &there)
		assert.Equal(t, before, contentOf(t, dir))
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, _, err := Restore(t.Context(), file, bytes.NewReader(saved), RestoreOptions{})
	require.Error(t, err)
	dir := filepath.Join(t.TempDir(), "d")
	_, _, err = Restore(t.Context(), dir, bytes.NewReader(saved), RestoreOptions{ID: "not an id", Address: "a:1"})
	require.Error(t, err)
	assertUnfinished(t, dir) // everything was written, but it has not become a cluster of its own
}

// contentOf returns the content of every file.
func contentOf(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, path))
			all[path] = string(b)
		}
		return err
	}))
	return all
}
