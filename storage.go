package raft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Storage keeps what a member must not forget. Package storage has two: bbolt and memory;
// storage/storagetest proves that another one keeps the contract.
//
// Load is called first and once. Write is called by one goroutine; Entries by several, beside it.
// The node owns the Storage once Start returned nil, and closes it.
type Storage interface {
	// Load formats a blank store with the identity, or checks that the store carries it (else a
	// *IdentityError), raises the boot number, puts the new start at the end of the lineage, syncs
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
	// Fresh is the incarnation that a blank store is formatted with; a formatted store keeps its own.
	Fresh Incarnation
	Nonce uint64 // of this start, random: see BootID
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
	Boot        uint64  // raised durably by every Load; 1 at the first
	Lineage     Lineage // the last starts; Boot is the number of the last one
	Memory      Memory
	Mark        *Mark // nil: none. A node does not start on a store that has one
	Hard        HardState
	Commit      Index // the last hint that became durable; at least Applied
	Applied     EntryID
	Log         StoredLog
}

// StoredLog is what the core keeps of a log: no payloads. Build it with Observe.
type StoredLog struct {
	Last     EntryID
	LastTime int64      // the highest stamp in the log
	Runs     []TermRun  // which term wrote which indexes, in order
	Sizes    []SizeMark // where in the log its bytes are, roughly
	Founding *Founding  // the content of entry 1
}

// TermRun says that the entries from First up to the next run's First carry Term.
type TermRun struct {
	Term  Term
	First Index
}

// SizeMark says that the records up to Index take Bytes bytes. There is one every sizeMarkBytes or
// so: enough to cut appends to size without keeping a number for each entry.
type SizeMark struct {
	Index Index
	Bytes uint64
}

const sizeMarkBytes = 64 << 10

// Observe takes the next entry of a log, from the first to the last, into account. It fails if the
// entry cannot follow the ones before it.
func (s *StoredLog) Observe(e Entry) error {
	if e.Index != s.Last.Index+1 || e.Term < s.Last.Term {
		return fmt.Errorf("raft: entry %v follows entry %v", e.ID(), s.Last)
	}
	if (e.Kind == EntryFounding) != (e.Index == 1) {
		return fmt.Errorf("raft: entry %v is a %v entry", e.ID(), e.Kind)
	}
	if e.Kind == EntryFounding {
		f, err := DecodeFounding(e.Data)
		if err != nil {
			return err
		}
		s.Founding = &f
	}
	s.append(e)
	return nil
}

// append is Observe without the checks.
func (s *StoredLog) append(e Entry) {
	if n := len(s.Runs); n == 0 || s.Runs[n-1].Term != e.Term {
		s.Runs = append(s.Runs, TermRun{e.Term, e.Index})
	}
	s.Last = e.ID()
	s.LastTime = max(s.LastTime, e.Time)
	size := uint64(len(e.Data) + RecordOverheadBytes)
	n := len(s.Sizes)
	switch {
	case n == 0:
		s.Sizes = append(s.Sizes, SizeMark{e.Index - 1, 0}, SizeMark{e.Index, size})
	case n == 1 || size >= sizeMarkBytes || s.Sizes[n-1].Bytes-s.Sizes[n-2].Bytes >= sizeMarkBytes:
		// A large entry has a mark of its own, so that the estimate of its neighbours stays close.
		s.Sizes = append(s.Sizes, SizeMark{e.Index, s.Sizes[n-1].Bytes + size})
	default: // the last mark moves along until it is a mark's length away from the one before it
		s.Sizes[n-1] = SizeMark{e.Index, s.Sizes[n-1].Bytes + size}
	}
}

// truncate drops every entry above after, which must be in the log or be the log's start.
func (s *StoredLog) truncate(after EntryID) {
	keep := sort.Search(len(s.Runs), func(i int) bool { return s.Runs[i].First > after.Index })
	s.Runs = s.Runs[:keep]
	bytes := s.bytesUpTo(after.Index)
	marks := sort.Search(len(s.Sizes), func(i int) bool { return s.Sizes[i].Index >= after.Index })
	s.Sizes = slices.Clip(s.Sizes[:marks])
	if len(s.Sizes) > 0 {
		s.Sizes = append(s.Sizes, SizeMark{after.Index, bytes})
	}
	s.Last = after
	if after.Index == 0 {
		s.Founding = nil
	}
}

// bytesUpTo estimates how many bytes the records up to i take, to within two marks' distance. Each
// truncation adds as much again to the estimate of what follows it.
func (s *StoredLog) bytesUpTo(i Index) uint64 {
	at := sort.Search(len(s.Sizes), func(k int) bool { return s.Sizes[k].Index >= i })
	if at == len(s.Sizes) {
		if at == 0 {
			return 0
		}
		return s.Sizes[at-1].Bytes
	}
	if at == 0 || s.Sizes[at].Index == i {
		return s.Sizes[at].Bytes
	}
	from, to := s.Sizes[at-1], s.Sizes[at]
	return from.Bytes + (to.Bytes-from.Bytes)*uint64(i-from.Index)/uint64(to.Index-from.Index)
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
