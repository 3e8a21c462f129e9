package node

import (
	"context"
	"errors"
	"time"

	"github.com/coxswain/raft"
)

// Close transfers leadership if this member leads, and ends the node. The transfer may already be under way when Close is
// called. It takes as long as the disks need for an election, but at most 64 election timeouts, after the functions of
// RunAsLeader have had Config.RunAsLeaderStopMax to return. As in TransferLeadership, the
// accepted proposals are applied first. If that takes longer than a transfer may, those that are left fail with
// ErrOutcomeUnknown. With Config.Forward, Close then answers what other members have forwarded, and waits for the answers to
// this member's own requests, for an election timeout at most.
//
// Close does not wait for functions of RunAsLeader that run longer. It waits for all goroutines of the node, and closes the storage and the transport. It also waits for a running
// FSM.Apply or function of Read, and for a write that the disk has not finished, however long the disk has stalled. Close is
// idempotent. It returns the errors that occurred while closing, and the error that ended the node before, if any.
//
// If the FSM or a function of Read calls Close, Close does nothing and returns ErrWithinFSM: an FSM ends its node by
// returning an error. If a callback of ProposeAsync calls Close, Close does nothing and returns ErrWithinCallback, because it
// would wait for that callback.
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
		n.forwards.settle()
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

// closeTimeouts is how long Close waits for a transfer that it begins, in election timeouts. The core ends the
// transfer as soon as the disks and the network allow. A slow disk may take ten timeouts for each write.
const closeTimeouts = 64

// transferBeforeClose transfers leadership. If a transfer is already under way, transferBeforeClose waits for it, because the
// target may still need this member: for its vote, or for a second TimeoutNow if the first one was lost. transferBeforeClose
// ignores a failure, because the others elect a leader anyway.
func (n *Node) transferBeforeClose() {
	limit := closeTimeouts*n.cfg.ElectionTimeout + n.cfg.RunAsLeaderStopMax
	if until := n.coreStatus().TransferringUntil; until > 0 {
		limit = time.Duration(until - n.now().Mono)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for now := range n.Watch(ctx) {
		var notNow *NotLeaderError
		if now.Role != raft.Leader && now.Leader != "" ||
			now.Role == raft.Leader && !errors.As(n.transferTo(ctx, raft.TransferRequested{Leaving: true}), &notNow) {
			return
		}
	}
}
