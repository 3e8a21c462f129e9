package segments_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// script is a sequence of actions on a log. It ends when a call fails.
type script struct {
	home
	log   *segments.Log
	found segments.Found // what the last start found
	acked model          // content that was durable when the last call returned
	tried model          // content after the present call
	kept  int            // number of entries of tried that are also in acked
}

type act func(s *script) error

func newScript(disk files.FS) *script { return &script{home: *newHome(disk)} }

// history fills several segments, truncates within and across them, leaves marks, compacts, resets, and reuses files.
var history = []act{
	starts(), appends(0, 1, 3), appends(0, 1, 12), marks(), prepares(), appends(0, 2, 9), appends(4, 3, 2), appends(2, 3, 0),
	appends(0, 4, 1), restarts(), appends(10, 5, 14), compacts(3), prepares(), appends(0, 5, 16), appends(0, 5, 16), compacts(1),
	appends(0, 6, 18), resets(90, 7), marks(), appends(0, 7, 2), restarts(), appends(0, 7, 15), compacts(0), prepares(), appends(0, 8, 1),
}

func starts() act {
	return func(s *script) (err error) {
		s.log, s.found, err = s.open()
		return err
	}
}

func restarts() act {
	return func(s *script) error {
		if err := s.log.Close(); err != nil {
			return err
		}
		return starts()(s)
	}
}

// appends returns an act that appends after an earlier entry of the log. That entry is back entries before the last one.
func appends(back int, term raft.Term, count int) act {
	return func(s *script) error {
		after := s.acked.start
		if n := len(s.acked.entries) - back; n > 0 {
			after = s.acked.entries[n-1].ID()
		}
		all := entries(after, term, count)
		s.tried = s.acked.clone()
		s.tried.append(after, all)
		s.kept = len(s.tried.entries) - count
		if err := s.log.Append(after, all, after.Index); err != nil {
			return err
		}
		s.ended(s.tried)
		return nil
	}
}

func (s *script) ended(now model) {
	s.acked, s.tried, s.kept = now, now.clone(), len(now.entries)
}

func marks() act { return func(s *script) error { return s.log.Mark() } }

func prepares() act { return func(s *script) error { return s.prepare(s.log, 0) } }

// compacts returns an act that compacts all but the given number of entries, and prunes.
func compacts(left int) act {
	return func(s *script) error {
		base := s.acked.entries[len(s.acked.entries)-1-left].ID()
		s.compact(s.log, base)
		now := s.acked.clone()
		now.compact(base)
		s.ended(now)
		for more := true; more; {
			var err error
			if more, err = s.log.Prune(); err != nil {
				return err
			}
		}
		return nil
	}
}

func resets(i raft.Index, term raft.Term) act {
	return func(s *script) error {
		err := s.reset(s.log, id(i, term))
		if err == nil {
			s.ended(model{start: id(i, term)})
		}
		return err
	}
}

func (s *script) run(acts []act) error {
	for _, do := range acts {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// on returns a copy of the script. The log of the copy is on the other disk.
func (s *script) on(disk files.FS) *script {
	other := *s
	other.log, other.disk = nil, disk
	return &other
}

// resume starts again. It checks that the log holds everything that was acknowledged. Beyond that, the log may hold only a
// prefix of the write that failed.
func (s *script) resume() error {
	if err := starts()(s); err != nil {
		return err
	}
	before := s.acked.differs(s.log)
	if before == nil {
		return s.checkFound()
	}
	last := s.log.Last().Index
	if s.log.Start() != s.tried.start || last < s.tried.start.Index+raft.Index(s.kept) || last > s.tried.last().Index {
		return fmt.Errorf("%w; nor is it between %v and %v", before, s.tried.last().Index-raft.Index(len(s.tried.entries)-s.kept), s.tried.last())
	}
	now := model{s.tried.start, s.tried.entries[:last-s.tried.start.Index]}
	if err := now.differs(s.log); err != nil {
		return fmt.Errorf("%w; nor is it what was written: %w", before, err)
	}
	s.ended(now)
	return s.checkFound()
}

// checkFound compares the log that the last start found with the expected log.
func (s *script) checkFound() error {
	if want := s.acked.stored(s.base); !reflect.DeepEqual(s.found.Log, want) {
		return fmt.Errorf("the start has found %+v, not %+v", s.found.Log, want)
	}
	return nil
}

// writeAndRestart writes once more, and starts again.
func (s *script) writeAndRestart() error {
	return s.run([]act{appends(1, math.MaxInt32, 5), restarts(), func(s *script) error {
		return errors.Join(s.acked.differs(s.log), s.checkFound())
	}})
}
