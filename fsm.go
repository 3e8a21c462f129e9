package raft

import (
	"context"
	"io"
)

// FSM is the application: a deterministic state machine that the log drives (paper §2, Figure 1).
// One goroutine calls all methods. An error or a panic of any of them stops this node with a
// *FSMError; failures that belong to the application are data in the results. Whoever else reads its state needs a
// lock in it, or node.Node.Read, which runs a function between two of these calls.
//
// As long as the log is never compacted, no node calls Snapshot or Restore: rafttest.CheckFSM does.
type FSM interface {
	// Apply applies the batch in order and puts the answer to batch[i] into results[i], which may
	// stay nil; len(results) == len(batch). Only EntryCommand entries are seen, so indexes have
	// gaps. The batch and its entries' bytes are read-only and not to be kept after Apply returned;
	// the results belong to the node from then on.
	Apply(batch []Entry, results [][]byte) error
	// Snapshot freezes the present state, cheaply: what it returns is written beside later Applies.
	Snapshot() (FSMSnapshot, error)
	// Restore replaces the state by the one that WriteTo wrote, as of the given entry.
	Restore(ctx context.Context, id EntryID, r io.Reader) error
}

// FSMSnapshot is a frozen state.
type FSMSnapshot interface {
	// WriteTo writes the state. It runs beside Apply, on another goroutine, and stops early with
	// the context's error when the context ends.
	WriteTo(ctx context.Context, w io.Writer) error
	// Close releases the state; it is called once, also after a failed WriteTo.
	Close() error
}

// DurableFSM is an FSM that keeps its state on disk itself: after a restart the log is applied from
// where it stands, not from the beginning.
type DurableFSM interface {
	FSM
	// Applied returns the last entry whose effects are in the state, and zero for an empty one. It
	// is called before the first Apply. An entry beyond the stored log is refused by Start.
	Applied() (EntryID, error)
	// Sync makes the effects of all entries applied so far durable. It is called when the node is
	// closed; after a crash the log brings back what was not synced.
	Sync() error
}
