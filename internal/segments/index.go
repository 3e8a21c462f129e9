package segments

import (
	"sort"

	"github.com/coxswain/raft"
)

// index holds the place of the entries in the segments, and their terms. The log's lock guards it.
type index struct {
	start raft.EntryID // the log begins after this entry
	last  raft.EntryID
	floor raft.EntryID // the runs begin after this entry; not above start
	runs  []raft.TermRun
	marks []mark
	jump  bool   // the next entry does not directly follow the last one in the file
	cuts  uint64 // how often entries at the end were dropped
}

// mark is the place of one entry. From there to the next mark, the entries are consecutive in the file. If the next mark is a
// jump, dropped entries may lie just before the next mark.
type mark struct {
	first raft.Index
	place
	jump bool
}

// place is where a reader begins.
type place struct {
	segment *segment
	offset  int64
	left    int // records of the batch from the offset on; 0: a batch begins at the offset
}

// begin empties the index: the log begins after start.
func (x *index) begin(start raft.EntryID) {
	x.start, x.last, x.floor = start, start, start
	x.runs, x.marks, x.jump = nil, nil, true
	x.cuts++
}

func (x *index) holds(id raft.EntryID) bool {
	switch {
	case id.Index < x.start.Index || id.Index > x.last.Index:
		return false
	case id.Index == x.start.Index:
		return id == x.start
	}
	return x.termAt(id.Index) == id.Term
}

// termAt returns the term of an entry from the floor up to the last one.
func (x *index) termAt(i raft.Index) raft.Term {
	n := sort.Search(len(x.runs), func(k int) bool { return x.runs[k].First > i })
	if n == 0 {
		return x.floor.Term
	}
	return x.runs[n-1].Term
}

// truncate drops the entries above after.
func (x *index) truncate(after raft.EntryID) {
	if after.Index >= x.last.Index {
		return
	}
	x.last, x.jump = after, true
	x.cuts++
	x.runs = x.runs[:sort.Search(len(x.runs), func(k int) bool { return x.runs[k].First > after.Index })]
	x.marks = x.marks[:sort.Search(len(x.marks), func(k int) bool { return x.marks[k].first > after.Index })]
}

// add adds a batch to the index. The entries of the batch follow the last entry.
func (x *index) add(s *segment, offset int64, entries []raft.Entry, markBytes int64) {
	if len(entries) == 0 {
		return
	}
	at := place{segment: s, offset: offset}
	if n := len(x.marks); n == 0 || x.jump || x.marks[n-1].segment != s || offset-x.marks[n-1].offset >= markBytes {
		x.mark(entries[0].Index, at)
	}
	at.offset += batchBytes
	for k := range entries {
		e := &entries[k]
		if k > 0 && at.offset-x.marks[len(x.marks)-1].offset >= markBytes {
			at.left = len(entries) - k
			x.mark(e.Index, at)
		}
		if n := len(x.runs); n == 0 || x.runs[n-1].Term != e.Term {
			x.runs = append(x.runs, raft.TermRun{Term: e.Term, First: e.Index})
		}
		at.offset += int64(len(e.Record()))
	}
	x.last = entries[len(entries)-1].ID()
	s.last = x.last.Index
}

// markOf returns the last mark at or before entry i, which the log holds.
func (x *index) markOf(i raft.Index) *mark {
	return &x.marks[sort.Search(len(x.marks), func(k int) bool { return x.marks[k].first > i })-1]
}

func (x *index) mark(first raft.Index, at place) {
	x.marks = append(x.marks, mark{first, at, x.jump})
	x.jump = false
}

// forget drops the marks and runs of a segment that no longer exists. All entries of the segment are at or below the start.
func (x *index) forget(s *segment) {
	n := 0
	for n < len(x.marks) && x.marks[n].segment == s {
		n++
	}
	if n > 0 {
		x.marks = append([]mark(nil), x.marks[n:]...)
	}
	above := sort.Search(len(x.runs), func(k int) bool { return x.runs[k].First > x.start.Index })
	if above > 1 {
		x.floor = x.start
		x.runs = append([]raft.TermRun(nil), x.runs[above-1:]...)
	}
}
