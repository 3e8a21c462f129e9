package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// BoltFile is the name of the file that OpenBolt keeps in its directory.
const BoltFile = "raft.db"

// BoltOptions tunes a Bolt. The zero value is good.
type BoltOptions struct {
	// LockWait is how long OpenBolt waits for another process to release the file. 0 means 1 s, enough for a
	// process that is about to end.
	LockWait time.Duration
}

const lockWaitDefault = time.Second

// Bolt keeps term, vote and the log in one bbolt file, with one transaction for each write, and snapshots in files beside
// it. Its methods may be called as raft.SnapshotStorage says.
//
// The bbolt file has four buckets: "meta" identifies the owner of the data, "lineage" holds the starts of the store
// and what its member remembers of its peers, "hard" holds one record that every write replaces, and "log"
// holds one record for each entry, by its index. Once there is a snapshot or a base, the bucket "snapshot" holds their
// records. The file never shrinks, but what Prune deletes makes room for later entries: it is as large as
// the log was at most.
type Bolt struct {
	path string
	db   *bbolt.DB

	mu      sync.Mutex // held by Load, Write and Close
	loaded  bool
	closed  bool
	stuck   bool  // bbolt panicked, perhaps with its locks held: it is not called again
	failed  error // of the first write that failed; later writes return it
	written boltContent
	lineage lineageRecord
	commit  raft.Index // the newest hint, written with the next write

	snapshotFiles
	logBytes atomic.Int64 // as of the last write
}

var _ raft.SnapshotStorage = (*Bolt)(nil)

// boltContent is what the last write left.
type boltContent struct {
	hardRecord
	base     raft.Base     // its ID is start
	snapshot raft.Snapshot // the recorded one
	first    raft.Index    // no entry below it is in the file; what is there and not above start is to be pruned
	bytes    int64         // of all entries in the file
}

var (
	metaBucket    = []byte("meta")
	hardBucket    = []byte("hard")
	logBucket     = []byte("log")
	lineageBucket = []byte("lineage")
	recordKey     = []byte("record") // the only key of all but the log
)

// OpenBolt opens the store in dir, or creates an uninitialized one there. It checks the structure of the whole
// file, which takes time in proportion to its size.
//
// Its errors match raft.ErrLocked if another process has the store open, or ErrNotWritable or ErrDiskFull, or
// are a *raft.CorruptError; each says what to do.
func OpenBolt(dir string, opts BoltOptions) (*Bolt, error) {
	if opts.LockWait == 0 {
		opts.LockWait = lockWaitDefault
	}
	b := &Bolt{path: filepath.Join(dir, BoltFile)}
	if err := b.open(opts); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Bolt) open(opts BoltOptions) error {
	if err := b.create(); err != nil {
		return err
	}
	if err := b.checkFile(opts); err != nil {
		return err
	}
	if err := b.guard("opening", func() error { return b.openFile(opts) }); err != nil {
		return err
	}
	removeLeftovers(b.path)
	// The process that created the file may have been killed before the file's name was durable.
	if err := files.OS.SyncDir(filepath.Dir(b.path)); err != nil {
		_ = b.Close()
		return explain("syncing the directory of", b.path, err)
	}
	b.dir = snapfile.Open(files.OS, filepath.Join(filepath.Dir(b.path), snapshotDir))
	return nil
}

// boltOptions returns the options of a store that is written to. The list of free pages is not stored: it would
// cost a page for each write, and many after a large truncation. bbolt finds the free pages when it opens the
// file.
func boltOptions(lockWait time.Duration) *bbolt.Options {
	return &bbolt.Options{
		Timeout:        lockWait,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	}
}

// guard calls bbolt and turns its panics into errors. bbolt panics on unexpected data, and a mapped page that
// the disk cannot read causes a fault.
func (b *Bolt) guard(doing string, call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(b.path, "an unknown place", fmt.Errorf("bbolt panicked while %s: %v", doing, r))
		}
	}()
	err = call()
	var notInLog *raft.NotInLogError
	if err == nil || isTyped(err) || errors.As(err, &notInLog) || errors.Is(err, raft.ErrNotStored) {
		return err
	}
	return explain(doing, b.path, err)
}

// update runs one transaction. b.mu is held.
//
// It does not use bbolt's Update, which after a panic reads the whole file again in a goroutine, where another
// panic would end the process. (After a disk failed to write, Commit still does so: if the disk then fails to
// read as well, bbolt ends the process.)
func (b *Bolt) update(doing string, change func(*bbolt.Tx) error) error {
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

// ready returns an error if the store cannot be written to. b.mu is held.
func (b *Bolt) ready() error {
	switch {
	case b.closed:
		return fmt.Errorf("%w: %s", ErrClosed, b.path)
	case b.failed != nil:
		return b.failed
	case !b.loaded:
		return fmt.Errorf("storage: %s: Load comes before Write", b.path)
	}
	return nil
}

// Write makes the write durable, in one transaction. A write that carries only a commit hint costs nothing: the
// hint waits for the next write. After an error every later Write returns that error.
func (b *Bolt) Write(w raft.StorageWrite) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(); err != nil {
		return err
	}
	b.commit = max(b.commit, w.Commit)
	if w.Hard == nil && w.Memory == nil && w.Mark == nil && w.Snapshot == nil && w.Base == nil && changesNothing(w.Log, b.written.last) {
		return nil
	}
	if err := b.recordable(w); err != nil {
		b.failed = err
		return err
	}
	next, lineage := b.written, b.lineage.with(w)
	next.commit = b.commit
	if w.Hard != nil {
		next.hard = *w.Hard
	}
	err := b.update("writing to", func(tx *bbolt.Tx) error { return b.put(tx, &next, lineage, w) })
	if err == nil {
		b.written, b.lineage = next, lineage
		b.nowRecorded(w.Snapshot)
		b.logBytes.Store(next.bytes)
	}
	return err
}

// put writes all parts of w.
func (b *Bolt) put(tx *bbolt.Tx, next *boltContent, lineage lineageRecord, w raft.StorageWrite) error {
	if w.Memory != nil || w.Mark != nil {
		if err := lineage.put(tx); err != nil {
			return err
		}
	}
	if w.Snapshot != nil {
		if err := b.putSnapshot(tx, next, *w.Snapshot); err != nil {
			return err
		}
	}
	if w.Base != nil && !isReset(w.Log, w.Base.ID) {
		if err := b.compact(tx, next, *w.Base); err != nil {
			return err
		}
	}
	if w.Log != nil {
		if err := b.writeLog(tx, next, w.Log); err != nil {
			return err
		}
		if w.Log.Reset {
			next.base = baseBehind(next.start, w, next.snapshot, next.base)
			if err := putBase(tx, next.base); err != nil {
				return err
			}
		}
	}
	return tx.Bucket(hardBucket).Put(recordKey, next.encode())
}

func changesNothing(w *raft.LogWrite, last raft.EntryID) bool {
	return w == nil || w.After == last && len(w.Entries) == 0 && !w.Reset
}

// writeLog drops the entries above w.After, and then appends. A reset also makes the log begin there.
func (b *Bolt) writeLog(tx *bbolt.Tx, record *boltContent, w *raft.LogWrite) error {
	log := tx.Bucket(logBucket)
	if w.Reset {
		record.start, record.last = w.After, w.After
	}
	if err := b.checkAfter(log, record, w.After); err != nil {
		return err
	}
	if w.Reset || record.last.Index > w.After.Index {
		var err error
		if log, err = record.dropAbove(tx, log, w.After.Index); err != nil {
			return err
		}
	}
	record.last = w.After
	log.FillPercent = 1 // keys only ever rise: leave no room between them
	for _, e := range w.Entries {
		if e.Index != record.last.Index+1 || e.Term < record.last.Term {
			return fmt.Errorf("entry %v cannot follow entry %v", e.ID(), record.last)
		}
		if err := log.Put(logKey(e.Index), e.Record()); err != nil {
			return err
		}
		record.last = e.ID()
		record.bytes += int64(len(e.Record()))
	}
	return nil
}

// checkAfter returns nil if the log can continue after the entry. It tells a damaged entry from one that is not
// in the log.
func (b *Bolt) checkAfter(log *bbolt.Bucket, record *boltContent, id raft.EntryID) error {
	if id == record.last || id == record.start {
		return nil
	}
	refusal := &raft.NotInLogError{After: id, Start: record.start, Last: record.last}
	if id.Index <= record.start.Index || id.Index > record.last.Index {
		return refusal
	}
	e, err := decodeAt(id.Index, log.Get(logKey(id.Index)))
	if err != nil {
		return damaged(b.path, entryPlace(id.Index), err)
	}
	if e.ID() != id {
		return refusal
	}
	return nil
}

func emptied(tx *bbolt.Tx) (*bbolt.Bucket, error) {
	if err := tx.DeleteBucket(logBucket); err != nil {
		return nil, err
	}
	return tx.CreateBucket(logBucket)
}

// logKey returns a key that sorts by index.
func logKey(i raft.Index) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// Entries returns the first entries of the span, at least one, as raft.Storage says. It may run concurrently
// with itself and with Write, and sees each write entirely or not at all.
func (b *Bolt) Entries(span raft.Span, bytesMax int) (entries []raft.Entry, err error) {
	err = b.guard("reading", func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			records, err := b.find(tx, span, bytesMax)
			if err != nil {
				return err
			}
			entries, err = b.decode(span.After+1, records)
			return err
		})
	})
	return entries, err
}

// find returns the records, as slices of the mapped file. Entries at or below the base may still be in the file, but not
// in the log.
func (b *Bolt) find(tx *bbolt.Tx, span raft.Span, bytesMax int) (records [][]byte, err error) {
	if span.After >= span.Last {
		return nil, fmt.Errorf("%w: the span (%d, %d] is empty", raft.ErrNotStored, span.After, span.Last)
	}
	hard, err := decodeHard(tx.Bucket(hardBucket).Get(recordKey))
	if err != nil {
		return nil, damaged(b.path, hardName, err)
	}
	if span.After < hard.start.Index {
		return nil, notStored(span.After+1, hard)
	}
	cursor := tx.Bucket(logBucket).Cursor()
	key, record := cursor.Seek(logKey(span.After + 1))
	for i, size := span.After+1, 0; i <= span.Last; i++ {
		if len(key) != 8 || raft.Index(binary.BigEndian.Uint64(key)) != i {
			return nil, b.missing(i, hard)
		}
		if size += len(record); size > bytesMax && len(records) > 0 {
			break
		}
		records = append(records, record)
		key, record = cursor.Next()
	}
	return records, nil
}

// missing returns the error for an entry that was not found: either it is not in the log, or it is lost.
func (b *Bolt) missing(i raft.Index, hard hardRecord) error {
	if i > hard.start.Index && i <= hard.last.Index {
		return damaged(b.path, entryPlace(i), errors.New("it is missing"))
	}
	return notStored(i, hard)
}

func notStored(i raft.Index, hard hardRecord) error {
	return fmt.Errorf("%w: %d; the log is the entries above %v up to %v", raft.ErrNotStored, i, hard.start, hard.last)
}

// decode copies the records out of the mapped file, all at once, and checks them.
func (b *Bolt) decode(first raft.Index, records [][]byte) ([]raft.Entry, error) {
	size := 0
	for _, r := range records {
		size += len(r)
	}
	room := make([]byte, 0, size)
	entries := make([]raft.Entry, 0, len(records))
	for k, r := range records {
		from := len(room)
		room = append(room, r...)
		e, err := decodeAt(first+raft.Index(k), room[from:len(room):len(room)])
		if err != nil {
			return nil, damaged(b.path, entryPlace(first+raft.Index(k)), err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// decodeAt decodes a record and checks that it is the entry at i.
func decodeAt(i raft.Index, record []byte) (raft.Entry, error) {
	e, err := raft.DecodeEntry(record)
	if err == nil && e.Index != i {
		err = fmt.Errorf("it holds entry %v", e.ID())
	}
	return e, err
}

func entryPlace(i raft.Index) string { return fmt.Sprintf("entry %d", i) }

// Close releases the file. It does not sync: everything that was acknowledged is durable.
func (b *Bolt) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recorded.Store(nil)
	if b.closed || b.stuck {
		b.closed = true
		return nil
	}
	b.closed = true
	if err := b.db.Close(); err != nil {
		return explain("closing", b.path, err)
	}
	return nil
}

const filePermissions os.FileMode = 0o600
