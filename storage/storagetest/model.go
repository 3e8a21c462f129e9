package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coxswain/raft"
)

// member is the identity that the checks load a store with.
var member = raft.Identity{Cluster: "orders", ID: "n1", Fresh: 0xfeed, Nonce: 0xface}

// model is the expected content of a store, in the simplest form.
type model struct {
	hard    raft.HardState
	start   raft.EntryID // the log begins after this entry
	entries []raft.Entry
	memory  raft.Sightings
	mark    *raft.Mark
	// These fields are only for a store that is a raft.SnapshotStorage.
	base     raft.Base     // its ID is start
	snapshot raft.Snapshot // the recorded one
	files    map[raft.SnapshotID][]byte
}

func (m *model) last() raft.EntryID {
	if n := len(m.entries); n > 0 {
		return m.entries[n-1].ID()
	}
	return m.start
}

func (m *model) apply(w raft.StorageWrite) {
	if w.Hard != nil {
		m.hard = *w.Hard
	}
	if w.Memory != nil {
		m.memory = *w.Memory
	}
	if m.mark == nil {
		m.mark = w.Mark
	}
	if w.Snapshot != nil {
		m.snapshot = *w.Snapshot
	}
	if w.Base != nil {
		m.entries = m.entries[w.Base.ID.Index-m.start.Index:]
		m.base, m.start = *w.Base, w.Base.ID
	}
	if w.Log == nil {
		return
	}
	keep := slices.IndexFunc(m.entries, func(e raft.Entry) bool { return e.ID() == w.Log.After }) + 1
	if w.Log.Reset {
		keep, m.start, m.base = 0, w.Log.After, m.snapshot.Base
	}
	m.entries = append(slices.Clone(m.entries[:keep]), w.Log.Entries...)
}

// entry returns an entry whose data contains its index and term.
func entry(i raft.Index, term raft.Term) raft.Entry {
	e := raft.Entry{Index: i, Term: term, Kind: raft.EntryCommand, Time: int64(i) * 1000}
	e.Data = fmt.Appendf(nil, "command %v", e.ID())
	if i == 1 {
		e.Kind, e.Data = raft.EntryBootstrap, bootstrap().Encode()
	}
	return e
}

func bootstrap() raft.Bootstrap {
	n1 := raft.Member{ID: "n1", Address: "h1:1", Incarnation: member.Fresh}
	n2 := raft.Member{ID: "n2", Address: "h2:1", Meta: "http://h2", Incarnation: 2}
	return raft.Bootstrap{
		Cluster: raft.ClusterID{1, 2, 3}, Bootstrapper: n1.Peer(), Probe: raft.RPCID{StartCount: 1, Counter: 7},
		Configuration: raft.NewConfiguration([]raft.Member{n1, n2}),
	}
}

// configured turns the entries of the write at the given indexes into entries that change the configuration.
func configured(w raft.StorageWrite, at ...raft.Index) raft.StorageWrite {
	for _, i := range at {
		e := &w.Log.Entries[i-w.Log.After.Index-1]
		e.Kind, e.Data = raft.EntryConfiguration, configuration(e.ID()).Encode()
	}
	return w
}

// configuration returns the configuration that the entry with the id holds. It has the members of the bootstrap. The metadata
// of one member is the id of the entry.
func configuration(id raft.EntryID) raft.Configuration {
	c := raft.NewConfiguration(bootstrap().Configuration.Members)
	c.Members[1].Meta, c.Level = id.String(), 1
	return c
}

func sameRun(a, b raft.ConfigRun) bool { return a.Index == b.Index && a.Config.Equal(b.Config) }

// appendAfter returns a write that appends count entries of the given term after the entry after.
func appendAfter(after raft.EntryID, term raft.Term, count int) raft.StorageWrite {
	w := &raft.LogWrite{After: after}
	for k := range count {
		w.Entries = append(w.Entries, entry(after.Index+raft.Index(k)+1, term))
	}
	return raft.StorageWrite{Log: w}
}

func vote(term raft.Term, id raft.NodeID) raft.StorageWrite {
	return raft.StorageWrite{Hard: &raft.HardState{Term: term, Vote: raft.Peer{ID: id, Incarnation: 0xbeef}, Leading: term%3 == 1, Losses: uint8(term % 3), Lease: raft.Time(term % 2 * 100e6)}}
}

// remembers returns a write of a memory with the given number of peers.
func remembers(peers int) raft.StorageWrite {
	m := &raft.Sightings{}
	for k := range peers {
		s := raft.Sighting{
			Peer:  raft.Peer{ID: raft.NodeID(fmt.Sprintf("n%d", k)), Incarnation: raft.Incarnation(k)},
			Start: raft.StartID{Count: uint64(k) + 1, Nonce: uint64(peers)}, Term: raft.Term(2 * k),
		}
		if k%3 > 0 {
			s.Address = fmt.Sprintf("host%d:%d", k, 1000+peers)
		}
		m.Seen = append(m.Seen, s)
		if s.Term, s.Address = 0, ""; k%2 == 0 {
			m.Confirmed = append(m.Confirmed, s)
		}
	}
	return raft.StorageWrite{Memory: m}
}

func mark(kind raft.MarkKind) raft.StorageWrite {
	return raft.StorageWrite{Mark: &raft.Mark{
		Kind: kind, By: raft.Peer{ID: "n2", Incarnation: 0xbeef}, Term: 9, Ours: raft.EntryID{Term: 2, Index: 5},
		Theirs: raft.EntryID{Term: 3, Index: 5}, Detail: "it was shown",
	}}
}

// opened is a loaded store together with its expected content.
type opened struct {
	raft.Storage
	place  Place
	stored raft.Stored
	model  model
}

// begin opens and loads the store in an uninitialized place.
func begin(p Place) (*opened, error) {
	o := &opened{place: p}
	return o, o.open()
}

// inStore returns a check that opens and loads a store, and closes it at the end.
func inStore(check func(*opened) error) func(Place) error {
	return func(p Place) error {
		o, err := begin(p)
		if err != nil {
			return err
		}
		defer func() { o.Close() }()
		return check(o)
	}
}

func (o *opened) open() error {
	store, err := o.place.Open()
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	if o.stored, err = store.Load(context.Background(), member); err != nil {
		return errors.Join(fmt.Errorf("loading: %w", err), store.Close())
	}
	o.Storage = store
	return nil
}

// Write checks that the suite only makes writes that a core may make. If a write resets the log, it must also record the
// snapshot that replaces the log.
func (o *opened) Write(w raft.StorageWrite) error {
	if w.Log != nil && w.Log.Reset && (w.Snapshot == nil || w.Snapshot.ID != w.Log.After) {
		return fmt.Errorf("the suite is wrong: it resets the log after %v, and records %+v", w.Log.After, w.Snapshot)
	}
	return o.Storage.Write(w)
}

func (o *opened) write(writes ...raft.StorageWrite) error {
	for _, w := range writes {
		if err := o.Write(w); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		o.model.apply(w)
	}
	return nil
}

// reopen closes the store, opens it again and checks that it kept everything.
func (o *opened) reopen() error {
	if err := o.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return o.openAndCheck()
}

// powerCut cuts the power, opens the store again and checks that it kept everything.
func (o *opened) powerCut() error {
	if err := o.place.PowerCut(); err != nil {
		return err
	}
	_ = o.Close()
	if err := o.openAndCheck(); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	return nil
}

func (o *opened) openAndCheck() error {
	startCount, incarnation := o.stored.StartCount, o.stored.Incarnation
	if err := o.open(); err != nil {
		return err
	}
	if o.stored.StartCount <= startCount || o.stored.Incarnation != incarnation {
		return fmt.Errorf("start %d of incarnation %v follows start %d of incarnation %v",
			o.stored.StartCount, o.stored.Incarnation, startCount, incarnation)
	}
	return o.check()
}

// check compares everything that the store returns with the model.
func (o *opened) check() error {
	if o.stored.Hard != o.model.hard {
		return fmt.Errorf("term and vote are %+v, not %+v", o.stored.Hard, o.model.hard)
	}
	if err := o.checkLog(); err != nil {
		return err
	}
	if err := o.checkEntries(); err != nil {
		return err
	}
	if _, ok := o.Storage.(raft.SnapshotStorage); ok {
		if err := o.checkSnapshot(); err != nil {
			return err
		}
	}
	return o.checkLineage()
}

func (o *opened) checkLineage() error {
	got := o.stored
	if err := got.Lineage.Check(); err != nil {
		return err
	}
	if got.Lineage.Last() != (raft.StartID{Count: got.StartCount, Nonce: member.Nonce}) {
		return fmt.Errorf("the lineage of start %d ends at %v", got.StartCount, got.Lineage.Last())
	}
	if want := min(got.StartCount, raft.LineageStartsMax); uint64(len(got.Lineage)) != want {
		return fmt.Errorf("the lineage of start %d has %d starts, not %d", got.StartCount, len(got.Lineage), want)
	}
	if !slices.Equal(got.Memory.Seen, o.model.memory.Seen) || !slices.Equal(got.Memory.Confirmed, o.model.memory.Confirmed) {
		return fmt.Errorf("the memory of the peers is %+v, not %+v", got.Memory, o.model.memory)
	}
	if (got.Mark == nil) != (o.model.mark == nil) || got.Mark != nil && *got.Mark != *o.model.mark {
		return fmt.Errorf("the mark is %+v, not %+v", got.Mark, o.model.mark)
	}
	return nil
}

func (o *opened) checkLog() error {
	want := raft.StoredLog{Last: o.model.start}
	if o.model.base.Check() == nil {
		want = raft.StoredLog{}
		want.Begin(o.model.base)
	}
	for _, e := range o.model.entries {
		if err := want.Observe(e); err != nil {
			return fmt.Errorf("the suite is wrong: %w", err)
		}
	}
	got := o.stored.Log
	if want.Base.ID != (raft.EntryID{}) && !bytes.Equal(got.Base.Encode(), want.Base.Encode()) {
		return fmt.Errorf("the base of the log is %+v, not %+v", got.Base, want.Base)
	}
	if got.Last != want.Last || got.LastTime != want.LastTime || !slices.Equal(got.Runs, want.Runs) {
		return fmt.Errorf("the log ends at %v (time %d) with the runs %v, not at %v (time %d) with %v",
			got.Last, got.LastTime, got.Runs, want.Last, want.LastTime, want.Runs)
	}
	if !slices.EqualFunc(got.Configs, want.Configs, sameRun) {
		return fmt.Errorf("the configurations of the log are %+v, not %+v", got.Configs, want.Configs)
	}
	if (got.Bootstrap == nil) != (want.Bootstrap == nil) ||
		got.Bootstrap != nil && !bytes.Equal(got.Bootstrap.Encode(), want.Bootstrap.Encode()) {
		return fmt.Errorf("the bootstrap is %+v, not %+v", got.Bootstrap, want.Bootstrap)
	}
	return nil
}

func (o *opened) checkEntries() error {
	if len(o.model.entries) == 0 {
		return o.checkNotStored(raft.Span{After: o.model.start.Index, Last: o.model.start.Index + 1})
	}
	got, err := o.Entries(raft.Span{After: o.model.start.Index, Last: o.model.last().Index}, math.MaxInt)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	if err := same(got, o.model.entries); err != nil {
		return err
	}
	return o.checkNotStored(raft.Span{After: o.model.last().Index, Last: o.model.last().Index + 1})
}

func (o *opened) checkNotStored(span raft.Span) error {
	if _, err := o.Entries(span, math.MaxInt); !errors.Is(err, raft.ErrNotStored) {
		return fmt.Errorf("entries of %+v, which are not stored: %v, which does not match ErrNotStored", span, err)
	}
	return nil
}

// same compares entries by their records.
func same(got, want []raft.Entry) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d entries, not %d", len(got), len(want))
	}
	for k := range got {
		if !bytes.Equal(got[k].Record(), want[k].Record()) {
			return fmt.Errorf("entry %v %q, not %v %q", got[k].ID(), got[k].Data, want[k].ID(), want[k].Data)
		}
	}
	return nil
}
