package pipeline

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/coxswain/raft"
)

// Cache keeps recent entries in memory for the senders and the applier. It keeps all entries that are not on the disk yet.
// Within a limit, it also keeps persisted entries that readers are still expected to read. An entry in the cache takes
// precedence over the storage, because the log in the storage may be older. The loop updates the cache before it processes
// the rest of an Output, so an entry is in the cache before a reader can ask for it. Readers compare generations to detect
// that the log was truncated during a read. Several goroutines may call its methods.
type Cache struct {
	bytesMax int

	mu         sync.RWMutex
	generation uint64
	chunks     []chunk    // adjacent, in order
	last       raft.Index // last entry of the log
	persisted  raft.Index // last entry of the present log that is on the disk
	memory     int        // bytes that all chunks take in memory
	waiting    int        // bytes of records in the chunks that are not entirely on the disk
}

// chunk holds the entries of one LogWrite. They are shared with the writer and never changed.
type chunk struct {
	entries []raft.Entry
	bytes   int // bytes of their records
	memory  int // bytes that they take in memory
}

func newChunk(entries []raft.Entry) chunk {
	bytes := RecordBytes(entries)
	memory := chunkMemory + cap(entries)*entryMemory + len(entries)*allocationMemory + bytes + bytes/16
	return chunk{entries, bytes, memory}
}

const (
	// entryMemory is the memory of an entry besides its record, in bytes. chunkMemory is the memory of a chunk besides its
	// entries; the slice of chunks may have twice the capacity that it needs. On a leader each record is a separate
	// allocation. The allocator rounds the size of the record up, on average by a sixteenth plus allocationMemory, half of
	// the smallest size class.
	entryMemory      = 80
	allocationMemory = 8
	chunkMemory      = 2 * 40
)

func (c chunk) first() raft.Index { return c.entries[0].Index }
func (c chunk) last() raft.Index  { return c.entries[len(c.entries)-1].Index }

// NewCache returns an empty cache. last is the last index of the log, which is entirely on the disk.
func NewCache(last raft.Index, bytesMax int) *Cache {
	return &Cache{last: last, persisted: last, bytesMax: bytesMax}
}

// Write applies a LogWrite. It drops every entry after the entry After, appends the new entries, and publishes the
// generation.
func (c *Cache) Write(w *raft.LogWrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation = w.Generation
	if w.Reset {
		c.chunks = nil
	}
	if w.Reset || w.After.Index != c.last {
		c.truncate(w.After.Index)
	}
	if len(w.Entries) > 0 {
		added := newChunk(w.Entries)
		c.chunks = append(c.chunks, added)
		c.last = added.last()
		c.memory += added.memory
		c.waiting += added.bytes
	}
	c.evict()
}

// truncate drops every entry after the index after. If after is beyond the end of the log, truncate drops all entries.
func (c *Cache) truncate(after raft.Index) {
	keep := sort.Search(len(c.chunks), func(i int) bool { return c.chunks[i].last() > after })
	if after > c.last {
		keep = 0
	} else if keep < len(c.chunks) && c.chunks[keep].first() <= after {
		cut := c.chunks[keep].entries[:after-c.chunks[keep].first()+1]
		c.chunks[keep] = newChunk(cut)
		keep++
	}
	clear(c.chunks[keep:])
	c.chunks = c.chunks[:keep]
	c.last = after
	c.persisted = min(c.persisted, after)
	c.memory = 0
	for i := range c.chunks {
		c.memory += c.chunks[i].memory
	}
	c.countWaiting()
}

// MarkPersisted records that the log of this generation is on the disk up to last. It ignores a report about an older
// generation, because the log was truncated since. The write that truncated the log reports later.
func (c *Cache) MarkPersisted(generation uint64, last raft.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation {
		return
	}
	c.persisted = max(c.persisted, last)
	c.countWaiting()
	c.evict()
}

func (c *Cache) countWaiting() {
	c.waiting = 0
	for i := len(c.chunks) - 1; i >= 0 && c.chunks[i].last() > c.persisted; i-- {
		c.waiting += c.chunks[i].bytes
	}
}

// Served drops the chunks whose entries are all at or below the index upTo. All expected readers have read these entries. The
// host gets upTo from raft.Core.Served.
func (c *Cache) Served(upTo raft.Index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shrink(c.bytesMax, upTo)
}

// evict drops whole chunks, the oldest first, until the cache takes at most bytesMax.
func (c *Cache) evict() { c.shrink(c.bytesMax, 0) }

// Release drops every chunk that is entirely on the disk. The host calls it if the log is idle, because its entries are
// unlikely to be read soon.
func (c *Cache) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shrink(0, 0)
}

// shrink drops the oldest chunks. It drops all chunks up to served, and more until the cache takes at most so many bytes. It
// stops at the first chunk that is not entirely on the disk. In that case the cache may take more bytes.
func (c *Cache) shrink(bytes int, served raft.Index) {
	n := 0
	for ; n < len(c.chunks) && (c.memory > bytes || c.chunks[n].last() <= served) && c.chunks[n].last() <= c.persisted; n++ {
		c.memory -= c.chunks[n].memory
		c.chunks[n] = chunk{} // release the entries: the array behind the slice is kept for a while
	}
	if c.chunks = c.chunks[n:]; len(c.chunks) == 0 {
		c.chunks = nil
	}
}

// Read returns the first entries of the span: at most bytesMax bytes, but at least one entry. If the cache lacks the first
// entry of the span, Read returns no entries, and Log.Read reads the storage. first is the first index in the cache.
func (c *Cache) Read(span raft.Span, bytesMax int) (entries []raft.Entry, first raft.Index) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	first = c.last + 1
	if len(c.chunks) > 0 {
		first = c.chunks[0].first()
	}
	if span.After+1 < first || span.After >= min(span.Last, c.last) {
		return nil, first
	}
	at := sort.Search(len(c.chunks), func(i int) bool { return c.chunks[i].last() > span.After })
	span.Last = min(span.Last, c.last)
	entries, whole := c.part(at, span, bytesMax, true)
	if !whole || entries[len(entries)-1].Index == span.Last {
		return slices.Clip(entries), first // shared, not copied
	}
	return c.join(at, span, bytesMax), first
}

// part returns the entries of the span in one chunk, as many as fit into bytesMax bytes. If must is set, it returns at least
// one. whole reports whether part includes all entries of the span in this chunk.
func (c *Cache) part(at int, span raft.Span, bytesMax int, must bool) (part []raft.Entry, whole bool) {
	part = c.chunks[at].entries
	if first := part[0].Index; span.After >= first {
		part = part[span.After+1-first:]
	}
	if last := part[len(part)-1].Index; last > span.Last {
		part = part[:len(part)-int(last-span.Last)]
	}
	n := fitting(part, bytesMax, must)
	return part[:n], n == len(part)
}

// join returns the entries of the span from several chunks, as many as fit into bytesMax bytes, but at least one.
func (c *Cache) join(at int, span raft.Span, bytesMax int) []raft.Entry {
	n, end := 0, at
	for whole := true; whole && end < len(c.chunks) && c.chunks[end].first() <= span.Last; end++ {
		var part []raft.Entry
		part, whole = c.part(end, span, bytesMax, n == 0)
		n += len(part)
		bytesMax -= RecordBytes(part)
	}
	entries := make([]raft.Entry, 0, n)
	for ; at < end; at++ {
		part, _ := c.part(at, raft.Span{After: span.After, Last: span.After + raft.Index(n)}, math.MaxInt, true)
		entries = append(entries, part...)
	}
	return entries
}

// fitting returns how many of the first entries fit into room bytes. If must is set, the first entry always counts.
func fitting(entries []raft.Entry, room int, must bool) int {
	for i := range entries {
		room -= len(entries[i].Data) + raft.RecordOverheadBytes
		if room < 0 && !(must && i == 0) {
			return i
		}
	}
	return len(entries)
}

// Generation returns the generation of the present log.
func (c *Cache) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// WaitingBytes returns the size of the entries that are not on the disk yet.
func (c *Cache) WaitingBytes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.waiting
}

// Depth returns the last index of the log, the last index on the disk, and the bytes of the entries between them.
func (c *Cache) Depth() (last, persisted raft.Index, waiting int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.last, c.persisted, c.waiting
}
