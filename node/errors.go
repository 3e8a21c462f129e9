package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coxswain/raft"
)

// These errors tell the caller what to do. The node's methods also return [raft.ErrOverloaded] and [raft.ErrClosed].
var (
	// ErrOutcomeUnknown: the command may or may not be applied, now or later. Do not retry it
	// blindly: read the state first, or make commands idempotent.
	ErrOutcomeUnknown = errors.New("raft: outcome unknown: the command may or may not be applied")
	// ErrWiped: the disk of this member was emptied. Therefore the cluster's configuration names this member's id with
	// another incarnation. The member does not count until the leader replaces it: see Node.ReplaceMember.
	ErrWiped = errors.New("raft: the cluster knows this member with another incarnation: its disk was emptied; replace it: Node.ReplaceMember on the leader: see docs/runbook.md#emptied-disk")
	// ErrNoTarget: leadership cannot be transferred to this voter, because there is no such voter or the leader has not heard
	// from it. Nothing changed.
	ErrNoTarget = errors.New("raft: leadership was not transferred: there is no such voter, or it has not been heard from")
	// ErrTransferTimedOut: the transfer did not succeed in time. This member may still lead, or lose its
	// leadership to the target later. Look at Status, and try again.
	ErrTransferTimedOut = errors.New("raft: the leadership transfer did not end in time")
	// ErrWithinFSM: the FSM, or a function of Read, called a method of its node that waits for the FSM. The node refuses such
	// a call after a quarter of a second at most. A proposal may be applied nevertheless; the error then also matches
	// ErrOutcomeUnknown. The node cannot detect such a call if the FSM starts another goroutine for it and waits for that
	// goroutine: see Status.Applying.
	ErrWithinFSM = errors.New("raft: called from within the FSM (Apply, Snapshot, Restore, Sync or a function of Read): the call would wait forever for the FSM. Call it from another goroutine after returning; to end the node, return an error")
	// ErrWithinCallback: a function that was given to ProposeAsync called Close, which waits for that function.
	ErrWithinCallback = errors.New("raft: Close was called by a function of ProposeAsync, for which it would wait forever: call it from another goroutine")
	// ErrSnapshotUnsupported: the storage is not a SnapshotStorage, so this member takes no snapshots and its log is not
	// compacted.
	ErrSnapshotUnsupported = errors.New("raft: the storage keeps no snapshots: use one that implements SnapshotStorage")
	// ErrBackupRuns: this member is taking another backup, or the FSM has not returned from an earlier one. Try again later, or ask
	// another member.
	ErrBackupRuns = errors.New("raft: this member is taking another backup: try again later, or take it from another member")
	// ErrReadTimedOut: the read was not confirmed in time; try again.
	ErrReadTimedOut = errors.New("raft: the read was not confirmed in time")
)

// DiskStalledError refuses a proposal: a write on the leader's disk has taken longer than Config.DiskStallMax, and no
// other member could take over yet. The proposal is not applied. It matches raft.ErrOverloaded: try again later.
type DiskStalledError struct {
	Limit time.Duration
}

func (e *DiskStalledError) Error() string {
	return fmt.Sprintf("raft: the leader's disk has not finished a write for %v (Config.DiskStallMax); not applied, try again later: see docs/runbook.md#disk-stalled", e.Limit)
}

// Unwrap returns raft.ErrOverloaded.
func (e *DiskStalledError) Unwrap() error { return raft.ErrOverloaded }

// FSMError refuses a start or ends the node, because the FSM returned an error or panicked. Other members that apply the same
// entry will most likely end too.
type FSMError struct {
	Op    string // "Apply", "Restore", …
	ID    raft.EntryID
	Err   error
	Panic any    // value of the panic; nil: there was none
	Stack string // stack of the panic
}

func (e *FSMError) Error() string {
	if e.Panic != nil {
		return fmt.Sprintf("raft: FSM panicked in %s at entry %v: %v: see docs/runbook.md#ended", e.Op, e.ID, e.Panic)
	}
	return fmt.Sprintf("raft: FSM failed in %s at entry %v: %v: see docs/runbook.md#ended", e.Op, e.ID, e.Err)
}

func (e *FSMError) Unwrap() error { return e.Err }

// FSMHangsError refuses a proposal: the leader's FSM has been applying one batch for longer than Config.ApplyStallMax, and no
// member that has applied this batch could take over yet. The proposal is not applied. The error matches raft.ErrOverloaded:
// try again later. If the error persists, find out what FSM.Apply waits for, on this member and on the others.
type FSMHangsError struct {
	Limit time.Duration
}

func (e *FSMHangsError) Error() string {
	return fmt.Sprintf("raft: the leader's FSM has not finished a batch for %v (Config.ApplyStallMax); not applied, try again later: see docs/runbook.md#fsm-hangs", e.Limit)
}

// Unwrap returns raft.ErrOverloaded.
func (e *FSMHangsError) Unwrap() error { return raft.ErrOverloaded }

// NotLeaderError says that this member does not lead. The request was not applied. If Leader is set, ask that member. If
// Leader is nil, wait (WaitLeader) and try again.
type NotLeaderError struct {
	Leader *raft.Member // nil: not known
	Reason string       // why no leader is known, or more about the refusal; may be empty if Leader is known
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

// SnapshotError says that a snapshot was not taken. Nothing else has changed: the member continues, its log grows, and
// it tries again by itself.
type SnapshotError struct {
	Op  string       // step that failed
	ID  raft.EntryID // last entry that the snapshot was meant to cover
	Err error
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("raft: snapshot of entry %v: %s: %v", e.ID, e.Op, e.Err)
}

func (e *SnapshotError) Unwrap() error { return e.Err }

// SnapshotStalledError says that FSMSnapshot.WriteTo has written nothing for Config.SnapshotStallMax. The context of
// WriteTo has ended, and no other snapshot begins before WriteTo returns.
type SnapshotStalledError struct {
	Limit time.Duration
	Bytes int64 // bytes written before the stall
}

func (e *SnapshotStalledError) Error() string {
	return fmt.Sprintf("raft: FSMSnapshot.WriteTo has written nothing for %v (Config.SnapshotStallMax), after %d bytes: "+
		"it must return when its context ends", e.Limit, e.Bytes)
}

// SnapshotStreamError says why a snapshot did not arrive at another member. Nothing is lost: the leader tries again by
// itself, after a growing pause.
type SnapshotStreamError struct {
	From, To raft.NodeID
	ID       raft.EntryID // last entry that the snapshot covers
	Err      error        // a raft.StreamRefusal if the receiver refused it; on the receiver, a *raft.SpaceError if it has no room
}

func (e *SnapshotStreamError) Error() string {
	return fmt.Sprintf("raft: snapshot of entry %v from %s to %s: %s; the leader tries again", e.ID, e.From, e.To,
		strings.TrimPrefix(fmt.Sprint(e.Err), "raft: "))
}

func (e *SnapshotStreamError) Unwrap() error { return e.Err }

// StorageError refused a start or ended the node: the storage failed. If it wraps an error of package raft, do what that error
// says. Otherwise restart the node once the disk works. A majority of the members still holds what was acknowledged.
type StorageError struct {
	Op  string
	Err error
}

func (e *StorageError) Error() string {
	reason := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprint(e.Err), "raft: "), "storage: ")
	see := ": see docs/runbook.md#ended"
	if strings.Contains(reason, "see docs/runbook.md#") {
		see = ""
	}
	return fmt.Sprintf("raft: storage: %s: %s%s", e.Op, reason, see)
}

func (e *StorageError) Unwrap() error { return e.Err }

// TransportError refuses a start or ends the node, because the transport returned an error or panicked.
type TransportError struct {
	Op  string
	Err error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("raft: transport: %s: %v", e.Op, e.Err)
}

func (e *TransportError) Unwrap() error { return e.Err }

// UnreachableError refuses a change of members before the change begins, because the leader and a joining member could not
// reach each other in both directions. Start that member, correct its address, or open the path that Err names.
type UnreachableError struct {
	ID      raft.NodeID
	Address string
	Err     error // last error of the connection; it also matches the error of the caller's context if that ended first
}

func (e *UnreachableError) Error() string {
	why := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprint(e.Err), "raft: "), "transport: ")
	return fmt.Sprintf("raft: the members were not changed: %s at %s: %s", e.ID, e.Address, why)
}

func (e *UnreachableError) Unwrap() error { return e.Err }
