package raft

import (
	"context"
	"io"
)

// FSM is the application: a deterministic state machine that the log drives (paper §2, Figure 1). One goroutine calls all
// methods. Their errors and panics stop the node with a *node.FSMError; only an error of Snapshot does not. Report the
// application's own failures in results. Other goroutines need a lock to read the state, or node.Node.Read.
type FSM interface {
	// Apply applies the batch in order and puts the answer to batch[i] into results[i], or leaves it nil. It gets
	// EntryCommand entries only, or EntrySession too if it is a SessionFSM, so their indexes have gaps. The batch is read-only and valid until Apply returns; the
	// results then belong to the node. len(results) == len(batch).
	Apply(batch []Entry, results [][]byte) error
	// Snapshot freezes the present state. It must be cheap: the result is written while later Applies run.
	Snapshot() (FSMSnapshot, error)
	// Restore replaces the state by what WriteTo wrote, and reads r to its end. id is the last entry applied in it.
	Restore(ctx context.Context, id EntryID, r io.Reader) error
}

// FSMSnapshot is a frozen state. With a method Size() int64 for what WriteTo will write, the node checks that the disk has
// room and reports progress.
type FSMSnapshot interface {
	// WriteTo writes the state on its own goroutine, beside Apply. When the context ends, it stops early with the context's
	// error. If it fails, panics or writes nothing for node.Config.SnapshotStallMax, the node tries another snapshot later.
	WriteTo(ctx context.Context, w io.Writer) error
	// Close releases the frozen state. It is called once, even after a failed WriteTo.
	Close() error
}

// DurableFSM keeps its state on disk itself: after a restart, only later entries are applied. There is no snapshot file, and
// the log is compacted up to what Sync has made durable. Snapshot is called only for a follower that lags too far: the frozen
// state is streamed to it, and held for at most ten election timeouts if it takes nothing.
type DurableFSM interface {
	FSM
	// Applied returns the last entry in the state that Apply or, since then, Restore was given; zero: the state is empty. It
	// is called at the start and after each Sync. node.Start refuses an entry outside the log (*AppliedBeyondLogError,
	// *AppliedBelowBaseError). Until Sync has returned after a Restore, a restart may find the old entry or zero here, but
	// not the restored one: the node then restores again.
	Applied() (EntryID, error)
	// Sync makes all applied entries durable. It is called as often as other FSMs take snapshots, after each Restore, and on
	// Close. Nothing is applied meanwhile, so leave it little to do. Entries not synced are applied again after a crash.
	Sync() error
}
