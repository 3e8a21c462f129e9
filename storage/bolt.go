package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// BoltOptions tunes a Bolt. The zero value is good.
type BoltOptions struct {
	// LockWait is how long OpenBolt waits for another process to release the file. 0 means 1 s. That is long enough if the
	// other process is about to end.
	LockWait time.Duration

	access access
}

// Bolt keeps term, vote and the log in one bbolt file, with one transaction for each write. It keeps snapshots in files
// beside the bbolt file. The callers of its methods must follow the rules of raft.SnapshotStorage.
//
// The bbolt file has four buckets. "meta" identifies the owner of the data. "lineage" holds the starts of the store, and what
// its member remembers of its peers. "hard" holds one record that every write replaces. "log" holds one record for each
// entry, with the index as the key. Once there is a snapshot or a base, the bucket "snapshot" holds their records. The file
// never shrinks, so it stays as large as the log ever was. Later entries reuse the room that Prune frees.
type Bolt struct{ boltStore }

var (
	_ raft.SnapshotStorage = (*Bolt)(nil)
	_ raft.DiskStorage     = (*Bolt)(nil)
)

var logBucket = []byte("log")

// OpenBolt opens the store in dir, or creates an uninitialized one there. It checks the structure of the whole file. This
// takes time in proportion to the size of the file.
//
// If another process has the store open, the error matches raft.ErrLocked. If the store keeps its entries in segments, the
// error matches ErrOtherLog. An error may also match ErrNotWritable or ErrDiskFull, or be a *raft.CorruptError, a
// *ForeignFileError or an *UnfinishedAsideError. Each of these errors says what to do.
func OpenBolt(dir string, opts BoltOptions) (*Bolt, error) {
	return openBoltOn(files.OS, dir, opts)
}

// openBoltOn opens a store. If an interrupted Migrate left segments, they are on the given disk.
func openBoltOn(disk files.FS, dir string, opts BoltOptions) (*Bolt, error) {
	b := &Bolt{}
	if err := b.open(dir, boltHome{&b.boltStore, disk}, opts.LockWait, opts.access); err != nil {
		return nil, err
	}
	return b, nil
}

// boltHome keeps the entries in the bbolt file.
type boltHome struct {
	*boltStore
	disk files.FS
}

func (boltHome) format() uint64 { return formatVersion }

func (boltHome) create(tx *bbolt.Tx) error {
	_, err := tx.CreateBucket(logBucket)
	return err
}

// tidy removes the segments that an interrupted Migrate left. The segments of another member stay.
func (b boltHome) tidy() ([]string, error) {
	dir := filepath.Join(filepath.Dir(b.path), LogDir)
	removed, err := segments.Remove(b.disk, dir, b.member)
	if err != nil {
		return removed, explain("removing an unfinished copy of the log from", dir, err)
	}
	return removed, nil
}

func (boltHome) begin() error { return nil }

func (boltHome) close() error { return nil }

func (b boltHome) write(w raft.StorageWrite, next *content, lineage lineageRecord) error {
	return b.update("writing to", func(tx *bbolt.Tx) error { return b.put(tx, next, lineage, w) })
}

// put writes all parts of w.
func (b boltHome) put(tx *bbolt.Tx, next *content, lineage lineageRecord, w raft.StorageWrite) error {
	if err := b.putRecords(tx, next, lineage, w); err != nil {
		return err
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
			next.base = baseAfterReset(next.start, w, next.snapshot, next.base)
			if err := putBase(tx, next.base); err != nil {
				return err
			}
		}
	}
	return tx.Bucket(hardBucket).Put(recordKey, next.encode())
}

// writeLog drops the entries above w.After, and then appends. A reset also makes the log begin after w.After.
func (b boltHome) writeLog(tx *bbolt.Tx, record *content, w *raft.LogWrite) error {
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
	log.FillPercent = 1 // keys always increase: leave no room between them
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

// checkAfter returns nil if the log can continue after the entry. If the entry is not in the log, the error is a
// *raft.NotInLogError. If the stored entry is damaged, the error is that of the damage.
func (b boltHome) checkAfter(log *bbolt.Bucket, record *content, id raft.EntryID) error {
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

// find returns the records of the entries as slices of the mapped file. The file may still hold entries at or below the base,
// but they do not belong to the log.
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

// missing returns the error for an entry that find does not find. Either the log does not contain the entry, or the file has
// lost it.
func (b *Bolt) missing(i raft.Index, hard hardRecord) error {
	if i > hard.start.Index && i <= hard.last.Index {
		return damaged(b.path, entryPlace(i), errors.New("it is missing"))
	}
	return notStored(i, hard)
}

func notStored(i raft.Index, hard hardRecord) error {
	return fmt.Errorf("%w: %d; the log is the entries above %v up to %v", raft.ErrNotStored, i, hard.start, hard.last)
}

// decode copies the records out of the mapped file into one buffer, and checks them.
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
