package node

import (
	"context"
	"errors"
	"iter"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// Leader returns the leader that this member knows now, which may be this member itself. known is false if this member knows
// no leader. Leader neither waits nor allocates, so a caller may use it before each request. WaitLeader waits for a leader;
// Watch also yields the term.
func (n *Node) Leader() (leader raft.Member, known bool) {
	if m := n.leader.Load(); m != nil {
		return *m, true
	}
	return raft.Member{}, false
}

// setLeader publishes the leader. The loop calls it before it wakes the watchers.
func (n *Node) setLeader(l raft.Leadership) {
	if l.Leader == "" {
		n.leader.Store(nil)
		return
	}
	m := n.identity.leader(l)
	n.leader.Store(&m)
}

// WaitLeader returns the leader once this member knows one; the leader may be this member. WaitLeader fails with ErrClosed or
// ErrWiped. If ctx ends first, it fails with a *NotReadyError that says why there is no leader.
func (n *Node) WaitLeader(ctx context.Context) (raft.Member, error) {
	if err := ctx.Err(); err != nil {
		return raft.Member{}, err
	}
	leader, err := n.awaitLeader(ctx)
	if err != nil && err == ctx.Err() {
		err = &NotReadyError{Reason: n.Status().LeaderReason, Err: err}
	}
	return leader, err
}

// awaitLeader is WaitLeader without the reason.
func (n *Node) awaitLeader(ctx context.Context) (raft.Member, error) {
	for {
		now, changed := n.watched.load() // before usable, so that changed announces every later change
		if err := n.usable(ctx); err != nil {
			return raft.Member{}, err
		}
		if now.Leader != "" {
			return n.identity.leader(now), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-n.stop:
			return raft.Member{}, raft.ErrClosed
		}
	}
}

// withReason adds a reason to a *NotLeaderError without a leader: why there is none. withReason runs on the caller's
// goroutine, because Status waits for the loop.
func (n *Node) withReason(err error) error {
	if err == nil {
		return nil // before anything is allocated for an error
	}
	var refusal *NotLeaderError
	if !errors.As(err, &refusal) || refusal.Leader != nil {
		return err
	}
	s := n.Status()
	reason := s.LeaderReason
	if s.Leader != "" {
		reason = "there was none a moment ago, and now " + reason
	}
	if refusal.Reason != "" {
		reason = refusal.Reason + "; " + reason
	}
	return &NotLeaderError{Reason: reason}
}

// Watch yields what this member knows about the leader: first the present value, then every change. A slow reader misses
// intermediate changes and delays nothing. The sequence ends when ctx or the node ends.
func (n *Node) Watch(ctx context.Context) iter.Seq[raft.Leadership] {
	return func(yield func(raft.Leadership) bool) {
		now, changed := n.watched.load()
		for yield(now) {
			for last := now; now == last; {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				case <-n.stop:
					return
				}
				now, changed = n.watched.load()
			}
		}
	}
}

// noticeLeadership publishes the leader and the content of handshakes after a step that may have changed them.
func (n *Node) noticeLeadership(out raft.Output) {
	before, now := n.current, n.core.Leadership()
	if now == before && out.Config == nil {
		return
	}
	s := n.core.Status()
	n.identity.publish(s)
	n.contacts.publish(s)
	n.publishMembers(s)
	n.current = now
	n.setLeader(now)
	if now == before {
		return
	}
	n.counters.changed(before, now, s.Cause)
	n.history.noteOffice(n.now().Mono, now)
	why := n.history.change(before, now, out.Trace)
	n.watched.publish(now)
	n.logger.log(hclog.Info, "leadership changed", "term", uint64(now.Term), "role", now.Role.String(),
		"leader", string(now.Leader), "reason", why)
	if n.roomWatch.trouble.get() == nil { // else leadership is transferred from one voter to the next until one has room
		n.history.noteLoss(n.now().Mono, before, now, s.Election)
	}
}
