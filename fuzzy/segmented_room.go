package fuzzy

import (
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// without returns the reason why the log of a running process has no room for another segment. It returns nil if there is
// room.
func (s *segmented) without() error {
	if s.ahead {
		return syscall.ENOSPC // the write waits, in the model until its end
	}
	if err := s.log.Room(); passes(err) {
		return err
	}
	return nil
}

// passes reports whether a segment could not be created for a reason that may pass: a lack of room or of file descriptors.
func passes(err error) bool { return files.NoRoom(err) || files.NoDescriptor(err) }

// refusesProposals reports whether a member refuses proposals because its disk is full, as a node does. If it refuses them,
// it also tries to transfer its leadership.
func (w *workload) refusesProposals(n *node, client int) bool {
	s := &n.disk.segments
	if s.log == nil {
		return false
	}
	refuses := pipeline.RefuseWithoutRoom(s.without(), n.status.Leader == n.id) != nil
	w.c.check.checkRoomRefusal(n, refuses)
	if !refuses {
		return false
	}
	s.stats.NoRoom++
	if to := s.handOver.Target(n.now().Mono, n.id, &n.status.Config, time.Duration(n.timeout())); to != "" {
		s.stats.Transfers++
		w.transferTo(n, client, raft.TransferRequested{To: to, Urgent: true})
	}
	return true
}

// shortening is the state of a process while its log has no room. The process requests a snapshot, and holds appends back. A
// node does the same in node/room.go and node/mailbox.go.
type shortening struct {
	due       pipeline.Shorten
	asked     raft.RequestID // the request that it waits for; 0: none
	allowance pipeline.Allowance
	held      []envelope // messages with appends that wait
}

// allowance returns the number of bytes of entries that a member takes from one leader while the member has no room.
func (n *node) allowance() uint64 { return uint64(n.c.profile.Segments.Bytes) / 16 }

// requestShortening makes a member request a snapshot if its log has no room.
func (n *node) requestShortening() {
	s := &n.disk.segments
	full := s.without()
	if full == nil {
		n.release()
	}
	if !n.c.profile.Snapshots.On || s.asked != 0 || !s.due.Due(n.now().Mono, files.NoRoom(full), s.written, n.allowance()/2) {
		return
	}
	s.stats.Shortenings++
	s.asked = n.c.work.snapshot(n, 0)
}

// holdsAppend reports whether a message has to wait until there is room.
func (n *node) holdsAppend(e envelope) bool {
	s := &n.disk.segments
	r, appends := e.message.Body.(raft.AppendRequest)
	if !appends || s.log == nil {
		return false
	}
	full := s.without() != nil
	if full {
		n.requestShortening()
	} else {
		n.release()
	}
	if s.allowance.Takes(full, e.message.Term, pipeline.RecordBytes(r.Entries), int(n.allowance())) {
		return false
	}
	if len(s.held) < inboxMax/2 {
		s.stats.HeldBack++
		s.held = append(s.held, e)
	}
	return true
}

// release stops holding appends back.
func (n *node) release() {
	s := &n.disk.segments
	held := s.held
	s.held = nil
	for _, e := range held {
		n.receive(e)
	}
}

// endShortening records the answer to a request for a snapshot.
func (n *node) endShortening(asked raft.RequestID) {
	if s := &n.disk.segments; s.asked == asked {
		s.asked = 0
	}
}

// begins returns the index after which the stored log begins. If a write waits for room, it has already moved this index.
func (d *disk) begins() raft.Index {
	if s := &d.segments; s.ahead {
		return max(d.base.ID.Index, s.log.Start().Index)
	}
	return d.base.ID.Index
}

// fillPermanently leaves a member's disk without room for another segment until the end of the run.
func (s *segmented) fillPermanently() {
	s.room()
	s.fullTill = sim.Never
	s.tree.Quota(s.tree.Used())
}
