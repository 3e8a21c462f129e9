package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/snapfile"
)

// Memory keeps the data that a Bolt keeps, but in memory, for tests. The data outlives Close: see Reopen. Memory starts no
// goroutine and reads no clock, so it works inside a testing/synctest bubble. The callers of its methods must follow the
// rules of raft.SnapshotStorage.
type Memory struct {
	kept *memoryDisk
	life uint64 // a Memory works until kept.life is higher

	loaded bool // guarded by kept.mu, like closed
	closed bool

	snapshotFiles
}

// memoryDisk is the data that successive Memory values share.
type memoryDisk struct {
	mu      sync.Mutex
	life    uint64 // life of the latest Memory
	meta    metaRecord
	commit  raft.Index // newest hint
	content memoryContent
	files   *crashdisk.Tree // the snapshot files
}

// memoryContent is what the last write left.
type memoryContent struct {
	hardRecord
	lineage  lineageRecord
	base     raft.Base // its ID is start
	snapshot raft.Snapshot
	entries  []raft.Entry // the first one is above start
}

var _ raft.SnapshotStorage = (*Memory)(nil)

// NewMemory returns an uninitialized store.
func NewMemory() *Memory {
	return &Memory{kept: &memoryDisk{files: crashdisk.New()}}
}

// Reopen returns a store with the data of this store, as after a power cut and a restart of the process. It also closes this
// store, so that the node of the crashed process writes nothing more.
func (m *Memory) Reopen() *Memory {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.kept.life++
	m.kept.commit = m.kept.content.commit // a hint that no write stored is lost
	m.kept.files.Cut(crashdisk.KeepNothing)
	return &Memory{kept: m.kept, life: m.kept.life}
}

// Copy returns a new store with the present data of this store, like a copy of its disk. A test can use the copy as an image
// to restore later, or as a clone.
func (m *Memory) Copy() *Memory {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	k := m.kept
	content := k.content
	content.entries = slices.Clone(content.entries)
	return &Memory{kept: &memoryDisk{meta: k.meta, commit: content.commit, content: content, files: k.files.Clone()}}
}

// open returns an error if the store is closed or was reopened. The caller holds kept.mu.
func (m *Memory) open() error {
	if m.closed || m.life != m.kept.life {
		return fmt.Errorf("%w: in memory", ErrStoreClosed)
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
	stored, err := k.content.stored()
	if err != nil {
		return raft.Stored{}, err
	}
	m.dir = snapfile.Open(k.files.FS(), snapshotDir)
	if err := m.check(k.content.snapshot); err != nil {
		return raft.Stored{}, err
	}
	if installInterrupted(&stored.Log, k.content.snapshot) {
		k.content.reset(k.content.snapshot.Base)
		stored.Log, stored.Commit = emptyLog(k.content.base), min(k.content.commit, k.content.last.Index)
	}
	if stored.LeftOver, err = m.begin(k.content.snapshot, k.content.lineage.mark != nil); err != nil {
		return raft.Stored{}, err
	}
	k.meta.StartCount++
	k.content.lineage.starts = k.content.lineage.starts.Begin(identity.Nonce)
	m.loaded = true
	stored.Incarnation, stored.StartCount = raft.Incarnation(k.meta.Incarnation), k.meta.StartCount
	k.content.lineage.fill(&stored)
	return stored, nil
}

func (c *memoryContent) stored() (raft.Stored, error) {
	log := emptyLog(c.base)
	for _, e := range c.entries {
		if err := log.Observe(e); err != nil {
			return raft.Stored{}, damaged("memory", entryPlace(e.Index), err)
		}
	}
	return raft.Stored{Hard: c.hard, Commit: min(c.commit, log.Last.Index), Snapshot: c.snapshot, Log: log}, nil
}

// reset drops the log, and begins an empty one after the base.
func (c *memoryContent) reset(base raft.Base) {
	c.base, c.start, c.last, c.entries = base, base.ID, base.ID, nil
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
	if w.Hard == nil && w.Memory == nil && w.Mark == nil && w.Snapshot == nil && w.Base == nil && changesNothing(w.Log, k.content.last) {
		return nil
	}
	if err := m.recordable(w); err != nil {
		return err
	}
	next := k.content
	if err := next.write(w); err != nil {
		return err
	}
	next.commit = k.commit
	k.content = next
	m.noteRecorded(w.Snapshot)
	return nil
}

func (c *memoryContent) write(w raft.StorageWrite) error {
	c.lineage = c.lineage.with(w)
	if w.Hard != nil {
		c.hard = *w.Hard
	}
	if w.Snapshot != nil {
		c.snapshot, c.snapshotIndex = *w.Snapshot, w.Snapshot.ID.Index
	}
	if w.Base != nil && !isReset(w.Log, w.Base.ID) {
		if !c.holds(w.Base.ID) {
			return &raft.NotInLogError{After: w.Base.ID, Start: c.start, Last: c.last}
		}
		c.entries = c.entries[w.Base.ID.Index-c.start.Index:]
		c.base, c.start = *w.Base, w.Base.ID
	}
	if w.Log == nil {
		return nil
	}
	return c.writeLog(w)
}

func (c *memoryContent) writeLog(w raft.StorageWrite) error {
	after := w.Log.After
	if !w.Log.Reset && !c.holds(after) {
		return &raft.NotInLogError{After: after, Start: c.start, Last: c.last}
	}
	last := after
	for _, e := range w.Log.Entries {
		if e.Index != last.Index+1 || e.Term < last.Term {
			return fmt.Errorf("storage: in memory: entry %v cannot follow entry %v", e.ID(), last)
		}
		last = e.ID()
	}
	if w.Log.Reset {
		c.reset(baseAfterReset(after, w, c.snapshot, c.base))
	}
	c.entries = append(c.entries[:after.Index-c.start.Index], w.Log.Entries...)
	c.last = last
	return nil
}

func (c *memoryContent) holds(id raft.EntryID) bool {
	if id.Index <= c.start.Index || id.Index > c.last.Index {
		return id == c.start
	}
	return c.entries[id.Index-c.start.Index-1].ID() == id
}

// Entries returns the first entries of the span, at least one, as raft.Storage says.
func (m *Memory) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	if err := m.open(); err != nil {
		return nil, err
	}
	c := &m.kept.content
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: the span (%d, %d] is empty", raft.ErrNotStored, span.After, span.Last)
	}
	found, size := 0, 0
	for i := span.After + 1; i <= span.Last; i++ {
		if i <= c.start.Index || i > c.last.Index {
			return nil, notStored(i, c.hardRecord)
		}
		size += len(c.entries[i-c.start.Index-1].Data) + raft.RecordOverheadBytes
		if size > bytesMax && found > 0 {
			break
		}
		found++
	}
	from := span.After - c.start.Index
	return slices.Clone(c.entries[from : from+raft.Index(found)]), nil
}

// LogBytes returns how many bytes the records of the entries would take.
func (m *Memory) LogBytes() int64 {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	total := int64(0)
	for _, e := range m.kept.content.entries {
		total += int64(len(e.Data) + raft.RecordOverheadBytes)
	}
	return total
}

// Prune does nothing, because a write with a base drops the entries at once.
func (m *Memory) Prune() (more bool, err error) {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	return false, m.open()
}

// Close closes the store. Its data stays: see Reopen.
func (m *Memory) Close() error {
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.closed = true
	m.recorded.Store(nil)
	return nil
}
