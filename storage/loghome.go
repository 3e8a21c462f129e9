package storage

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/segments"
)

// logHome keeps the entries in segments.
type logHome struct{ *Log }

func (logHome) format() uint64 { return formatSegments }

func (logHome) create(tx *bbolt.Tx) error {
	if _, err := tx.CreateBucket(segmentsBucket); err != nil {
		return err
	}
	return putCatalog(tx, segments.Catalog{})
}

func (l logHome) readLog(ctx context.Context, tx *bbolt.Tx, content *content) (raft.StoredLog, error) {
	bytes, err := l.record(tx, segmentsBucket)
	if err != nil {
		return raft.StoredLog{}, err
	}
	record, err := openRecord(segmentsName, segmentsVersion, bytes)
	var catalog segments.Catalog
	if err == nil {
		catalog, err = segments.DecodeCatalog(record)
	}
	if err != nil {
		return emptyLog(content.base), damaged(l.path, segmentsName, err)
	}
	found, err := l.log.Recover(ctx, l.member, catalog, content.base)
	if err != nil {
		return found.Log, l.explainLog("loading", err)
	}
	l.torn = found.Torn
	content.last, content.commit = found.Log.Last, max(content.commit, found.Commit)
	content.bytes = l.log.Bytes()
	return found.Log, nil
}

func (l logHome) damages(ctx context.Context, most int) ([]error, error) {
	places, err := l.log.Damages(ctx, most)
	return places, l.explainLog("reading", err)
}

// tidy removes the copy of the log that an interrupted Migrate left in the bbolt file.
func (l logHome) tidy() (removed []string, err error) {
	found := false
	err = l.guard("reading", func() error {
		return l.db.View(func(tx *bbolt.Tx) error {
			found = tx.Bucket(logBucket) != nil
			return nil
		})
	})
	if err != nil || !found {
		return nil, err
	}
	err = l.update("removing an unfinished copy of the log from", func(tx *bbolt.Tx) error { return tx.DeleteBucket(logBucket) })
	return []string{"a copy of the log in " + l.path}, err
}

func (l logHome) begin() error {
	if err := l.log.Begin(); err != nil {
		return l.explainLog("beginning", err)
	}
	l.running.Go(l.background)
	return nil
}

func (l logHome) leftOver() []string {
	if l.torn == nil {
		return nil
	}
	return []string{fmt.Sprintf("the batch at %s of %s (%v)", l.torn.Where, l.torn.File, l.torn.Reason)}
}

// write first makes the records in the bbolt file durable, in one transaction. Then it makes the entries durable.
func (l logHome) write(w raft.StorageWrite, next *content, lineage lineageRecord) error {
	if err := l.check(w); err != nil {
		return err
	}
	reset := w.Log != nil && w.Log.Reset
	switch {
	case reset:
		next.start, next.last = w.Log.After, w.Log.After
		err := l.log.Reset(next.start, func(c segments.Catalog) error { return l.writeRecords(w, next, lineage, &c) })
		if err != nil {
			return err
		}
	case w.Hard != nil || w.Memory != nil || w.Mark != nil || w.Snapshot != nil || w.Base != nil:
		if w.Base != nil {
			next.start, next.base = w.Base.ID, *w.Base
		}
		c := l.log.Catalog()
		if err := l.writeRecords(w, next, lineage, &c); err != nil {
			return err
		}
		l.log.Compact(next.start)
	}
	if w.Log != nil && !changesNothing(&raft.LogWrite{After: w.Log.After, Entries: w.Log.Entries}, next.last) {
		if err := l.log.Append(w.Log.After, w.Log.Entries, next.commit); err != nil {
			return l.explainLog("writing to", err)
		}
	}
	next.last, next.bytes = l.log.Last(), l.log.Bytes()
	return nil
}

// check returns an error for a write that the log cannot take. So the store writes no part of such a write.
func (l logHome) check(w raft.StorageWrite) error {
	if w.Base != nil && !isReset(w.Log, w.Base.ID) && !l.log.Holds(w.Base.ID) {
		return &raft.NotInLogError{After: w.Base.ID, Start: l.log.Start(), Last: l.log.Last()}
	}
	if w.Log == nil {
		return nil
	}
	return l.log.Follows(w.Log.After, w.Log.Entries, w.Log.Reset)
}

// writeRecords writes everything but the entries.
func (l logHome) writeRecords(w raft.StorageWrite, next *content, lineage lineageRecord, c *segments.Catalog) error {
	return l.update("writing to", func(tx *bbolt.Tx) error {
		if err := l.putRecords(tx, next, lineage, w); err != nil {
			return err
		}
		if w.Log != nil && w.Log.Reset {
			next.base = baseAfterReset(next.start, w, next.snapshot, next.base)
		}
		if w.Base != nil || w.Log != nil && w.Log.Reset {
			if err := putBase(tx, next.base); err != nil {
				return err
			}
		}
		if err := putCatalog(tx, *c); err != nil {
			return err
		}
		return tx.Bucket(hardBucket).Put(recordKey, next.encode())
	})
}

func (l logHome) restart(next *content, record func(*bbolt.Tx) error) error {
	err := l.log.Reset(next.start, func(c segments.Catalog) error {
		return l.update("finishing an installation in", func(tx *bbolt.Tx) error {
			return errors.Join(record(tx), putCatalog(tx, c))
		})
	})
	next.bytes = l.log.Bytes()
	return err
}

// close records in both places how far the log is durable. So the next start notices if any part of the log is lost.
func (l logHome) close() error {
	var err error
	if l.loaded && l.failed == nil {
		if err = l.log.Mark(); err == nil {
			err = l.keep(l.log.Catalog())
		}
	}
	return l.explainLog("closing", errors.Join(err, l.log.Close()))
}
