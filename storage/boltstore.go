package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/snapfile"
)

// BoltFile is the name of the bbolt file in the directory of a store.
const BoltFile = "raft.db"

const lockWaitDefault = time.Second

// boltStore is the part that Bolt and Log share. It consists of the snapshots and of the bbolt file, without the entries.
type boltStore struct {
	path         string
	db           *bbolt.DB
	home         home
	unlock       func()                // releases the directory
	closing      chan struct{}         // closed by GiveUp: ends a Write that waits
	once         sync.Once             // closes closing
	noDescriptor atomic.Pointer[error] // error of a Write that waits for a file descriptor; nil: none waits

	mu      sync.Mutex // held by Load, Write and Close
	loaded  bool
	closed  bool
	stuck   bool  // bbolt panicked, perhaps with its locks held: it is not called again
	failed  error // error of the first write that failed; later writes return it
	written content
	next    content // what is being written; a field, so that a write does not allocate it
	lineage lineageRecord
	member  raft.Incarnation // the owner's incarnation, set by scan
	commit  raft.Index       // newest hint, written with the next write

	snapshotFiles
	logBytes atomic.Int64 // as of the last write
}

// home is the place where a store keeps its entries. The callers of its methods hold the lock of the store.
type home interface {
	// format returns the format of a store that keeps its entries in this home.
	format() uint64
	// create adds to an uninitialized store what this home needs.
	create(tx *bbolt.Tx) error
	// readLog checks every entry above the base of content, and that the entries are consecutive. It changes nothing.
	readLog(ctx context.Context, tx *bbolt.Tx, content *content) (raft.StoredLog, error)
	// tidy removes the copy of the log that an interrupted Migrate left in the other home, and returns the names of what it
	// removed. The store calls tidy once all records are durable.
	tidy() (removed []string, err error)
	// begin prepares the log for writing. The store calls begin once all records are durable.
	begin() error
	// write makes every part of w durable in the order of raft.Storage, and completes next.
	write(w raft.StorageWrite, next *content, lineage lineageRecord) error
	// restart drops the log, and begins an empty log after the base of next. In the same step, restart makes next durable
	// with record.
	restart(next *content, record func(*bbolt.Tx) error) error
	// damages returns the damaged places of the log, at most most of them. readLog has found damage before.
	damages(ctx context.Context, most int) (places []error, err error)
	// leftOver names the left-overs of a crash that Load removed from the log.
	leftOver() []string
	close() error
}

// content is what the last write left.
type content struct {
	hardRecord
	base     raft.Base     // its ID is start
	snapshot raft.Snapshot // the recorded one
	first    raft.Index    // Bolt only: lowest entry that may be in the file; entries from first to start are to be pruned
	bytes    int64         // size of all stored entries
}

var (
	metaBucket    = []byte("meta")
	hardBucket    = []byte("hard")
	lineageBucket = []byte("lineage")
	recordKey     = []byte("record") // the only key in each of these buckets
)

// access says what the opening of a store may do.
type access int

const (
	toCreate access = iota // if there is no store, it is created
	toChange               // if there is no store, the error matches fs.ErrNotExist
	toRead                 // nothing is changed, and other processes may read at the same time
)

// open opens the file in dir. open looks for the file only after it has locked the directory. Until then, another process may
// set the store aside.
func (b *boltStore) open(dir string, home home, lockWait time.Duration, access access) error {
	b.path, b.home, b.closing = filepath.Join(dir, BoltFile), home, make(chan struct{})
	if lockWait == 0 {
		lockWait = lockWaitDefault
	}
	if access == toRead {
		return b.openToRead(dir, lockWait)
	}
	if err := b.checkExists(access == toChange); err != nil {
		return err
	}
	if err := b.lock(dir, lockWait); err != nil {
		return err
	}
	err := b.checkExists(access == toChange)
	if err == nil {
		err = b.openLocked(dir, lockWait)
	}
	if err != nil {
		b.unlock()
		return err
	}
	b.dir = snapfile.Open(files.OS, filepath.Join(dir, snapshotDir))
	return nil
}

// lock keeps other processes out of the directory. It returns an error if a SetAside of the store is unfinished.
func (b *boltStore) lock(dir string, wait time.Duration) (err error) {
	if b.checkExists(true) != nil {
		if err := files.OS.MakeDir(dir); err != nil {
			return explain("creating", dir, err)
		}
	}
	if b.unlock, err = lockDir(dir, wait); err != nil {
		return explain("locking", b.path, err)
	}
	if err = endAside(files.OS, dir); err != nil {
		err = explain("opening", filepath.Join(dir, asideRecord), err)
	} else {
		err = unfinished(dir)
	}
	if err != nil {
		b.unlock()
		return err
	}
	return nil
}

// checkExists returns an error if existing is true and the file does not exist.
func (b *boltStore) checkExists(existing bool) error {
	if _, err := os.Stat(b.path); existing && errors.Is(err, fs.ErrNotExist) {
		return explain("opening", b.path, err)
	}
	return nil
}

func (b *boltStore) openLocked(dir string, lockWait time.Duration) error {
	if err := b.create(); err != nil {
		return err
	}
	if err := b.checkFile(lockWait); err != nil {
		return err
	}
	if err := b.guard("opening", func() error { return b.openFile(lockWait) }); err != nil {
		return err
	}
	if err := b.checkHome(); err != nil {
		return errors.Join(err, b.db.Close())
	}
	removeLeftovers(b.path)
	// The process that created the file may have been killed before the file's name was durable.
	if err := files.OS.SyncDir(dir); err != nil {
		return errors.Join(explain("syncing the directory of", b.path, err), b.db.Close())
	}
	return nil
}

// boltOptions returns the options of a store that is open for writing. The file does not hold a list of free pages. Such a
// list would cost a page for each write, and many pages after a large truncation. bbolt finds the free pages when it opens
// the file.
func boltOptions(lockWait time.Duration) *bbolt.Options {
	return &bbolt.Options{
		Timeout:        lockWait,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	}
}

// guard calls bbolt and turns its panics into errors. bbolt panics on unexpected data. A mapped page that the disk cannot
// read also causes a fault, and guard turns the fault into an error, too.
func (b *boltStore) guard(doing string, call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(b.path, "an unknown place", fmt.Errorf("bbolt panicked while %s: %v", doing, r))
		}
	}()
	err = call()
	var notInLog *raft.NotInLogError
	if err == nil || isTyped(err) || errors.As(err, &notInLog) || errors.Is(err, raft.ErrNotStored) || errors.Is(err, ErrOtherLog) {
		return err
	}
	return explain(doing, b.path, err)
}

// update runs one transaction. The caller holds b.mu.
//
// update does not use bbolt's Update. After a panic, Update reads the whole file again in a goroutine. Another panic in that
// goroutine would end the process. (Commit still reads the file in this way after a failed write. If the disk then also fails
// to read, bbolt ends the process.)
func (b *boltStore) update(doing string, change func(*bbolt.Tx) error) error {
	b.stuck = true
	err := b.guard(doing, func() error {
		tx, err := b.db.Begin(true)
		if err != nil {
			b.stuck = false
			return err
		}
		defer func() {
			_ = tx.Rollback() // does nothing after Commit
			b.stuck = false
		}()
		if err := change(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		b.failed = err
	}
	return err
}

// ready returns an error if the store does not accept writes. The caller holds b.mu.
func (b *boltStore) ready() error {
	switch {
	case b.closed:
		return fmt.Errorf("%w: %s", ErrStoreClosed, b.path)
	case b.failed != nil:
		return b.failed
	case !b.loaded:
		return fmt.Errorf("storage: %s: Load comes before Write", b.path)
	}
	return nil
}

// Write makes the write durable, as raft.Storage says. A write that carries only a commit hint costs nothing: the next write
// stores the hint. After an error every later Write returns that error.
func (b *boltStore) Write(w raft.StorageWrite) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(); err != nil {
		return err
	}
	b.commit = max(b.commit, w.Commit)
	if w.Hard == nil && w.Memory == nil && w.Mark == nil && w.Snapshot == nil && w.Base == nil && changesNothing(w.Log, b.written.last) {
		return nil
	}
	if err := b.waitUntilRecordable(w); err != nil {
		b.failed = err
		return err
	}
	next, lineage := b.written, b.lineage.with(w)
	next.commit = b.commit
	if w.Hard != nil {
		next.hard = *w.Hard
	}
	b.next = next
	err := b.home.write(w, &b.next, lineage)
	if err == nil {
		b.written, b.lineage = b.next, lineage
		b.noteRecorded(w.Snapshot)
		b.logBytes.Store(b.written.bytes)
	} else if b.failed == nil {
		b.failed = err
	}
	return err
}

// waitUntilRecordable returns the error of recordable. If no file descriptor is left to open the snapshot,
// waitUntilRecordable waits until there is one or the store is closed. Waiting helps because clients usually hold the
// descriptors, and release them later.
func (b *boltStore) waitUntilRecordable(w raft.StorageWrite) error {
	defer b.noDescriptor.Store(nil)
	for {
		err := b.recordable(w)
		if !files.NoDescriptor(err) {
			return err
		}
		noDescriptor := withRemedy(fmt.Errorf("storage: recording a snapshot: %w", err))
		b.noDescriptor.Store(&noDescriptor)
		select {
		case <-time.After(retryMin):
		case <-b.closing:
			return fmt.Errorf("%w: %s, while a write waited for a file descriptor", ErrStoreClosed, b.path)
		}
	}
}

// withRemedy adds the remedy to an error that says that no file descriptor is left. It returns any other error unchanged.
func withRemedy(err error) error {
	if files.NoDescriptor(err) {
		return fmt.Errorf("%w: %s", err, files.DescriptorRemedy)
	}
	return err
}

// GiveUp makes a Write that waits for a file descriptor return an error. Every later Write that would have to wait also
// returns an error. Any goroutine may call GiveUp. A node calls it when the node ends.
func (b *boltStore) GiveUp() { b.once.Do(func() { close(b.closing) }) }

// putRecords writes everything but the log and the record of term and vote.
func (b *boltStore) putRecords(tx *bbolt.Tx, next *content, lineage lineageRecord, w raft.StorageWrite) error {
	if w.Memory != nil || w.Mark != nil {
		if err := lineage.put(tx); err != nil {
			return err
		}
	}
	if w.Snapshot != nil {
		return b.putSnapshot(tx, next, *w.Snapshot)
	}
	return nil
}

func changesNothing(w *raft.LogWrite, last raft.EntryID) bool {
	return w == nil || w.After == last && len(w.Entries) == 0 && !w.Reset
}

// Close releases the files. Everything that was acknowledged is already durable.
func (b *boltStore) Close() error {
	b.GiveUp()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recorded.Store(nil)
	if b.closed {
		return nil
	}
	err := b.home.close()
	b.closed = true
	if b.stuck {
		return err
	}
	defer b.unlock()
	if err := b.db.Close(); err != nil {
		return explain("closing", b.path, err)
	}
	return err
}
