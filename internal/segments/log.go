// Package segments keeps the entries of a log in files of a fixed size, its segments: one write and one sync for each
// batch of entries. format.go says what is in a segment, catalog.go which segments there are, append.go how they are
// written, prepare.go where they come from and where they go, recover.go how a log is read after a start, and read.go how
// entries are read.
//
// A batch is written once and never over another one, so what a reader has found stays as it is. The batch that begins
// behind an entry which is not the last one truncates the log. A reset raises the epoch in the catalog.
//
// The package starts no goroutine. Prepare and Mark are called by its owner, when and where that is convenient.
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

// Sizes are those of the parts in which a log is written. None belongs to the format. The zero value is good.
type Sizes struct {
	SegmentBytes int64 // of a segment; 0: 32 MiB
	FirstBytes   int64 // of the first segment; each later one has twice as much, up to SegmentBytes; 0: 1 MiB
	BatchBytes   int   // no batch has more, unless it holds a single entry; 0: 4 MiB
	MarkBytes    int64 // of the log are between two marks of the index in memory; 0: 64 KiB
	BufferBytes  int   // are written, or read by Recover, at once; 0: 256 KiB
	FillBytes    int64 // of zeros are synced at once; 0: 1 MiB
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

// Owner is what a log needs of its owner.
type Owner struct {
	// Salt draws a random number.
	Salt func() uint64
	// Keep makes the catalog durable before it returns. Append, Begin, Reset and Prune call it.
	Keep func(Catalog) error
	// Await is called by an Append that needs a segment of that many bytes, when there is none. It returns nil when a
	// call of Prepare has returned nil.
	Await func(bytes int64) error
	// Rest is called by Prepare between two parts of a file that it fills, when there is time; the last one took so long.
	// It may wait, for the sake of what is written beside.
	Rest func(took time.Duration)
	// Leave returns how many bytes a new file leaves free, unless Append waits for it. Nil: none.
	Leave func() int64
}

// Log is a log in segments. First Recover is called, then Begin. From then on any goroutine may call Entries, Prepare, Room
// and Wanted; one at a time calls the other methods.
type Log struct {
	fs     files.FS
	dir    string
	sizes  Sizes
	owner  Owner
	member raft.Incarnation

	// Of the goroutine that writes.
	failed   error // of the first call that failed; later ones return it
	catalog  Catalog
	end      int64      // where the next batch begins in the last segment
	synced   int64      // all before it is durable in the last segment
	perSync  int64      // about how many bytes a sync has written lately
	marked   bool       // a mark is the last batch
	commit   raft.Index // the newest that a batch holds
	writer   writer
	recovery *recovery // between Recover and Begin

	mu       sync.Mutex // guards the rest
	segments []*segment // as listed; the last one is written to
	index    index
	cursors  [cursorsMax]cursor
	turn     int // which cursor is replaced next

	closing   atomic.Bool // GiveUp or Close was called
	large     atomic.Bool // what is synced lately is large
	closed    bool        // guarded by mu
	preparing sync.Mutex  // held by Prepare
	next      uint64      // number of the next segment that is prepared
	prepared  *segment    // guarded by mu
	dismissed string      // a file that turned out too small for what is prepared, and is still to be removed
	awaited   int64       // guarded by mu: the bytes of the segment that Append waits for, or gave up; 0: of none
	moving    bool        // guarded by mu: the prepared segment is taken, and is not the last one yet
	spares    []string    // guarded by mu: files that may be used again, of SegmentBytes each
	room      error       // guarded by mu: of the last Prepare
}

// New returns the log in that directory, of which nothing is read yet.
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
	limit   int64 // readers find nothing behind it
	last    raft.Index
	readers int
	gone    bool // nobody finds it any longer: the last reader closes it
	// unlisted reports that the last reader removes it, too.
	unlisted bool
}

func (l *Log) path(number uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%016x%s", number, suffix))
}

// current returns the segment that is written to. Only the goroutine that writes changes it.
func (l *Log) current() *segment { return l.segments[len(l.segments)-1] }

// Last returns the last entry, or the one behind which the log begins.
func (l *Log) Last() raft.EntryID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.last
}

// Start returns the entry behind which the log begins.
func (l *Log) Start() raft.EntryID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.start
}

// Holds reports whether the log can go on behind the entry: whether it is in the log, or the one behind which it begins.
func (l *Log) Holds(id raft.EntryID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index.holds(id)
}

// Compact has the log begin behind the entry, which it holds. The owner has made that durable.
func (l *Log) Compact(base raft.EntryID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index.start = base
}

// Bytes returns about how many bytes the entries of the log take, with the segments that Prune has not given up yet.
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
		used -= l.segments[n-1].limit - headBytes // of what is above the start, nothing
	}
	return used
}

// Catalog returns the catalog as it is to be kept from now on, with all that is durable.
func (l *Log) Catalog() Catalog {
	c := l.catalog
	c.Synced, c.Commit = l.synced, l.commit
	return c
}

// Failed returns the error of the first call that failed: the log is written to no more.
func (l *Log) Failed() error { return l.failed }

// fail takes note of an error after which nothing more is written.
func (l *Log) fail(err error) error {
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// GiveUp ends a running Prepare, and every later one.
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

// damaged returns the error for bytes of a segment that are not what was written there.
func damaged(path string, offset int64, reason error) error {
	var later *raft.LaterVersionError
	if errors.As(reason, &later) {
		named := *later
		named.File = path
		return &named
	}
	return &raft.CorruptError{File: path, Where: fmt.Sprintf("offset %d", offset), Reason: reason}
}
