package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coxswain/raft"
)

// Memory keeps what a Bolt keeps, but in memory: for tests. The data outlives Close: see Reopen. It starts no
// goroutine and reads no clock, so it works inside a testing/synctest bubble. Its methods may be called as
// raft.Storage says.
type Memory struct {
	kept *memoryDisk
	life uint64 // a Memory works until a later one is opened

	loaded bool // guarded by kept.mu, like closed
	closed bool
}

// memoryDisk is the data that successive Memory values share.
type memoryDisk struct {
	mu      sync.Mutex
	life    uint64 // of the Memory that was opened last
	meta    metaRecord
	record  hardRecord
	lineage lineageRecord
	commit  raft.Index
	entries []raft.Entry // the first one is above record.start
}

var _ raft.Storage = (*Memory)(nil)

// NewMemory returns an uninitialized store.
func NewMemory() *Memory {
	return &Memory{kept: &memoryDisk{}}
}

// Reopen returns a store with the data of this one, as after a restart of its process. It also closes this one,
// so that a crashed node that still runs writes nothing more.
func (m *Memory) Reopen() *Memory {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.kept.life++
	m.kept.commit = m.kept.record.commit // a hint that no write carried is forgotten
	return &Memory{kept: m.kept, life: m.kept.life}
}

// Copy returns a store that begins with the present data of this one, as a copy of its disk would: an image to
// be restored later, or a clone.
func (m *Memory) Copy() *Memory {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	k := m.kept
	return &Memory{kept: &memoryDisk{
		meta: k.meta, record: k.record, lineage: k.lineage, commit: k.record.commit, entries: slices.Clone(k.entries),
	}}
}

// open returns an error if the store cannot be used. kept.mu is held.
func (m *Memory) open() error {
	if m.closed || m.life != m.kept.life {
		return fmt.Errorf("%w: in memory", ErrClosed)
	}
	return nil
}

// Load returns the stored data, as raft.Storage says.
func (m *Memory) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if err := errors.Join(m.open(), ctx.Err()); err != nil {
		return raft.Stored{}, err
	}
	if m.loaded {
		return raft.Stored{}, errors.New("storage: in memory: Load is called once")
	}
	k := m.kept
	if k.meta.uninitialized() {
		k.meta = metaRecord{Cluster: identity.Cluster, ID: string(identity.ID), Incarnation: uint64(identity.Fresh)}
	}
	kept := raft.Identity{Cluster: k.meta.Cluster, ID: raft.NodeID(k.meta.ID)}
	if err := checkIdentity(kept, identity); err != nil {
		return raft.Stored{}, err
	}
	log := raft.StoredLog{Last: k.record.start}
	for _, e := range k.entries {
		if err := log.Observe(e); err != nil {
			return raft.Stored{}, damaged("memory", entryPlace(e.Index), err)
		}
	}
	k.meta.StartCount++
	k.lineage.starts = k.lineage.starts.Begin(identity.Nonce)
	m.loaded = true
	stored := raft.Stored{
		Incarnation: raft.Incarnation(k.meta.Incarnation), StartCount: k.meta.StartCount, Hard: k.record.hard,
		Commit: min(k.record.commit, log.Last.Index), Log: log,
	}
	k.lineage.fill(&stored)
	return stored, nil
}

// Write stores one write, as raft.Storage says.
func (m *Memory) Write(w raft.StorageWrite) error {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if err := m.open(); err != nil {
		return err
	}
	if !m.loaded {
		return errors.New("storage: in memory: Load comes before Write")
	}
	k := m.kept
	k.commit = max(k.commit, w.Commit)
	k.lineage = k.lineage.with(w)
	if w.Hard == nil && w.Memory == nil && w.Mark == nil && changesNothing(w.Log, k.record.last) {
		return nil
	}
	if w.Log != nil {
		if err := k.writeLog(w.Log); err != nil {
			return err
		}
	}
	if w.Hard != nil {
		k.record.hard = *w.Hard
	}
	k.record.commit = k.commit
	return nil
}

func (k *memoryDisk) writeLog(w *raft.LogWrite) error {
	if !w.Reset && !k.holds(w.After) {
		return &raft.NotInLogError{After: w.After, Start: k.record.start, Last: k.record.last}
	}
	last := w.After
	for _, e := range w.Entries {
		if e.Index != last.Index+1 || e.Term < last.Term {
			return fmt.Errorf("storage: in memory: entry %v cannot follow entry %v", e.ID(), last)
		}
		last = e.ID()
	}
	if w.Reset {
		k.entries, k.record.start = nil, w.After
	}
	k.entries = append(k.entries[:w.After.Index-k.record.start.Index], w.Entries...)
	k.record.last = last
	return nil
}

func (k *memoryDisk) holds(id raft.EntryID) bool {
	if id.Index <= k.record.start.Index || id.Index > k.record.last.Index {
		return id == k.record.start
	}
	return k.entries[id.Index-k.record.start.Index-1].ID() == id
}

// Entries returns the first entries of the span, at least one, as raft.Storage says.
func (m *Memory) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if err := m.open(); err != nil {
		return nil, err
	}
	k := m.kept
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: the span (%d, %d] is empty", raft.ErrNotStored, span.After, span.Last)
	}
	found, size := 0, 0
	for i := span.After + 1; i <= span.Last; i++ {
		if i <= k.record.start.Index || i > k.record.last.Index {
			return nil, fmt.Errorf("%w: %d; the log is the entries above %v up to %v",
				raft.ErrNotStored, i, k.record.start, k.record.last)
		}
		size += len(k.entries[i-k.record.start.Index-1].Data) + raft.RecordOverheadBytes
		if size > bytesMax && found > 0 {
			break
		}
		found++
	}
	from := span.After - k.record.start.Index
	return slices.Clone(k.entries[from : from+raft.Index(found)]), nil
}

// Close closes the store. Its data stays: see Reopen.
func (m *Memory) Close() error {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.closed = true
	return nil
}
