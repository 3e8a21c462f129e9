package raft

import "fmt"

// check returns an error if no member can start from the stored state.
func (s *Stored) check() error {
	base, last := s.Log.Base.ID, s.Log.Last
	if base.Index > 0 {
		if err := s.Log.Base.Check(); err != nil {
			return &CorruptError{File: "the stored log", Where: "its base", Reason: err}
		}
	}
	if last.Term > s.Hard.Term {
		err := fmt.Errorf("it is newer than the stored term %d", s.Hard.Term)
		return &CorruptError{File: "the stored log", Where: "entry " + last.String(), Reason: err}
	}
	if s.Applied.Index < base.Index {
		return &AppliedBelowBaseError{s.Applied, base}
	}
	if l := newLog(s.Log); !l.has(s.Applied) {
		return &AppliedBeyondLogError{s.Applied, last}
	}
	return nil
}
