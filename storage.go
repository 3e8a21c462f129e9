package raft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
)

// This file holds the contract of a store, and the check of what a member starts from.

// Storage keeps what a member must not forget. Package storage has three: with the log in segments, in bbolt,
// and in memory; package storage/storagetest tests whether another one keeps the contract.
//
// Load is called once, before the other methods. Write is called by one goroutine; Entries by several, at the same
// time as Write. The node owns the Storage once node.Start has returned nil, and closes it.
type Storage interface {
	// Load formats an uninitialized store with the identity, or checks that the store carries it (else a
	// *IdentityError). It raises the start count and adds the new start to the lineage. Then it syncs everything
	// that the store holds, term and vote included, and returns it: without that sync, what a killed process left
	// in the page cache would not be on the disk.
	Load(ctx context.Context, identity Identity) (Stored, error)
	// Write makes the parts of w durable, in the order Mark, Memory, then Hard and Snapshot together, then Base, then
	// Log, before it returns. Snapshot and Base are only given to a SnapshotStorage. If Log.After is
	// not in the log, it returns a *NotInLogError and writes nothing, unless the write is a reset. After an error
	// the store is not written to again: the kernel may have dropped the pages that it could not write.
	Write(w StorageWrite) error
	// Entries returns the first entries of the span, in order: as many as fit into bytesMax bytes of records, but
	// at least one. The error matches ErrNotStored if an entry is missing; it is a *CorruptError if one is
	// damaged, a *LaterVersionError or an *EarlierVersionError if only such a release can read it.
	Entries(span Span, bytesMax int) ([]Entry, error)
	// Close releases the store. It is idempotent.
	Close() error
}

// SnapshotStorage is a Storage that also keeps snapshots, so that the log can begin anywhere. A node whose Storage is
// not one takes no snapshots, and its log only grows. A type that wraps a Storage must pass these methods on.
//
// Load then also returns the recorded snapshot, after it has checked that its file is complete: a *CorruptError if not.
// The record alone counts, and Load deletes every other file of a snapshot, unless the store is marked: then they are
// evidence. If the log neither holds the entry of the
// recorded snapshot nor begins at it or behind it, a crash has interrupted the installation of that snapshot: Load then
// drops the whole log durably, and returns one that begins behind the snapshot's Base.
//
// Write also makes StorageWrite.Snapshot and Base durable. Once a Base is durable, the log begins behind it: Entries
// treats what lies at or below it as not stored, and Prune may delete it.
type SnapshotStorage interface {
	Storage
	// CreateSnapshot begins a file, of which no Load counts anything before a Write records it. Several goroutines may
	// write different files, at the same time as Write.
	CreateSnapshot(file SnapshotID) (SnapshotWriter, error)
	// OpenSnapshot opens a finished file.
	OpenSnapshot(file SnapshotID) (SnapshotReader, error)
	// DiscardSnapshot deletes a finished file, or none if there is no such file. A file that is open for reading is
	// deleted when its last reader is closed. After an error nobody needs the file, and CreateSnapshot may replace it.
	DiscardSnapshot(file SnapshotID) error
	// FreeBytes returns how many bytes this process may still write where the snapshots are.
	FreeBytes() (int64, error)
	// LogBytes returns about how many bytes the entries of the log take, with those that Prune has not deleted yet.
	LogBytes() int64
	// Prune deletes some of the entries at or below the base, a bounded number of them, and reports whether more are
	// left. The goroutine of Write calls it.
	Prune() (more bool, err error)
}

// RoomStorage is a Storage that takes the room for entries before they are written, so that it knows of a full disk in time.
// A type that wraps a Storage must pass these methods on.
//
// When it cannot take more room, Write goes on as long as there is some left. Then it waits until the disk has room again:
// nothing is lost, and the node need not be restarted.
type RoomStorage interface {
	Storage
	// Room returns an error while no more room can be taken. A leader accepts no proposals then. Any goroutine may call it; it
	// is called for each proposal.
	Room() error
	// GiveUp ends a Write that waits for room, with an error, and every later one that would wait. The node calls it when it
	// ends, also of a Storage that has only this one of the two methods.
	GiveUp()
}

// DiskStorage is a Storage that knows how large its disk is, so that the node can say that it is too small. A type that wraps a
// Storage should pass this method on.
type DiskStorage interface {
	Storage
	// DiskBytes returns how many bytes the files of the store take, and how many more this process may write there. The
	// error says why that is not known. The node calls it when it starts, and after each snapshot.
	DiskBytes() (used, free int64, err error)
}

// SnapshotWriter writes the bytes of one snapshot. One goroutine uses it.
type SnapshotWriter interface {
	io.Writer
	// Finish checks that s.Size and s.Sum are those of the bytes written, and makes the file durable, its name included,
	// before it returns.
	Finish(s Snapshot) error
	// Abort deletes the unfinished file. It is idempotent, and does nothing after Finish has returned nil.
	Abort() error
}

// SnapshotReader reads the bytes of one snapshot. It checks what it reads: damaged bytes are a *CorruptError.
type SnapshotReader interface {
	io.ReaderAt
	Size() int64
	Close() error
}

// Identity says which member a store belongs to.
type Identity struct {
	Cluster string // node.Config.Cluster
	ID      NodeID
	// Fresh is the incarnation that an uninitialized store is formatted with; a formatted store keeps its own.
	Fresh Incarnation
	Nonce uint64 // of this start, random: see StartID
}

// StorageWrite is the part of a Write, or of several merged ones, that a Storage makes durable.
type StorageWrite struct {
	Hard     *HardState
	Snapshot *Snapshot // see Write.Snapshot; recorded in one step with Hard. Nil = unchanged
	Base     *Base     // see Write.Base; nil = unchanged
	Log      *LogWrite
	Commit   Index   // a hint, never a reason to sync; 0 = unchanged
	Memory   *Memory // replaces the stored one; nil = unchanged
	Mark     *Mark   // kept forever; ignored if there is one already
}

// Stored is the stored state from which a member starts.
type Stored struct {
	File        string // which holds Hard, for errors; "" if there is none
	Incarnation Incarnation
	StartCount  uint64  // raised durably by every Load; 1 at the first
	Lineage     Lineage // the latest starts; StartCount is the count of the last one
	Memory      Memory
	Mark        *Mark // nil: none. A node does not start on a marked store
	Hard        HardState
	Commit      Index // the last hint that became durable; at least Applied
	Applied     EntryID
	Snapshot    Snapshot // the recorded one; zero if there is none
	Log         StoredLog
	// LeftOver names what a crash has left and Load has removed: files of snapshots that nothing recorded, a write at
	// the end of the log that had not ended, and a copy of the log that was not complete, or is not needed any more.
	LeftOver []string
}

// ErrNotStored is matched by the error of Entries for an entry that the log does not hold: it was
// truncated, or never written.
var ErrNotStored = errors.New("raft: entry not in the log")

// NotInLogError refuses a write behind an entry that the log does not hold. Nothing was written. It is a bug in the
// caller: report it with all three fields.
type NotInLogError struct {
	After EntryID // of the write
	Start EntryID // the log begins behind it
	Last  EntryID
}

func (e *NotInLogError) Error() string {
	return fmt.Sprintf("raft: cannot write behind entry %v, which is not in the log (from behind %v up to %v); nothing was written: "+
		"this is a bug, report it", e.After, e.Start, e.Last)
}

// ErrLocked is matched by the error of opening a store that another process has open. Stop that
// process; do not remove the lock.
var ErrLocked = errors.New("raft: data directory is in use by another process: end it, or name another directory")

// IdentityError says that a store belongs to another member or another cluster: the configuration names the wrong
// directory, or the wrong member. Nothing was changed.
type IdentityError struct {
	What   string // "cluster" or "member id"
	Stored string
	Given  string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("raft: the data belongs to %s %q, not to %q: check the data directory and the configuration",
		e.What, e.Stored, e.Given)
}

// LaterVersionError says that a record was written by a later release, in a version that this one does
// not know. It is not damage. Start the newer release; nothing was changed on the disk.
type LaterVersionError struct {
	File   string // of the store; empty if the record came from a peer
	Record string // names the record and, of an entry, the part
	Found  uint64 // its version
	Known  uint64 // the newest that this release knows
}

func (e *LaterVersionError) Error() string {
	in := ""
	if e.File != "" {
		in = " in " + e.File
	}
	return fmt.Sprintf("raft: %s%s was written by a later release: it has version %d, and this release knows versions up to %d: "+
		"start the newer release; nothing was changed on the disk", e.Record, in, e.Found, e.Known)
}

// EarlierVersionError says that a record was written by an earlier release, in a version that this one no
// longer reads. It is not damage; nothing was changed on the disk. Start the earlier release. If the data of
// the whole cluster may be lost, empty the data directories of all its members and start them again.
type EarlierVersionError struct {
	File   string // of the store; empty if the record came from a peer
	Record string // names the record and, of an entry, the part
	Found  uint64 // its version
	Oldest uint64 // the oldest that this release reads
}

func (e *EarlierVersionError) Error() string {
	in := ""
	if e.File != "" {
		in = " in " + e.File
	}
	return fmt.Sprintf("raft: %s%s was written by an earlier release: it has version %d, and this release reads versions from %d on: "+
		"start the earlier release, or, if the data of the whole cluster may be lost, empty the data directories of all members and start them again; "+
		"nothing was changed on the disk", e.Record, in, e.Found, e.Oldest)
}

// CorruptError says that stored bytes are damaged. The member must not run on them: it may have forgotten
// promises, and so has an older copy of the file. Set the store aside (storage.SetAside), start the member with an
// empty one, and let the leader replace it (Node.ReplaceMember).
type CorruptError struct {
	File   string
	Where  string // the record, or the offset in the file; empty: the file is missing
	Reason error
}

func (e *CorruptError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("raft: %s is missing: %v; put the file back if it was moved, or else set the store aside "+
			"(storage.SetAside), start with an empty one and replace the member (Node.ReplaceMember)", e.File, e.Reason)
	}
	return fmt.Sprintf("raft: %s is damaged at %s: %v; keep the file for inspection: set the store aside "+
		"(storage.SetAside), start with an empty one and replace the member (Node.ReplaceMember)", e.File, e.Where, e.Reason)
}

func (e *CorruptError) Unwrap() error { return e.Reason }

// check returns an error if no member can start from the stored state.
func (s *Stored) check() error {
	base, last := s.Log.Base.ID, s.Log.Last
	if level := s.Log.config().Config.Level; level > featureLevelMax {
		return laterLevel(level)
	}
	if base.Index > 0 {
		if err := s.Log.Base.Check(); err != nil {
			return &CorruptError{File: "the stored log", Where: "its base", Reason: err}
		}
	}
	if err := s.checkSnapshot(); err != nil {
		return &CorruptError{File: "the stored snapshot", Where: "entry " + s.Snapshot.ID.String(), Reason: err}
	}
	if last.Term > s.Hard.Term {
		err := fmt.Errorf("entry %v of the log is newer (if this is an older copy, putting back the newest one is enough)", last)
		return &CorruptError{File: cmp.Or(s.File, "the stored state"), Where: fmt.Sprintf("the stored term %d", s.Hard.Term), Reason: err}
	}
	if s.Applied.Index < base.Index {
		if !s.restores() {
			return &AppliedBelowBaseError{s.Applied, base}
		}
		return nil
	}
	if l := newLog(s.Log); !l.has(s.Applied) {
		return &AppliedBeyondLogError{s.Applied, last}
	}
	return nil
}

// checkSnapshot checks the recorded snapshot, if there is one.
func (s *Stored) checkSnapshot() error {
	if s.Snapshot.ID == (EntryID{}) {
		return nil
	}
	if err := s.Snapshot.Check(); err != nil {
		return err
	}
	if l := newLog(s.Log); !l.has(s.Snapshot.ID) {
		return fmt.Errorf("the log does not hold that entry: it begins behind entry %v and ends at %v", s.Log.Base.ID, s.Log.Last)
	}
	return nil
}

// restores reports whether the FSM has to become the recorded snapshot, and can go on from there.
func (s *Stored) restores() bool {
	return s.Snapshot.File != SnapshotID{} && s.Snapshot.ID.Index > s.Applied.Index && s.Snapshot.ID.Index >= s.Log.Base.ID.Index
}
