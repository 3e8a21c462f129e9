package segments

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Found is what Recover has read.
type Found struct {
	Log    raft.StoredLog
	Commit raft.Index // last commit hint
	// Torn is what an interrupted write left, which is not in the log; nil: nothing.
	Torn *raft.CorruptError
}

// recovery is the state of Recover. Begin also uses it.
type recovery struct {
	ctx       context.Context
	found     Found
	base      raft.Base
	begun     bool // a batch of the present epoch was read
	observing bool // the base was read: later entries go to found.Log
	dropped   bool // entries of found.Log were dropped since, so it must be read again
	entries   []raft.Entry
	buffer    []byte
	batches   int

	synced int64    // offset up to which the last segment is known to be durable
	unused []string // files that the catalog does not list
}

// Recover reads and checks the whole log of a member. The log begins after the base. Recover changes nothing on the disk. It
// drops a damaged end of the log only if an interrupted write may have left that end. After an error, the caller may call
// Recover again. It then reads everything again. With an error, Found has what was read before, and Entries returns that. A
// batch behind the damage may have dropped some of these entries.
func (l *Log) Recover(ctx context.Context, member raft.Incarnation, catalog Catalog, base raft.Base) (Found, error) {
	if err := l.startOver(); err != nil {
		return Found{}, err
	}
	l.member, l.catalog = member, catalog
	r := &recovery{ctx: ctx, base: base, buffer: make([]byte, l.sizes.BufferBytes)}
	l.recovery = r
	l.next = 1
	l.index.begin(base.ID)
	r.found.Log = emptyLog(base)
	if err := l.read(r); err != nil {
		l.keepRead(r)
		return r.found, err
	}
	r.found.Commit = min(max(l.commit, catalog.Commit), l.index.last.Index)
	l.commit = r.found.Commit
	return r.found, nil
}

// read reads and checks every segment, and then what only the whole log shows.
func (l *Log) read(r *recovery) error {
	for k, listed := range l.catalog.Listed {
		l.next = listed.Number + 1
		s := &segment{Listed: listed, path: l.path(listed.Number)}
		if err := l.open(s, k == len(l.catalog.Listed)-1); err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		if err := l.checkSize(r, s); err != nil {
			return err
		}
		if err := l.scan(r, s); err != nil {
			return err
		}
	}
	if err := l.findUnlisted(r); err != nil {
		return err
	}
	return l.finishScan(r)
}

// keepRead makes readable what read has found before its error: the entries above the base, if the base was among them.
func (l *Log) keepRead(r *recovery) {
	x, base := &l.index, r.base.ID
	if base.Index < x.floor.Index || base.Index > x.last.Index || x.termAt(base.Index) != base.Term {
		x.begin(base)
		r.found.Log = emptyLog(r.base)
		return
	}
	x.start = base
	if r.dropped || r.found.Log.Last != x.last {
		_ = l.readAgain(r) // what it cannot read, either, is not in found.Log
	}
}

// startOver discards the state of an earlier Recover.
func (l *Log) startOver() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		err = errors.Join(err, s.file.Close())
	}
	l.segments, l.cursors, l.end, l.commit, l.marked = nil, [cursorsMax]cursor{}, 0, 0, false
	return err
}

func emptyLog(base raft.Base) (log raft.StoredLog) {
	if base.ID != (raft.EntryID{}) {
		log.Begin(base)
	}
	return log
}

// open opens a listed file and checks its head.
func (l *Log) open(s *segment, last bool) (err error) {
	open := l.fs.Open
	if last {
		open = l.fs.OpenWrite
	}
	if s.file, err = open(s.path); errors.Is(err, fs.ErrNotExist) {
		return &raft.CorruptError{File: s.path, Reason: errors.New("the log consists of it and others")}
	}
	if err != nil {
		return fmt.Errorf("segments: opening %s: %w", s.path, err)
	}
	if err := l.examine(s); err != nil {
		return errors.Join(err, s.file.Close())
	}
	return nil
}

// examine checks the head of a file.
func (l *Log) examine(s *segment) error {
	h, err := l.readHead(s.file, s.path)
	if err != nil {
		return err
	}
	if want := (head{s.Number, s.Salt, l.member, s.Bytes}); h != want {
		return damaged(s.path, 0, mismatch(h, want))
	}
	return nil
}

// checkSize checks the size of a file. If the file was cut short, checkSize adds to r.found what is left in it.
func (l *Log) checkSize(r *recovery, s *segment) error {
	size, err := s.file.Size()
	if err != nil {
		return fmt.Errorf("segments: opening %s: %w", s.path, err)
	}
	if size >= s.Bytes {
		return nil
	}
	short := fmt.Errorf("the file is cut short, it had %d bytes", s.Bytes)
	s.Bytes, s.End = size, min(s.End, size)
	_ = l.scan(r, s) // its end is missing in any case
	return damaged(s.path, size, short)
}

func mismatch(found, want head) error {
	switch {
	case found.member != want.member:
		return fmt.Errorf("it is a segment of incarnation %v, and this store belongs to incarnation %v (if files were exchanged, putting back the right one is enough)",
			found.member, want.member)
	case found.number != want.number:
		return fmt.Errorf("it is segment %d, and segment %d belongs there (if files were renamed, giving them their names back is enough)",
			found.number, want.number)
	}
	return fmt.Errorf("it is another use of the file (salt %016x, %d bytes) than the list of segments names (salt %016x, %d bytes): one of the two is an older copy",
		found.salt, found.bytes, want.salt, want.bytes)
}

func (l *Log) readHead(f files.File, path string) (head, error) {
	b := make([]byte, headBytes)
	n, err := f.ReadAt(b, 0)
	if n < headUsed && err != nil && !isEOF(err) {
		return head{}, fmt.Errorf("segments: reading %s: %w", path, err)
	}
	h, err := decodeHead(b[:n])
	if err != nil {
		return head{}, damaged(path, 0, err)
	}
	return h, nil
}

// scan reads the batches of a segment, in order.
func (l *Log) scan(r *recovery, s *segment) error {
	last := s.End == 0
	limit := s.End
	if last {
		limit = s.Bytes
	}
	scan := newScanner(s, limit, l.sizes.BufferBytes, r.buffer)
	synced, before := l.catalog.Synced, int64(0) // before: synced offset in the previous batch
	offset := int64(headBytes)
	for offset < limit {
		if r.batches++; r.batches%batchesPerCheck == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		h, reason, err := scan.batch(offset)
		if err != nil {
			return err
		}
		if reason == nil && h.synced < before {
			reason = errEarlier
		}
		if reason != nil {
			if !last {
				return damaged(s.path, offset, fmt.Errorf("%w; the segment was full up to offset %d", reason, s.End))
			}
			if err := l.scanEnd(r, scan, offset, synced, reason); err != nil {
				return err
			}
			break
		}
		if err := l.replay(r, s, h, scan.records); err != nil {
			return err
		}
		before, synced, offset = h.synced, max(synced, h.synced), h.end()
		s.limit = offset
		if last {
			r.synced, l.end = synced, offset
		}
	}
	if last && l.end == 0 {
		l.end = headBytes
	}
	r.synced = max(r.synced, min(synced, l.end))
	r.buffer = scan.buffer
	s.limit = offset
	return nil
}

// errEarlier says that a batch does not belong to the log, because an interrupted write of an earlier process left it. Each
// process begins with a mark after the end of the log that it found. The synced offset of each later batch of that process
// includes the mark. So if a batch has a lower synced offset than the batch before it, it is left over.
//
// Clearing the left-over batches would not help. If the sync of the zeros failed, the next process might read zeros that are
// not on the disk.
var errEarlier = errors.New("the batch there is left over from an interrupted write of an earlier process")

// batchesPerCheck is how many batches are read between two checks of the context.
const batchesPerCheck = 1024

// scanEnd handles an offset in the last segment at which no sound batch begins. It decides whether the log ends there. If a
// later batch shows that the log was durable beyond the offset, the log does not end there, and scanEnd returns an error.
func (l *Log) scanEnd(r *recovery, scan *scanner, offset, synced int64, reason error) error {
	rest, err := scan.following(offset)
	if err != nil {
		return err
	}
	if synced = max(synced, rest.synced); synced > offset {
		return damaged(scan.segment.path, offset, fmt.Errorf("%w; the log was durable up to offset %d", reason, synced))
	}
	if rest.begins {
		r.found.Torn = &raft.CorruptError{File: scan.segment.path, Where: offsetPlace(offset), Reason: reason}
	}
	return nil
}

// replay adds one batch to the log.
func (l *Log) replay(r *recovery, s *segment, h batch, records [][]byte) error {
	if h.epoch > l.catalog.Epoch {
		return damaged(s.path, h.offset, fmt.Errorf("the batch is of epoch %d, and the list of segments of epoch %d: that list is an older copy",
			h.epoch, l.catalog.Epoch))
	}
	if h.epoch < l.catalog.Epoch {
		return nil
	}
	if err := l.rewind(r, h.after); err != nil {
		return damaged(s.path, h.offset, err)
	}
	r.entries = r.entries[:0]
	before := h.after
	at := h.offset + batchBytes
	for _, record := range records {
		e, err := entryAt(before.Index+1, before.Term, record)
		if err == nil {
			err = r.observe(e)
		}
		if err != nil {
			return damaged(s.path, at, err)
		}
		r.entries = append(r.entries, e)
		before, at = e.ID(), at+int64(len(record))
	}
	l.index.add(s, h.offset, r.entries, l.sizes.MarkBytes)
	l.commit, l.marked = h.commit, len(records) == 0
	return nil
}

// rewind makes after the last entry.
func (l *Log) rewind(r *recovery, after raft.EntryID) error {
	x, base := &l.index, r.base.ID
	switch {
	case !r.begun || after.Index < x.floor.Index:
		// If no entries are missing, a later batch drops the entries between the base and this entry. finishScan checks that.
		x.begin(after)
		r.begun = true
	case after.Index > x.last.Index || x.termAt(after.Index) != after.Term:
		return fmt.Errorf("it follows entry %v, which is not in the log up to entry %v", after, x.last)
	}
	if r.observing && after.Index < r.found.Log.Last.Index {
		r.dropped = true
	}
	if after == base {
		r.observing = true
	}
	x.truncate(after)
	for _, s := range l.segments {
		s.last = min(s.last, after.Index)
	}
	return nil
}

// observe adds an entry to found.Log if the entry is above the base and the replayed log holds the base.
func (r *recovery) observe(e raft.Entry) (err error) {
	if r.observing && !r.dropped && e.Index > r.base.ID.Index {
		err = r.found.Log.Observe(e)
	}
	if e.ID() == r.base.ID {
		r.observing = true
	}
	return err
}

// finishScan checks that the log holds its base and everything that is known to be committed.
func (l *Log) finishScan(r *recovery) error {
	x, base := &l.index, r.base.ID
	if len(l.segments) == 0 {
		return nil
	}
	s := l.segments[len(l.segments)-1]
	if base.Index < x.floor.Index {
		return damaged(l.segments[0].path, headBytes, fmt.Errorf("the log begins after entry %v, and the entries up to %v are missing", base, x.floor))
	}
	if base.Index > x.last.Index || x.termAt(base.Index) != base.Term {
		return damaged(s.path, l.end, fmt.Errorf("the log ends with entry %v, and does not hold entry %v, after which it begins", x.last, base))
	}
	x.start = base
	if l.catalog.Commit > x.last.Index {
		return damaged(s.path, l.end, fmt.Errorf("the log ends with entry %v, and was durable and committed up to entry %d", x.last, l.catalog.Commit))
	}
	if r.dropped {
		return l.readAgain(r)
	}
	return nil
}

const readBytes = 1 << 20 // read at once by readAgain

// readAgain builds found.Log again from the entries that the log still holds.
func (l *Log) readAgain(r *recovery) error {
	r.found.Log = emptyLog(r.base)
	for at := r.base.ID.Index; at < l.index.last.Index; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		entries, err := l.Entries(raft.Span{After: at, Last: l.index.last.Index}, readBytes)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := r.found.Log.Observe(e); err != nil {
				return damaged(l.segments[len(l.segments)-1].path, l.end, err)
			}
		}
		at += raft.Index(len(entries))
	}
	return nil
}

// findUnlisted collects the unlisted files that a crash may have left. Begin reuses or removes them. If a crash cannot have
// left an unlisted segment, findUnlisted returns an error.
func (l *Log) findUnlisted(r *recovery) error {
	list, err := l.fs.List(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("segments: listing %s: %w", l.dir, err)
	}
	for _, info := range list {
		path := filepath.Join(l.dir, info.Name)
		if isSpare(info.Name) {
			r.unused = append(r.unused, path)
			continue
		}
		number, ok := numberOf(info.Name)
		if !ok || l.lists(number) {
			continue
		}
		if err := l.checkUnlisted(path, number); err != nil {
			return err
		}
		r.unused = append(r.unused, path)
	}
	return nil
}

func numberOf(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if _, err := hex.DecodeString(digits); !ok || err != nil || len(digits) != 16 || digits != strings.ToLower(digits) {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, err == nil
}

func (l *Log) lists(number uint64) bool {
	for _, s := range l.segments {
		if s.Number == number {
			return true
		}
	}
	return false
}

// checkUnlisted returns an error if this package cannot have left the unlisted file there.
func (l *Log) checkUnlisted(path string, number uint64) error {
	f, err := l.fs.Open(path)
	if err != nil {
		return fmt.Errorf("segments: opening %s: %w", path, err)
	}
	defer f.Close()
	h, err := l.readHead(f, path)
	var corrupt *raft.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return damaged(path, 0, fmt.Errorf("%w, and this store does not list it (if it was copied there, moving it away is enough)", corrupt.Reason))
	case err != nil:
		return err
	case h.member != l.member && len(l.segments) == 0:
		return damaged(path, 0, fmt.Errorf("it is a segment of incarnation %v, and this store, of incarnation %v, has no log yet "+
			"(if the file with the list of segments was removed, putting it back is enough)", h.member, l.member))
	case h.member != l.member || h.number != number:
		return damaged(path, 0, fmt.Errorf("it is segment %d of incarnation %v, which this store does not list under that name "+
			"(if it was copied there, moving it away is enough)", h.number, h.member))
	}
	b := make([]byte, batchBytes)
	if n, err := f.ReadAt(b, headBytes); n < len(b) && !isEOF(err) {
		return fmt.Errorf("segments: reading %s: %w", path, err)
	}
	if number >= l.next && isBatch(b, h.salt, headBytes) {
		return damaged(path, headBytes, errors.New("it is in use, and the list of segments lacks it: that list is an older copy "+
			"(putting back the newest one is enough)"))
	}
	return nil
}
