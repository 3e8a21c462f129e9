package storagetest

import (
	"errors"
	"fmt"

	"github.com/coxswain/raft"
)

// The rules that need a PowerCut.
const (
	RuleWriteDurable  = "a write survives a power cut once Write has returned"
	RuleLoadDurable   = "what Load returns survives a power cut right after it"
	RuleFormatDurable = "an incarnation and a start count survive a power cut once Load has returned them"
	RuleFailedWrite   = "a failed write leaves a prefix of itself, and is the last write"
)

// syncsPerWriteMax is the maximum number of syncs that one write may need. The suite makes each of these syncs fail in turn.
const syncsPerWriteMax = 16

var durabilityChecks = []Check{
	{Rule: RuleFormatDurable, NeedsPowerCut: true, Run: inStore(func(o *opened) error {
		return errors.Join(o.powerCut(), o.powerCut())
	})},
	{Rule: RuleWriteDurable, NeedsPowerCut: true, Run: inStore(checkWriteDurable)},
	{Rule: RuleLoadDurable, NeedsPowerCut: true, Run: inStore(checkLoadDurable)},
	{Rule: RuleFailedWrite, NeedsPowerCut: true, Run: inStore(checkFailedWrite)},
}

// history returns a sequence of writes. They append entries, truncate the log, and change term and vote. Some of the entries
// hold configurations.
func history() []raft.StorageWrite {
	both := raft.StorageWrite{Hard: vote(3, "n2").Hard, Log: configured(appendAfter(raft.EntryID{Term: 2, Index: 30}, 3, 10), 33).Log}
	return []raft.StorageWrite{
		appendAfter(raft.EntryID{}, 0, 1), vote(1, "n1"), appendAfter(raft.EntryID{Index: 1}, 1, 1),
		configured(appendAfter(raft.EntryID{Term: 1, Index: 2}, 1, 40), 5, 19, 30), vote(2, "n3"),
		remembers(3), configured(appendAfter(raft.EntryID{Term: 1, Index: 20}, 2, 100), 25, 110), remembers(5), both,
		mark(raft.MarkStaleImage), appendAfter(raft.EntryID{Term: 3, Index: 40}, 3, 1),
	}
}

func checkWriteDurable(o *opened) error {
	for k, w := range history() {
		if err := o.write(w); err != nil {
			return fmt.Errorf("write %d: %w", k+1, err)
		}
		if err := o.powerCut(); err != nil {
			return fmt.Errorf("write %d: %w", k+1, err)
		}
	}
	return nil
}

// checkLoadDurable leaves bytes that are written but not on the disk, as a process does that is killed within a sync. It does
// this for each sync of a write in turn. If Load returns any of these bytes, they must survive a power cut.
func checkLoadDurable(o *opened) error {
	if err := o.write(appendAfter(raft.EntryID{}, 0, 1), configured(appendAfter(raft.EntryID{Index: 1}, 1, 30), 2, 20)); err != nil {
		return err
	}
	for failing := range syncsPerWriteMax {
		term := raft.Term(failing) + 2
		w := configured(appendAfter(raft.EntryID{Index: 1}, term, 30), 15)
		w.Hard = vote(term, "n1").Hard
		failed, err := writeWithin(o, w, failing)
		if err != nil {
			return err
		}
		if err := o.reload(); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
		if err := o.powerCut(); err != nil {
			return fmt.Errorf("sync %d failed, then a start: %w", failing+1, err)
		}
		if !failed {
			return nil
		}
	}
	return fmt.Errorf("a write fails even if its first %d syncs succeed", syncsPerWriteMax)
}

// writeWithin writes to a disk that fails after the given number of syncs. Then it closes the store and repairs the disk.
func writeWithin(o *opened, w raft.StorageWrite, syncs int) (failed bool, err error) {
	if err := o.place.FailSyncs(syncs); err != nil {
		return false, err
	}
	failed = o.Write(w) != nil
	_ = o.Close()
	return failed, o.place.FailSyncs(-1)
}

// reload opens the store. From then on, the model expects what the store returned.
func (o *opened) reload() error {
	if err := o.open(); err != nil {
		return err
	}
	base := o.stored.Log.Base
	o.model = model{
		hard: o.stored.Hard, memory: o.stored.Memory, mark: o.stored.Mark,
		base: base, start: base.ID, snapshot: o.stored.Snapshot, files: o.model.files,
	}
	if last := o.stored.Log.Last.Index; last > base.ID.Index {
		entries, err := o.Entries(raft.Span{After: base.ID.Index, Last: last}, 1<<30)
		if err != nil {
			return err
		}
		o.model.entries = entries
	}
	return o.check()
}

// checkFailedWrite checks that a store keeps to the order of the contract: first Hard, then Log. A failed write may leave a
// prefix of Log.
func checkFailedWrite(o *opened) error {
	if err := o.write(appendAfter(raft.EntryID{}, 0, 1), vote(1, "n1")); err != nil {
		return err
	}
	for failing := range syncsPerWriteMax {
		before := o.model
		w := configured(appendAfter(before.last(), 2, 3), before.last().Index+2)
		w.Hard = vote(raft.Term(failing)+2, "n2").Hard
		if err := o.place.FailSyncs(failing); err != nil {
			return err
		}
		if o.Write(w) == nil {
			return nil
		}
		if o.Write(vote(99, "n3")) == nil {
			return errors.New("a store was written to again after a write had failed")
		}
		if err := o.place.PowerCut(); err != nil {
			return err
		}
		_ = o.Close()
		if err := o.reload(); err != nil {
			return err
		}
		if err := checkPrefix(before, w, o.model); err != nil {
			return fmt.Errorf("sync %d failed: %w", failing+1, err)
		}
	}
	return fmt.Errorf("a write fails even if its first %d syncs succeed", syncsPerWriteMax)
}

// checkPrefix checks that the store holds its earlier content plus a prefix of w.
func checkPrefix(before model, w raft.StorageWrite, now model) error {
	if now.hard != before.hard && now.hard != *w.Hard {
		return fmt.Errorf("term and vote are %+v, neither the old nor the new ones", now.hard)
	}
	added := len(now.entries) - len(before.entries)
	if added < 0 || added > len(w.Log.Entries) {
		return fmt.Errorf("%d entries were added by a write of %d", added, len(w.Log.Entries))
	}
	if added > 0 && now.hard != *w.Hard {
		return errors.New("entries were added before term and vote were written")
	}
	before.apply(raft.StorageWrite{Log: &raft.LogWrite{After: w.Log.After, Entries: w.Log.Entries[:added]}})
	return same(now.entries, before.entries)
}
