package raft

import (
	"errors"
	"fmt"
)

// Errors that the node's methods return, grouped by what the caller should do.
var (
	// ErrOverloaded: a limit of Config is reached, or the disk or the FSM is stuck (a more specific error says so); not applied.
	// Back off and try again.
	ErrOverloaded = errors.New("raft: overloaded: too much is waiting; not applied, try again later")
	// ErrClosed: the node was closed, or ended because of an error (see Node.Err); not applied.
	ErrClosed = errors.New("raft: node is closed; not applied")
	// ErrInitialized: Stored.Initialize refuses a store that was written to. If it is this member's, use it as it is.
	ErrInitialized = errors.New("raft: the store is already initialized: use it as it is, or name another one")
)

// ConfigError is one problem in a node.Config, a CoreConfig or a Change. Field names the setting to change.
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %v", e.Field, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// TooLargeError refuses a command; it was not applied. Propose less at once, or raise the limit if it is not intended.
type TooLargeError struct {
	Bytes, Limit int
	Member       NodeID // whose transport has the limit; "": it is the leader's node.Config.CommandBytesMax
}

func (e *TooLargeError) Error() string {
	if e.Member != "" {
		return fmt.Sprintf("raft: a command of %d bytes is over the limit of %d that %s can be sent (its transport's limit: "+
			"transport.Options.FrameBytesMax)", e.Bytes, e.Limit, e.Member)
	}
	return fmt.Sprintf("raft: a command of %d bytes is over the limit of %d (Config.CommandBytesMax)", e.Bytes, e.Limit)
}

// NoRoomError: the leader cannot take room for more entries, mostly because its disk is full; not applied. It matches
// ErrOverloaded: try again later. The leader continues by itself once there is room.
type NoRoomError struct{ Err error }

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("raft: the leader cannot make room for more entries of its log; not applied, try again later: %v: see docs/runbook.md#no-room", e.Err)
}

func (e *NoRoomError) Unwrap() []error { return []error{ErrOverloaded, e.Err} }

// InvariantError ended the node: its core was in an impossible state, by a bug or a failure of memory. Report it with the
// trace events in the log (INFO).
type InvariantError struct {
	Rule  string // the sentence that does not hold
	State string // of the core; "": not available
}

func (e *InvariantError) Error() string {
	return "raft: broken invariant: " + e.Rule
}

// AppliedBeyondLogError refuses a start: the DurableFSM has Applied an entry that the log, up to Last, lacks. If the log is
// the member's newest, empty the state: the log rebuilds it.
type AppliedBeyondLogError struct{ Applied, Last EntryID }

func (e *AppliedBeyondLogError) Error() string {
	return fmt.Sprintf("raft: the FSM has applied entry %v, which is not in the stored log, whose last entry is %v: the two do not belong together: see docs/runbook.md#ended", e.Applied, e.Last)
}

// AppliedBelowBaseError refuses a start: the log begins after Base, the DurableFSM has Applied less, and no snapshot is
// between. Put the FSM's newer state back, or replace the member.
type AppliedBelowBaseError struct{ Applied, Base EntryID }

func (e *AppliedBelowBaseError) Error() string {
	return fmt.Sprintf("raft: the FSM has applied entry %v, and the log begins behind entry %v, with no snapshot in between: "+
		"put the FSM's newer state back, or replace this member like one whose disk was lost: see docs/runbook.md#ended", e.Applied, e.Base)
}

// SpaceError: a snapshot of Need bytes, as far as known, does not fit on a disk with Free bytes, of which Reserve stay free.
// Make room, or lower node.Config.SnapshotReserveBytes.
type SpaceError struct{ Need, Free, Reserve int64 }

func (e *SpaceError) Error() string {
	return fmt.Sprintf("raft: no room for a snapshot of %d bytes: %d bytes are free where the data is, and %d of them stay free for the log "+
		"(Config.SnapshotReserveBytes): make room", e.Need, e.Free, e.Reserve)
}
