package pipeline

import (
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/coxswain/raft"
)

// Cache keeps the recent entries in memory for senders and the applier: all that are not on the disk
// yet, and some that are. Where it has an entry it wins over the storage, whose log may still be an
// older one. The loop writes it before anything else of an Output is processed, so that whoever
// hears of an entry finds it; the generation that it publishes tells readers whose log they see.
// Its methods may be called by several goroutines.
type Cache struct {
	bytesMax int

	mu         sync.RWMutex
	generation uint64
	chunks     []chunk    // adjacent, in order
	last       raft.Index // of the log
	persisted  raft.Index // of the log as it is now
	memory     int        // of all chunks
	waiting    int        // bytes of records in the chunks that are not on the disk as a whole
}

// chunk is the entries of one LogWrite, shared with the writer and never changed.
type chunk struct {
	entries []raft.Entry
	bytes   int // of their records
	memory  int // what they take
}

func newChunk(entries []raft.Entry) chunk {
	bytes := RecordBytes(entries)
	memory := chunkMemory + cap(entries)*entryMemory + len(entries)*allocationMemory + bytes + bytes/16
	return chunk{entries, bytes, memory}
}

// What an entry takes besides its record, and a chunk besides its entries. An entry's record is an
// allocation of its own on a leader, which is rounded up, on average by a sixteenth of it and half of the
// smallest step. The slice of chunks has room for as many again.
const (
	entryMemory      = 80
	allocationMemory = 8
	chunkMemory      = 2 * 40
)

func (c chunk) first() raft.Index { return c.entries[0].Index }
func (c chunk) last() raft.Index  { return c.entries[len(c.entries)-1].Index }

// NewCache begins behind a log that is on the disk up to last.
func NewCache(last raft.Index, bytesMax int) *Cache {
	return &Cache{last: last, persisted: last, bytesMax: bytesMax}
}

// Write processes a LogWrite: drop all above After, append, publish the generation.
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

// truncate drops every entry above after, or all of them if after is behind the log.
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

// MarkPersisted says that the log of this generation is on the disk up to last. A mark of an older
// generation says nothing about the log as it is now; the write that truncated it will bring its own.
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

// evict forgets the oldest entries over the limit, but none that is not on the disk.
func (c *Cache) evict() {
	n := 0
	for ; n < len(c.chunks) && c.memory > c.bytesMax && c.chunks[n].last() <= c.persisted; n++ {
		c.memory -= c.chunks[n].memory
		c.chunks[n] = chunk{} // the array behind the slice lives on for a while
	}
	c.chunks = c.chunks[n:]
}

// Read returns entries of the span from the first one on, at most bytesMax bytes but at least one, if
// the cache has the first one. If not, it returns none, and the first index that it does have.
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
		return slices.Clip(entries), first // shared as it is
	}
	return c.join(at, span, bytesMax), first
}

// part returns what a chunk has of a span, as much as fits into bytesMax bytes, and whether that is all.
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

// join returns what several chunks have of a span, as much as fits into bytesMax bytes but at least one entry.
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

// fitting counts the entries from the front that fit into room bytes; the first does if it must.
func fitting(entries []raft.Entry, room int, must bool) int {
	for i := range entries {
		room -= len(entries[i].Data) + raft.RecordOverheadBytes
		if room < 0 && !(must && i == 0) {
			return i
		}
	}
	return len(entries)
}

// Generation is that of the log as it is now.
func (c *Cache) Generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// WaitingBytes is the size of the entries that the disk does not have yet.
func (c *Cache) WaitingBytes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.waiting
}

// Depth returns where the log ends, up to where it is on the disk, and the bytes in between.
func (c *Cache) Depth() (last, persisted raft.Index, waiting int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.last, c.persisted, c.waiting
}
