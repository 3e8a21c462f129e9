package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
)

// This file holds leases on the side of the node: the loop publishes them, and reads use them without asking the loop.

// lease is the lease of this member, if it has one. Any goroutine reads it.
type lease struct {
	now  atomic.Pointer[raft.LeaderLease] // immutable; nil: none
	last raft.LeaderLease                 // what now points to; only the loop uses it
}

// publish is the first thing that the loop does with an Output. So nobody learns of a later commit, and no message that ends
// the lease leaves, while readers still find the former value.
func (l *lease) publish(next raft.LeaderLease) {
	switch {
	case next == l.last:
		return
	case next == raft.LeaderLease{}:
		l.now.Store(nil)
	default:
		l.now.Store(&next)
	}
	l.last = next
}

// readIndex returns the index that a read needs, without a round of messages. It returns false if the lease does not prove
// that this member still leads.
//
// The clock is read within the call, and between two looks at the same lease: it looks again if the lease was renewed meanwhile. A
// process that was stopped in between may find that its lease is over. It must not use a time that it read before.
func (l *lease) readIndex(clock func() raft.Now) (raft.Index, bool) {
	for {
		held := l.now.Load()
		if held == nil || clock().Mono >= held.Until {
			return 0, false
		}
		if l.now.Load() == held {
			return held.Commit, true
		}
	}
}

// remaining returns how long the lease still runs; 0: there is none.
func (l *lease) remaining(now raft.Time) time.Duration {
	held := l.now.Load()
	if held == nil || now >= held.Until {
		return 0
	}
	return time.Duration(held.Until - now)
}

// readByLease is ReadIndex by the lease of this member. Without a lease, it asks as ReadIndex does.
func (n *Node) readByLease(ctx context.Context) (raft.Index, error) {
	if err := n.usable(ctx); err != nil {
		return 0, err
	}
	index, held := n.lease.readIndex(n.now)
	if !held {
		n.counters.leaseFallbacks.Add(1)
		return n.ReadIndex(ctx)
	}
	n.counters.leaseReads.Add(1)
	return index, n.WaitApplied(ctx, index)
}

// SetLeaseDuration sets how long leases last, for all members: with a lease, the leader answers reads with raft.Lease without
// a round of messages. 0, as at first, means that there are none. Before you switch leases on, read docs/reads.md: it says
// what they need of the clocks. Take half an election timeout or more, so that each heartbeat renews a lease before it ends.
//
// A lease that does not end well within the election timeout is refused with a *raft.LeaseTooLongError. The first lease raises
// the feature level of the cluster, after which no earlier release can read its log: see docs/versions.md. While a member runs
// such a release, the error is an *EarlierReleaseError, and nothing has changed.
//
// See ChangeMembers for what is common to all changes.
func (n *Node) SetLeaseDuration(ctx context.Context, d time.Duration) (Members, error) {
	return n.ChangeMembers(ctx, raft.Change{LeaseDuration: &d}, 0)
}
