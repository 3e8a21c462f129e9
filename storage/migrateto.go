package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/segments"
)

// toSegments copies a log from the bbolt file to segments. The list of segments is in memory until the copy becomes the log.
type toSegments struct {
	*migration
	log     *segments.Log // nil until the first entry
	catalog segments.Catalog
}

func (t *toSegments) segmentsDir() string { return filepath.Join(t.dir, LogDir) }

func (t *toSegments) needs() (where string, bytes, free int64, err error) {
	sizes := t.sizes()
	// A segment ends if the next batch does not fit, so its end may stay unused. The last segment may be nearly empty.
	all := t.store.written.bytes
	bytes = all + all/4 + min(all+sizes.FirstBytes, sizes.SegmentBytes)
	if t.entries() == 0 {
		bytes = 0
	}
	free, err = t.disk.Free(t.segmentsDir()) // it may be a separate mount
	if errors.Is(err, fs.ErrNotExist) {
		free, err = t.disk.Free(t.dir)
	}
	return t.segmentsDir(), bytes, free, err
}

func (t *toSegments) sizes() segments.Sizes {
	return segments.Sizes{SegmentBytes: t.opts.SegmentBytes, FirstBytes: firstBytes}.OrDefaults()
}

// recovered returns the log that consists of the listed segments.
func (t *toSegments) recovered() (*segments.Log, segments.Found, error) {
	var log *segments.Log
	log = segments.New(t.disk, t.segmentsDir(), t.sizes(), segments.Owner{
		Salt:  salt,
		Keep:  func(c segments.Catalog) error { t.catalog = c; return nil },
		Await: func(bytes int64) error { return log.Prepare(bytes) },
		Pause: func(time.Duration) {}, // nothing else is written
	})
	found, err := log.Recover(t.ctx, t.store.member, t.catalog, t.store.written.base)
	return log, found, err
}

func (t *toSegments) append(after raft.EntryID, entries []raft.Entry) (err error) {
	if t.log == nil {
		// The directory no longer holds any segments of this member. If it holds segments of another member, Recover returns
		// an error.
		if t.log, _, err = t.recovered(); err == nil {
			err = t.log.Begin()
		}
		err = inTheWay(err)
	}
	if err == nil {
		err = t.log.Append(after, entries, t.store.written.commit)
	}
	return t.explain("writing to", err)
}

// inTheWay handles an error of opening an empty log. If an existing file causes the error, inTheWay returns an
// *InTheWayError.
func inTheWay(err error) error {
	if there := (*raft.CorruptError)(nil); errors.As(err, &there) {
		return &InTheWayError{File: there.File, Reason: there.Reason}
	}
	return err
}

// finish reads the copy as a start does.
func (t *toSegments) finish() (raft.StoredLog, error) {
	copied := t.log != nil
	if copied {
		t.catalog = t.log.Catalog() // it records that everything is durable, as a mark does
		if err := t.close(); err != nil {
			return raft.StoredLog{}, t.explain("writing to", err)
		}
	}
	check, found, err := t.recovered()
	if !copied {
		err = inTheWay(err)
	}
	return found.Log, t.explain("checking", errors.Join(err, check.Close()))
}

func (t *toSegments) explain(doing string, err error) error {
	if err == nil || isTyped(err) {
		return err
	}
	return explain(doing, t.segmentsDir(), err)
}

func (*toSegments) format() uint64 { return formatSegments }

func (t *toSegments) record(tx *bbolt.Tx) error {
	if err := tx.DeleteBucket(logBucket); err != nil {
		return err
	}
	if _, err := tx.CreateBucket(segmentsBucket); err != nil {
		return err
	}
	return putCatalog(tx, t.catalog)
}

func (*toSegments) tidy() error { return nil }

func (t *toSegments) close() error {
	if t.log == nil {
		return nil
	}
	err := t.log.Close()
	t.log = nil
	return err
}

// toBolt copies a log from segments to the bbolt file.
type toBolt struct {
	*migration
	copied content
}

func newToBolt(m *migration) *toBolt {
	t := &toBolt{migration: m, copied: m.store.written}
	t.copied.last, t.copied.first, t.copied.bytes = t.copied.start, t.copied.start.Index+1, 0
	return t
}

func (t *toBolt) bolt() boltHome { return boltHome{t.store, t.disk} }

// needs counts the whole size of the bbolt file as free, because the file holds little without entries.
func (t *toBolt) needs() (where string, bytes, free int64, err error) {
	if t.entries() > 0 {
		bytes = t.store.written.bytes*3/2 + 64<<10 // pages are not filled completely
	}
	if free, err = files.OS.Free(t.dir); err != nil {
		return "", 0, 0, err
	}
	err = t.store.guard("reading", func() error {
		return t.store.db.View(func(tx *bbolt.Tx) error {
			free += tx.Size()
			return nil
		})
	})
	return t.store.path, bytes, free, err
}

func (t *toBolt) append(after raft.EntryID, entries []raft.Entry) error {
	next := t.copied
	err := t.store.update("copying the log to", func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(logBucket); err != nil {
			return err
		}
		return t.bolt().writeLog(tx, &next, &raft.LogWrite{After: after, Entries: entries})
	})
	if err == nil {
		t.copied = next
	}
	return err
}

// finish reads the copy as a start does.
func (t *toBolt) finish() (log raft.StoredLog, err error) {
	if t.entries() == 0 {
		return emptyLog(t.copied.base), nil
	}
	read := t.copied
	err = t.store.guard("checking", func() error {
		return t.store.db.View(func(tx *bbolt.Tx) (err error) {
			log, err = t.bolt().readLog(t.ctx, tx, &read)
			return err
		})
	})
	return log, err
}

func (*toBolt) format() uint64 { return formatVersion }

func (t *toBolt) record(tx *bbolt.Tx) error {
	if _, err := tx.CreateBucketIfNotExists(logBucket); err != nil {
		return err
	}
	if err := tx.DeleteBucket(segmentsBucket); err != nil {
		return err
	}
	return tx.Bucket(hardBucket).Put(recordKey, t.copied.encode())
}

// tidy closes the segments before it removes them.
func (t *toBolt) tidy() error {
	err := t.store.home.close()
	if err == nil {
		_, err = t.bolt().tidy()
	}
	return err
}

func (*toBolt) close() error { return nil }
