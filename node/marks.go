package node

import (
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coxswain/raft"
)

// noticeMark stops serving if the core has found out that this member's own store must not be used any longer. The node ends
// once the mark is durable.
func (n *Node) noticeMark(m *raft.Mark) {
	if m == nil {
		return
	}
	n.mark.CompareAndSwap(nil, m)
	n.logger.log(hclog.Error, "this member must not continue", "error", m.Err())
	n.requests.end(m.Err())
	n.applied.end(m.Err())
	n.watched.wakeAll()
}

// noticeEnd ends this member if the cluster needs a newer program, or has removed it. The core of an outdated program applies
// nothing more, so the node need not wait.
func (n *Node) noticeEnd() {
	if err := n.core.Outdated(); err != nil {
		n.fail(err)
	}
	n.noticeRemoved(n.core.Removed())
}

// noticeRemoved ends this member if the entry at index by removed it from the cluster. by is 0 if this member was not
// removed, or has joined again. If this member leads, it first answers the caller and transfers its leadership. Then, as
// after a mark, the node waits for an election timeout, so that its last messages leave. It serves no calls meanwhile. If the
// node learns in that time that it has joined again, it continues.
func (n *Node) noticeRemoved(by raft.Index) {
	if by == 0 {
		n.cancelLeaving()
		return
	}
	if n.current.Role == raft.Leader {
		return
	}
	removed := &raft.RemovedError{Index: by}
	if !n.removed.CompareAndSwap(nil, removed) {
		return
	}
	n.leaving = removed
	n.logger.log(hclog.Warn, "this member was removed from the cluster, and ends", "configuration", uint64(by))
	n.requests.end(removed)
	n.applied.end(removed)
	n.watched.wakeAll()
	n.afterTimeout(func() {
		if n.removed.Load() == removed {
			n.endRemoved(removed)
		}
	})
}

// cancelLeaving makes a member that was about to end serve calls again. The member has joined the cluster again.
func (n *Node) cancelLeaving() {
	removed := n.leaving
	if removed == nil {
		return
	}
	n.leaving = nil
	select {
	case <-n.stop:
		return // too late
	default:
	}
	if !n.removed.CompareAndSwap(removed, nil) {
		return // a handshake has also reported the removal
	}
	n.logger.log(hclog.Warn, "this member has joined the cluster again since it was removed, and continues", "configuration", uint64(removed.Index))
	if n.markError() == nil {
		n.requests.resume()
		n.applied.resume()
	}
	n.watched.wakeAll()
}

// endRemoved ends a member that was removed from the cluster. Later calls fail with the error.
func (n *Node) endRemoved(removed *raft.RemovedError) {
	n.removed.CompareAndSwap(nil, removed)
	n.fail(removed)
}

// reportLeftOver logs which files Load has deleted.
func (n *Node) reportLeftOver(stored raft.Stored) {
	if len(stored.LeftOver) > 0 {
		n.logger.log(hclog.Info, "files that a crash left behind were deleted: unfinished or discarded snapshots, the unfinished end of the log, or a log that was being moved",
			"count", len(stored.LeftOver), "files", strings.Join(stored.LeftOver, " "))
	}
}

// markError returns an error if the store has a mark and must not be used any longer, even if the mark is not durable yet. It
// returns nil if there is no mark.
func (n *Node) markError() error {
	if m := n.mark.Load(); m != nil {
		return m.Err()
	}
	return nil
}

// endMarked ends the node one election timeout after the mark has become durable. The delay lets the leader still hear the
// reason. The node serves no calls meanwhile.
func (n *Node) endMarked(m *raft.Mark) {
	n.afterTimeout(func() { n.fail(m.Err()) })
}

// afterTimeout calls f after an election timeout, unless the node ends before.
func (n *Node) afterTimeout(f func()) {
	n.wg.Go(func() {
		timer := time.NewTimer(n.cfg.ElectionTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-n.stop:
		}
	})
}
