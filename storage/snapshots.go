package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

// snapshotDir is the directory of the snapshots, beside BoltFile.
const snapshotDir = "snapshots"

// snapshotFiles are the files of a store's snapshots. Of the methods of raft.SnapshotStorage, snapshotFiles has those that
// need neither the log nor a lock.
type snapshotFiles struct {
	dir *snapfile.Dir // set before Load
	// recorded is the recorded snapshot. It is zero if there is no recorded snapshot, and nil before Load and after Close.
	recorded atomic.Pointer[raft.Snapshot]
}

// ready returns an error before Load and after Close.
func (s *snapshotFiles) ready() error {
	if s.recorded.Load() == nil {
		return fmt.Errorf("%w, or not loaded yet: snapshots", ErrStoreClosed)
	}
	return nil
}

// CreateSnapshot begins a file, as raft.SnapshotStorage says.
func (s *snapshotFiles) CreateSnapshot(file raft.SnapshotID) (raft.SnapshotWriter, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	w, err := s.dir.Create(file)
	if err != nil {
		return nil, fmt.Errorf("storage: creating snapshot %v: %w", file, err)
	}
	return w, nil
}

// OpenSnapshot opens a finished file, as raft.SnapshotStorage says. If the file is that of the recorded snapshot,
// OpenSnapshot also checks that the file agrees with the record.
func (s *snapshotFiles) OpenSnapshot(file raft.SnapshotID) (raft.SnapshotReader, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	if recorded := s.recorded.Load(); recorded != nil && recorded.File == file {
		return opened(s.dir.OpenRecorded(*recorded))
	}
	return opened(s.dir.OpenRead(file))
}

func opened(r *snapfile.Reader, err error) (raft.SnapshotReader, error) {
	if err != nil {
		return nil, explainSnapshot(err)
	}
	return r, nil
}

// explainSnapshot wraps an error, unless it already says what to do.
func explainSnapshot(err error) error {
	if isTyped(err) {
		return err
	}
	return withRemedy(fmt.Errorf("storage: opening a snapshot: %w", err))
}

// DiscardSnapshot deletes a finished file, as raft.SnapshotStorage says. It does not delete the file of the recorded
// snapshot, because the next start needs that file.
func (s *snapshotFiles) DiscardSnapshot(file raft.SnapshotID) error {
	if err := s.ready(); err != nil {
		return err
	}
	if recorded := s.recorded.Load(); recorded != nil && recorded.File == file {
		return fmt.Errorf("storage: %s is the recorded snapshot and cannot be discarded", s.dir.Path(file))
	}
	if err := s.dir.Discard(file); err != nil {
		return fmt.Errorf("storage: discarding a snapshot: %w", err)
	}
	return nil
}

// FreeBytes returns how many more bytes this process may write in the directory of the snapshots.
func (s *snapshotFiles) FreeBytes() (int64, error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	free, err := s.dir.Free()
	if err != nil {
		return 0, fmt.Errorf("storage: free space for snapshots: %w", err)
	}
	return free, nil
}

// DiskBytes returns how many bytes the store takes on its disk, and how many are free there. If the directory log or snapshots
// is on another mount, the error matches errors.ErrUnsupported.
func (b *boltStore) DiskBytes() (used, free int64, err error) {
	dir := filepath.Dir(b.path)
	mount, err := files.OS.Mount(dir)
	if err != nil {
		return 0, 0, explain("measuring", dir, err)
	}
	info, err := os.Stat(b.path)
	if err != nil {
		return 0, 0, explain("measuring", b.path, err)
	}
	used = info.Size()
	for _, part := range []string{filepath.Join(dir, LogDir), filepath.Join(dir, snapshotDir)} {
		list, exists, err := listed(files.OS, part)
		if !exists && err == nil {
			continue
		}
		at := mount
		if err == nil {
			at, err = files.OS.Mount(part)
		}
		if err == nil && at != mount {
			err = errors.ErrUnsupported
		}
		if err != nil {
			return 0, 0, explain("measuring", part, err)
		}
		used += bytesOf(list)
	}
	free, err = files.OS.Free(dir)
	if err != nil {
		return 0, 0, explain("measuring", dir, err)
	}
	return used, free, nil
}

// check returns an error unless a start can use the file of the recorded snapshot. A snapshot without a file needs no check,
// because it only records how far the FSM is durable.
func (s *snapshotFiles) check(recorded raft.Snapshot) error {
	if recorded.File == (raft.SnapshotID{}) {
		return nil
	}
	r, err := s.dir.OpenRecorded(recorded)
	if err != nil {
		return explainSnapshot(err)
	}
	return r.Close()
}

// recordable returns an error unless the next start can use the base and the snapshot that the write records.
func (s *snapshotFiles) recordable(w raft.StorageWrite) error {
	if w.Base != nil {
		if err := w.Base.Check(); err != nil {
			return err
		}
	}
	if w.Snapshot == nil {
		return nil
	}
	if w.Snapshot.Held {
		return fmt.Errorf("storage: the snapshot of entry %v is in memory; only a snapshot in a file can be recorded", w.Snapshot.ID)
	}
	if err := w.Snapshot.Check(); err != nil {
		return err
	}
	return s.check(*w.Snapshot)
}

// begin removes the files that no record names, and enables the other methods. If the store is marked, begin keeps all files
// as evidence. One of them may be a snapshot from a leader, with entries that the other members have lost.
func (s *snapshotFiles) begin(recorded raft.Snapshot, marked bool) (leftOver []string, err error) {
	if marked {
		s.recorded.Store(&recorded)
		return nil, nil
	}
	if leftOver, err = s.dir.Clean(recorded.File); err != nil {
		return nil, withRemedy(fmt.Errorf("storage: removing unrecorded snapshots: %w", err))
	}
	s.recorded.Store(&recorded)
	return leftOver, nil
}

// noteRecorded remembers the snapshot that a write recorded. If the write recorded none, snapshot is nil.
func (s *snapshotFiles) noteRecorded(snapshot *raft.Snapshot) {
	if snapshot != nil {
		recorded := *snapshot
		s.recorded.Store(&recorded)
	}
}

// baseAfterReset returns the base of a log that a reset makes begin after the entry.
func baseAfterReset(after raft.EntryID, w raft.StorageWrite, recorded raft.Snapshot, before raft.Base) raft.Base {
	switch {
	case after == raft.EntryID{}:
		return raft.Base{}
	case w.Base != nil && w.Base.ID == after:
		return *w.Base
	case recorded.ID == after:
		return recorded.Base
	case before.ID == after:
		return before
	}
	return raft.Base{ID: after}
}

// isReset reports whether the write drops the whole log and begins a new log after the entry.
func isReset(w *raft.LogWrite, after raft.EntryID) bool {
	return w != nil && w.Reset && w.After == after
}

// installInterrupted reports whether a crash interrupted the installation of the recorded snapshot. That is so if the log
// begins before the last entry of the snapshot, and does not hold that entry.
func installInterrupted(log *raft.StoredLog, recorded raft.Snapshot) bool {
	if recorded.ID.Index <= log.Base.ID.Index {
		return false
	}
	return idAt(log, recorded.ID.Index) != recorded.ID
}

// idAt returns the id of the log's entry at an index above the base. If there is no such entry, idAt returns the zero id.
func idAt(log *raft.StoredLog, i raft.Index) (id raft.EntryID) {
	if i > log.Last.Index {
		return raft.EntryID{}
	}
	for _, run := range log.Runs {
		if run.First <= i {
			id = raft.EntryID{Term: run.Term, Index: i}
		}
	}
	return id
}

// emptyLog returns a log without entries. The log begins after the base, which may be zero.
func emptyLog(base raft.Base) (log raft.StoredLog) {
	if base.ID != (raft.EntryID{}) {
		log.Begin(base)
	}
	return log
}
