package storagetest

import (
	"errors"
	"fmt"

	"github.com/coxswain/raft"
)

func checkFinishDurable(o *opened) error {
	for number := byte(1); number < 4; number++ {
		s, err := o.take(o.id(raft.Index(number)*5), number, 100_000)
		if err != nil {
			return err
		}
		if err := errors.Join(o.write(record(s)), o.powerCut()); err != nil {
			return fmt.Errorf("snapshot %d: %w", number, err)
		}
	}
	return nil
}

func checkRecordOneStep(o *opened) error {
	for failing := range syncsPerWriteMax {
		s, err := o.take(o.id(raft.Index(failing)+5), byte(failing+1), 100)
		if err != nil {
			return err
		}
		w := record(s)
		w.Hard = vote(raft.Term(failing)+10, "n1").Hard
		old, next := o.model, o.model
		next.apply(w)
		failed, err := writeWithin(o, w, failing)
		if err != nil {
			return err
		}
		if err := o.place.PowerCut(); err != nil {
			return err
		}
		if err := o.open(); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		if o.model = old; o.stored.Hard == next.hard {
			o.model = next
		}
		if err := o.check(); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		if !failed {
			return nil
		}
	}
	return fmt.Errorf("a write fails even if its first %d syncs succeed", syncsPerWriteMax)
}

func checkCompactDurable(o *opened) error {
	for failing := range syncsPerWriteMax {
		w := compact(o.id(o.model.start.Index + 2))
		old, next := o.model, o.model
		next.apply(w)
		if err := o.place.FailSyncs(failing); err != nil {
			return err
		}
		failed := o.Write(w) != nil
		if !failed {
			_, err := o.snapshots().Prune()
			failed = err != nil
		}
		_ = o.Close()
		if err := errors.Join(o.place.FailSyncs(-1), o.place.PowerCut(), o.open()); err != nil {
			return err
		}
		o.model = old
		if o.stored.Log.Base.ID == next.start {
			o.model = next
		}
		if err := o.check(); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		if !failed {
			return o.powerCut()
		}
	}
	return fmt.Errorf("a write and Prune fail even if their first %d syncs succeed", syncsPerWriteMax)
}

// checkInstallDurable makes each sync of an installation fail in turn. Some of these failures leave a recorded snapshot with
// the former log. That is an interrupted installation, and Load must finish it.
func checkInstallDurable(o *opened) error {
	for failing := range syncsPerWriteMax {
		s, err := o.take(raft.EntryID{Term: 4, Index: raft.Index(failing)*10 + 100}, byte(failing+1), 100)
		if err != nil {
			return err
		}
		w := install(s)
		w.Hard, w.Log.Entries = vote(raft.Term(failing)+10, "n1").Hard, appendAfter(s.ID, 5, 3).Log.Entries
		old, next := o.model, o.model
		next.apply(w)
		if err := o.place.FailSyncs(failing); err != nil {
			return err
		}
		failed := o.Write(w) != nil
		_ = o.Close()
		if err := errors.Join(o.place.FailSyncs(-1), o.place.PowerCut(), o.open()); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		o.model = old
		if o.stored.Hard == next.hard {
			o.model.hard = next.hard
		}
		if o.stored.Snapshot.ID == s.ID {
			next.entries = next.entries[:min(len(next.entries), int(o.stored.Log.Last.Index-s.ID.Index))]
			o.model = next
		}
		if err := o.check(); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		if !failed {
			return o.powerCut()
		}
	}
	return fmt.Errorf("a write fails even if its first %d syncs succeed", syncsPerWriteMax)
}
