package raft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
)

// This file holds the contract of a store. It also holds the check of the state that a member starts from.

// Storage keeps what a member must not forget. Package storage has three; storage/storagetest tests another one's contract.
// Load is called once, first. One goroutine calls Write, and several call Entries at the same time. The node owns the Storage
// once node.Start has returned nil, and closes it.
type Storage interface {
	// Load formats an uninitialized store with the identity, or returns an *IdentityError if the store has another one. It
	// raises the start count and extends the lineage. It syncs the whole store before it returns the state: a killed
	// process may have left parts in the page cache only.
	Load(ctx context.Context, identity Identity) (Stored, error)
	// Write makes w durable in the order Mark, Memory, Hard with Snapshot, Base, Log. Unless w is a reset, it returns a
	// *NotInLogError and writes nothing if Log.After is not in the log. After another error the store is not written to
	// again: the kernel may have dropped the pages.
	Write(w StorageWrite) error
	// Entries returns the first entries of the span, in order: those that fit into bytesMax bytes of records, at least one.
	// The error matches ErrNotStored, or is a *CorruptError, a *LaterVersionError or an *EarlierVersionError.
	Entries(span Span, bytesMax int) ([]Entry, error)
	// Close releases the store. It is idempotent.
	Close() error
}

// SnapshotStorage is a Storage with snapshots, so that the log can begin anywhere. With another Storage the log only grows. A
// wrapper must forward these methods. docs/architecture.md says what else Load and Write do.
type SnapshotStorage interface {
	Storage
	// CreateSnapshot begins a file, which counts once a Write records it. Several goroutines may write different files.
	CreateSnapshot(file SnapshotID) (SnapshotWriter, error)
	// OpenSnapshot opens a finished file.
	OpenSnapshot(file SnapshotID) (SnapshotReader, error)
	// DiscardSnapshot deletes a finished file, if there is one, when its last reader is closed. After an error nobody needs
	// the file, and CreateSnapshot may replace it.
	DiscardSnapshot(file SnapshotID) error
	// FreeBytes returns how many bytes this process may still write where the snapshots are.
	FreeBytes() (int64, error)
	// LogBytes returns about how many bytes the log takes, with entries that Prune has yet to delete.
	LogBytes() int64
	// Prune deletes a bounded number of the entries up to the base. more: some are left. Write's goroutine calls it.
	Prune() (more bool, err error)
}

// RoomStorage is a Storage that takes room for entries in advance, to notice a full disk in time. When it can take no more,
// Write uses what is left, then waits for room: nothing is lost, and no restart is needed. A wrapper must forward the
// methods.
type RoomStorage interface {
	Storage
	// Room returns an error while no more room can be taken: a leader then accepts no proposals. Any goroutine may call it,
	// for each proposal.
	Room() error
	// GiveUp fails a Write that waits for room, and every later Write that would wait. The node calls it when the node
	// ends, even if the Storage has no method Room.
	GiveUp()
}

// DiskStorage is a Storage that knows the size of its disk, so that the node can warn of a small one. A wrapper should
// forward the method.
type DiskStorage interface {
	Storage
	// DiskBytes returns the size of the store's files, and how many bytes more this process may write there. The error says
	// why that is not known. The node calls it at the start and after each snapshot.
	DiskBytes() (used, free int64, err error)
}

// SnapshotWriter writes the bytes of one snapshot. One goroutine uses it.
type SnapshotWriter interface {
	io.Writer
	// Finish checks s.Size and s.Sum, and makes the file and its name durable before it returns.
	Finish(s Snapshot) error
	// Abort deletes the unfinished file. It is idempotent, and does nothing after Finish has returned nil.
	Abort() error
}

// SnapshotReader reads one snapshot; damaged bytes are a *CorruptError.
type SnapshotReader interface {
	io.ReaderAt
	Size() int64
	Close() error
}

// Identity says which member a store belongs to.
type Identity struct {
	Cluster string // node.Config.Cluster
	ID      NodeID
	Fresh   Incarnation // for an uninitialized store; a formatted one keeps its own
	Nonce   uint64      // of this start, random: see StartID
}

// StorageWrite is the part of one or several merged Writes that a Storage makes durable. Nil or 0 leaves a part unchanged.
type StorageWrite struct {
	Hard     *HardState
	Snapshot *Snapshot // see Write.Snapshot; recorded in one step with Hard
	Base     *Base     // see Write.Base
	Log      *LogWrite
	Commit   Index      // a hint, never a reason to sync
	Memory   *Sightings // replaces the stored one
	Mark     *Mark      // kept forever; ignored if there is one already
}

// Stored is the stored state from which a member starts.
type Stored struct {
	File        string // which holds Hard, for errors; "": none
	Incarnation Incarnation
	StartCount  uint64  // raised durably by every Load; 1 at the first
	Lineage     Lineage // the latest starts; StartCount is the count of the last one
	Memory      Sightings
	Mark        *Mark // nil: none. A node does not start on a marked store
	Hard        HardState
	Commit      Index // the last hint that became durable; at least Applied
	Applied     EntryID
	Snapshot    Snapshot // the recorded one; zero: none
	Log         StoredLog
	LeftOver    []string // what Load removed after a crash: unrecorded snapshots, unfinished writes, copies of the log
}

// ErrNotStored: Entries was asked for an entry that the log does not hold, because it was truncated or never written.
var ErrNotStored = errors.New("raft: entry not in the log")

// NotInLogError refuses a write after After, which the log from after Start up to Last does not hold. Nothing was written. It
// is a bug in the caller: report it with all fields.
type NotInLogError struct{ After, Start, Last EntryID }

func (e *NotInLogError) Error() string {
	return fmt.Sprintf("raft: cannot write behind entry %v, which is not in the log (from behind %v up to %v); nothing was written: "+
		"this is a bug, report it", e.After, e.Start, e.Last)
}

// ErrLocked: another process has the store open. End it, but keep the lock.
var ErrLocked = errors.New("raft: data directory is in use by another process: end it, or name another directory")

// IdentityError refuses a store of another member or cluster. Nothing was changed. Correct the directory or the identity.
type IdentityError struct {
	What          string // "cluster" or "member id"
	Stored, Given string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("raft: the data belongs to %s %q, not to %q: check the data directory and the configuration",
		e.What, e.Stored, e.Given)
}

// LaterVersionError says that only a later release can read a record. It is not damage, and nothing was changed on the disk.
// Start the later release.
type LaterVersionError struct {
	File         string // of the store; "": the record came from a peer
	Record       string // its name and, of an entry, the part
	Found, Known uint64 // its version, and the newest that this release knows
}

func (e *LaterVersionError) Error() string {
	in := ""
	if e.File != "" {
		in = " in " + e.File
	}
	return fmt.Sprintf("raft: %s%s was written by a later release: it has version %d, and this release knows versions up to %d: "+
		"start the newer release; nothing was changed on the disk: see docs/runbook.md#ended", e.Record, in, e.Found, e.Known)
}

// EarlierVersionError says that this release no longer reads a record of an earlier one. It is not damage, and nothing was
// changed on the disk. Start the earlier release or, if all data of the cluster may be lost, empty the directories of all
// members.
type EarlierVersionError struct {
	File          string // of the store; "": the record came from a peer
	Record        string // its name and, of an entry, the part
	Found, Oldest uint64 // its version, and the oldest that this release reads
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

// CorruptError says that stored bytes are damaged. The member must not run on them, or on an older copy: it may have forgotten
// promises. Set the store aside (storage.SetAside), start with an empty one, and replace the member (Node.ReplaceMember).
// member.Config.SetAside does all of that.
type CorruptError struct {
	File   string
	Where  string // the record, or the offset in the file; "": the file is missing
	Reason error
	// Cluster is that of the store, if it could be read in spite of the damage; zero: it could not.
	Cluster ClusterID
}

func (e *CorruptError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("raft: %s is missing: %v; put the file back if it was moved, or else set the store aside "+
			"(storage.SetAside), start with an empty one and replace the member (Node.ReplaceMember); member.Config.SetAside does all of that: see docs/runbook.md#ended", e.File, e.Reason)
	}
	return fmt.Sprintf("raft: %s is damaged at %s: %v; keep the file for inspection: set the store aside "+
		"(storage.SetAside), start with an empty one and replace the member (Node.ReplaceMember); member.Config.SetAside does all of that: see docs/runbook.md#ended", e.File, e.Where, e.Reason)
}

func (e *CorruptError) Unwrap() error { return e.Reason }

// Check returns an error if no member can start from the stored state: a *CorruptError, a *LaterVersionError, or one about what
// a DurableFSM has applied.
func (s *Stored) Check() error {
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

// restores reports whether the FSM must restore the recorded snapshot, and can continue from there.
func (s *Stored) restores() bool {
	return s.Snapshot.File != SnapshotID{} && s.Snapshot.ID.Index > s.Applied.Index && s.Snapshot.ID.Index >= s.Log.Base.ID.Index
}
