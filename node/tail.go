package node

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"sync"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// tail keeps the recent entries in memory for senders and the applier: all that are not on the disk
// yet, and some that are. Where it has an entry it wins over the storage, whose log may still be an
// older one. The loop writes it before anything else of an Output is honoured, so that whoever
// hears of an entry finds it; the generation that it publishes tells readers whose log they see.
type tail struct {
	bytesMax int

	mu         sync.RWMutex
	generation uint64
	chunks     []tailChunk // adjacent, in order
	last       raft.Index  // of the log
	persisted  raft.Index  // of the log as it is now
	memory     int         // of all chunks
	waiting    int         // bytes of records in the chunks that are not on the disk as a whole
}

// tailChunk is the entries of one LogWrite, shared with the writer and never changed.
type tailChunk struct {
	entries []raft.Entry
	bytes   int // of their records
	memory  int // what they take
}

func newTailChunk(entries []raft.Entry) tailChunk {
	bytes := pipeline.RecordBytes(entries)
	memory := chunkMemory + cap(entries)*entryMemory + len(entries)*allocationMemory + bytes + bytes/16
	return tailChunk{entries, bytes, memory}
}

// What an entry takes besides its record, and a chunk besides its entries. An entry's record is an
// allocation of its own on a leader, which is rounded up, on average by a sixteenth of it and half of the
// smallest step. The slice of chunks has room for as many again.
const (
	entryMemory      = 80
	allocationMemory = 8
	chunkMemory      = 2 * 40
)

func (c tailChunk) first() raft.Index { return c.entries[0].Index }
func (c tailChunk) last() raft.Index  { return c.entries[len(c.entries)-1].Index }

// newTail begins behind a log that is on the disk up to last.
func newTail(last raft.Index, bytesMax int) *tail {
	return &tail{last: last, persisted: last, bytesMax: bytesMax}
}

// write honours a LogWrite: drop all above After, append, publish the generation.
func (t *tail) write(w *raft.LogWrite) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation = w.Generation
	if w.Reset {
		t.chunks = nil
	}
	if w.Reset || w.After.Index != t.last {
		t.truncate(w.After.Index)
	}
	if len(w.Entries) > 0 {
		c := newTailChunk(w.Entries)
		t.chunks = append(t.chunks, c)
		t.last = c.last()
		t.memory += c.memory
		t.waiting += c.bytes
	}
	t.evict()
}

// truncate drops every entry above after, or all of them if after is behind the log.
func (t *tail) truncate(after raft.Index) {
	keep := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i].last() > after })
	if after > t.last {
		keep = 0
	} else if keep < len(t.chunks) && t.chunks[keep].first() <= after {
		cut := t.chunks[keep].entries[:after-t.chunks[keep].first()+1]
		t.chunks[keep] = newTailChunk(cut)
		keep++
	}
	clear(t.chunks[keep:])
	t.chunks = t.chunks[:keep]
	t.last = after
	t.persisted = min(t.persisted, after)
	t.memory = 0
	for _, c := range t.chunks {
		t.memory += c.memory
	}
	t.countWaiting()
}

// markPersisted says that the log of this generation is on the disk up to last. A mark of an older
// generation says nothing about the log as it is now; the write that truncated it will bring its own.
func (t *tail) markPersisted(generation uint64, last raft.Index) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.generation {
		return
	}
	t.persisted = max(t.persisted, last)
	t.countWaiting()
	t.evict()
}

func (t *tail) countWaiting() {
	t.waiting = 0
	for i := len(t.chunks) - 1; i >= 0 && t.chunks[i].last() > t.persisted; i-- {
		t.waiting += t.chunks[i].bytes
	}
}

// evict forgets the oldest entries over the limit, but none that is not on the disk.
func (t *tail) evict() {
	n := 0
	for ; n < len(t.chunks) && t.memory > t.bytesMax && t.chunks[n].last() <= t.persisted; n++ {
		t.memory -= t.chunks[n].memory
		t.chunks[n] = tailChunk{} // the array behind the slice lives on for a while
	}
	t.chunks = t.chunks[n:]
}

// read returns entries of the span from the first one on, at most bytesMax bytes but at least one, if
// the tail has the first one. If not, it returns none, and the first index that it does have.
func (t *tail) read(span raft.Span, bytesMax int) (entries []raft.Entry, first raft.Index) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	first = t.last + 1
	if len(t.chunks) > 0 {
		first = t.chunks[0].first()
	}
	if span.After+1 < first || span.After >= min(span.Last, t.last) {
		return nil, first
	}
	at := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i].last() > span.After })
	next, bytes := span.After+1, 0
	for ; at < len(t.chunks) && next <= span.Last; at++ {
		part := t.chunks[at].entries[next-t.chunks[at].first():]
		part = part[:min(uint64(len(part)), uint64(span.Last-next+1))]
		n := fitting(part, bytesMax-bytes, len(entries) == 0)
		if len(entries) == 0 {
			entries = slices.Clip(part[:n]) // shared as it is, unless more follows
		} else {
			entries = append(entries, part[:n]...)
		}
		if n < len(part) {
			break
		}
		bytes += pipeline.RecordBytes(part)
		next += raft.Index(n)
	}
	return entries, first
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

func (t *tail) generationNow() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.generation
}

// waitingBytes is the size of the entries that the disk does not have yet.
func (t *tail) waitingBytes() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.waiting
}

// depth returns where the log ends, up to where it is on the disk, and the bytes in between.
func (t *tail) depth() (last, persisted raft.Index, waiting int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last, t.persisted, t.waiting
}

// logReader reads the log as it is now: the tail, and below it the storage.
type logReader struct {
	tail    *tail
	storage raft.Storage
}

// read returns entries of the span from the first one on, at most bytesMax bytes but at least one.
func (l logReader) read(span raft.Span, bytesMax int) (entries []raft.Entry, err error) {
	entries, first := l.tail.read(span, bytesMax)
	if len(entries) > 0 {
		return entries, nil
	}
	span.Last = min(span.Last, first-1)
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: entry %d", raft.ErrNotStored, span.After+1)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	entries, err = l.storage.Entries(span, bytesMax)
	if err == nil && (len(entries) == 0 || entries[0].Index != span.After+1) {
		err = fmt.Errorf("%w: entry %d", raft.ErrNotStored, span.After+1)
	}
	return entries, err
}
