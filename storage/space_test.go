package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
)

// spaceOf is a store whose directory is looked at.
type spaceOf struct {
	raft.SnapshotStorage
	t        *testing.T
	dir      string
	open     func(dir string) (raft.Storage, error)
	last     raft.EntryID
	recorded raft.Snapshot
	number   byte // of the last snapshot
}

func (s *spaceOf) load() {
	store, err := s.open(s.dir)
	require.NoError(s.t, err)
	s.SnapshotStorage = store.(raft.SnapshotStorage)
	_, err = store.Load(context.Background(), member)
	require.NoError(s.t, err)
}

// fill appends entries that take several segments.
func (s *spaceOf) fill() {
	for range 30 {
		w := raft.StorageWrite{Log: &raft.LogWrite{After: s.last}}
		for range 10 {
			s.last.Index++
			s.last.Term = 1
			w.Log.Entries = append(w.Log.Entries, raft.Entry{Index: s.last.Index, Term: 1, Kind: raft.EntryCommand, Data: make([]byte, 1<<10)})
		}
		require.NoError(s.t, s.Write(w))
	}
}

// begin writes a part of a snapshot of an entry that lies beyond the log.
func (s *spaceOf) begin() (raft.Snapshot, raft.SnapshotWriter) {
	s.number++
	data := make([]byte, 100_000)
	described := described(raft.EntryID{Term: 1, Index: s.last.Index + 1000}, s.number, data)
	w, err := s.CreateSnapshot(described.File)
	require.NoError(s.t, err)
	_, err = w.Write(data)
	require.NoError(s.t, err)
	return described, w
}

func (s *spaceOf) finished() raft.Snapshot {
	snapshot, w := s.begin()
	require.NoError(s.t, w.Finish(snapshot))
	return snapshot
}

// installed records that the snapshot has replaced the log and the recorded snapshot.
func (s *spaceOf) installed(snapshot raft.Snapshot) {
	old := s.recorded
	s.recorded, s.last = snapshot, snapshot.ID
	if old.Size > 0 {
		require.NoError(s.t, s.DiscardSnapshot(old.File))
	}
	for more := true; more; {
		var err error
		more, err = s.Prune()
		require.NoError(s.t, err)
	}
}

// awaitNothing waits until the directory holds the file of the recorded snapshot, at most five segments of 32 KiB, and no
// other file of a snapshot. A segment is prepared in the background.
func (s *spaceOf) awaitNothing(after string) {
	snapshots, segments := 0, int64(0)
	ok := assert.Eventually(s.t, func() bool {
		list, err := os.ReadDir(filepath.Join(s.dir, "snapshots"))
		require.NoError(s.t, err)
		snapshots, segments = len(list), 0
		list, _ = os.ReadDir(filepath.Join(s.dir, "log"))
		for _, file := range list {
			if info, err := file.Info(); err == nil && strings.HasSuffix(file.Name(), ".seg") {
				segments += info.Size()
			}
		}
		return snapshots == 1 && segments <= 5*32<<10 && s.LogBytes() < 16<<10
	}, time.Minute, time.Millisecond)
	require.True(s.t, ok, "after %s: %d files of snapshots, %d bytes of segments, %d of entries", after, snapshots, segments, s.LogBytes())
	r, err := s.OpenSnapshot(s.recorded.File)
	require.NoError(s.t, err)
	require.NoError(s.t, r.Close())
}

// A store keeps one snapshot and a few segments, however installations end.
func TestStores_KeepNoSpaceBehindAnInstallation(t *testing.T) {
	for kind, open := range map[string]func(string) (raft.Storage, error){"bbolt": openBolt, "segments": openLog} {
		t.Run(kind, func(t *testing.T) {
			leaks.Check(t)
			s := &spaceOf{t: t, dir: t.TempDir(), open: open}
			s.load()
			t.Cleanup(func() { _ = s.Close() })
			for range 2 {
				s.fill()
				_, cancelled := s.begin()
				require.NoError(t, cancelled.Abort())
				snapshot, failed := s.begin()
				snapshot.Sum++
				require.Error(t, failed.Finish(snapshot))
				require.NoError(t, failed.Abort())
				require.NoError(t, s.DiscardSnapshot(s.finished().File))
				snapshot = s.finished()
				require.NoError(t, s.Write(raft.StorageWrite{Snapshot: &snapshot, Log: &raft.LogWrite{After: snapshot.ID, Reset: true}}))
				s.installed(snapshot)
				s.awaitNothing("an installation")

				s.fill()
				_, cut := s.begin() // a stream that is not complete
				s.finished()        // a snapshot that arrived and was not recorded
				snapshot = s.finished()
				require.NoError(t, s.Write(raft.StorageWrite{Snapshot: &snapshot}))
				require.NoError(t, s.Close())
				s.recorded = raft.Snapshot{} // Load deletes its file
				s.load()
				s.installed(snapshot)
				s.awaitNothing("a restart in the middle of one")
				_ = cut.Abort() // its file is gone
			}
		})
	}
}
