// Package segments keeps the entries of a log in files of a fixed size, its segments. Each batch of entries takes one write
// and one sync. format.go describes the content of a segment, and catalog.go the list of segments. append.go writes entries,
// and read.go reads them. prepare.go creates, reuses and removes segments. recover.go reads the log after a start.
//
// A batch is written once and never over another one, so a batch that a reader has found does not change. A batch that
// follows an entry before the last one truncates the log. A reset raises the epoch in the catalog.
//
// The package starts no goroutine. The owner calls Prepare and Mark at times that suit the owner.
package segments

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// Sizes are the sizes of the parts in which a log is written. The format does not depend on any of them. The zero value is
// good.
type Sizes struct {
	SegmentBytes int64 // size of a segment; 0: 32 MiB
	FirstBytes   int64 // size of the first segment; each later one is twice as large, up to SegmentBytes; 0: 1 MiB
	BatchBytes   int   // limit of a batch that holds more than one entry; 0: 4 MiB
	MarkBytes    int64 // distance between two marks of the index in memory; 0: 64 KiB
	BufferBytes  int   // most that is written, or read by Recover, at once; 0: 256 KiB
	FillBytes    int64 // zeros in a new segment between two syncs; 0: 1 MiB
}

// OrDefaults returns the sizes with defaults for those that are 0.
func (s Sizes) OrDefaults() Sizes {
	set := func(n *int64, value int64) {
		if *n == 0 {
			*n = value
		}
	}
	batch, buffer := int64(s.BatchBytes), int64(s.BufferBytes)
	set(&s.SegmentBytes, 32<<20)
	set(&s.FirstBytes, 1<<20)
	set(&s.MarkBytes, 64<<10)
	set(&s.FillBytes, 1<<20)
	set(&batch, 4<<20)
	set(&buffer, 256<<10)
	s.BatchBytes, s.BufferBytes = int(batch), int(buffer)
	return s
}

// Owner holds the functions that a log calls on its owner.
type Owner struct {
	// Salt draws a random number.
	Salt func() uint64
	// Keep makes the catalog durable before it returns. Append, Begin, Reset and Prune call it.
	Keep func(Catalog) error
	// Await is called by Append if Append needs a segment of that many bytes and none is prepared. Await returns nil after a
	// call of Prepare has returned nil.
	Await func(bytes int64) error
	// Pause is called by Prepare between two parts of a file that Prepare fills, unless the segment is urgent. took is the
	// duration of the last part. Pause may wait, so that other writes get the disk.
	Pause func(took time.Duration)
	// Reserve returns how many bytes must stay free beside a new file. Prepare ignores the reserve if Append waits for the
	// file. Nil: no reserve.
	Reserve func() int64
}

// Log is a log in segments. First call Recover, then Begin. From then on any goroutine may call Entries, Prepare, Room and
// Wanted; only one goroutine at a time may call the other methods.
type Log struct {
	fs     files.FS
	dir    string
	sizes  Sizes
	owner  Owner
	member raft.Incarnation

	// Used only by the goroutine that writes.
	failed   error // error of the first call that failed; later ones return it
	catalog  Catalog
	end      int64      // offset of the next batch in the last segment
	synced   int64      // offset up to which the last segment is durable
	perSync  int64      // recent average of bytes per sync
	marked   bool       // the last batch is a mark
	commit   raft.Index // newest commit hint in a batch
	writer   writer
	recovery *recovery // between Recover and Begin

	mu       sync.Mutex // guards the next four fields, and those that say so
	segments []*segment // as listed; the last one is written to
	index    index
	cursors  [cursorsMax]cursor
	turn     int // cursor that is replaced next

	closing   atomic.Bool // GiveUp or Close was called
	large     atomic.Bool // recent syncs were large
	closed    bool        // guarded by mu
	preparing sync.Mutex  // held by Prepare
	next      uint64      // number of the next segment to prepare
	prepared  *segment    // guarded by mu
	dismissed string      // file of a prepared segment that was too small, still to be removed; empty: none
	awaited   int64       // guarded by mu: size of the segment that Append waits for or gave up on; 0: none
	moving    bool        // guarded by mu: Append has taken the prepared segment and not listed it yet
	spares    []string    // guarded by mu: files to reuse, of SegmentBytes each
	room      error       // guarded by mu: error of the last Prepare
}

// New returns the log in that directory. It reads nothing yet.
func New(fs files.FS, dir string, sizes Sizes, owner Owner) *Log {
	l := &Log{fs: fs, dir: dir, sizes: sizes.OrDefaults(), owner: owner}
	return l
}

// segment is one file.
type segment struct {
	Listed
	path string
	file files.File
	// Guarded by the log's lock.
	limit    int64 // end of what readers may see
	last     raft.Index
	readers  int
	gone     bool // not in the log any more: the last reader closes the file
	unlisted bool // the last reader also removes the file
}

func (l *Log) path(number uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%016x%s", number, suffix))
}

// current returns the segment for the next batch. Only the goroutine that writes changes it.
func (l *Log) current() *segment { return l.segments[len(l.segments)-1] }

// Last returns the last entry. If the log is empty, Last returns the entry after which the log begins.
func (l *Log) Last() raft.EntryID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.last
}

// Start returns the entry after which the log begins.
func (l *Log) Start() raft.EntryID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.start
}

// Holds reports whether the log can continue after the entry. That is so if the log contains the entry or begins after it.
func (l *Log) Holds(id raft.EntryID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.holds(id)
}

// Compact makes the log begin after base, which is an entry of the log. The owner has already made the new beginning durable.
func (l *Log) Compact(base raft.EntryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index.start = base
}

// Bytes returns roughly how many bytes the entries take, including the segments that Prune has not deleted yet.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var used int64
	for _, s := range l.segments {
		used += s.limit - headBytes
	}
	x := &l.index
	if x.start != x.last {
		return used - (x.markOf(x.start.Index+1).offset - headBytes)
	}
	if n := len(l.segments); n > 0 {
		used -= l.segments[n-1].limit - headBytes // an empty log needs nothing of its last segment
	}
	return used
}

// Catalog returns the present catalog for the owner to keep. It includes how far the log is durable.
func (l *Log) Catalog() Catalog {
	c := l.catalog
	c.Synced, c.Commit = l.synced, l.commit
	return c
}

// Failed returns the error of the first call that failed. After that error, the log writes nothing more.
func (l *Log) Failed() error { return l.failed }

// fail records the error, unless an earlier one is recorded. From then on, the log writes nothing more.
func (l *Log) fail(err error) error {
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// GiveUp makes a running Prepare, and every later one, fail.
func (l *Log) GiveUp() { l.closing.Store(true) }

// Close closes the files. It does not write: see Mark.
func (l *Log) Close() error {
	l.GiveUp()
	l.preparing.Lock()
	defer l.preparing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	all := l.segments
	if l.prepared != nil {
		all = append(all[:len(all):len(all)], l.prepared)
	}
	var err error
	for _, s := range all {
		s.gone = true
		if s.readers == 0 {
			err = errors.Join(err, s.file.Close())
		}
	}
	l.segments, l.prepared, l.closed = nil, nil, true
	l.failed = errors.Join(l.failed, ErrClosed)
	return err
}

// ErrClosed is matched by the errors of a log that is closed.
var ErrClosed = errors.New("segments: the log is closed")

// damaged returns the error for bytes of a segment that differ from the bytes that were written there.
func damaged(path string, offset int64, reason error) error {
	var later *raft.LaterVersionError
	if errors.As(reason, &later) {
		named := *later
		named.File = path
		return &named
	}
	return &raft.CorruptError{File: path, Where: offsetPlace(offset), Reason: reason}
}

func offsetPlace(offset int64) string { return fmt.Sprintf("offset %d", offset) }
