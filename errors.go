package raft

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors of the node's methods sort by what the caller should do.
var (
	// ErrOverloaded: a limit of Config is reached; not applied. Back off and try again.
	ErrOverloaded = errors.New("raft: overloaded: too much is waiting; not applied, try again later")
	// ErrClosed: the node was closed, or ended because of an error (see Node.Err); not applied.
	ErrClosed = errors.New("raft: node is closed; not applied")
	// ErrOutcomeUnknown: the command may or may not be applied, now or later. Do not retry it
	// blindly: read the state first, or make commands idempotent.
	ErrOutcomeUnknown = errors.New("raft: outcome unknown: the command may or may not be applied")
	// ErrWiped: the cluster's configuration names this member's id with another incarnation, because its
	// disk was emptied. The member does not count until the leader replaces it: see Node.ReplaceMember.
	ErrWiped = errors.New("raft: the cluster knows this member with another incarnation: its disk was emptied; replace it: Node.ReplaceMember on the leader")
	// ErrNoTarget: there is no such voter to transfer leadership to, or it has not been heard from. Nothing
	// changed.
	ErrNoTarget = errors.New("raft: leadership was not transferred: there is no such voter, or it has not been heard from")
	// ErrTransferTimedOut: the transfer did not succeed in time. This member may still lead, or lose its
	// leadership to the target later. Look at Status, and try again.
	ErrTransferTimedOut = errors.New("raft: the transfer of leadership did not end in time")
	// ErrWithinFSM: the FSM, or a function of Read, called a method of its node that waits for the FSM itself.
	// Such a call is refused after a quarter of a second at most. A proposal may be applied nevertheless; the
	// error then matches ErrOutcomeUnknown too. If the FSM waits for another goroutine that makes the call, the
	// node cannot notice it: see Status.Applying.
	ErrWithinFSM = errors.New("raft: called from within the FSM (Apply, Snapshot, Restore, Sync or a function of Read): the call would wait forever for the FSM. Call it from another goroutine after returning; to end the node, return an error")
	// ErrWithinCallback: a function that was given to ProposeAsync called Close, which waits for that function.
	ErrWithinCallback = errors.New("raft: Close was called by a function of ProposeAsync, for which it would wait forever: call it from another goroutine")
	// ErrInitialized: Stored.Initialize was called for a store that something was written to. Nothing changed. If
	// the store is this member's, use it as it is.
	ErrInitialized = errors.New("raft: the store is already initialized: use it as it is, or name another one")
	// ErrSnapshotUnsupported: the storage is not a SnapshotStorage, so this member takes no snapshots and its log is not
	// compacted.
	ErrSnapshotUnsupported = errors.New("raft: the storage keeps no snapshots: use one that implements SnapshotStorage")
	// ErrReadTimedOut: the read was not confirmed in time; try again.
	ErrReadTimedOut = errors.New("raft: the read was not confirmed in time")
)

// ConfigError is one problem that node.Config.Validate or CoreConfig.Validate has found. It names the field, so that
// a program can tell its users which of its own settings to change.
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %v", e.Field, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// NotLeaderError says that this member does not lead; the request was not applied. Ask Leader or, if
// it is nil, wait (WaitLeader) and try again.
type NotLeaderError struct {
	Leader *Member // nil: not known
	Reason string  // why no leader is known, or more about the refusal; may be empty if Leader is known
}

func (e *NotLeaderError) Error() string {
	s := "raft: not the leader"
	if e.Leader != nil {
		s += fmt.Sprintf("; %s at %s leads", e.Leader.ID, e.Leader.Address)
	} else {
		s += "; no leader is known"
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// NotReadyError says what WaitLeader or Ready was waiting for when its context ended. It also matches the context's
// error.
type NotReadyError struct {
	Reason string
	Err    error // the context's
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("raft: not ready: %s: %v", e.Reason, e.Err)
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// TooLargeError says that a command is larger than the leader's node.Config.CommandBytesMax, or larger than what an append
// to some member carries; it was not applied. Propose less at once. If Member is set and the limit is not intended, give
// that member the same limit as the others.
type TooLargeError struct {
	Bytes, Limit int
	Member       NodeID // the member that takes no larger command; "": the limit is Config.CommandBytesMax
}

func (e *TooLargeError) Error() string {
	if e.Member != "" {
		return fmt.Sprintf("raft: a command of %d bytes is over the limit of %d that %s can be sent (its transport's limit: "+
			"transport.Options.FrameBytesMax)", e.Bytes, e.Limit, e.Member)
	}
	return fmt.Sprintf("raft: a command of %d bytes is over the limit of %d (Config.CommandBytesMax)", e.Bytes, e.Limit)
}

// DiskStalledError says that the leader's disk has not finished a write for longer than node.Config.DiskStallMax,
// and that no other member could take over yet; not applied. It is an ErrOverloaded: try again later.
type DiskStalledError struct {
	Limit time.Duration
}

func (e *DiskStalledError) Error() string {
	return fmt.Sprintf("raft: the leader's disk has not finished a write for %v (Config.DiskStallMax); not applied, try again later", e.Limit)
}

// Unwrap returns ErrOverloaded.
func (e *DiskStalledError) Unwrap() error { return ErrOverloaded }

// FSMHangsError says that the leader's FSM has been applying one batch for longer than node.Config.ApplyStallMax, and that
// no other member that is beyond this batch could take over yet; not applied. It is an ErrOverloaded: try again later. If it
// stays, find out what FSM.Apply waits for, on this member and on the others.
type FSMHangsError struct {
	Limit time.Duration
}

func (e *FSMHangsError) Error() string {
	return fmt.Sprintf("raft: the leader's FSM has not finished a batch for %v (Config.ApplyStallMax); not applied, try again later", e.Limit)
}

// Unwrap returns ErrOverloaded.
func (e *FSMHangsError) Unwrap() error { return ErrOverloaded }

// NoRoomError says that the leader could not take room for more entries, mostly because its disk is full; not applied. It is an
// ErrOverloaded: try again later. The leader goes on once there is room, and need not be restarted.
type NoRoomError struct {
	Err error // of RoomStorage.Room
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("raft: the leader cannot make room for more entries of its log; not applied, try again later: %v", e.Err)
}

// Unwrap returns ErrOverloaded and the error of the storage.
func (e *NoRoomError) Unwrap() []error { return []error{ErrOverloaded, e.Err} }

// StorageError ended the node, or refused its start: the storage failed. Restart the node once the disk works. A
// majority of the members still holds what was acknowledged.
type StorageError struct {
	Op  string
	Err error
}

func (e *StorageError) Error() string {
	reason := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprint(e.Err), "raft: "), "storage: ")
	return fmt.Sprintf("raft: storage: %s: %s", e.Op, reason)
}

func (e *StorageError) Unwrap() error { return e.Err }

// TransportError refused a start or ended the node: the transport returned an error, or panicked.
type TransportError struct {
	Op  string
	Err error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("raft: transport: %s: %v", e.Op, e.Err)
}

func (e *TransportError) Unwrap() error { return e.Err }

// FSMError refused a start or ended the node: the application's state machine returned an error or panicked.
// Other members that apply the same entry will most likely end too.
type FSMError struct {
	Op    string // "Apply", "Restore", …
	ID    EntryID
	Err   error
	Panic any    // the value of the panic; nil if there was none
	Stack string // of the panic
}

func (e *FSMError) Error() string {
	if e.Panic != nil {
		return fmt.Sprintf("raft: FSM panicked in %s at entry %v: %v", e.Op, e.ID, e.Panic)
	}
	return fmt.Sprintf("raft: FSM failed in %s at entry %v: %v", e.Op, e.ID, e.Err)
}

func (e *FSMError) Unwrap() error { return e.Err }

// InvariantError ended the node: its core was in an impossible state. That is a bug, or memory has failed. Report
// it with the state and the trace events that the node logged at level INFO.
type InvariantError struct {
	Rule  string // the sentence that does not hold
	State string // of the core, as text; empty if it was not available
}

func (e *InvariantError) Error() string {
	return "raft: broken invariant: " + e.Rule
}

// AppliedBeyondLogError refuses a start: the DurableFSM has applied an entry that the log does not hold. The log
// and the state do not belong together. If the log is the member's newest, empty the state: applying the log
// builds it again.
type AppliedBeyondLogError struct {
	Applied EntryID
	Last    EntryID
}

func (e *AppliedBeyondLogError) Error() string {
	return fmt.Sprintf("raft: the FSM has applied entry %v, which is not in the stored log, whose last entry is %v: the two do not belong together", e.Applied, e.Last)
}

// AppliedBelowBaseError refuses a start: the DurableFSM has applied less than what the log begins behind, and there is
// no snapshot to restore. The entries in between are gone here, so the FSM's state is older than the one that the log
// was compacted for.
type AppliedBelowBaseError struct {
	Applied EntryID
	Base    EntryID
}

func (e *AppliedBelowBaseError) Error() string {
	return fmt.Sprintf("raft: the FSM has applied entry %v, and the log begins behind entry %v, with no snapshot in between: "+
		"put the FSM's newer state back, or replace this member like one whose disk was lost", e.Applied, e.Base)
}

// SnapshotError says that a snapshot was not taken. Nothing else has changed: the member goes on, its log grows, and it
// tries again by itself.
type SnapshotError struct {
	Op  string  // what failed
	ID  EntryID // of the last entry that the snapshot was to cover
	Err error
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("raft: snapshot of entry %v: %s: %v", e.ID, e.Op, e.Err)
}

func (e *SnapshotError) Unwrap() error { return e.Err }

// SpaceError says that there is not enough room on the disk for a snapshot. Make room, or lower
// node.Config.SnapshotReserveBytes.
type SpaceError struct {
	Need    int64 // bytes of the snapshot, as far as they are known
	Free    int64 // bytes on the disk of the snapshots
	Reserve int64 // of which as many stay free
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("raft: no room for a snapshot of %d bytes: %d bytes are free where the data is, and %d of them stay free for the log "+
		"(Config.SnapshotReserveBytes): make room", e.Need, e.Free, e.Reserve)
}

// SnapshotStreamError says why the bytes of a snapshot did not get from one member to another. Nothing is lost: the leader
// tries again by itself, after a pause that grows.
type SnapshotStreamError struct {
	From, To NodeID
	ID       EntryID // the last entry that the snapshot covers
	Err      error   // a StreamRefusal if the receiver refused it; at the receiver, a *SpaceError if it has no room
}

func (e *SnapshotStreamError) Error() string {
	return fmt.Sprintf("raft: snapshot of entry %v from %s to %s: %s; the leader tries again", e.ID, e.From, e.To,
		strings.TrimPrefix(fmt.Sprint(e.Err), "raft: "))
}

func (e *SnapshotStreamError) Unwrap() error { return e.Err }

// SnapshotStalledError says that FSMSnapshot.WriteTo has written nothing for node.Config.SnapshotStallMax. No other
// snapshot begins before it returns; its context has ended.
type SnapshotStalledError struct {
	Limit time.Duration
	Bytes int64 // written before
}

func (e *SnapshotStalledError) Error() string {
	return fmt.Sprintf("raft: FSMSnapshot.WriteTo has written nothing for %v (Config.SnapshotStallMax), after %d bytes: "+
		"it must return when its context ends", e.Limit, e.Bytes)
}
