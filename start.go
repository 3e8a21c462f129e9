package raft

import (
	"cmp"
	"fmt"
)

// check returns an error if no member can start from the stored state.
func (s *Stored) check() error {
	base, last := s.Log.Base.ID, s.Log.Last
	if level := s.Log.config().Config.Level; level > featureLevelMax {
		return laterLevel(level)
	}
	if base.Index > 0 {
		if err := s.Log.Base.Check(); err != nil {
			return &CorruptError{File: "the stored log", Where: "its base", Reason: err}
		}
	}
	if err := s.checkSnapshot(); err != nil {
		return &CorruptError{File: "the stored snapshot", Where: "entry " + s.Snapshot.ID.String(), Reason: err}
	}
	if last.Term > s.Hard.Term {
		err := fmt.Errorf("entry %v of the log is newer (if this is an older copy, putting back the newest one is enough)", last)
		return &CorruptError{File: cmp.Or(s.File, "the stored state"), Where: fmt.Sprintf("the stored term %d", s.Hard.Term), Reason: err}
	}
	if s.Applied.Index < base.Index {
		if !s.restores() {
			return &AppliedBelowBaseError{s.Applied, base}
		}
		return nil
	}
	if l := newLog(s.Log); !l.has(s.Applied) {
		return &AppliedBeyondLogError{s.Applied, last}
	}
	return nil
}

// checkSnapshot checks the recorded snapshot, if there is one.
func (s *Stored) checkSnapshot() error {
	if s.Snapshot.ID == (EntryID{}) {
		return nil
	}
	if err := s.Snapshot.Check(); err != nil {
		return err
	}
	if l := newLog(s.Log); !l.has(s.Snapshot.ID) {
		return fmt.Errorf("the log does not hold that entry: it begins behind entry %v and ends at %v", s.Log.Base.ID, s.Log.Last)
	}
	return nil
}

// restores reports whether the FSM has to become the recorded snapshot, and can go on from there.
func (s *Stored) restores() bool {
	return s.Snapshot.File != SnapshotID{} && s.Snapshot.ID.Index > s.Applied.Index && s.Snapshot.ID.Index >= s.Log.Base.ID.Index
}
