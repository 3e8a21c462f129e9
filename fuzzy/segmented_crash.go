package fuzzy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/pipeline"
	"github.com/coxswain/raft/internal/segments"
	"github.com/coxswain/raft/internal/sim"
)

// logCallsMax is higher than the number of calls that one write takes, unless the write fills many segments.
const logCallsMax = 16

// crashSegments ends the process between any two calls. The disk completes a random prefix of the issued writes. The write
// after this prefix is cut short.
func (d *disk) crashSegments(n *node) {
	s := &d.segments
	if s.log == nil {
		return
	}
	issued := slices.Clone(n.queue)
	if n.writing > 0 {
		issued = append([]raft.Write{n.merged}, n.queue[n.writing:]...)
	}
	s.room()
	power := s.random.IntN(4) > 0 && (!s.failing || s.random.Coin()) // failed syncs may leave pages that only the cache has
	made := 0
	if s.ahead {
		made = 1
		d.complete(n, &issued[0])
	}
	if s.failed != noneFailed || s.log.Failed() != nil {
		if s.failed >= recordsFail {
			d.cutShort(n, &issued[made], s.failed)
		}
		s.end(power)
		return
	}
	if !s.failing {
		for whole := s.random.IntN(len(issued) + 1); made < whole; made++ {
			if failed, err := s.make(d, &issued[made]); failed != noneFailed {
				n.c.check.checkLogFailure(n, err)
				break
			}
			d.complete(n, &issued[made])
		}
	}
	s.interrupt()
	if s.tend(s.random.IntN(8)) == nil && made < len(issued) {
		if failed, _ := s.make(d, &issued[made]); failed != noneFailed {
			d.cutShort(n, &issued[made], failed)
		} else {
			d.complete(n, &issued[made])
		}
	}
	s.end(power)
}

// interrupt makes one of the next calls fail, or stops all calls after one of them.
func (s *segmented) interrupt() {
	calls, how := sim.Pick(s.random, s.random.IntN(4), s.random.IntN(logCallsMax)), s.random.IntN(4)
	switch {
	case !s.failing:
		s.tree.StopAfter(calls)
	case how == 0:
		s.tree.FailAt(1+calls, syscall.EIO)
	case how == 1:
		s.tree.FailAt(1+calls, syscall.ENOSPC)
	default:
		s.tree.FailSyncs(calls / 4)
	}
}

// complete applies a durable write to the model of the disk.
func (d *disk) complete(n *node, w *raft.Write) {
	d.madeSegments(n, w)
	d.write(n, w, -1)
}

// cutShort updates the model of the disk after a write was cut short. It applies the part of the write that is certainly
// durable. The next start finds out which of the entries are there.
func (d *disk) cutShort(n *node, w *raft.Write, failed failedWrite) {
	s := &d.segments
	if failed == recordsFail {
		return
	}
	if keepsRecords(w) {
		records := recordsOf(w)
		records.Commit = max(d.commit, w.Commit)
		d.complete(n, &records)
	}
	if w.Log != nil {
		s.cut = &raft.LogWrite{After: w.Log.After, Entries: w.Log.Entries}
		s.noteAppend(n, s.cut)
	}
}

// end ends a life of the disk if the power fails. If the power stays on, it ends only the life of the process.
func (s *segmented) end(power bool) {
	if power {
		keep := crashdisk.KeepNothing
		switch s.random.IntN(3) {
		case 0:
			keep = func() bool { return true }
		case 1:
			keep = s.random.Coin
		}
		s.tree.Cut(keep)
	} else {
		s.tree.Kill()
		s.tree.FailSyncs(-1)
		s.tree.FailAt(0, nil)
	}
	s.handOver, s.shortening = pipeline.FullDiskTransfer{}, shortening{}
	s.log, s.late, s.failing, s.failed, s.tended, s.ahead, s.waited = nil, false, false, noneFailed, false, false, false
}

// recoverLog reads the log as a start does, and sets the model of the disk to the contents that it finds. The start itself
// may also be cut short. recoverLog returns false if the process ends.
func (n *node) recoverLog() bool {
	d, s := &n.disk, &n.disk.segments
	if !n.c.profile.Segments.On {
		return true
	}
	if s.log != nil {
		s.end(s.random.Coin()) // the last start was interrupted early
	}
	for {
		s.log = n.openLog()
		trouble := s.random.IntN(8)
		switch trouble {
		case 0:
			s.tree.StopAfter(s.random.LogUniform(1, 100) - 1)
		case 1:
			s.tree.FailSyncs(s.random.IntN(4))
		}
		found, err := s.log.Recover(context.Background(), cmp.Or(s.of, d.incarnation), s.catalog, d.base)
		if err == nil {
			err = s.log.Begin()
		}
		s.tree.StopAfter(-1)
		s.tree.FailSyncs(-1)
		if trouble < 2 && (errors.Is(err, crashdisk.ErrPowerOff) || errors.Is(err, syscall.EIO)) {
			s.stats.CutStarts++
			s.end(s.random.IntN(4) > 0)
			continue
		}
		if err != nil {
			n.c.check.checkLogRefusal(n, err)
			n.lostLog()
			return false
		}
		return n.c.check.checkRecovery(n, &found)
	}
}

// lostLog ends a process with a log that cannot be read. The member is replaced, or gets an empty disk.
func (n *node) lostLog() {
	s := &n.disk.segments
	s.end(true)
	s.stats.Refused++
	if n.disk.damaged = s.random.Coin() || !n.mayEmpty(); !n.disk.damaged {
		n.empty()
		n.restartIn(s.random.Exponential(n.c.profile.ElectionTimeout))
	}
}

// compactSegments makes the log in segments begin after the base of the disk. If the log lacks the base's entry, the log is
// emptied and begins there.
func (n *node) compactSegments(reset bool) {
	s := &n.disk.segments
	if s.log == nil {
		return
	}
	life, base := s.tree.Life(), n.disk.base.ID
	keep := func(c segments.Catalog) error { return s.keep(life, c) }
	if reset {
		if err := s.log.Reset(base, keep); err != nil {
			n.c.check.checkLogFailure(n, err)
		}
		s.reached, s.recent = min(s.reached, base.Index), [2]appended{}
		return
	}
	_ = keep(s.log.Catalog()) // it cannot fail while the power is on
	s.log.Compact(base)
}

// tendLater makes a process maintain its segments some time later: the next segment may not be ready in time.
func (n *node) tendLater() {
	s := &n.disk.segments
	if !s.tended {
		s.tended = true
		n.later(s.random.Exponential(n.c.profile.Segments.Tend), event{kind: evTend})
	}
}

// tends makes the process maintain its segments.
func (n *node) tends() {
	s := &n.disk.segments
	if s.tended = false; s.log == nil || n.disk.stallTill == sim.Never {
		return
	}
	if n.c.now() < n.disk.stallTill || s.ahead { // a waiting write has exclusive use of the log
		n.tendLater() // while proposals are refused because of a full disk, no write would call this again
		return
	}
	if s.fullTill > 0 && s.fullTill <= n.c.now() {
		s.fullTill = 0
		s.room()
	}
	if err := s.tend(s.random.IntN(8)); err != nil {
		n.c.check.checkLogFailure(n, err)
		s.failed = tendingFails
		n.crash()
		n.restartIn(s.random.Exponential(n.c.profile.ElectionTimeout * 4))
		return
	}
	n.requestShortening()
	if s.log.Wanted() {
		n.tendLater()
	}
}

// tend does the chosen maintenance: it prunes segments, prepares the next segment, and marks the log. If it returns an error,
// the log takes no more writes.
func (s *segmented) tend(what int) error {
	if what&4 != 0 {
		if err := prune(s.log); err != nil {
			return err
		}
	}
	if what&1 != 0 && s.log.Wanted() {
		_ = s.log.Prepare(0) // it is tried again later
	}
	if what&2 != 0 {
		if err := s.log.Mark(); err != nil {
			return err
		}
		s.recent = [2]appended{}
	}
	return nil
}
