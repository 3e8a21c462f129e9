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
	// LockWait is how long OpenLog waits for another process to release the store. 0 means 1 s. That is long enough if the
	// other process is about to end.
	LockWait time.Duration
	// SegmentBytes is the size of a segment, 4 KiB to 1 GiB. 0 means 32 MiB. The first segments are smaller. Beyond the room
	// that its entries need, the log takes the room of up to five segments. It keeps a file descriptor open for each segment.
	SegmentBytes int64

	access access // as in BoltOptions
}

// Log keeps the log in segments. These are files of a fixed size that are allocated before they are needed. Each write of the
// node takes one write and one sync. A bbolt file beside the segments holds what seldom changes: term and vote, the identity,
// the starts, the records of the snapshot and of the log's base, and the list of the segments. Each snapshot is a separate
// file. The callers of Log's methods must follow the rules of raft.SnapshotStorage.
//
// An interrupted write may leave a damaged end of the log. After a crash, Load drops that end, and names it in
// Stored.LeftOver. Each write and each mark records how far the log was durable before it. If Load finds damage before the
// last recorded point, it returns a *raft.CorruptError. Log makes a mark in Load and Close, with each new segment, with each
// write that has more than entries, and after 100 ms without a write.
//
// After the last mark, two kinds of damage look like an interrupted write: damage to the last write that was synced, and
// damage that erases every write after some point. In both cases Load drops the damaged entries. If a leader has received an
// acknowledgement of these entries, the leader notices the loss (*raft.StaleImageError).
type Log struct {
	boltStore
	log       *segments.Log
	torn      *raft.CorruptError    // what an interrupted write left, found by Load; nil: nothing
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
	// markAfter is how long the log waits without a write before it makes a mark.
	markAfter = 100 * time.Millisecond
	// retryMin is the minimum wait before another attempt when room or a file descriptor is missing.
	retryMin = 200 * time.Millisecond
	// retryFactor determines the wait after a failed attempt to prepare a segment. The wait is the duration of the attempt
	// times retryFactor, and at most retryMax.
	retryFactor = 20
	retryMax    = 10 * time.Second
	// pauseFactor determines the pause after each part of a new segment. The pause is the duration of the part times
	// pauseFactor, and at most pauseMax.
	pauseFactor = 6
	pauseMax    = 50 * time.Millisecond
)

// OpenLog opens the store in dir, or creates an uninitialized one there.
//
// If another process has the store open, the error matches raft.ErrLocked. If the store keeps its entries in the bbolt file,
// the error matches ErrOtherLog. For a wrong option the error is a *raft.ConfigError. An error may also match ErrNotWritable
// or ErrDiskFull, or be a *raft.CorruptError, a *ForeignFileError or an *UnfinishedAsideError. Each of these errors says what
// to do.
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
	if err := l.open(dir, logHome{l}, opts.LockWait, opts.access); err != nil {
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

// keep makes the list of segments durable. The caller holds l.mu.
func (l *Log) keep(c segments.Catalog) error {
	return l.update("listing the segments in", func(tx *bbolt.Tx) error { return putCatalog(tx, c) })
}

// await prepares a segment. If the disk has no room or the process has no file descriptor, await tries again until the
// segment is prepared or the store is closed. Acknowledged entries stay readable meanwhile. The store acknowledges no further
// entries until then.
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

// pruneAll deletes the entries that compaction left behind, and reports whether it has freed any bytes.
func (l *Log) pruneAll() (pruned bool, err error) {
	before := l.log.Bytes()
	for more := true; more; {
		if more, err = l.log.Prune(); err != nil {
			return false, l.explainLog("pruning", err)
		}
	}
	return l.log.Bytes() < before, nil
}

// prepare prepares a segment if needed is true or the log wants one. It records a failure for Room, and returns the duration
// of the attempt.
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
// for example because of a quota. On such a file system, each attempt fills the disk until the attempt fails. No other write
// succeeds in that time, so the wait is longer after a longer attempt.
func (l *Log) retryAfter(took time.Duration, err error) time.Duration {
	if files.NoDescriptor(err) || l.log.Full() {
		return retryMin
	}
	return max(retryMin, min(retryFactor*took, retryMax))
}

// reserveMax is the maximum reserve in bytes. If the last snapshot is larger, there is no reserve, because the next snapshot
// needs much more room than a segment takes.
const reserveMax = 64 << 20

// reserve returns how many bytes are reserved for the next snapshot. Without that room, no snapshot could be taken and the
// log could not be compacted. The reserve is twice the size of the last snapshot. If there is no snapshot, the reserve is the
// size of the log. Bytes that are already written to unfinished snapshots are subtracted.
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

// pause waits after a part of a new segment, so that the log's own writes get the disk. took is the time that the part took.
func (l *Log) pause(took time.Duration) {
	select {
	case <-time.After(min(pauseFactor*took, pauseMax)):
	case <-l.hurry:
	case <-l.closing:
	}
}

// Room returns an error while the log cannot prepare the next segment, usually because the disk is full. Write still succeeds
// as long as there is room in the present segment. Room also returns an error while a Write waits for a file descriptor.
func (l *Log) Room() error {
	if noSegment := l.noSegment.Load(); noSegment != nil {
		return *noSegment
	}
	if noDescriptor := l.noDescriptor.Load(); noDescriptor != nil {
		return *noDescriptor
	}
	return nil
}

// GiveUp makes a Write that waits for room or for a file descriptor return an error. Later writes fail if they need a
// segment.
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

// Write makes the write durable, as raft.Storage says. If the write consists of entries alone, it takes one sync. A write
// that carries only a commit hint costs nothing, because the next write stores the hint. After an error, every later Write
// returns that error.
//
// If a write needs the next segment and the disk has no room for it, the write waits until there is room.
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

// Prune deletes the first segment if all entries of the segment are at or below the base. It reports whether another call may
// delete more.
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

// background prepares segments. It also makes a mark if there is no write for the time markAfter.
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
