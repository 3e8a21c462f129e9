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
	// SegmentBytes is the size of a segment, 4 KiB to 1 GiB: the log takes up to five of them more than its entries need, and a
	// file descriptor for each. 0 means 32 MiB. The first segments are smaller.
	SegmentBytes int64

	existing bool // as in BoltOptions
}

// Log keeps the log in segments, files of a fixed size whose room is taken before it is needed, with one write and one sync
// for each write of the node. Beside them it has a bbolt file for all that changes seldom: term and vote, the identity, the
// starts, the records of the snapshot and of the log's base, and the list of the segments. Snapshots are in files of their
// own. Its methods may be called as raft.SnapshotStorage says.
//
// After a crash, Load drops what an interrupted write has left at the end of the log, and names it in Stored.LeftOver. What
// was durable before is known from each later write and from marks: damage to it is a *raft.CorruptError. Marks are made by
// Load, when nothing was written for 100 ms, by Close, with each new segment, and with each write that has more than entries.
// So two kinds of damage to what was written since the last mark pass for a write that was interrupted: to what was synced last, and one that
// leaves nothing of all writes behind a place, as if they were zeros. A leader that has heard of them notices it
// (*raft.StaleImageError).
type Log struct {
	boltStore
	log     *segments.Log
	torn    string        // what Load has found of an interrupted write
	wake    chan struct{} // the background looks what there is to do
	hurry   chan struct{} // a rest ends
	made    chan struct{} // a segment is ready
	idle    atomic.Bool   // nothing waits for a mark
	writes  atomic.Uint64
	full    atomic.Pointer[error] // why the last attempt to make the next segment failed; nil: it did not
	looking sync.Mutex            // held while full is found out
	ended   sync.WaitGroup
}

var (
	_ raft.SnapshotStorage = (*Log)(nil)
	_ raft.RoomStorage     = (*Log)(nil)
	_ raft.DiskStorage     = (*Log)(nil)
)

const (
	// markAfter is how long nothing is written before a mark is.
	markAfter = 100 * time.Millisecond
	// roomEvery is how often a disk that was full is looked at.
	roomEvery = 200 * time.Millisecond
	// retryFactor is how much longer than an attempt to make a segment is the wait after it, of at most retryMax.
	retryFactor = 20
	retryMax    = 10 * time.Second
	// restFactor is how much longer than a part of a new segment takes there is a rest after it, of at most restMax.
	restFactor = 6
	restMax    = 50 * time.Millisecond
)

// OpenLog opens the store in dir, or creates an uninitialized one there.
//
// Its errors match raft.ErrLocked if another process has the store open, ErrOtherLog if it keeps its entries in the bbolt
// file, or ErrNotWritable or ErrDiskFull, or are a *raft.CorruptError, a *ForeignFileError, an *UnfinishedAsideError, or a *raft.ConfigError for an
// option; each says what to do.
func OpenLog(dir string, opts LogOptions) (*Log, error) {
	return openLogOn(files.OS, dir, opts)
}

// openLogOn opens a store whose segments are on a disk of their own.
func openLogOn(disk files.FS, dir string, opts LogOptions) (*Log, error) {
	if err := checkSegmentBytes(opts.SegmentBytes); err != nil {
		return nil, err
	}
	l := &Log{wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), made: make(chan struct{}, 1)}
	l.idle.Store(true)
	sizes := segments.Sizes{SegmentBytes: opts.SegmentBytes, FirstBytes: firstBytes}
	l.log = segments.New(disk, filepath.Join(dir, LogDir), sizes, segments.Owner{
		Salt: salt, Keep: l.keep, Await: l.await, Rest: l.rest, Leave: l.leave,
	})
	if err := l.open(dir, logHome{l}, opts.LockWait, opts.existing); err != nil {
		return nil, err
	}
	return l, nil
}

// checkSegmentBytes returns a *raft.ConfigError for a size that is out of its limits.
func checkSegmentBytes(size int64) error {
	const least, most = 4 << 10, 1 << 30
	if size != 0 && (size < least || size > most) {
		return &raft.ConfigError{Field: "SegmentBytes", Err: fmt.Errorf("%d; it takes %d to %d bytes, or 0 for 32 MiB", size, least, most)}
	}
	return nil
}

// firstBytes are those of the first segment.
const firstBytes = 1 << 20

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

// keep makes the list of segments durable. The lock is held.
func (l *Log) keep(c segments.Catalog) error {
	return l.update("listing the segments in", func(tx *bbolt.Tx) error { return putCatalog(tx, c) })
}

// await makes a segment ready. If nothing but room for one, or a file descriptor, is missing, it waits for that, or until the
// store is closed: what was acknowledged stays, and nothing more is.
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
		case <-l.made:
		case <-l.closing:
			return fmt.Errorf("%w: %s", ErrStoreClosed, l.path)
		}
	}
}

// pruneAll makes room of what compaction has left, and reports whether there was any.
func (l *Log) pruneAll() (pruned bool, err error) {
	before := l.log.Bytes()
	for more := true; more; {
		if more, err = l.log.Prune(); err != nil {
			return false, l.explainLog("pruning", err)
		}
	}
	return l.log.Bytes() < before, nil
}

// prepare makes a segment ready, if one is needed or wanted, takes note if it cannot, and returns how long it took.
func (l *Log) prepare(bytes int64, needed bool) (took time.Duration, err error) {
	l.looking.Lock()
	defer l.looking.Unlock()
	if !needed && !l.log.Wanted() {
		return 0, nil
	}
	began := time.Now()
	err = l.log.Prepare(bytes)
	took = time.Since(began)
	switch {
	case err == nil:
		l.full.Store(nil)
		select {
		case l.made <- struct{}{}:
		default:
		}
	case !errors.Is(err, segments.ErrClosed):
		full := withRemedy(fmt.Errorf("storage: preparing a segment: %w", err))
		l.full.Store(&full)
	}
	return took, err
}

// retryAfter returns how long to wait after an attempt that has failed and took so long. Where the file system does
// not tell how much room there is, as with quotas, each attempt fills the disk, and nothing else could write meanwhile.
func (l *Log) retryAfter(took time.Duration, err error) time.Duration {
	if files.NoDescriptor(err) || l.log.Full() {
		return roomEvery
	}
	return max(roomEvery, min(retryFactor*took, retryMax))
}

// leaveMax is how many bytes the log leaves at most for the next snapshot. For one that is larger it leaves none: what it
// needs is much more than a segment.
const leaveMax = 64 << 20

// leave returns how many bytes of the disk are for the next snapshot, without which the log does not become shorter: twice as
// many as the last one has or, without one, as the log takes, less those that are written already.
func (l *Log) leave() int64 {
	recorded := l.recorded.Load()
	if recorded == nil || recorded.Size > leaveMax {
		return 0
	}
	expected := 2 * recorded.Size
	if recorded.ID.Index == 0 {
		expected = l.LogBytes()
	}
	return max(min(expected, leaveMax)-l.dir.UnderWay(), 0)
}

// rest leaves the disk, and the processors that wait for it, to the log: most of the time, if there is time.
func (l *Log) rest(took time.Duration) {
	select {
	case <-time.After(min(restFactor*took, restMax)):
	case <-l.hurry:
	case <-l.closing:
	}
}

// Room returns an error while the next segment cannot be made: mostly, since the disk has no room for it. Write goes on as
// long as there is room in the present one. It also returns one while a Write waits for a file descriptor.
func (l *Log) Room() error {
	if full := l.full.Load(); full != nil {
		return *full
	}
	if lacks := l.lacks.Load(); lacks != nil {
		return *lacks
	}
	return nil
}

// GiveUp ends a Write that waits for room or for a file descriptor. Later ones fail if they need a segment.
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

// Write makes the write durable, as raft.Storage says: with one sync if it consists of entries alone. A write that carries
// only a commit hint costs nothing: the hint waits for the next write. After an error every later Write returns that error.
//
// If the disk has no room for the next segment, the write that needs it waits until there is room.
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

// Prune gives up the first segment if all its entries are at or below the base, and reports whether another one may follow.
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

// Close records that the log is whole, and releases the files.
func (l *Log) Close() error {
	l.GiveUp()
	err := l.boltStore.Close()
	l.ended.Wait()
	return err
}

// background prepares segments, and marks the log when nothing was written for a while.
func (l *Log) background() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	seen, marking := uint64(0), false
	var retry time.Time // of Prepare, after it has failed
	for {
		wait := time.Hour
		if l.log.Room() == nil { // a Write may have made the segment meanwhile
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
