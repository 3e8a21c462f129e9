package raft

import (
	"errors"
	"fmt"
)

// The errors of the node's methods sort by what the caller should do.
var (
	// ErrOverloaded: a limit of Config is reached; not applied. Back off and try again.
	ErrOverloaded = errors.New("raft: overloaded: too much is waiting; not applied, try again later")
	// ErrClosed: the node was closed, or ended because of an error (see Node.Err); not applied.
	ErrClosed = errors.New("raft: node is closed; not applied")
	// ErrInitialized: Stored.Initialize was called for a store that something was written to. Nothing changed. If
	// the store is this member's, use it as it is.
	ErrInitialized = errors.New("raft: the store is already initialized: use it as it is, or name another one")
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
