package node

import (
	"context"
	"errors"
)

// Read calls f at a moment when the FSM may be read: this member has applied everything that any member
// acknowledged before the call, and no method of the FSM runs while f does. So f needs no lock to read the
// FSM's memory, and sees the state between two batches. On a follower the read goes through the leader, as with
// ReadIndex, whose errors Read returns. If Read returns an error, it did not call f; otherwise it called f
// once, on the caller's goroutine.
//
// Only one function runs at a time, in turn with Apply: keep f short, copy what it needs, and do the rest
// afterwards. A slow f holds up the FSM, all other reads and Close; Status.Applying shows it. Within f, as
// within Apply, calls that wait for the FSM fail with ErrWithinFSM. ctx bounds the wait for f, not f itself. No
// f runs once Close has returned. An FSM that has its own lock for reads, or whose state never changes in
// place, does not need Read: ReadIndex confirms the read, and such reads run in parallel.
func (n *Node) Read(ctx context.Context, f func()) error {
	if f == nil {
		return errors.New("raft: Read needs a function; it is nil")
	}
	if n.fsmCalls.within() {
		return ErrWithinFSM
	}
	if _, err := n.ReadIndex(ctx); err != nil {
		return err
	}
	ended, err := n.fsmCalls.beginRead(ctx, n.stop)
	if err != nil {
		return err
	}
	defer ended()
	f()
	return nil
}
