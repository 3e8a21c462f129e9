package node

import (
	"context"
	"errors"

	"github.com/coxswain/raft"
)

// Read calls f where the FSM may be read: this member has applied everything that was acknowledged, by any member, before
// the call, and while f runs, no method of the FSM does. So f reads the FSM's memory without a lock, and what it sees
// is the state between two batches. On a follower it goes through the leader, like ReadIndex, whose errors it
// returns; if there is one, f was not called, and otherwise once, on the caller's goroutine.
//
// Functions run one at a time, in turn with Apply: keep f short, copy what it needs, and do the rest afterwards. An
// f that takes its time holds up the FSM, all other reads and Close, and Status.Applying shows it. Within f,
// as within Apply, calls that wait for the FSM fail with ErrWithinFSM. ctx bounds the wait for f, not f
// itself. Once Close has returned, no f runs, and none will. An FSM that is read under a lock of its own, or
// whose state never changes in place, needs no Read: ReadIndex confirms the read, and reads run side by side.
func (n *Node) Read(ctx context.Context, f func()) error {
	if f == nil {
		return errors.New("raft: Read needs a function; it is nil")
	}
	if n.fsmCalls.within() {
		return raft.ErrWithinFSM
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
