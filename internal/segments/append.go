package segments

import (
	"fmt"

	"github.com/coxswain/raft"
)

// writer gathers the bytes of the next write. It also holds the batches that become visible to readers after the next sync.
type writer struct {
	buffer  []byte
	at      int64  // offset of the buffer in the last segment
	sums    []byte // checksums of a batch's records
	pending []piece
	encoded [batchBytes + alignment]byte // head of a batch, and zeros
	dirty   bool                         // the last segment has bytes that are not synced
}

// piece is a batch that was written and is not in the index yet.
type piece struct {
	segment *segment
	offset  int64
	after   raft.EntryID
	entries []raft.Entry
}

// Append makes the entries durable before it returns. They follow the entry after, which the log must hold. Append drops the
// former entries after that entry. It also stores the hint, or the end of the log if the hint is above the end. After an
// error, a prefix of the entries may be left, and the log writes nothing more.
func (l *Log) Append(after raft.EntryID, entries []raft.Entry, hint raft.Index) error {
	if l.failed != nil {
		return l.failed
	}
	if err := l.Follows(after, entries, false); err != nil {
		return l.fail(err)
	}
	for {
		n, length := l.chunk(entries)
		if err := l.writeBatch(after, entries[:n], length, hint); err != nil {
			return l.fail(err)
		}
		if entries = entries[n:]; len(entries) == 0 {
			break
		}
		after = raft.EntryID{Term: l.lastPending().Term, Index: l.lastPending().Index}
	}
	if err := l.sync(); err != nil {
		return l.fail(err)
	}
	l.publish()
	return nil
}

// lastPending returns the last entry that was written.
func (l *Log) lastPending() *raft.Entry {
	p := &l.writer.pending[len(l.writer.pending)-1]
	return &p.entries[len(p.entries)-1]
}

// Follows returns an error if the entries cannot follow the entry after. Unless reset is true, it also returns an error if
// the log does not hold that entry.
func (l *Log) Follows(after raft.EntryID, entries []raft.Entry, reset bool) error {
	if !reset && !l.Holds(after) {
		return &raft.NotInLogError{After: after, Start: l.Start(), Last: l.Last()}
	}
	last := after
	for k := range entries {
		e := &entries[k]
		if e.Index != last.Index+1 || e.Term < last.Term {
			return fmt.Errorf("segments: entry %v cannot follow entry %v", e.ID(), last)
		}
		last = e.ID()
	}
	return nil
}

// chunk returns how many of the entries the next batch takes, and the bytes of their records. If there are entries, the batch
// takes at least one.
func (l *Log) chunk(entries []raft.Entry) (n, length int) {
	most := min(l.sizes.BatchBytes, int(l.sizes.SegmentBytes)-headBytes-batchBytes-alignment)
	for n < len(entries) {
		size := len(entries[n].Record())
		if n > 0 && length+size > most {
			break
		}
		length += size
		n++
	}
	return n, length
}

// writeBatch writes a batch, or gathers it in the buffer. The batch is not durable yet.
func (l *Log) writeBatch(after raft.EntryID, entries []raft.Entry, length int, hint raft.Index) error {
	w := &l.writer
	h := batch{epoch: l.catalog.Epoch, after: after, length: length, count: len(entries)}
	if err := l.makeRoom(h.size()); err != nil {
		return err
	}
	s := l.current()
	h.salt, h.offset, h.synced = s.Salt, l.end, l.synced
	last := after.Index + raft.Index(len(entries))
	l.commit = min(max(l.commit, hint), last)
	h.commit = l.commit
	if !w.dirty {
		w.buffer, w.at, w.dirty = w.buffer[:0], l.end, true
	}
	w.sums = w.sums[:0]
	for k := range entries {
		w.sums = append(w.sums, sumOf(entries[k].Record())...)
	}
	encoded, zeros := w.encoded[:batchBytes], w.encoded[batchBytes:]
	h.put(encoded)
	sealBatch(encoded, w.sums)
	if err := l.put(encoded); err != nil {
		return err
	}
	for k := range entries {
		if err := l.put(entries[k].Record()); err != nil {
			return err
		}
	}
	if err := l.put(zeros[:h.size()-int64(batchBytes+length)]); err != nil {
		return err
	}
	w.pending = append(w.pending, piece{s, h.offset, after, entries})
	l.end, l.marked = h.end(), len(entries) == 0
	return nil
}

// put adds bytes to the buffer, and writes the buffer when it is full. More bytes than the buffer holds are written directly.
func (l *Log) put(b []byte) error {
	w := &l.writer
	if len(w.buffer)+len(b) > cap(w.buffer) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if len(b) <= cap(w.buffer) {
		w.buffer = append(w.buffer, b...)
		return nil
	}
	_, err := l.current().file.WriteAt(b, w.at)
	w.at += int64(len(b))
	return err
}

func (l *Log) flush() error {
	w := &l.writer
	if len(w.buffer) == 0 {
		return nil
	}
	_, err := l.current().file.WriteAt(w.buffer, w.at)
	w.at += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
	return err
}

// sync makes durable everything that was written to the last segment.
func (l *Log) sync() error {
	if !l.writer.dirty {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.current().file.Datasync(); err != nil {
		return err
	}
	l.writer.dirty, l.perSync = false, (l.perSync+l.end-l.synced)/2
	l.large.Store(l.perSync >= largeSync)
	l.synced = l.end
	return nil
}

// publish makes the durable batches visible to readers.
func (l *Log) publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.writer.pending {
		l.take(p)
	}
	clear(l.writer.pending) // do not keep the entries in memory
	l.writer.pending = l.writer.pending[:0]
}

// take adds a batch to the index. The lock is held.
func (l *Log) take(p piece) {
	if p.after.Index < l.index.last.Index {
		l.index.truncate(p.after)
		for _, s := range l.segments {
			s.last = min(s.last, p.after.Index)
		}
	}
	l.index.add(p.segment, p.offset, p.entries, l.sizes.MarkBytes)
	size := int64(batchBytes)
	for k := range p.entries {
		size += int64(len(p.entries[k].Record()))
	}
	p.segment.limit = p.offset + roundedUp(size, alignment)
}

// Mark records that the whole log is durable, unless this is already recorded. From then on, Recover can distinguish damage
// to earlier writes from an interrupted write.
func (l *Log) Mark() error {
	if l.failed != nil {
		return l.failed
	}
	if l.marked || l.end == headBytes {
		return nil
	}
	return l.mark()
}

// mark writes a batch without entries. If the segment has no room for the batch, mark records the same fact in the catalog.
func (l *Log) mark() error {
	if empty := (&batch{}); l.end+empty.size() <= l.current().Bytes {
		return l.Append(l.Last(), nil, l.commit)
	}
	if err := l.owner.Keep(l.Catalog()); err != nil {
		return l.fail(err)
	}
	l.marked = true
	return nil
}

// Reset drops all entries, and makes the log begin after start. It calls keep, which makes the catalog durable. In the same
// step, keep makes durable what the owner records of the new beginning.
func (l *Log) Reset(start raft.EntryID, keep func(Catalog) error) error {
	if l.failed != nil {
		return l.failed
	}
	l.commit = min(l.commit, start.Index)
	next := l.Catalog()
	next.Epoch++
	if err := keep(next); err != nil {
		return l.fail(err)
	}
	l.catalog = next
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index.begin(start)
	for _, s := range l.segments {
		s.last = 0
	}
	return nil
}
