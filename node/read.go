package node

import (
	"context"
	"errors"

	"github.com/coxswain/raft"
)

// Read calls f once this member has applied every command that any member acknowledged before the call. No method of the FSM
// runs at the same time as f. So f needs no lock to read the FSM's memory, and sees the state between two batches. A follower
// asks the leader, as in ReadIndex; the errors are those of ReadIndex. If Read returns an error, it did not call f. Otherwise
// it called f once, on the caller's goroutine.
//
// Only one f runs at a time, in turn with Apply. Keep f short: let f copy the data that you need, and do the rest afterwards.
// A slow f delays the FSM, all other reads and Close; Status.Applying shows it. Within f, as within Apply, calls that wait
// for the FSM fail with ErrWithinFSM. ctx bounds the wait for f, not f itself. No f runs once Close has returned. If an FSM
// has its own lock for reads, or if its state never changes in place, it does not need Read: call ReadIndex before each read.
// Such reads run in parallel.
func (n *Node) Read(ctx context.Context, f func()) error {
	return n.ReadWith(ctx, raft.Linearizable, f)
}

// ReadWith is Read of a state that is as fresh as c says: see [raft.Consistency]. Its errors are those of ReadIndexWith. With
// raft.Stale, the state is at most that old when f begins, even if f had to wait for its turn.
func (n *Node) ReadWith(ctx context.Context, c raft.Consistency, f func()) error {
	if f == nil {
		return errors.New("raft: Read needs a function; it is nil")
	}
	if n.fsmCalls.within() {
		return ErrWithinFSM
	}
	if _, err := n.ReadIndexWith(ctx, c); err != nil {
		return err
	}
	ended, err := n.fsmCalls.beginRead(ctx, n.stop)
	if err != nil {
		return err
	}
	defer ended()
	if maxAge := c.MaxAge(); maxAge > 0 {
		if _, err := n.atMost(maxAge); err != nil { // it has grown older while this call waited
			return err
		}
	}
	f()
	return nil
}
