package storage

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
)

// snapshotBucket holds the recorded snapshot and the base of the log. If a store has never had either of them, the bucket
// does not exist.
var (
	snapshotBucket = []byte("snapshot")
	baseKey        = []byte("base") // beside recordKey
)

const (
	snapshotVersion = 1 // the newest version of both records that this release reads; it writes this one
	snapshotName    = "the record of the snapshot"
	baseName        = "the record of the log's base"
)

// encodeBase returns: version uint8 | the base, or nothing | CRC-32C of all before. If the log was reset without a snapshot,
// the record leaves out the base. In that case only the id of the base is known, and the record of term and vote holds the
// id.
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

// readSnapshots reads the base and the recorded snapshot. It checks that both agree with the record of term and vote.
func (b *boltStore) readSnapshots(tx *bbolt.Tx, record hardRecord) (base raft.Base, snapshot raft.Snapshot, err error) {
	var baseBytes, snapshotBytes []byte
	if in := tx.Bucket(snapshotBucket); in != nil {
		baseBytes, snapshotBytes = in.Get(baseKey), in.Get(recordKey)
	}
	if baseBytes != nil {
		base, err = decodeBase(baseBytes, record.start)
	}
	if err == nil && (base.ID != record.start || (baseBytes == nil) != (record.start == raft.EntryID{})) {
		err = fmt.Errorf("it is of entry %v, and the last write left the log beginning after entry %v", base.ID, record.start)
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
		err = fmt.Errorf("it is of entry %v, and the log begins after entry %v", snapshot.ID, base.ID)
	}
	if err != nil {
		return base, snapshot, damaged(b.path, snapshotName, err)
	}
	return base, snapshot, nil
}

// putSnapshot records a snapshot. The file of the snapshot is already complete.
func (b *boltStore) putSnapshot(tx *bbolt.Tx, record *content, s raft.Snapshot) error {
	in, err := tx.CreateBucketIfNotExists(snapshotBucket)
	if err != nil {
		return err
	}
	record.snapshot, record.snapshotIndex = s, s.ID.Index
	return in.Put(recordKey, encodeSnapshot(s))
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

// finishInstall drops the log that the recorded snapshot replaces, and begins an empty log after the snapshot.
func (b *boltStore) finishInstall(stored *raft.Stored) error {
	next := b.written
	next.base = next.snapshot.Base
	next.start, next.last = next.base.ID, next.base.ID
	err := b.home.restart(&next, func(tx *bbolt.Tx) error {
		if err := putBase(tx, next.base); err != nil {
			return err
		}
		return tx.Bucket(hardBucket).Put(recordKey, next.encode())
	})
	if err == nil {
		b.written = next
		stored.Log, stored.Commit = emptyLog(next.base), min(next.commit, next.last.Index)
	}
	return err
}

// LogBytes returns how many bytes the entries take. It includes the entries that Prune has not deleted yet.
func (b *boltStore) LogBytes() int64 { return b.logBytes.Load() }

// isTyped reports whether the error already says what is wrong with the stored data and what to do.
func isTyped(err error) bool {
	var corrupt *raft.CorruptError
	var later *raft.LaterVersionError
	var earlier *raft.EarlierVersionError
	var foreign *ForeignFileError
	return errors.As(err, &foreign) || errors.As(err, &corrupt) || errors.As(err, &later) || errors.As(err, &earlier)
}
