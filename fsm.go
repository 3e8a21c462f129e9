package raft

import (
	"context"
	"io"
)

// FSM is the application: a deterministic state machine that the log drives (paper §2, Figure 1). One goroutine
// calls all methods. An error or a panic of any of them stops this node with a *node.FSMError, except that an error of
// Snapshot only means that no snapshot is taken; failures that belong to the application are data in the results. Other
// goroutines that read the state need a lock in it, or node.Node.Read, which runs a function between two of these calls.
type FSM interface {
	// Apply applies the batch in order and puts the answer to batch[i] into results[i], which may
	// stay nil; len(results) == len(batch). It only gets EntryCommand entries, so their indexes have gaps. The batch
	// and its entries' bytes are read-only and must not be kept after Apply has returned; the results belong to the
	// node from then on.
	Apply(batch []Entry, results [][]byte) error
	// Snapshot freezes the present state. It must be cheap: the result is written while later Applies run.
	Snapshot() (FSMSnapshot, error)
	// Restore replaces the state by one that WriteTo wrote, and reads it to its end. id is the last entry that is applied in
	// it.
	Restore(ctx context.Context, id EntryID, r io.Reader) error
}

// FSMSnapshot is a frozen state. If it also has a method Size() int64, that returns how many bytes WriteTo will write, the
// room on the disk is checked against it beforehand, and Status says how far the snapshot is.
type FSMSnapshot interface {
	// WriteTo writes the state. It runs on another goroutine than Apply, at the same time. When the context ends, it
	// stops early with the context's error. If it fails or panics, no snapshot is taken, the node goes on, and another
	// snapshot is tried later; so it is if it writes nothing for node.Config.SnapshotStallMax.
	WriteTo(ctx context.Context, w io.Writer) error
	// Close releases the frozen state. It is called once, even after a failed WriteTo.
	Close() error
}

// DurableFSM is an FSM that keeps its state on disk itself. After a restart, only the entries behind the last one in
// that state are applied. There is no file of a snapshot: the log is compacted up to what Sync has made durable. Snapshot is
// called only when a follower of this member lags too far. The frozen state is written straight to it, and is held no
// longer than ten election timeouts if the follower takes nothing.
type DurableFSM interface {
	FSM
	// Applied returns the last entry that was given to Apply or, if nothing was applied since, to Restore, and whose effects
	// are in the state; zero if the state is empty. It is called at the start and after each Sync. node.Start refuses an
	// entry beyond the stored log with an *AppliedBeyondLogError, and one below the beginning of the log with an
	// *AppliedBelowBaseError. Until Sync has returned after a Restore, a restart may find the old entry or zero here, but
	// not the entry of the Restore: the node then restores again.
	Applied() (EntryID, error)
	// Sync makes the effects of all entries applied so far durable. It is called as often as other FSMs take snapshots,
	// after each Restore, and when the node is closed. Nothing is applied meanwhile, so it should have little left to do.
	// After a crash, entries whose effects were not synced are applied again.
	Sync() error
}
