package storagetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/coxswain/raft"
)

// The rules of snapshots that need a PowerCut.
const (
	RuleFinishDurable  = "a snapshot that Finish has returned for survives a power cut, once a write records it"
	RuleRecordOneStep  = "a write of Snapshot and Hard that failed leaves the old ones or the new ones"
	RuleInstallDurable = "a power cut within any sync of an installation leaves the log before it or the snapshot"
	RuleCompactDurable = "a base survives a power cut within any sync of its write and of Prune"
)

// snapshotChecks are for stores that are a raft.SnapshotStorage.
var snapshotChecks = []Check{
	{Rule: "a recorded snapshot and its bytes come back", Run: withLog(30, checkRecorded)},
	{Rule: "Load ignores a snapshot that was not finished, or is not recorded", Run: withLog(9, checkUnrecorded)},
	{Rule: "Finish refuses a size, checksum or file that differs from what was written", Run: withLog(9, checkFinishRefuses)},
	{Rule: "a log begins after its base, and Prune changes nothing that can be seen", Run: withLog(9_000, checkCompact)},
	{Rule: "bases and snapshots keep their configuration, and the log keeps the later ones", Run: withLog(30, checkLaterConfigurations)},
	{Rule: "a base that is not in the log is refused and changes nothing", Run: withLog(30, checkBaseNotInLog)},
	{Rule: "one write installs a snapshot that replaces the log", Run: withLog(30, checkInstall)},
	{Rule: "the write of an installation may append entries, and also drops a log that holds the snapshot's entry", Run: withLog(30, checkInstallAndAppend)},
	{Rule: "in a log after a snapshot, a write after an entry that is not in the log is refused and changes nothing", Run: withLog(9, checkNotInCompacted)},
	{Rule: "in a log after a snapshot, Entries of what is not stored fails with ErrNotStored", Run: withLog(9, checkNotStoredInCompacted)},
	{Rule: "Load finishes an installation that was interrupted", Run: withLog(30, checkInterruptedInstall)},
	{Rule: "a log that holds the recorded snapshot's entry, or begins after it, is kept", Run: withLog(30, checkLogKept)},
	{Rule: "a record without a file is kept", Run: withLog(30, checkRecordWithoutFile)},
	{Rule: "Load of a marked store deletes no snapshot: each is evidence", Run: withLog(30, checkMarkedKept)},
	{Rule: "an open reader can read a discarded snapshot to its end; then the snapshot is gone", Run: withLog(9, checkDiscard)},
	{Rule: "snapshots are written, read and discarded concurrently with Write and Prune", Run: withLog(9, checkSnapshotsBeside)},
	{Rule: RuleFinishDurable, NeedsPowerCut: true, Run: withLog(30, checkFinishDurable)},
	{Rule: RuleRecordOneStep, NeedsPowerCut: true, Run: withLog(30, checkRecordOneStep)},
	{Rule: RuleInstallDurable, NeedsPowerCut: true, Run: withLog(30, checkInstallDurable)},
	{Rule: RuleCompactDurable, NeedsPowerCut: true, Run: withLog(60, checkCompactDurable)},
}

func checkRecorded(o *opened) error {
	for number, size := range []int{1, 70_000, 3 << 20} {
		s, err := o.take(o.id(raft.Index(10*number+5)), byte(number+1), size)
		if err != nil {
			return err
		}
		if err := o.checkBytes(s.File); err != nil {
			return fmt.Errorf("before it is recorded: %w", err)
		}
		if err := errors.Join(o.write(record(s)), o.reopen()); err != nil {
			return err
		}
	}
	free, err := o.snapshots().FreeBytes()
	if err != nil || free <= 0 {
		return fmt.Errorf("%d bytes are free: %w", free, err)
	}
	return nil
}

func checkUnrecorded(o *opened) error {
	kept, err := o.take(o.id(4), 1, 100)
	if err != nil {
		return err
	}
	if err := o.write(record(kept)); err != nil {
		return err
	}
	finished, err := o.take(o.id(5), 2, 100)
	if err != nil {
		return err
	}
	for number := byte(3); number < 5; number++ {
		s, data := described(o.id(6), number, 100_000)
		w, err := o.snapshots().CreateSnapshot(s.File)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		if _, err := o.snapshots().OpenSnapshot(s.File); err == nil {
			return errors.New("an unfinished snapshot could be opened")
		}
		if number == 3 {
			if err := errors.Join(w.Abort(), w.Abort()); err != nil {
				return fmt.Errorf("aborting, twice: %w", err)
			}
		}
	}
	if err := o.reopen(); err != nil {
		return err
	}
	for _, number := range []byte{finished.File[0], 3, 4} {
		if _, err := o.snapshots().OpenSnapshot(raft.SnapshotID{number, 1}); err == nil {
			return fmt.Errorf("the unrecorded snapshot %d could be opened after Load", number)
		}
	}
	_, err = o.take(o.id(6), 4, 10)
	return err
}

func checkFinishRefuses(o *opened) error {
	for what, change := range map[string]func(*raft.Snapshot){
		"size":     func(s *raft.Snapshot) { s.Size-- },
		"checksum": func(s *raft.Snapshot) { s.Sum++ },
		"file":     func(s *raft.Snapshot) { s.File[15]++ },
	} {
		s, data := described(o.id(5), 1, 100)
		w, err := o.snapshots().CreateSnapshot(s.File)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		other := s
		if change(&other); w.Finish(other) == nil {
			return fmt.Errorf("another %s was accepted by Finish", what)
		}
		if err := w.Abort(); err != nil {
			return err
		}
		if _, err := o.snapshots().OpenSnapshot(s.File); err == nil {
			return fmt.Errorf("a snapshot with another %s could be opened", what)
		}
	}
	return nil
}

// pruneAll calls Prune until nothing is left to prune, and checks the store after each call.
func (o *opened) pruneAll() error {
	for range 10_000 {
		before := o.snapshots().LogBytes()
		more, err := o.snapshots().Prune()
		if err != nil {
			return fmt.Errorf("pruning: %w", err)
		}
		if after := o.snapshots().LogBytes(); more && after >= before {
			return fmt.Errorf("there is more to prune, but LogBytes says %d, and said %d before the call", after, before)
		}
		if err := o.checkEntries(); err != nil {
			return fmt.Errorf("after Prune: %w", err)
		}
		if !more {
			return nil
		}
	}
	return errors.New("calls of Prune never end")
}

func checkCompact(o *opened) error {
	full := o.snapshots().LogBytes()
	for _, i := range []raft.Index{10, 5_000, 9_000} {
		before := o.model.start
		if err := o.write(compact(o.id(i))); err != nil {
			return err
		}
		for _, span := range []raft.Span{
			{After: before.Index, Last: i}, {After: i - 1, Last: i}, {After: i - 1, Last: i + 1}, {After: 0, Last: 1},
		} {
			if err := o.checkNotStored(span); err != nil {
				return err
			}
		}
		if err := errors.Join(o.reopen(), o.pruneAll(), o.reopen()); err != nil {
			return fmt.Errorf("base %d: %w", i, err)
		}
	}
	if left := o.snapshots().LogBytes(); left > full/100 {
		return fmt.Errorf("LogBytes says %d of an empty log, and said %d before", left, full)
	}
	if err := o.write(appendAfter(o.model.start, 4, 5)); err != nil {
		return err
	}
	return o.reopen()
}

func checkLaterConfigurations(o *opened) error {
	if err := errors.Join(o.write(configured(appendAfter(o.model.last(), 4, 10), 32, 35, 38)), o.reopen()); err != nil {
		return err
	}
	b := baseAt(o.id(36))
	b.ConfigIndex, b.Config = 35, configuration(o.id(35))
	if err := errors.Join(o.write(raft.StorageWrite{Base: &b}), o.reopen(), o.pruneAll(), o.reopen()); err != nil {
		return fmt.Errorf("a base: %w", err)
	}
	if err := errors.Join(o.write(appendAfter(o.id(37), 5, 3)), o.reopen()); err != nil {
		return fmt.Errorf("a truncation after the base: %w", err)
	}
	s, data := described(raft.EntryID{Term: 6, Index: 100}, 1, 1000)
	s.ConfigIndex, s.Config = 90, configuration(raft.EntryID{Term: 6, Index: 90})
	if err := errors.Join(o.finish(s, data), o.write(install(s)), o.reopen()); err != nil {
		return fmt.Errorf("an installation: %w", err)
	}
	return errors.Join(o.write(configured(appendAfter(s.ID, 6, 5), 101, 104)), o.reopen())
}

func checkBaseNotInLog(o *opened) error {
	if err := o.write(compact(o.id(4))); err != nil {
		return err
	}
	for _, id := range []raft.EntryID{{Term: 9, Index: 5}, {Term: 3, Index: 31}, {Term: 1, Index: 3}} {
		var refusal *raft.NotInLogError
		if err := o.Write(compact(id)); !errors.As(err, &refusal) {
			return fmt.Errorf("a base %v: %v, which is not a *NotInLogError", id, err)
		}
		if err := o.reopen(); err != nil {
			return fmt.Errorf("a base %v was refused: %w", id, err)
		}
	}
	return nil
}

// checkNotInCompacted is checkNotInLog for a log that begins after a snapshot.
func checkNotInCompacted(o *opened) error {
	id := raft.EntryID{Term: 3, Index: 10}
	s, err := o.take(id, 1, 100)
	if err != nil {
		return err
	}
	if err := o.write(install(s), appendAfter(id, 3, 10)); err != nil {
		return err
	}
	return o.checkNotInLog(
		raft.EntryID{Term: 2, Index: 15}, // another term at the place
		raft.EntryID{Term: 1, Index: 21}, // beyond the end
		raft.EntryID{Term: 1, Index: 10}, // the index where the log begins, with another term
		raft.EntryID{Term: 0, Index: 9},  // before the beginning of the log
		raft.EntryID{},                   // the beginning of an empty log
	)
}

func checkNotStoredInCompacted(o *opened) error {
	id := raft.EntryID{Term: 1, Index: 10}
	s, err := o.take(id, 1, 100)
	if err != nil {
		return err
	}
	if err := o.write(install(s), appendAfter(id, 2, 5)); err != nil {
		return err
	}
	return errors.Join(o.checkNoneStored(raft.Span{After: 9, Last: 11}, raft.Span{After: 0, Last: 1}), o.checkNoneStored(notStoredUpTo15...))
}

// checkInstallAndAppend installs a snapshot and appends entries in the same write.
func checkInstallAndAppend(o *opened) error {
	for number, at := range []struct {
		id    func() raft.EntryID
		count int
	}{
		{func() raft.EntryID { return o.id(20) }, 3}, // in the log
		{func() raft.EntryID { return o.id(22) }, 0}, // in the log; the entries after it are dropped
		{o.model.last, 0}, // the last entry of the log
		{func() raft.EntryID { return raft.EntryID{Term: 9, Index: 100} }, 3},  // beyond the log
		{func() raft.EntryID { return raft.EntryID{Term: 10, Index: 102} }, 2}, // at the index of an entry of another term
	} {
		id := at.id()
		s, err := o.take(id, byte(number+1), 1000)
		if err != nil {
			return err
		}
		w := install(s)
		w.Log.Entries = appendAfter(id, id.Term+1, at.count).Log.Entries
		if err := errors.Join(o.write(w), o.checkEntries(), o.reopen()); err != nil {
			return fmt.Errorf("snapshot of %v: %w", id, err)
		}
		if err := errors.Join(o.write(appendAfter(o.model.last(), id.Term+2, 1)), o.reopen()); err != nil {
			return fmt.Errorf("an entry after the snapshot of %v: %w", id, err)
		}
	}
	return nil
}

func checkInstall(o *opened) error {
	for number, id := range []raft.EntryID{
		{Term: 4, Index: 100}, // beyond the log
		{Term: 5, Index: 103}, // at the index of an entry of another term
		{Term: 6, Index: 103}, // the same index again
	} {
		s, err := o.take(id, byte(number+1), 1000)
		if err != nil {
			return err
		}
		w := install(s)
		w.Hard = vote(id.Term, "").Hard
		if number == 2 { // the write of an install may also hold a mark
			w.Mark = mark(raft.MarkContradicted).Mark
		}
		if err := o.write(w); err != nil {
			return err
		}
		for _, span := range []raft.Span{{After: 0, Last: 1}, {After: 20, Last: 21}, {After: id.Index - 1, Last: id.Index + 1}} {
			if err := o.checkNotStored(span); err != nil {
				return err
			}
		}
		if err := errors.Join(o.reopen(), o.write(appendAfter(id, id.Term, 5)), o.reopen(), o.pruneAll(), o.reopen()); err != nil {
			return fmt.Errorf("snapshot of %v: %w", id, err)
		}
	}
	return nil
}

func checkInterruptedInstall(o *opened) error {
	for number, id := range []raft.EntryID{{Term: 9, Index: 25}, {Term: 9, Index: 100}} {
		s, err := o.take(id, byte(number+1), 1000)
		if err != nil {
			return err
		}
		if err := o.write(record(s)); err != nil {
			return err
		}
		o.model.apply(install(s)) // by Load
		if err := errors.Join(o.reopen(), o.reopen(), o.write(appendAfter(id, 9, 3)), o.pruneAll(), o.reopen()); err != nil {
			return fmt.Errorf("snapshot of %v: %w", id, err)
		}
	}
	return nil
}

func checkLogKept(o *opened) error {
	s, err := o.take(o.id(10), 1, 1000)
	if err != nil {
		return err
	}
	return errors.Join(o.write(record(s)), o.reopen(), o.write(compact(s.ID)), o.reopen(), o.write(compact(o.id(20))), o.reopen())
}

func checkRecordWithoutFile(o *opened) error {
	s, err := o.take(o.id(10), 1, 1000)
	if err != nil {
		return err
	}
	if err := o.write(record(s), record(raft.Snapshot{Base: s.Base})); err != nil {
		return err
	}
	if err := o.reopen(); err != nil {
		return err
	}
	if _, err := o.snapshots().OpenSnapshot(s.File); err == nil {
		return errors.New("a file that is no longer recorded could be opened after Load")
	}
	return nil
}

// checkMarkedKept leaves an unrecorded file in a marked store, as if the member was installing a snapshot when it ended. The
// store must keep the file.
func checkMarkedKept(o *opened) error {
	s, err := o.take(raft.EntryID{Term: 4, Index: 100}, 1, 1000)
	if err != nil {
		return err
	}
	if err := errors.Join(o.write(mark(raft.MarkContradicted)), o.reopen(), o.reopen()); err != nil {
		return err
	}
	return o.checkBytes(s.File)
}

func checkDiscard(o *opened) error {
	s, err := o.take(o.id(4), 1, 100_000)
	if err != nil {
		return err
	}
	r, err := o.snapshots().OpenSnapshot(s.File)
	if err != nil {
		return err
	}
	if err := o.snapshots().DiscardSnapshot(s.File); err != nil {
		return fmt.Errorf("discarding a snapshot with an open reader: %w", err)
	}
	if err := errors.Join(sameBytes(r, o.model.files[s.File]), r.Close()); err != nil {
		return fmt.Errorf("a discarded snapshot: %w", err)
	}
	if _, err := o.snapshots().OpenSnapshot(s.File); err == nil {
		return errors.New("a discarded snapshot could be opened after its last reader")
	}
	if err := o.snapshots().DiscardSnapshot(s.File); err != nil {
		return fmt.Errorf("discarding a snapshot again: %w", err)
	}
	_, err = o.take(o.id(5), 1, 10)
	return err
}

// checkSnapshotsBeside writes the log and prunes it. Meanwhile one goroutine takes and discards snapshots, and another
// goroutine reads the recorded snapshot.
func checkSnapshotsBeside(o *opened) error {
	s, err := o.take(o.id(4), 1, 200_000)
	if err != nil {
		return err
	}
	if err := o.write(record(s)); err != nil {
		return err
	}
	want := o.model.files[s.File]
	store, failures := o.snapshots(), make(chan error, 2)
	var others sync.WaitGroup
	others.Go(func() { failures <- readAgain(store, s.File, want) })
	others.Go(func() { failures <- takeAgain(store, s.ID) })
	for range besideWrites / 4 {
		last := o.model.last()
		if err = o.write(appendAfter(last, last.Term, 50), compact(last)); err != nil {
			break
		}
		if _, err = store.Prune(); err != nil {
			break
		}
	}
	others.Wait()
	return errors.Join(err, <-failures, <-failures, o.pruneAll())
}

func readAgain(store raft.SnapshotStorage, file raft.SnapshotID, want []byte) error {
	for range 20 {
		r, err := store.OpenSnapshot(file)
		if err != nil {
			return err
		}
		if err := errors.Join(sameBytes(r, want), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func takeAgain(store raft.SnapshotStorage, id raft.EntryID) error {
	beside := &opened{Storage: store}
	for number := byte(2); number < 12; number++ {
		s, err := beside.take(id, number, 50_000)
		if err != nil {
			return err
		}
		if err := errors.Join(beside.checkBytes(s.File), store.DiscardSnapshot(s.File)); err != nil {
			return err
		}
	}
	return nil
}
