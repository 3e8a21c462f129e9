package node

import (
	"context"
	"io"

	"github.com/coxswain/raft"
)

// unheardOf is an event that no core knows.
type unheardOf struct{ raft.Event }

// BreakCore makes the core panic in its next Step.
func (n *Node) BreakCore() { n.post(unheardOf{}) }

// BackUpFrozen writes a backup of a state that was frozen at an entry. It returns false if the log does not describe that state.
func (n *Node) BackUpFrozen(ctx context.Context, w *io.PipeWriter, at raft.EntryID, state raft.FSMSnapshot) (described bool, err error) {
	t := &taking{Take: raft.Take{Hold: true}}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	n.taker.reserve(t, at)
	return (&backupRun{node: n, to: w, ctx: ctx}).writeState(&backupState{taking: t, state: state})
}

// FreezeWithdrawn freezes the state for a backup that was withdrawn after the applier had chosen it.
func (n *Node) FreezeWithdrawn(at raft.EntryID) error {
	t := &taking{Take: raft.Take{Hold: true}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	f := &backupState{taking: t, done: make(chan struct{})}
	n.taker.reserve(f.taking, at)
	return n.applier.freezeFor(f)
}

// BackUpAgain is Backup as if no other one were taken.
func (n *Node) BackUpAgain(ctx context.Context, w io.Writer) (raft.EntryID, error) {
	id, _, err := n.backup(ctx, w)
	return id, err
}
