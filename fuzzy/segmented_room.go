package fuzzy

import (
	"syscall"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/sim"
)

// without returns why the log of a running process finds no room for another segment, or nil.
func (s *segmented) without() error {
	if s.ahead {
		return syscall.ENOSPC // its write waits, in the model until it ends
	}
	if err := s.log.Room(); passes(err) {
		return err
	}
	return nil
}

// passes reports whether a segment could not be made for want of what there may be again: room, or a file descriptor.
func passes(err error) bool { return files.NoRoom(err) || files.NoDescriptor(err) }

// refusesProposals reports whether a member refuses proposals because its disk is full, as a node does. Then it hands over.
func (w *workload) refusesProposals(n *node, client int) bool {
	s := &n.disk.segments
	if s.log == nil {
		return false
	}
	refuses := pipeline.RefuseWithoutRoom(s.without(), n.status.Leader == n.id) != nil
	w.c.check.refusesForRoom(n, refuses)
	if !refuses {
		return false
	}
	s.stats.NoRoom++
	if to := s.handOver.Target(n.now().Mono, n.id, &n.status.Config, time.Duration(n.timeout())); to != "" {
		s.stats.HandOvers++
		w.transferTo(n, client, to)
	}
	return true
}

// begins returns the index behind which the stored log begins. A write that waits for room has already moved that.
func (d *disk) begins() raft.Index {
	if s := &d.segments; s.ahead {
		return max(d.base.ID.Index, s.log.Start().Index)
	}
	return d.base.ID.Index
}

// fillForGood leaves the disk of a member no room for another segment, for the rest of the run.
func (s *segmented) fillForGood() {
	s.room()
	s.fullTill = sim.Never
	s.tree.Quota(s.tree.Used())
}
