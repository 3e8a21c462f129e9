package segments

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"github.com/coxswain/raft"
)

// cursor remembers where a read ended, so that a reader that reads the log in order finds its next place without a search.
type cursor struct {
	next raft.Index // entry at the place
	cuts uint64     // index.cuts at that time
	place
}

const cursorsMax = 4

// stretch is a contiguous run of entries in one segment.
type stretch struct {
	place
	first raft.Index // entry at the place
	stop  raft.Index // last entry to read
	limit int64      // offset before which all of them end
	term  raft.Term  // term of the entry before the first one to read
	cuts  uint64     // index.cuts when the run was found
}

// errCut says that entries were dropped during a read.
var errCut = errors.New("segments: the log was truncated meanwhile")

// Entries returns the first entries of the span. It returns as many as fit into bytesMax bytes of records, but at least one.
// It sees each write entirely or not at all.
func (l *Log) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	for {
		entries, err := l.entries(span, bytesMax)
		if !errors.Is(err, errCut) {
			return entries, err
		}
	}
}

func (l *Log) entries(span raft.Span, bytesMax int) (entries []raft.Entry, err error) {
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: the span (%d, %d] is empty", raft.ErrNotStored, span.After, span.Last)
	}
	r := reader{span: span, bytesMax: bytesMax}
	for first := true; r.next() <= span.Last && !r.full; first = false {
		s, err := l.acquire(r.next(), span.Last)
		if err == nil && !first && s.cuts != r.cuts {
			err = errCut
		}
		if s.segment != nil {
			if r.cuts = s.cuts; err == nil {
				err = r.read(&s)
			}
			l.done(&r, &s, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.entries, nil
}

// acquire finds entry i, and prevents the reuse of its segment until the caller calls done.
func (l *Log) acquire(i, last raft.Index) (s stretch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := &l.index
	if l.closed {
		return s, ErrClosed
	}
	if i <= x.start.Index || last > x.last.Index || i > last {
		missing := i
		if i > x.start.Index {
			missing = max(i, x.last.Index+1)
		}
		return s, fmt.Errorf("%w: %d; the log is the entries above %v up to %v", raft.ErrNotStored, missing, x.start, x.last)
	}
	k := sort.Search(len(x.marks), func(k int) bool { return x.marks[k].first > i }) - 1
	s = stretch{place: x.marks[k].place, first: x.marks[k].first, stop: last, term: x.termAt(i - 1), cuts: x.cuts}
	s.limit = s.segment.limit
	for k++; k < len(x.marks); k++ {
		m := &x.marks[k]
		if m.jump || m.segment != s.segment {
			s.stop = min(last, m.first-1)
			break
		}
		if m.first > last {
			s.limit = m.offset
			break
		}
	}
	for _, c := range l.cursors {
		if s.first < i && c.next == i && c.cuts == x.cuts && c.segment == s.segment {
			s.place, s.first = c.place, i
		}
	}
	s.segment.readers++
	return s, nil
}

// done ends the use of a segment, and remembers where the read ended.
func (l *Log) done(r *reader, s *stretch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && !s.segment.gone {
		l.cursors[l.turn] = cursor{r.next(), s.cuts, s.place}
		l.turn = (l.turn + 1) % cursorsMax
	}
	if s.segment.readers--; s.segment.readers > 0 || !s.segment.gone {
		return
	}
	_ = s.segment.file.Close() // all writes to it are durable
	if s.segment.unlisted {
		_ = l.fs.Remove(s.segment.path) // if this fails, Begin removes it
	}
}

// reader reads the entries of one span.
type reader struct {
	span     raft.Span
	bytesMax int
	entries  []raft.Entry
	size     int
	full     bool
	cuts     uint64
}

// next returns the index of the next entry to read.
func (r *reader) next() raft.Index { return r.span.After + 1 + raft.Index(len(r.entries)) }

// readMost is how many bytes a reader reads at once. Only for a larger record does it read more.
const readMost = 4 << 20

// headsOf returns roughly how many bytes of batch heads may lie among the given bytes of records.
func headsOf(bytes int) int64 { return int64(bytes)/8 + 16*batchBytes }

// read reads entries of the stretch until the span ends or the reader is full. It leaves the place of the next entry in s.
func (r *reader) read(s *stretch) error {
	if err := r.skip(s); err != nil {
		return err
	}
	need := int64(0)
	for r.next() <= s.stop && !r.full {
		want := min(int64(min(r.bytesMax, readMost))+headsOf(min(r.bytesMax, readMost)), s.limit-s.offset)
		if want = max(want, need); want > s.limit-s.offset || want <= 0 {
			return damaged(s.segment.path, s.offset, fmt.Errorf("entry %d reaches beyond the entries that follow it", r.next()))
		}
		buffer := make([]byte, want)
		if err := readFull(s.segment, buffer, s.offset); err != nil {
			return err
		}
		before := s.offset
		var err error
		if need, err = r.take(s, buffer); err != nil {
			return err
		}
		if s.offset == before && need <= want && !r.full {
			return damaged(s.segment.path, s.offset, fmt.Errorf("there is no entry %d", r.next()))
		}
	}
	return nil
}

func readFull(s *segment, b []byte, offset int64) error {
	n, err := s.file.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case isEOF(err):
		return damaged(s.path, offset+int64(n), errors.New("the file is cut short"))
	}
	return fmt.Errorf("segments: reading %s at offset %d: %w", s.path, offset, err)
}

// take decodes the entries in the buffer b, which begins at the place of s. From then on, the entries own the buffer. If take
// needs more bytes to continue, it returns how many, counted from the new place.
func (r *reader) take(s *stretch, b []byte) (need int64, err error) {
	from := s.offset
	for r.next() <= s.stop {
		rest := b[min(s.offset-from, int64(len(b))):] // the buffer may end before the next batch begins
		size, isEntry, err := s.step(rest)
		if err != nil || size > int64(len(rest)) {
			return size, err
		}
		if !isEntry {
			continue
		}
		e, err := entryAt(s.first, s.term, rest[:size:size])
		if err != nil {
			return 0, damaged(s.segment.path, s.offset, err)
		}
		if len(r.entries) > 0 && r.size+int(size) > r.bytesMax {
			r.full = true
			return 0, nil
		}
		if r.entries == nil {
			r.entries = make([]raft.Entry, 0, min(r.span.Last-r.span.After, raft.Index(int64(len(b))/size+1)))
		}
		r.entries = append(r.entries, e)
		r.size += int(size)
		s.advance(size, e.Term)
	}
	return 0, nil
}

// advance moves the place to the end of the record that begins there.
func (s *stretch) advance(size int64, term raft.Term) {
	s.offset += size
	s.first++
	s.term = term
	if s.left--; s.left == 0 {
		s.offset = roundedUp(s.offset, alignment)
	}
}

// step examines the bytes at the place, which are in rest. If a record begins there, step returns its size, and true for
// isEntry. If a batch begins there, step moves the place to the end of the batch's head, and returns false for isEntry. If
// rest is too short, size is the number of bytes that step needs.
func (s *stretch) step(rest []byte) (size int64, isEntry bool, err error) {
	if s.left > 0 {
		if len(rest) < 4 {
			return 4, true, nil
		}
		n, err := raft.RecordSize(rest)
		if err != nil {
			return 0, true, damaged(s.segment.path, s.offset, err)
		}
		return int64(n), true, nil
	}
	if len(rest) < batchBytes {
		return batchBytes, false, nil
	}
	h, ok := decodeBatch(rest, s.segment.Salt, s.offset)
	if !ok || h.count > 0 && h.after.Index+1 != s.first || h.end() > s.segment.Bytes {
		return 0, false, damaged(s.segment.path, s.offset, fmt.Errorf("no batch of entry %d begins there", s.first))
	}
	s.offset += batchBytes
	s.left = h.count
	return 0, false, nil
}

var skipBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// skip moves s from its mark to the first entry that the reader needs.
func (r *reader) skip(s *stretch) error {
	if s.first == r.next() {
		return nil
	}
	pooled := skipBuffers.Get().(*[]byte)
	defer skipBuffers.Put(pooled)
	term := s.term
	var from int64 = math.MaxInt64
	var b []byte
	for s.first < r.next() {
		if s.offset >= s.limit {
			return damaged(s.segment.path, s.offset, fmt.Errorf("the segment ends before entry %d", r.next()))
		}
		if s.offset < from || s.offset-from+batchBytes > int64(len(b)) {
			b, from = (*pooled)[:min(int64(len(*pooled)), s.limit-s.offset)], s.offset
			if err := readFull(s.segment, b, from); err != nil {
				return err
			}
		}
		rest := b[s.offset-from:]
		size, isEntry, err := s.step(rest)
		switch {
		case err != nil:
			return err
		case isEntry:
			s.advance(size, term)
		case size > int64(len(rest)):
			return damaged(s.segment.path, s.offset, fmt.Errorf("the segment ends before entry %d", r.next()))
		}
	}
	s.term = term
	return nil
}
