package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
)

// scanEntriesPerCheck is how many entries Load reads between two checks of its context.
const scanEntriesPerCheck = 1024

// readLog checks every entry above the base, and checks that the entries are consecutive. It does not check the entries that
// Prune has not deleted yet. It only counts their bytes.
func (b boltHome) readLog(ctx context.Context, tx *bbolt.Tx, content *content) (raft.StoredLog, error) {
	log := emptyLog(content.base)
	bucket := tx.Bucket(logBucket)
	if bucket == nil {
		return log, damaged(b.path, `bucket "log"`, errors.New("it is missing"))
	}
	content.first = content.start.Index + 1
	cursor := bucket.Cursor()
	key, record := cursor.First()
	for ; len(key) == 8 && raft.Index(binary.BigEndian.Uint64(key)) <= content.start.Index; key, record = cursor.Next() {
		content.first = min(content.first, raft.Index(binary.BigEndian.Uint64(key)))
		content.bytes += int64(len(record))
	}
	for ; key != nil; key, record = cursor.Next() {
		if log.Last.Index%scanEntriesPerCheck == 0 && ctx.Err() != nil {
			return log, ctx.Err()
		}
		next := log.Last.Index + 1
		if len(key) != 8 || raft.Index(binary.BigEndian.Uint64(key)) != next {
			return log, damaged(b.path, entryPlace(next), fmt.Errorf("the key %s is in its place", shown(key)))
		}
		e, err := decodeAt(next, record)
		if err == nil {
			err = log.Observe(e)
		}
		if err != nil {
			return log, damaged(b.path, entryPlace(next), err)
		}
		content.bytes += int64(len(record))
	}
	if log.Last != content.last {
		return log, damaged(b.path, "the end of the log",
			fmt.Errorf("it ends at entry %v, and the last write left it ending at %v", log.Last, content.last))
	}
	return log, nil
}

// damages checks every entry by itself, even those that Prune has not deleted yet.
func (b boltHome) damages(ctx context.Context, most int) (places []error, err error) {
	err = b.guard("reading", func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(logBucket)
			if bucket == nil {
				return nil // readLog has found that
			}
			cursor := bucket.Cursor()
			for key, record := cursor.First(); key != nil && len(places) < most; key, record = cursor.Next() {
				if len(key) != 8 {
					continue
				}
				i := raft.Index(binary.BigEndian.Uint64(key))
				if i%scanEntriesPerCheck == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				if _, err := decodeAt(i, record); err != nil {
					places = append(places, damaged(b.path, entryPlace(i), err))
				}
			}
			return nil
		})
	})
	return places, err
}

func (b boltHome) restart(next *content, record func(*bbolt.Tx) error) error {
	next.first, next.bytes = next.start.Index+1, 0
	return b.update("finishing an installation in", func(tx *bbolt.Tx) error {
		if _, err := emptied(tx); err != nil {
			return err
		}
		return record(tx)
	})
}

func (boltHome) leftOver() []string { return nil }

// compact makes the log begin after the base. The entries stay until Prune.
func (b boltHome) compact(tx *bbolt.Tx, record *content, base raft.Base) error {
	if err := b.checkAfter(tx.Bucket(logBucket), record, base.ID); err != nil {
		return err
	}
	record.start, record.base = base.ID, base
	return putBase(tx, base)
}

// One call of Prune deletes at most this much, so that a concurrent write does not wait long.
const (
	pruneEntriesMax = 4096
	pruneBytesMax   = 4 << 20
)

// Prune deletes entries at or below the base in one transaction, at most 4,096 entries and 4 MiB. It reports whether more of
// them are left. The file keeps its size, and later writes reuse the room.
func (b *Bolt) Prune() (more bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(); err != nil {
		return false, err
	}
	if b.written.first > b.written.start.Index {
		return false, nil
	}
	next := b.written
	err = b.update("pruning", func(tx *bbolt.Tx) error { return next.prune(tx.Bucket(logBucket)) })
	if err != nil {
		return false, err
	}
	b.written = next
	b.logBytes.Store(next.bytes)
	return next.first <= next.start.Index, nil
}

func (c *content) prune(log *bbolt.Bucket) error {
	var keys [][]byte
	size := 0
	cursor := log.Cursor()
	key, record := cursor.First()
	for ; key != nil; key, record = cursor.Next() {
		if len(key) == 8 && raft.Index(binary.BigEndian.Uint64(key)) > c.start.Index || len(keys) == pruneEntriesMax {
			break
		}
		if size += len(record); size > pruneBytesMax && len(keys) > 0 {
			size -= len(record)
			break
		}
		keys = append(keys, append([]byte(nil), key...))
	}
	c.bytes -= int64(size)
	c.first = c.start.Index + 1
	if len(key) == 8 {
		c.first = min(c.first, raft.Index(binary.BigEndian.Uint64(key)))
	}
	for _, key := range keys {
		if err := log.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// dropAbove deletes every entry above the index, even an entry that no longer belongs to the log. It leaves the entries at or
// below the index to Prune, so that a reset does not delay later writes.
func (c *content) dropAbove(tx *bbolt.Tx, log *bbolt.Bucket, after raft.Index) (*bbolt.Bucket, error) {
	if c.first > after {
		c.first, c.bytes = after+1, 0
		if key, _ := log.Cursor().First(); key == nil {
			return log, nil
		}
		return emptied(tx)
	}
	for {
		key, record := log.Cursor().Last()
		if len(key) != 8 || raft.Index(binary.BigEndian.Uint64(key)) <= after {
			return log, nil
		}
		c.bytes -= int64(len(record))
		if err := log.Delete(key); err != nil {
			return log, err
		}
	}
}
