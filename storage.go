package raft

import (
	"context"
	"errors"
	"fmt"
)

// Storage keeps what a member must not forget. Package storage has two: bbolt and memory;
// storage/storagetest proves that another one keeps the contract.
//
// Load is called first and once. Write is called by one goroutine; Entries by several, beside it.
// The node owns the Storage once Start returned nil, and closes it.
type Storage interface {
	// Load formats an uninitialized store with the identity, or checks that the store carries it (else a
	// *IdentityError), raises the start count, puts the new start at the end of the lineage, syncs
	// everything that it keeps, term and vote included, and returns it. What a killed process left in
	// the page cache is not on the disk until then.
	Load(ctx context.Context, identity Identity) (Stored, error)
	// Write makes the step durable before it returns: Mark, Memory, Hard, then Log. A Log.After that is not
	// in the log is a *NotInLogError, unless the write is a reset, and nothing is written. After an error the
	// store is not written to again: the kernel may have dropped the pages that it could not write.
	Write(w StorageWrite) error
	// Entries returns the entries of the span in order, from the first one on, as many as fit into
	// bytesMax bytes of records, and at least one. An entry that is missing is an error that
	// matches ErrNotStored, a damaged one a *CorruptError, one of a later release a *LaterVersionError, one
	// that only an earlier release can read an *EarlierVersionError.
	Entries(span Span, bytesMax int) ([]Entry, error)
	// Close releases the store. It is idempotent.
	Close() error
}

// Identity is whose data a store holds.
type Identity struct {
	Cluster string // node.Config.Cluster
	ID      NodeID
	// Fresh is the incarnation that an uninitialized store is formatted with; a formatted store keeps its own.
	Fresh Incarnation
	Nonce uint64 // of this start, random: see StartID
}

// StorageWrite is the part of a Write, or of several merged ones, that a Storage gets.
type StorageWrite struct {
	Hard   *HardState
	Log    *LogWrite
	Commit Index   // a hint, never a reason to sync; 0 = unchanged
	Memory *Memory // in place of the one before
	Mark   *Mark   // kept for ever, unless there is one already
}

// Stored is what a restart starts from.
type Stored struct {
	Incarnation Incarnation
	StartCount  uint64  // raised durably by every Load; 1 at the first
	Lineage     Lineage // the last starts; Start count is the number of the last one
	Memory      Memory
	Mark        *Mark // nil: none. A node does not start on a store that has one
	Hard        HardState
	Commit      Index // the last hint that became durable; at least Applied
	Applied     EntryID
	Log         StoredLog
}

// ErrNotStored is matched by the error of Entries for an entry that the log does not hold: it was
// truncated, or never written.
var ErrNotStored = errors.New("raft: entry not in the log")

// NotInLogError refuses a write that would go on behind an entry which the log does not hold. Nothing was
// written. Whoever wrote is wrong about the log: report it, with both ends.
type NotInLogError struct {
	After EntryID // of the write
	Start EntryID // the log begins behind it
	Last  EntryID
}

func (e *NotInLogError) Error() string {
	return fmt.Sprintf("raft: a write behind entry %v, which is not in the log (from behind %v up to %v); nothing was written: "+
		"this is a bug, report it", e.After, e.Start, e.Last)
}

// ErrLocked is matched by the error of opening a store that another process has open. Stop that
// process; do not remove the lock.
var ErrLocked = errors.New("raft: data directory is in use by another process: end it, or name another directory")

// IdentityError says that a store belongs to somebody else: the configuration names the wrong
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
	Record string // which one, and, of an entry, what in it
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
	Record string // which one, and, of an entry, what in it
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

// CorruptError says that stored bytes are damaged. The member must not go on: it has forgotten
// promises, and an older copy of the file has too. Keep the file for inspection, remove the member
// from the cluster and add it again with an empty store. Members cannot be changed yet: see ErrWiped
// for what to do until they can.
type CorruptError struct {
	File   string
	Where  string // the record, or the offset in the file
	Reason error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("raft: %s is damaged at %s: %v; keep the file for inspection, remove the member from the cluster, "+
		"and add it again with an empty store", e.File, e.Where, e.Reason)
}

func (e *CorruptError) Unwrap() error { return e.Reason }
