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

// Load checks and returns the stored data, as raft.Storage says. It reads the whole log; ctx can end it early.
// It does not change a store that it refuses, because the store is damaged or belongs to another member.
func (b *Bolt) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return raft.Stored{}, fmt.Errorf("%w: %s", ErrClosed, b.path)
	}
	if b.loaded || b.failed != nil {
		return raft.Stored{}, fmt.Errorf("storage: %s: Load is called once", b.path)
	}
	if err := ctx.Err(); err != nil {
		return raft.Stored{}, explain("loading", b.path, err)
	}
	stored, meta, err := b.scan(ctx, identity)
	if err == nil {
		err = b.check(stored.Snapshot)
	}
	if err != nil {
		return raft.Stored{}, b.contradictedFirst(err)
	}
	// What a killed process wrote and did not sync must be durable before anything relies on it, and before the
	// next transaction reuses the pages that the process had freed.
	if err := b.guard("syncing", b.db.Sync); err != nil {
		return raft.Stored{}, err
	}
	if lacks(&stored.Log, stored.Snapshot) {
		if err := b.finishInstall(&stored); err != nil {
			return raft.Stored{}, err
		}
	}
	meta.StartCount++
	if err := b.format(meta, identity.Nonce); err != nil {
		return raft.Stored{}, err
	}
	if stored.LeftOver, err = b.begin(stored.Snapshot, b.lineage.mark != nil); err != nil {
		b.failed = err
		return raft.Stored{}, err
	}
	b.loaded = true
	b.logBytes.Store(b.written.bytes)
	stored.StartCount, stored.Incarnation = meta.StartCount, raft.Incarnation(meta.Incarnation)
	b.lineage.fill(&stored)
	return stored, nil
}

// contradictedFirst returns the contradiction that the store is marked with instead of damage to it: such a store may be the
// last witness of acknowledged writes, and whoever sets damaged stores aside must not take it for one of them.
func (b *Bolt) contradictedFirst(err error) error {
	var damage *raft.CorruptError
	if m := b.lineage.mark; m != nil && m.Kind == raft.MarkContradicted && errors.As(err, &damage) {
		return fmt.Errorf("%w; besides, %v", &raft.ContradictedError{Mark: *m}, err)
	}
	return err
}

// format makes the owner's record and the new start durable.
func (b *Bolt) format(meta metaRecord, nonce uint64) error {
	record, err := meta.encode()
	if err != nil {
		return explain("formatting", b.path, err)
	}
	next := b.lineage
	next.starts = next.starts.Begin(nonce)
	err = b.update("formatting", func(tx *bbolt.Tx) error {
		if err := next.put(tx); err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(recordKey, record)
	})
	if err == nil {
		b.lineage = next
	}
	return err
}

// scan reads and checks everything, and changes nothing.
func (b *Bolt) scan(ctx context.Context, identity raft.Identity) (stored raft.Stored, meta metaRecord, err error) {
	err = b.guard("loading", func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			if meta, err = b.readMeta(tx); err != nil {
				return err
			}
			if meta, err = b.identify(meta, identity); err != nil {
				return err
			}
			if b.lineage, err = b.readLineage(tx, meta.StartCount); err != nil {
				return err
			}
			stored, err = b.readHardAndLog(ctx, tx)
			return err
		})
	})
	return stored, meta, err
}

// record returns the only record of a bucket.
func (b *Bolt) record(tx *bbolt.Tx, bucket []byte) ([]byte, error) {
	in := tx.Bucket(bucket)
	if in == nil {
		return nil, damaged(b.path, fmt.Sprintf("bucket %q", bucket), errors.New("it is missing"))
	}
	return in.Get(recordKey), nil
}

func (b *Bolt) readMeta(tx *bbolt.Tx) (metaRecord, error) {
	bytes, err := b.record(tx, metaBucket)
	if err != nil {
		return metaRecord{}, err
	}
	meta, err := decodeMeta(bytes)
	if err != nil {
		return metaRecord{}, damaged(b.path, "the format record", err)
	}
	return meta, nil
}

// identify gives an uninitialized store its identity, and refuses a store of another member.
func (b *Bolt) identify(meta metaRecord, identity raft.Identity) (metaRecord, error) {
	switch {
	case meta.uninitialized():
		meta.Cluster, meta.ID = identity.Cluster, string(identity.ID)
		meta.Incarnation = uint64(identity.Fresh)
		return meta, nil
	}
	return meta, checkIdentity(raft.Identity{Cluster: meta.Cluster, ID: raft.NodeID(meta.ID)}, identity)
}

// checkIdentity refuses an identity that is not the stored one.
func checkIdentity(stored, given raft.Identity) error {
	if stored.Cluster != given.Cluster {
		return &raft.IdentityError{What: "cluster", Stored: stored.Cluster, Given: given.Cluster}
	}
	if stored.ID != given.ID {
		return &raft.IdentityError{What: "member id", Stored: string(stored.ID), Given: string(given.ID)}
	}
	return nil
}

func (b *Bolt) readHardAndLog(ctx context.Context, tx *bbolt.Tx) (raft.Stored, error) {
	bytes, err := b.record(tx, hardBucket)
	if err != nil {
		return raft.Stored{}, err
	}
	record, err := decodeHard(bytes)
	if err != nil {
		return raft.Stored{}, damaged(b.path, hardName, err)
	}
	base, snapshot, err := b.readSnapshots(tx, record)
	if err != nil {
		return raft.Stored{}, err
	}
	content := boltContent{hardRecord: record, base: base, snapshot: snapshot}
	log, err := b.readLog(ctx, tx, &content)
	if err != nil {
		return raft.Stored{}, err
	}
	if log.Last != record.last {
		return raft.Stored{}, damaged(b.path, "the end of the log",
			fmt.Errorf("it ends at entry %v, and the last write left it ending at %v", log.Last, record.last))
	}
	b.written, b.commit = content, record.commit
	return raft.Stored{Hard: record.hard, Commit: min(record.commit, log.Last.Index), Snapshot: snapshot, Log: log}, nil
}

// readLog checks every entry above the base, and that they follow each other from there on. It only counts what is still
// to be pruned.
func (b *Bolt) readLog(ctx context.Context, tx *bbolt.Tx, content *boltContent) (raft.StoredLog, error) {
	log := behind(content.base)
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
			return log, damaged(b.path, entryPlace(next), fmt.Errorf("the key %s stands in its place", shown(key)))
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
	return log, nil
}
