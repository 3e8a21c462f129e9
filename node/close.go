package node

import (
	"context"
	"errors"
	"time"

	"github.com/coxswain/raft"
)

// Close first transfers leadership if this member leads, or waits for a transfer that is under way. That takes
// as long as the disks need for an election, but at most 64 election timeouts. Then it ends the node, waits for
// all its goroutines, and closes the storage and the transport. The goroutines include a running FSM.Apply or
// function of Read, and a write that the disk has not finished, however long it has stalled. Close is
// idempotent. It returns the errors that occurred while closing, or that had ended the node before.
//
// Within a call of the FSM or a function of Read it does nothing and returns ErrWithinFSM: an FSM ends its node
// by returning an error. Within a callback of ProposeAsync it does nothing and returns ErrWithinCallback, since
// it waits for all callbacks.
func (n *Node) Close() error {
	if n.withinFSM() {
		return ErrWithinFSM
	}
	if n.requests.callbacks.within() {
		return ErrWithinCallback
	}
	n.closing.Do(func() {
		if now, _ := n.watched.load(); now.Role == raft.Leader {
			n.transferBeforeClose()
		}
		n.mailbox.close()
	})
	<-n.done
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(n.err, raft.ErrClosed) {
		return n.closeErr
	}
	return errors.Join(n.err, n.closeErr)
}

// closeTimeouts is how many election timeouts Close waits for a transfer that it begins. The core ends the
// transfer as soon as the disks and the network allow; slow ones may take ten timeouts for each write.
const closeTimeouts = 64

// transferBeforeClose transfers leadership, or waits for a transfer that is under way: its target may need this
// member's vote, and TimeoutNow again if it was lost. A failure is ignored, since the others elect a leader
// anyway.
func (n *Node) transferBeforeClose() {
	limit := closeTimeouts * n.cfg.ElectionTimeout
	if until := n.coreStatus().TransferringUntil; until > 0 {
		limit = time.Duration(until - n.now().Mono)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for now := range n.Watch(ctx) {
		var notNow *NotLeaderError
		if now.Role != raft.Leader && now.Leader != "" ||
			now.Role == raft.Leader && !errors.As(n.TransferLeadership(ctx, ""), &notNow) {
			return
		}
	}
}
