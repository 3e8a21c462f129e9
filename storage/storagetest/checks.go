package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coxswain/raft"
)

var identityChecks = []Check{
	{Rule: "the first Load formats an uninitialized store", Run: inStore(func(o *opened) error {
		if o.stored.StartCount != 1 || o.stored.Incarnation != member.Fresh || o.stored.Commit != 0 {
			return fmt.Errorf("an uninitialized store returns %+v", o.stored)
		}
		return o.check()
	})},
	{Rule: "every Load raises the start count and keeps the incarnation", Run: func(p Place) error {
		for startCount := range uint64(5) {
			store, err := p.Open()
			if err != nil {
				return err
			}
			another := member
			another.Fresh += raft.Incarnation(startCount)
			stored, err := store.Load(context.Background(), another)
			if err := errors.Join(err, store.Close()); err != nil {
				return err
			}
			if stored.StartCount != startCount+1 || stored.Incarnation != member.Fresh {
				return fmt.Errorf("at start %d: start count %d, incarnation %v", startCount+1, stored.StartCount, stored.Incarnation)
			}
		}
		return nil
	}},
	{Rule: "a store belongs to one cluster and one member, and refuses others unchanged", Run: func(p Place) error {
		o, err := begin(p)
		if err != nil {
			return err
		}
		if err := o.Close(); err != nil {
			return err
		}
		for _, refused := range []struct {
			what  string
			given raft.Identity
		}{
			{"cluster", raft.Identity{Cluster: "others", ID: member.ID, Fresh: 9}},
			{"member id", raft.Identity{Cluster: member.Cluster, ID: "n2", Fresh: 9}},
		} {
			if err := checkRefused(p, refused.what, refused.given); err != nil {
				return err
			}
		}
		if err := o.open(); err != nil {
			return err
		}
		defer o.Close()
		if o.stored.StartCount != 2 {
			return fmt.Errorf("start count %d after two refused loads, not 2", o.stored.StartCount)
		}
		return nil
	}},
}

func checkRefused(p Place, what string, given raft.Identity) error {
	store, err := p.Open()
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Load(context.Background(), given)
	var refusal *raft.IdentityError
	if !errors.As(err, &refusal) || refusal.What != what {
		return fmt.Errorf("another %s: %v, which is not an *IdentityError of the %s", what, err, what)
	}
	return nil
}

var lineageChecks = []Check{
	{Rule: "every Load puts its start at the end of the lineage, which keeps the last 64", Run: checkLineageGrows},
	writes("the memory of the peers is kept, and replaced as a whole",
		remembers(1), remembers(0), remembers(600), vote(1, "n1"), appendAfter(raft.EntryID{}, 0, 3), remembers(3)),
	writes("a mark is kept forever, and the first one stays",
		mark(raft.MarkStaleImage), mark(raft.MarkContradicted), remembers(1), vote(1, "n1"), appendAfter(raft.EntryID{}, 0, 3)),
	writes("mark, memory, term and entries of one write are one step", raft.StorageWrite{
		Mark: mark(raft.MarkContradicted).Mark, Memory: remembers(4).Memory,
		Hard: vote(4, "n3").Hard, Log: appendAfter(raft.EntryID{}, 0, 3).Log,
	}),
}

func checkLineageGrows(p Place) error {
	var want raft.Lineage
	for startCount := range uint64(raft.LineageStartsMax + 6) {
		store, err := p.Open()
		if err != nil {
			return err
		}
		identity := member
		identity.Nonce = 1000 + startCount*startCount
		stored, err := store.Load(context.Background(), identity)
		if err := errors.Join(err, store.Close()); err != nil {
			return err
		}
		want = want.Begin(identity.Nonce)
		if !slices.Equal(stored.Lineage, want) {
			return fmt.Errorf("start %d: the lineage is %v, not %v", startCount+1, stored.Lineage, want)
		}
	}
	return nil
}

// RuleConfigurations is the name of a rule. A store may break this rule if it builds the StoredLog without StoredLog.Observe.
const RuleConfigurations = "the configurations of the log come back from Load"

var logChecks = []Check{
	writes("term and vote are kept", vote(1, "n1"), vote(2, ""), vote(3, "n2")),
	writes("a bootstrap comes back", appendAfter(raft.EntryID{}, 0, 1)),
	writes(RuleConfigurations,
		appendAfter(raft.EntryID{}, 0, 1), vote(1, "n1"), configured(appendAfter(raft.EntryID{Index: 1}, 1, 20), 2, 3, 11, 21),
		configured(appendAfter(raft.EntryID{Term: 1, Index: 15}, 2, 3), 17), // drops that of entry 21
		appendAfter(raft.EntryID{Term: 1, Index: 11}, 3, 2),                 // and that of entry 17
		configured(appendAfter(raft.EntryID{Term: 1, Index: 10}, 4, 2), 11), // another one at entry 11
		appendAfter(raft.EntryID{}, 0, 2)),
	writes("appended entries are kept, in any number",
		appendAfter(raft.EntryID{}, 0, 1), vote(1, "n1"), appendAfter(raft.EntryID{Index: 1}, 1, 1),
		appendAfter(raft.EntryID{Term: 1, Index: 2}, 1, 300), appendAfter(raft.EntryID{Term: 1, Index: 302}, 7, 2)),
	writes("entries of every size and kind are kept", appendAfter(raft.EntryID{}, 0, 1), sizes()),
	writes("Hard and Log of one write are one step",
		raft.StorageWrite{Hard: vote(4, "n3").Hard, Log: appendAfter(raft.EntryID{}, 0, 3).Log}),
	writes("entries above After are dropped",
		appendAfter(raft.EntryID{}, 0, 1), appendAfter(raft.EntryID{Index: 1}, 1, 200),
		appendAfter(raft.EntryID{Term: 1, Index: 100}, 2, 5), appendAfter(raft.EntryID{Term: 2, Index: 102}, 3, 0)),
	writes("a write from the beginning replaces the whole log",
		appendAfter(raft.EntryID{}, 0, 50), appendAfter(raft.EntryID{}, 1, 2), appendAfter(raft.EntryID{}, 1, 0)),
	{Rule: "without a reset, a write after an entry that is not in the log is refused and changes nothing", Run: inStore(checkNotInLog)},
	{Rule: "a log has no gap, and its terms never decrease", Run: checkNoGap},
	{Rule: "the next write stores the commit hint, which is never above the log", Run: inStore(checkCommitHint)},
}

// writes returns a check that a store keeps the given writes. It checks the store right after each write, and again after the
// store is opened again.
func writes(rule string, all ...raft.StorageWrite) Check {
	return Check{Rule: rule, Run: func(p Place) error {
		o, err := begin(p)
		if err != nil {
			return err
		}
		defer func() { o.Close() }()
		for k, w := range all {
			if err := o.write(w); err != nil {
				return fmt.Errorf("write %d: %w", k+1, err)
			}
			if err := o.checkEntries(); err != nil {
				return fmt.Errorf("after write %d: %w", k+1, err)
			}
			if err := o.reopen(); err != nil {
				return fmt.Errorf("opened again after write %d: %w", k+1, err)
			}
		}
		return nil
	}}
}

// sizes returns a write of entries of different sizes, one of them without data and one of many pages.
func sizes() raft.StorageWrite {
	w := appendAfter(raft.EntryID{Index: 1}, 1, 6)
	for k, size := range []int{0, 1, 4096, 1 << 20, 100, 0} {
		e := &w.Log.Entries[k]
		e.Data = make([]byte, size)
		for i := range e.Data {
			e.Data[i] = byte(i * k)
		}
	}
	w.Log.Entries[5].Kind = raft.EntryNoop
	return w
}

func checkNotInLog(o *opened) error {
	if err := o.write(appendAfter(raft.EntryID{}, 0, 1), appendAfter(raft.EntryID{Index: 1}, 3, 19)); err != nil {
		return err
	}
	return o.checkNotInLog(
		raft.EntryID{Term: 2, Index: 15}, // another term at the index
		raft.EntryID{Term: 1, Index: 21}, // beyond the end
		raft.EntryID{Term: 1, Index: 0},  // the index where the log begins, with another term
	)
}

// checkNotInLog writes after entries that the log does not hold. The store must return an error. A store that treats such a
// write as a reset drops acknowledged entries because of a mistake of the caller.
func (o *opened) checkNotInLog(all ...raft.EntryID) error {
	for _, after := range all {
		w := appendAfter(after, 4, 2)
		w.Hard = vote(9, "n2").Hard
		var refusal *raft.NotInLogError
		if err := o.Write(w); !errors.As(err, &refusal) {
			return fmt.Errorf("a write after %v: %v, which is not a *NotInLogError", after, err)
		}
		if refusal.After != after {
			return fmt.Errorf("the refusal of a write after %v names %v", after, refusal.After)
		}
		if err := o.reopen(); err != nil {
			return fmt.Errorf("a write after %v was refused: %w", after, err)
		}
	}
	return nil
}

func checkNoGap(p Place) error {
	gap := appendAfter(raft.EntryID{Index: 2}, 1, 3)
	gap.Log.Entries = append(gap.Log.Entries[:1], gap.Log.Entries[2:]...)
	falls := appendAfter(raft.EntryID{Index: 2}, 5, 2)
	falls.Log.Entries[1].Term = 4
	detached := appendAfter(raft.EntryID{Index: 2}, 1, 2)
	detached.Log.Entries = detached.Log.Entries[1:]
	for _, w := range []raft.StorageWrite{gap, falls, detached} {
		o, err := begin(p)
		if err != nil {
			return err
		}
		if err := o.write(appendAfter(raft.EntryID{}, 0, 2)); err != nil {
			return errors.Join(err, o.Close())
		}
		if o.Write(w) == nil {
			return errors.Join(fmt.Errorf("entries %v were accepted", w.Log.Entries), o.Close())
		}
		if err := o.reopen(); err != nil {
			return err
		}
		if err := o.Close(); err != nil {
			return err
		}
	}
	return nil
}

func checkCommitHint(o *opened) error {
	log := appendAfter(raft.EntryID{}, 0, 5)
	log.Commit = 2
	for _, step := range []struct {
		write raft.StorageWrite
		want  raft.Index
	}{
		{log, 2},
		{raft.StorageWrite{Hard: vote(1, "n1").Hard, Commit: 4}, 4},
		{vote(2, "n1"), 4},
		{raft.StorageWrite{Hard: vote(3, "n1").Hard, Commit: 9}, 5},
	} {
		if err := o.write(step.write); err != nil {
			return err
		}
		if err := o.reopen(); err != nil {
			return err
		}
		if o.stored.Commit != step.want {
			return fmt.Errorf("the hint is %d, not %d", o.stored.Commit, step.want)
		}
	}
	if err := o.write(raft.StorageWrite{Commit: 5}, vote(4, "n1")); err != nil {
		return err
	}
	if err := o.reopen(); err != nil {
		return err
	}
	if o.stored.Commit != 5 {
		return fmt.Errorf("a hint stored by the next write: %d, not 5", o.stored.Commit)
	}
	return nil
}

var readChecks = []Check{
	{Rule: "Entries returns at least one entry, and no more than fit", Run: inStore(checkLimits)},
	{Rule: "Entries of what is not stored fails with ErrNotStored", Run: inStore(func(o *opened) error {
		if err := o.write(appendAfter(raft.EntryID{}, 0, 15)); err != nil {
			return err
		}
		return o.checkNoneStored(notStoredUpTo15...)
	})},
	{Rule: "Entries may run concurrently with Write, and sees all of it or nothing", Run: inStore(checkBeside)},
}

// notStoredUpTo15 are spans for a log that ends at entry 15. The log holds none or only a part of each span.
var notStoredUpTo15 = []raft.Span{
	{After: 15, Last: 16}, {After: 12, Last: 20}, {After: 99, Last: 100}, {After: 12, Last: 12}, {After: 14, Last: 12},
	{After: math.MaxUint64 - 1, Last: math.MaxUint64},
}

func (o *opened) checkNoneStored(spans ...raft.Span) error {
	for _, span := range spans {
		if err := o.checkNotStored(span); err != nil {
			return err
		}
	}
	return nil
}

func checkLimits(o *opened) error {
	if err := o.write(appendAfter(raft.EntryID{}, 0, 20)); err != nil {
		return err
	}
	first := len(o.model.entries[4].Record())
	second := len(o.model.entries[5].Record())
	for _, limit := range []struct{ bytesMax, want int }{
		{0, 1}, {1, 1}, {first - 1, 1}, {first, 1}, {first + second - 1, 1}, {first + second, 2}, {math.MaxInt, 6},
	} {
		got, err := o.Entries(raft.Span{After: 4, Last: 10}, limit.bytesMax)
		if err != nil {
			return err
		}
		if err := same(got, o.model.entries[4:4+limit.want]); err != nil {
			return fmt.Errorf("of (4, 10] at most %d bytes: %w", limit.bytesMax, err)
		}
	}
	return nil
}

var lifeChecks = []Check{
	{Rule: "Close is idempotent, and a closed store refuses everything", Run: func(p Place) error {
		o, err := begin(p)
		if err != nil {
			return err
		}
		if err := errors.Join(o.write(appendAfter(raft.EntryID{}, 0, 1)), o.Close(), o.Close()); err != nil {
			return err
		}
		if o.Write(vote(9, "n1")) == nil {
			return errors.New("a closed store accepted a write")
		}
		if _, err := o.Entries(raft.Span{After: 0, Last: 1}, 1); err == nil || errors.Is(err, raft.ErrNotStored) {
			return fmt.Errorf("a closed store answered a read with %v", err)
		}
		return errors.Join(o.openAndCheck(), o.Close())
	}},
	{Rule: "Load comes first and once", Run: func(p Place) error {
		store, err := p.Open()
		if err != nil {
			return err
		}
		defer store.Close()
		if store.Write(vote(1, "n1")) == nil {
			return errors.New("a store accepted a write before Load")
		}
		if _, err := store.Load(context.Background(), member); err != nil {
			return err
		}
		if _, err := store.Load(context.Background(), member); err == nil {
			return errors.New("a store was loaded twice")
		}
		return nil
	}},
	{Rule: "Load returns when its context is done, and changes nothing then", Run: func(p Place) error {
		store, err := p.Open()
		if err != nil {
			return err
		}
		done, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := store.Load(done, member); !errors.Is(err, context.Canceled) {
			return errors.Join(fmt.Errorf("Storage.Load with a context that is done: %v", err), store.Close())
		}
		if err := store.Close(); err != nil {
			return err
		}
		o, err := begin(p)
		if err != nil {
			return err
		}
		defer o.Close()
		if o.stored.StartCount != 1 {
			return fmt.Errorf("start %d, not 1", o.stored.StartCount)
		}
		return nil
	}},
}
