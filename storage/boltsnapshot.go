package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
)

// snapshotBucket holds the recorded snapshot and the base of the log. A store that never had either has no such
// bucket.
var (
	snapshotBucket = []byte("snapshot")
	baseKey        = []byte("base") // beside recordKey
)

const (
	snapshotVersion = 1 // the newest version of both records that this release reads; it writes this one
	snapshotName    = "the record of the snapshot"
	baseName        = "the record of the log's base"
)

// encodeBase returns: version uint8 | the base, or nothing | CRC-32C of all before. There is nothing for a log that was
// reset without a snapshot, of whose beginning only the id is known; the record of term and vote has it.
func encodeBase(b raft.Base) []byte {
	record := []byte{snapshotVersion}
	if b.Check() == nil {
		record = append(record, b.Encode()...)
	}
	return sealed(record)
}

func decodeBase(b []byte, start raft.EntryID) (raft.Base, error) {
	record, err := openRecord(baseName, snapshotVersion, b)
	if err != nil || len(record) == 0 {
		return raft.Base{ID: start}, err
	}
	return raft.DecodeBase(record)
}

// encodeSnapshot returns: version uint8 | the snapshot's description | CRC-32C of all before.
func encodeSnapshot(s raft.Snapshot) []byte {
	return sealed(append([]byte{snapshotVersion}, s.Encode()...))
}

func decodeSnapshot(b []byte) (raft.Snapshot, error) {
	record, err := openRecord(snapshotName, snapshotVersion, b)
	if err != nil {
		return raft.Snapshot{}, err
	}
	return raft.DecodeSnapshot(record)
}

// readSnapshots reads the base and the recorded snapshot, and checks that the record of term and vote agrees with both.
func (b *Bolt) readSnapshots(tx *bbolt.Tx, record hardRecord) (base raft.Base, snapshot raft.Snapshot, err error) {
	var baseBytes, snapshotBytes []byte
	if in := tx.Bucket(snapshotBucket); in != nil {
		baseBytes, snapshotBytes = in.Get(baseKey), in.Get(recordKey)
	}
	if baseBytes != nil {
		base, err = decodeBase(baseBytes, record.start)
	}
	if err == nil && (base.ID != record.start || (baseBytes == nil) != (record.start == raft.EntryID{})) {
		err = fmt.Errorf("it is of entry %v, and the last write left the log beginning behind entry %v", base.ID, record.start)
	}
	if err != nil {
		return base, snapshot, damaged(b.path, baseName, err)
	}
	if snapshotBytes != nil {
		snapshot, err = decodeSnapshot(snapshotBytes)
	}
	if err == nil && snapshot.ID.Index != record.snapshotIndex {
		err = fmt.Errorf("it is of entry %d, and the last write left one of entry %d", snapshot.ID.Index, record.snapshotIndex)
	}
	if err == nil && snapshot.ID.Index == base.ID.Index && snapshot.ID != base.ID {
		err = fmt.Errorf("it is of entry %v, and the log begins behind entry %v", snapshot.ID, base.ID)
	}
	if err != nil {
		return base, snapshot, damaged(b.path, snapshotName, err)
	}
	return base, snapshot, nil
}

// putSnapshot records a snapshot whose file is complete.
func (b *Bolt) putSnapshot(tx *bbolt.Tx, record *boltContent, s raft.Snapshot) error {
	in, err := tx.CreateBucketIfNotExists(snapshotBucket)
	if err != nil {
		return err
	}
	record.snapshot, record.snapshotIndex = s, s.ID.Index
	return in.Put(recordKey, encodeSnapshot(s))
}

// compact makes the log begin behind the base. The entries stay until Prune.
func (b *Bolt) compact(tx *bbolt.Tx, record *boltContent, base raft.Base) error {
	if err := b.checkAfter(tx.Bucket(logBucket), record, base.ID); err != nil {
		return err
	}
	record.start, record.base = base.ID, base
	return putBase(tx, base)
}

func putBase(tx *bbolt.Tx, base raft.Base) error {
	if base.ID == (raft.EntryID{}) && tx.Bucket(snapshotBucket) == nil {
		return nil
	}
	in, err := tx.CreateBucketIfNotExists(snapshotBucket)
	if err != nil {
		return err
	}
	if base.ID == (raft.EntryID{}) {
		return in.Delete(baseKey)
	}
	return in.Put(baseKey, encodeBase(base))
}

// finishInstall drops a log that the recorded snapshot has replaced, and begins one behind the snapshot.
func (b *Bolt) finishInstall(stored *raft.Stored) error {
	next := b.written
	err := b.update("finishing an installation in", func(tx *bbolt.Tx) error {
		if _, err := emptied(tx); err != nil {
			return err
		}
		next.base = next.snapshot.Base
		next.start, next.last = next.base.ID, next.base.ID
		next.first, next.bytes = next.start.Index+1, 0
		if err := putBase(tx, next.base); err != nil {
			return err
		}
		return tx.Bucket(hardBucket).Put(recordKey, next.encode())
	})
	if err == nil {
		b.written = next
		stored.Log, stored.Commit = behind(next.base), min(next.commit, next.last.Index)
	}
	return err
}

// A call of Prune deletes at most this much, so that a write that comes meanwhile does not wait for long.
const (
	pruneEntriesMax = 4096
	pruneBytesMax   = 4 << 20
)

// Prune deletes entries at or below the base in a transaction of its own, at most 4,096 of them and 4 MiB, and reports
// whether more are left. The file keeps its size; later writes use the room.
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

func (c *boltContent) prune(log *bbolt.Bucket) error {
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

// LogBytes returns how many bytes the records of the entries take, with those that Prune has not deleted yet.
func (b *Bolt) LogBytes() int64 { return b.logBytes.Load() }

// dropAbove deletes every entry above the index, whatever the log they belonged to. It leaves what lies below to Prune,
// so that a reset does not hold up the writes behind it.
func (c *boltContent) dropAbove(tx *bbolt.Tx, log *bbolt.Bucket, after raft.Index) (*bbolt.Bucket, error) {
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

// isTyped reports whether the error already says what is wrong with the stored data and what to do.
func isTyped(err error) bool {
	var corrupt *raft.CorruptError
	var later *raft.LaterVersionError
	var earlier *raft.EarlierVersionError
	return errors.As(err, &corrupt) || errors.As(err, &later) || errors.As(err, &earlier)
}
