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
	// ErrClosed: the node was closed, or ended by itself (see Err); not applied.
	ErrClosed = errors.New("raft: node is closed; not applied")
	// ErrOutcomeUnknown: the command may or may not be applied, now or later. Do not retry it
	// blindly: read the state first, or make commands idempotent.
	ErrOutcomeUnknown = errors.New("raft: outcome unknown: the command may or may not be applied")
	// ErrWiped: the cluster's configuration names this member's id with another incarnation: its
	// disk was emptied. It counts for nothing until it is removed from the cluster and added again.
	// Members cannot be changed yet: until they can, go on with the others, if they are a majority, or
	// bootstrap a new cluster.
	ErrWiped = errors.New("raft: the cluster knows this member with another incarnation: its disk was emptied; remove it from the cluster and add it again")
	// ErrNoTarget: a transfer to nobody: no voter, or one that has not been heard. Nothing changed.
	ErrNoTarget = errors.New("raft: no such voter to transfer leadership to, or it has not been heard")
	// ErrTransferTimedOut: the transfer did not end within an election timeout or two; this member
	// may lead on. Look at Status, and try again.
	ErrTransferTimedOut = errors.New("raft: the transfer of leadership did not end in time")
	// ErrWithinFSM: the FSM, or a function of Read, called a method of its node that waits for the FSM itself. Such a call is
	// refused after a quarter of a second at most; a proposal may be applied all the same, and
	// matches ErrOutcomeUnknown too if so. A call on another goroutine, for which the FSM waits, cannot
	// be told from an FSM that takes its time: see Status.Applying.
	ErrWithinFSM = errors.New("raft: called by the FSM, within Apply, Snapshot, Restore, Sync or a function of Read, for which it would wait for ever: return first, and call it on a goroutine that the FSM does not wait for; to end the node, return an error")
	// ErrWithinCallback: a function that was given to ProposeAsync called Close, which waits for that function.
	ErrWithinCallback = errors.New("raft: Close was called by a function of ProposeAsync, for which it would wait for ever: call it on another goroutine")
	// ErrInitialized: Stored.Initialize is for a store that nothing was written to. Nothing changed. If the store is
	// this member's already, go on with what it holds.
	ErrInitialized = errors.New("raft: the store is initialized: go on with what it holds, or name another one")
	// ErrReadTimedOut: the read was not confirmed in time; try again.
	ErrReadTimedOut = errors.New("raft: the read was not confirmed in time")
)

// ConfigError is one of the things that node.Config.Validate or CoreConfig.Validate found. It names the field, so that a
// program whose users never saw a Config can say what they have to change.
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s: %v", e.Field, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// NotLeaderError says that this member does not lead; the request was not applied. Ask Leader, or, if
// it is nil, wait (WaitLeader) and try again.
type NotLeaderError struct {
	Leader *Member // nil: not known
	Reason string  // why nobody is known to lead, or more about the refusal; may be empty if Leader is known
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

// NotReadyError says what WaitLeader or Ready was waiting for when its context ended. It matches the context's
// error, too.
type NotReadyError struct {
	Reason string
	Err    error // the context's
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("raft: not ready: %s: %v", e.Reason, e.Err)
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// TooLargeError says that a command is over node.Config.CommandBytesMax; it was not applied.
type TooLargeError struct {
	Bytes, Limit int
}

func (e *TooLargeError) Error() string {
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

// Unwrap says what to do about it.
func (e *DiskStalledError) Unwrap() error { return ErrOverloaded }

// StorageError ended the node: the disk failed. Restart it once the disk works; what was acknowledged
// is safe on the others.
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

// FSMError ended the node: the application's state machine returned an error or panicked. Other
// members that apply the same entry will most likely end too.
type FSMError struct {
	Op    string // "Apply", "Restore", …
	ID    EntryID
	Err   error
	Panic any    // what it panicked with, if it did
	Stack string // of the panic
}

func (e *FSMError) Error() string {
	if e.Panic != nil {
		return fmt.Sprintf("raft: FSM panicked in %s at entry %v: %v", e.Op, e.ID, e.Panic)
	}
	return fmt.Sprintf("raft: FSM failed in %s at entry %v: %v", e.Op, e.ID, e.Err)
}

func (e *FSMError) Unwrap() error { return e.Err }

// InvariantError ended the node: it found its own state to be impossible, and stopped rather than go
// on. It is a bug, or memory has failed; report it with the state and the trace events that the node logged
// at level INFO.
type InvariantError struct {
	Rule  string // the sentence that does not hold
	State string // the core, printed; empty if it was not at hand
}

func (e *InvariantError) Error() string {
	return "raft: broken invariant: " + e.Rule
}

// AppliedBeyondLogError refuses a start: the DurableFSM has applied an entry that the log does not
// hold. Log and state do not belong together; restore the one that is older, or empty both.
type AppliedBeyondLogError struct {
	Applied EntryID
	Last    EntryID
}

func (e *AppliedBeyondLogError) Error() string {
	return fmt.Sprintf("raft: the FSM has applied entry %v, and the stored log ends at %v: they do not belong together", e.Applied, e.Last)
}
