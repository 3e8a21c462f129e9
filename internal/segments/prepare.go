package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coxswain/raft/internal/files"
)

// The name of a segment's file is the number of the segment in 16 hexadecimal digits, and the suffix.
const (
	suffix      = ".seg"
	sparePrefix = "spare-"       // of a file to reuse, before its former name
	newName     = "new" + suffix // an incomplete file
	sparesMax   = 2
)

// makeRoom continues with the next segment if the bytes do not fit into the last one.
func (l *Log) makeRoom(bytes int64) error {
	if l.end+bytes <= l.current().Bytes {
		return nil
	}
	if err := l.sync(); err != nil {
		return err
	}
	return l.advance(headBytes + bytes)
}

// advance adds the next segment to the catalog. The segment has at least the given bytes. The next batch goes into it.
func (l *Log) advance(bytes int64) error {
	s, err := l.awaitPrepared(bytes)
	if err != nil {
		return err
	}
	next := l.Catalog()
	next.Listed = slices.Clone(next.Listed)
	if n := len(next.Listed); n > 0 {
		next.Listed[n-1].End = l.end
	}
	next.Listed = append(next.Listed, s.Listed)
	next.Synced = headBytes
	if err := l.owner.Keep(next); err != nil {
		return errors.Join(err, s.file.Close())
	}
	l.catalog = next
	l.end, l.synced = headBytes, headBytes
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 {
		l.segments[n-1].End = next.Listed[n-1].End
	}
	s.limit = headBytes
	l.segments, l.moving = append(l.segments, s), false
	return nil
}

// awaitPrepared waits until the next segment is prepared, and returns it. The segment has at least the given bytes.
func (l *Log) awaitPrepared(bytes int64) (*segment, error) {
	for {
		if s := l.takePrepared(bytes); s != nil {
			return s, nil
		}
		if err := l.owner.Await(bytes); err != nil {
			return nil, err
		}
	}
}

// takePrepared returns the prepared segment. If no segment of at least the given bytes is prepared, takePrepared returns nil.
// It then notes that the log waits for such a segment.
func (l *Log) takePrepared(bytes int64) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.prepared
	if s == nil || s.Bytes < bytes {
		l.awaited = bytes
		return nil
	}
	l.prepared, l.awaited, l.moving = nil, 0, true
	return s
}

// Wanted reports whether the owner should call Prepare, so that the next segment is ready when the present segment is full.
// After an error, Wanted returns true until Prepare succeeds, because only Prepare can find out that the cause of the error
// has gone away.
func (l *Log) Wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) == 0 || l.prepared != nil || l.moving {
		return false
	}
	s := l.segments[len(l.segments)-1]
	return l.room != nil || s.limit > s.Bytes/4
}

// Room returns the error of the last Prepare: nil if the log can grow.
func (l *Log) Room() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room
}

// Prepare prepares the next segment, unless one is ready. A prepared segment is a file with durably allocated room. The file
// has at least the given bytes, and at least as many as Append waits for. If bytes is 0, the file has the regular size. After
// an error, Prepare leaves nothing behind, and the owner may call it again.
func (l *Log) Prepare(bytes int64) error {
	l.preparing.Lock()
	defer l.preparing.Unlock()
	if l.closing.Load() {
		return ErrClosed
	}
	l.mu.Lock()
	bytes = max(bytes, l.awaited)
	before := l.prepared
	if before != nil && before.Bytes < bytes {
		l.prepared = nil
	}
	l.mu.Unlock()
	if before != nil && before.Bytes >= bytes {
		return nil
	}
	var err error
	var s *segment
	if before != nil { // it is too small: removing it makes room
		l.dismissed, err = before.path, before.file.Close()
	}
	if err == nil && l.dismissed != "" {
		if err = l.drop(l.dismissed); err == nil {
			l.dismissed = ""
		}
	}
	if err == nil {
		s, err = l.prepare(bytes)
	}
	for files.NoRoom(err) && l.dropSpare() { // a spare may be too small for this segment: removing it makes room
		s, err = l.prepare(bytes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room = err; err == nil {
		l.prepared = s
	}
	return err
}

// Full reports whether the file system says that it has no room for the next segment. If so, another Prepare fails at once.
func (l *Log) Full() bool {
	l.preparing.Lock()
	defer l.preparing.Unlock()
	l.mu.Lock()
	awaited := l.awaited
	l.mu.Unlock()
	free, err := l.fs.Free(l.dir)
	return err == nil && free < l.sizeOf(l.next, awaited)
}

// sizeOf returns the size of the segment with the number. The size is at least the given bytes.
func (l *Log) sizeOf(number uint64, bytes int64) int64 {
	size := l.sizes.FirstBytes
	for ; number > 1 && size < l.sizes.SegmentBytes; number-- {
		size *= 2
	}
	return max(min(size, l.sizes.SegmentBytes), roundedUp(bytes, headBytes))
}

// prepare makes a segment from a spare file, or from a new one.
func (l *Log) prepare(bytes int64) (*segment, error) {
	number := l.next
	s := &segment{path: l.path(number)}
	s.Listed = Listed{Number: number, Salt: l.owner.Salt(), Bytes: l.sizeOf(number, bytes)}
	var reserve int64
	if bytes == 0 && l.owner.Reserve != nil {
		reserve = l.owner.Reserve()
	}
	name, err := l.fileFor(s, reserve)
	if err != nil {
		return nil, err
	}
	// The file gets its name only when its head is durable.
	if err := errors.Join(l.fs.Rename(name, s.path), l.fs.SyncDir(l.dir)); err != nil {
		return nil, errors.Join(err, l.drop(name), l.setBack(s, name, err))
	}
	if s.file, err = l.fs.OpenWrite(s.path); err != nil {
		return nil, errors.Join(err, l.setBack(s, name, err))
	}
	l.next = number + 1
	return s, nil
}

// setBack removes the file of a segment that could not be prepared. If the only cause is a missing file descriptor, setBack
// keeps the file for the next attempt. A spare file then gets its former name back, because with another name it might appear
// twice after a power cut.
func (l *Log) setBack(s *segment, name string, err error) error {
	if filepath.Base(name) == newName {
		name = l.spareOf(s)
	}
	if files.NoDescriptor(err) && s.Bytes == l.sizes.SegmentBytes && l.fs.Rename(s.path, name) == nil {
		l.addSpare(name)
		return nil
	}
	return l.drop(s.path)
}

// spareOf returns the name that a segment's file has while it waits for reuse.
func (l *Log) spareOf(s *segment) string {
	return filepath.Join(l.dir, sparePrefix+filepath.Base(s.path))
}

// fileFor returns the name of a file that has the size of the segment and holds the segment's head. If fileFor creates the
// file, the reserve stays free on the disk.
func (l *Log) fileFor(s *segment, reserve int64) (name string, err error) {
	var f files.File
	if name = l.takeSpare(s.Bytes); name != "" {
		f, err = l.fs.OpenWrite(name)
		if files.NoDescriptor(err) {
			l.addSpare(name)
			return "", err
		}
		if err != nil {
			_ = l.drop(name) // an operator may have removed it already to make room
		}
	}
	if f == nil {
		name = filepath.Join(l.dir, newName)
		if err := errors.Join(l.drop(name), l.checkRoom(s.Bytes, reserve)); err != nil {
			return "", err
		}
		if f, err = l.fs.Create(name); err == nil {
			err = l.fill(f, s.Bytes)
		}
	}
	if f == nil {
		return "", err
	}
	if err == nil {
		_, err = f.WriteAt(head{s.Number, s.Salt, l.member, s.Bytes}.encode(), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, l.drop(name))
	}
	return name, nil
}

// checkRoom returns an error if the file system says that it has no room for the bytes and the reserve. To make room,
// checkRoom first removes spare files. They are too small for this segment.
func (l *Log) checkRoom(bytes, reserve int64) error {
	free, err := l.fs.Free(l.dir)
	for err == nil && free-reserve < bytes && l.dropSpare() {
		free, err = l.fs.Free(l.dir)
	}
	if err == nil && free-reserve < bytes {
		reserved := ""
		if reserve > 0 {
			reserved = fmt.Sprintf(", of which %d are reserved for the next snapshot", reserve)
		}
		err := fmt.Errorf("the next segment takes %d bytes, and %d are free%s: %w", bytes, free, reserved, syscall.ENOSPC)
		return &fs.PathError{Op: "allocate", Path: l.dir, Err: err}
	}
	return nil
}

// largeSync is a size in bytes. For a larger sync, writing into allocated room takes hardly longer than writing over zeros.
const largeSync = 64 << 10

// fill writes zeros, so that the room is allocated and later writes change only bytes. It leaves the last zeros unsynced.
//
// A sync of the log waits for other syncs on the disk. So fill syncs a few zeros at a time, with pauses between the syncs. If
// this is too slow and the log's own syncs are large, fill lets the file system allocate the remaining room instead. Then the
// disk is free for the entries.
func (l *Log) fill(f files.File, bytes int64) error {
	zeros := make([]byte, min(bytes, int64(l.sizes.BufferBytes)))
	var written, synced int64
	began := time.Now()
	for !l.closing.Load() {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), bytes-written)], written)
		if err != nil {
			return err
		}
		if written += int64(n); written == bytes {
			return nil
		}
		if written-synced < l.sizes.FillBytes {
			continue
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if synced = written; !l.hurries(written, bytes) {
			l.owner.Pause(time.Since(began))
		} else if l.large.Load() {
			err := f.Allocate(bytes)
			if err == nil || files.NoRoom(err) {
				return err
			} // the file system cannot allocate: continue with zeros, which show any other error
		}
		began = time.Now()
	}
	return ErrClosed
}

// hurries reports whether fill must do without pauses, because pauses would delay the next segment too much. That is so if
// the log waits for the segment, or refuses proposals because the disk was full. It is also so if the filling is late.
// Filling begins when a quarter of the present segment is written, and should end when three quarters are written. filled is
// how many of the bytes are already filled.
func (l *Log) hurries(filled, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaited > 0 || l.room != nil || len(l.segments) == 0 {
		return true
	}
	s := l.segments[len(l.segments)-1]
	return float64(filled)/float64(bytes) < (float64(s.limit)/float64(s.Bytes)-0.25)*2
}

// drop removes a file if there is one.
func (l *Log) drop(name string) error {
	if err := l.fs.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// takeSpare returns the name of a file to reuse. If there is no file of that size, takeSpare returns "".
func (l *Log) takeSpare(bytes int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.spares); n > 0 && bytes == l.sizes.SegmentBytes {
		name := l.spares[n-1]
		l.spares = l.spares[:n-1]
		return name
	}
	return ""
}

// dropSpare removes a spare file, and reports whether there was one.
func (l *Log) dropSpare() bool {
	name := l.takeSpare(l.sizes.SegmentBytes)
	return name != "" && l.drop(name) == nil
}

// Prune drops the first segment if all entries of the segment are at or below the start. It reports whether another call may
// drop more. Await may call Prune.
func (l *Log) Prune() (more bool, err error) {
	if l.failed != nil {
		return false, l.failed
	}
	if !l.prunable() {
		return false, nil
	}
	next := l.Catalog()
	next.Listed = slices.Clone(next.Listed[1:])
	if err := l.owner.Keep(next); err != nil {
		return false, l.fail(err)
	}
	l.catalog = next
	if s, read := l.unlist(); !read {
		if err := l.release(s); err != nil {
			return false, l.fail(err)
		}
	}
	return l.prunable(), nil
}

// prunable reports whether the log no longer needs the first segment. It also considers the batches of a running Append,
// because they are not in the index yet.
func (l *Log) prunable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) < 2 {
		return false
	}
	first := l.segments[0]
	written := slices.ContainsFunc(l.writer.pending, func(p piece) bool { return p.segment == first })
	return !written && first.last <= l.index.start.Index
}

// unlist takes the first segment out of the log, and reports whether the segment has readers. If so, only the last reader may
// close and remove the file.
func (l *Log) unlist() (s *segment, read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.segments[0]
	l.segments = slices.Clone(l.segments[1:])
	l.index.forget(s)
	s.gone, s.unlisted = true, true
	for k := range l.cursors {
		if l.cursors[k].segment == s {
			l.cursors[k] = cursor{}
		}
	}
	return s, s.readers > 0
}

// release keeps the file of a segment for reuse, or removes it. No catalog lists the segment any more, and no reader uses it.
func (l *Log) release(s *segment) error {
	l.mu.Lock()
	keep := s.Bytes == l.sizes.SegmentBytes && len(l.spares) < sparesMax
	l.mu.Unlock()
	if err := s.file.Close(); err != nil {
		return err
	}
	if !keep {
		return l.fs.Remove(s.path)
	}
	spare := l.spareOf(s)
	if err := l.fs.Rename(s.path, spare); err != nil {
		return l.fs.Remove(s.path) // the disk may be too full for another name
	}
	// The new name must be durable before the file gets another head. Otherwise, after a power cut, the new head might appear
	// under the segment's old name.
	if err := l.fs.SyncDir(l.dir); files.NoDescriptor(err) || files.NoRoom(err) {
		return l.fs.Remove(spare)
	} else if err != nil {
		return err
	}
	l.addSpare(spare)
	return nil
}

func (l *Log) addSpare(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spares = append(l.spares, name)
}

// isSpare reports whether the name is that of a spare or an incomplete file.
func isSpare(name string) bool {
	number, isSpare := strings.CutPrefix(name, sparePrefix)
	if isSpare {
		_, isSpare = numberOf(number)
	}
	return name == newName || isSpare
}
