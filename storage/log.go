package storage

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// LogDir is the directory of the segments, beside BoltFile.
const LogDir = "log"

// LogOptions tunes a Log. The zero value is good.
type LogOptions struct {
	// LockWait is how long OpenLog waits for another process to release the store. 0 means 1 s, enough for a
	// process that is about to end.
	LockWait time.Duration
	// SegmentBytes is the size of a segment, 4 KiB to 1 GiB. 0 means 32 MiB. The first segments are smaller. The log takes the
	// room of up to five segments more than its entries need, and a file descriptor for each segment.
	SegmentBytes int64

	existing bool // as in BoltOptions
}

// Log keeps the log in segments: files of a fixed size that are allocated before they are needed. Each write of the node
// takes one write and one sync. A bbolt file beside the segments holds what seldom changes: term and vote, the identity, the
// starts, the records of the snapshot and of the log's base, and the list of the segments. Each snapshot is a separate file.
// Log's methods may be called as raft.SnapshotStorage says.
//
// After a crash, Load drops what an interrupted write left at the end of the log, and names it in Stored.LeftOver. Each later
// write and each mark records how far the log was durable. Damage before that point is a *raft.CorruptError. Log makes a mark
// in Load and Close, with each new segment, with each write that has more than entries, and after 100 ms without a write.
//
// After the last mark, two kinds of damage look like an interrupted write, and Load drops the damaged entries: damage to the
// last write that was synced, and damage that erases every write after some point. A leader that received an acknowledgement
// of these entries notices the loss (*raft.StaleImageError).
type Log struct {
	boltStore
	log       *segments.Log
	torn      string                // what an interrupted write left, found by Load
	wake      chan struct{}         // wakes the background goroutine
	hurry     chan struct{}         // ends a pause
	prepared  chan struct{}         // a segment was prepared
	idle      atomic.Bool           // nothing waits for a mark
	writes    atomic.Uint64         // calls of Write
	noSegment atomic.Pointer[error] // why the last attempt to prepare a segment failed; nil: it succeeded
	preparing sync.Mutex            // held by prepare
	running   sync.WaitGroup        // the background goroutine
}

var (
	_ raft.SnapshotStorage = (*Log)(nil)
	_ raft.RoomStorage     = (*Log)(nil)
	_ raft.DiskStorage     = (*Log)(nil)
)

const (
	// markAfter is the time without a write after which Log makes a mark.
	markAfter = 100 * time.Millisecond
	// retryMin is the minimum wait before another attempt when room or a file descriptor is missing.
	retryMin = 200 * time.Millisecond
	// retryFactor is the wait after a failed attempt to prepare a segment, as a multiple of its duration; retryMax limits it.
	retryFactor = 20
	retryMax    = 10 * time.Second
	// pauseFactor is the pause after each part of a new segment, as a multiple of its duration; pauseMax limits it.
	pauseFactor = 6
	pauseMax    = 50 * time.Millisecond
)

// OpenLog opens the store in dir, or creates an uninitialized one there.
//
// An error matches raft.ErrLocked if another process has the store open, ErrOtherLog if the store keeps its entries in the
// bbolt file, ErrNotWritable, or ErrDiskFull; or it is a *raft.CorruptError, a *ForeignFileError, an *UnfinishedAsideError, or
// a *raft.ConfigError for an option. Each says what to do.
func OpenLog(dir string, opts LogOptions) (*Log, error) {
	return openLogOn(files.OS, dir, opts)
}

// openLogOn opens a store whose segments are on the given disk.
func openLogOn(disk files.FS, dir string, opts LogOptions) (*Log, error) {
	if err := checkSegmentBytes(opts.SegmentBytes); err != nil {
		return nil, err
	}
	l := &Log{wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), prepared: make(chan struct{}, 1)}
	l.idle.Store(true)
	sizes := segments.Sizes{SegmentBytes: opts.SegmentBytes, FirstBytes: firstBytes}
	l.log = segments.New(disk, filepath.Join(dir, LogDir), sizes, segments.Owner{
		Salt: salt, Keep: l.keep, Await: l.await, Pause: l.pause, Reserve: l.reserve,
	})
	if err := l.open(dir, logHome{l}, opts.LockWait, opts.existing); err != nil {
		return nil, err
	}
	return l, nil
}

// checkSegmentBytes returns a *raft.ConfigError if the size is outside its limits.
func checkSegmentBytes(size int64) error {
	const least, most = 4 << 10, 1 << 30
	if size != 0 && (size < least || size > most) {
		return &raft.ConfigError{Field: "SegmentBytes", Err: fmt.Errorf("%d; it takes %d to %d bytes, or 0 for 32 MiB", size, least, most)}
	}
	return nil
}

const firstBytes = 1 << 20 // size of the first segment

func salt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

var segmentsBucket = []byte("segments")

const (
	segmentsVersion = 1 // the newest version of the record that this release reads; it writes this one
	segmentsName    = "the list of the segments"
)

func putCatalog(tx *bbolt.Tx, c segments.Catalog) error {
	return tx.Bucket(segmentsBucket).Put(recordKey, sealed(append([]byte{segmentsVersion}, c.Encode()...)))
}

// keep makes the list of segments durable. l.mu is held.
func (l *Log) keep(c segments.Catalog) error {
	return l.update("listing the segments in", func(tx *bbolt.Tx) error { return putCatalog(tx, c) })
}

// await prepares a segment. While the disk has no room for it, or the process has no file descriptor, await waits until there
// is one or the store is closed. Acknowledged entries stay readable meanwhile, and no more entries are acknowledged.
func (l *Log) await(bytes int64) error {
	select {
	case l.hurry <- struct{}{}:
	default:
	}
	for {
		took, err := l.prepare(bytes, true)
		if err == nil || !l.loaded || !isDiskFull(err) && !files.NoDescriptor(err) {
			return l.explainLog("preparing a segment in", err)
		}
		if isDiskFull(err) {
			pruned, err := l.pruneAll()
			if err != nil {
				return err
			}
			if pruned {
				continue
			}
		}
		select {
		case <-time.After(l.retryAfter(took, err)):
		case <-l.prepared:
		case <-l.closing:
			return fmt.Errorf("%w: %s", ErrStoreClosed, l.path)
		}
	}
}

// pruneAll deletes the entries that compaction left behind, and reports whether there were any.
func (l *Log) pruneAll() (pruned bool, err error) {
	before := l.log.Bytes()
	for more := true; more; {
		if more, err = l.log.Prune(); err != nil {
			return false, l.explainLog("pruning", err)
		}
	}
	return l.log.Bytes() < before, nil
}

// prepare prepares a segment, if a write needs one or the log wants one. It records a failure for Room, and returns the
// duration of the attempt.
func (l *Log) prepare(bytes int64, needed bool) (took time.Duration, err error) {
	l.preparing.Lock()
	defer l.preparing.Unlock()
	if !needed && !l.log.Wanted() {
		return 0, nil
	}
	began := time.Now()
	err = l.log.Prepare(bytes)
	took = time.Since(began)
	switch {
	case err == nil:
		l.noSegment.Store(nil)
		select {
		case l.prepared <- struct{}{}:
		default:
		}
	case !errors.Is(err, segments.ErrClosed):
		noSegment := withRemedy(fmt.Errorf("storage: preparing a segment: %w", err))
		l.noSegment.Store(&noSegment)
	}
	return took, err
}

// retryAfter returns the wait after a failed attempt of the given duration. Some file systems do not report their free room,
// for example with quotas. There each attempt fills the disk until it fails, and no other write succeeds in that time.
func (l *Log) retryAfter(took time.Duration, err error) time.Duration {
	if files.NoDescriptor(err) || l.log.Full() {
		return retryMin
	}
	return max(retryMin, min(retryFactor*took, retryMax))
}

// reserveMax is the limit of reserve. A larger snapshot gets no reserve: it needs much more room than a segment takes.
const reserveMax = 64 << 20

// reserve returns the bytes reserved for the next snapshot, without which the log cannot be compacted: twice the size of the
// last snapshot or, without one, the size of the log, less what is written already.
func (l *Log) reserve() int64 {
	recorded := l.recorded.Load()
	if recorded == nil || recorded.Size > reserveMax {
		return 0
	}
	expected := 2 * recorded.Size
	if recorded.ID.Index == 0 {
		expected = l.LogBytes()
	}
	return max(min(expected, reserveMax)-l.dir.UnderWay(), 0)
}

// pause leaves the disk to the log's own writes for a while, after a part of a new segment that took the given time.
func (l *Log) pause(took time.Duration) {
	select {
	case <-time.After(min(pauseFactor*took, pauseMax)):
	case <-l.hurry:
	case <-l.closing:
	}
}

// Room returns an error while the next segment cannot be prepared, usually because the disk is full. Write still succeeds as
// long as there is room in the present segment. Room also returns an error while a Write waits for a file descriptor.
func (l *Log) Room() error {
	if noSegment := l.noSegment.Load(); noSegment != nil {
		return *noSegment
	}
	if noDescriptor := l.noDescriptor.Load(); noDescriptor != nil {
		return *noDescriptor
	}
	return nil
}

// GiveUp ends a Write that waits for room or for a file descriptor. Later writes fail if they need a segment.
func (l *Log) GiveUp() {
	l.boltStore.GiveUp()
	l.log.GiveUp()
}

// explainLog wraps an error of the segments.
func (l *Log) explainLog(doing string, err error) error {
	var notInLog *raft.NotInLogError
	if err == nil || isTyped(err) || errors.Is(err, ErrDiskFull) || errors.As(err, &notInLog) || errors.Is(err, raft.ErrNotStored) || errors.Is(err, ErrStoreClosed) {
		return err
	}
	if errors.Is(err, segments.ErrClosed) {
		return fmt.Errorf("%w: %s %s", ErrStoreClosed, doing, l.path)
	}
	return explain(doing, filepath.Join(filepath.Dir(l.path), LogDir), err)
}

// Entries returns the first entries of the span, at least one, as raft.Storage says. It may run concurrently
// with itself and with Write, and sees each write entirely or not at all.
func (l *Log) Entries(span raft.Span, bytesMax int) ([]raft.Entry, error) {
	entries, err := l.log.Entries(span, bytesMax)
	return entries, l.explainLog("reading", err)
}

// Write makes the write durable, as raft.Storage says, with one sync if it consists of entries alone. A write that carries
// only a commit hint costs nothing: the next write stores the hint. After an error every later Write returns that error.
//
// If the disk has no room for the next segment, a write that needs it waits until there is room.
func (l *Log) Write(w raft.StorageWrite) error {
	err := l.boltStore.Write(w)
	l.writes.Add(1)
	if l.idle.CompareAndSwap(true, false) || l.log.Wanted() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// Prune deletes the first segment if all its entries are at or below the base, and reports whether another call may delete
// more.
func (l *Log) Prune() (more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return false, err
	}
	if more, err = l.log.Prune(); err != nil {
		l.failed = l.explainLog("pruning", err)
		return false, l.failed
	}
	l.logBytes.Store(l.log.Bytes())
	return more, nil
}

// Close records that everything in the log is durable, and releases the files.
func (l *Log) Close() error {
	l.GiveUp()
	err := l.boltStore.Close()
	l.running.Wait()
	return err
}

// background prepares segments, and makes a mark when nothing was written for markAfter.
func (l *Log) background() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	seen, marking := uint64(0), false
	var retry time.Time // earliest next attempt, after prepare failed
	for {
		wait := time.Hour
		if l.log.Room() == nil { // a Write may have prepared the segment meanwhile
			retry = time.Time{}
		}
		if l.log.Wanted() && !time.Now().Before(retry) {
			if took, err := l.prepare(0, false); err != nil {
				retry = time.Now().Add(l.retryAfter(took, err))
			}
		}
		if l.log.Wanted() {
			wait = max(time.Until(retry), 0)
		}
		if writes := l.writes.Load(); !l.idle.Load() && !marking {
			seen, marking = writes, true
		}
		if marking {
			wait = min(wait, markAfter)
		}
		timer.Reset(wait)
		select {
		case <-l.closing:
			return
		case <-l.wake:
			continue
		case <-timer.C:
		}
		if !marking {
			continue
		}
		if marking = false; seen == l.writes.Load() {
			l.idle.Store(true)
			l.mark()
		}
	}
}

func (l *Log) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready() != nil {
		return
	}
	if err := l.log.Mark(); err != nil {
		l.failed = l.explainLog("marking", err)
	}
}
