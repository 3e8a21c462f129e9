package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
)

// Load checks and returns the stored data, as raft.Storage says. It reads the whole log, and ctx can end it early. If the
// store is damaged or belongs to another member, Load returns an error and changes nothing.
func (b *boltStore) Load(ctx context.Context, identity raft.Identity) (raft.Stored, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return raft.Stored{}, fmt.Errorf("%w: %s", ErrStoreClosed, b.path)
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
		b.nameCluster(ctx, err)
		return raft.Stored{}, b.preferContradiction(err)
	}
	// A killed process may have written data and not synced it. That data must be durable before anything relies on it. It
	// must also be durable before the next transaction reuses the pages that the killed process freed.
	if err := b.guard("syncing", b.db.Sync); err != nil {
		return raft.Stored{}, err
	}
	meta.StartCount++
	if err := b.format(meta, identity.Nonce); err != nil {
		return raft.Stored{}, err
	}
	// The previous process may have ended after a failed sync. Then this process reads the head page that the previous
	// process wrote last, although that page is not on the disk. bbolt writes the two head pages in turn, and format has just
	// written the other one. So another transaction now replaces the page that may be missing. After a power cut, the two
	// head pages then belong to successive transactions.
	if err := b.update("formatting", func(*bbolt.Tx) error { return nil }); err != nil {
		return raft.Stored{}, err
	}
	if stored.LeftOver, err = b.beginWriting(&stored); err != nil {
		b.failed = err
		return raft.Stored{}, err
	}
	b.loaded = true
	b.logBytes.Store(b.written.bytes)
	stored.StartCount, stored.Incarnation = meta.StartCount, raft.Incarnation(meta.Incarnation)
	b.lineage.fill(&stored)
	return stored, nil
}

// beginWriting prepares the log and the snapshots for writing. It returns the names of the left-over files that it removes.
func (b *boltStore) beginWriting(stored *raft.Stored) (leftOver []string, err error) {
	var tidied []string
	if b.lineage.mark == nil { // everything in a marked store is evidence
		if tidied, err = b.home.tidy(); err != nil {
			return nil, err
		}
	}
	if err := b.home.begin(); err != nil {
		return nil, err
	}
	if err := b.finishRecovery(stored); err != nil {
		return nil, err
	}
	if installInterrupted(&stored.Log, stored.Snapshot) {
		if err := b.finishInstall(stored); err != nil {
			return nil, err
		}
	}
	if leftOver, err = b.begin(stored.Snapshot, b.lineage.mark != nil); err != nil {
		return nil, err
	}
	return slices.Concat(leftOver, b.home.leftOver(), tidied), nil
}

// preferContradiction replaces an error about damage if the store carries the mark of a contradiction. Then it returns the
// contradiction. A marked store may hold the last copy of acknowledged writes. An operator may be used to setting damaged
// stores aside, and must not mistake a marked store for one of them.
func (b *boltStore) preferContradiction(err error) error {
	var damage *raft.CorruptError
	if m := b.lineage.mark; m != nil && m.Kind == raft.MarkContradicted && errors.As(err, &damage) {
		return fmt.Errorf("%w; besides, %v", &raft.ContradictedError{Mark: *m}, err)
	}
	return err
}

// format makes the owner's record and the present start of the member durable.
func (b *boltStore) format(meta metaRecord, nonce uint64) error {
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

// scan reads and checks everything, and changes nothing. After damage it goes on with what can be read without the damaged
// part, and returns the first error.
func (b *boltStore) scan(ctx context.Context, identity raft.Identity) (stored raft.Stored, meta metaRecord, err error) {
	err = b.guard("loading", func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			if meta, err = b.readMeta(tx); err != nil {
				return err
			}
			if meta, err = b.identify(meta, identity); err != nil {
				return err
			}
			b.member = meta.logOf()
			lineage, damage := b.readLineage(tx, meta.StartCount)
			b.lineage = lineage
			stored, err = b.readHardAndLog(ctx, tx)
			return cmp.Or(damage, err)
		})
	})
	return stored, meta, err
}

// record returns the only record of a bucket.
func (b *boltStore) record(tx *bbolt.Tx, bucket []byte) ([]byte, error) {
	in := tx.Bucket(bucket)
	if in == nil {
		return nil, damaged(b.path, fmt.Sprintf("bucket %q", bucket), errors.New("it is missing"))
	}
	return in.Get(recordKey), nil
}

func (b *boltStore) readMeta(tx *bbolt.Tx) (metaRecord, error) {
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

// scanOwn is scan for the owner that the store names.
func (b *boltStore) scanOwn(ctx context.Context) (stored raft.Stored, meta metaRecord, err error) {
	if meta, err = b.owner(); err != nil {
		return stored, meta, err
	}
	return b.scan(ctx, raft.Identity{Cluster: meta.Cluster, ID: raft.NodeID(meta.ID)})
}

// owner reads the record of the owner.
func (b *boltStore) owner() (meta metaRecord, err error) {
	err = b.guard("loading", func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			meta, err = b.readMeta(tx)
			return err
		})
	})
	return meta, err
}

// identify gives an uninitialized store its identity, and refuses a store of another member.
func (b *boltStore) identify(meta metaRecord, identity raft.Identity) (metaRecord, error) {
	switch {
	case meta.uninitialized():
		meta.Cluster, meta.ID = identity.Cluster, string(identity.ID)
		meta.Incarnation = uint64(identity.Fresh)
		return meta, nil
	}
	return meta, checkIdentity(raft.Identity{Cluster: meta.Cluster, ID: raft.NodeID(meta.ID)}, identity)
}

// checkIdentity returns an error if the given identity differs from the stored one.
func checkIdentity(stored, given raft.Identity) error {
	if stored.Cluster != given.Cluster {
		return &raft.IdentityError{What: "cluster", Stored: stored.Cluster, Given: given.Cluster}
	}
	if stored.ID != given.ID {
		return &raft.IdentityError{What: "member id", Stored: string(stored.ID), Given: string(given.ID)}
	}
	return nil
}

func (b *boltStore) readHardAndLog(ctx context.Context, tx *bbolt.Tx) (raft.Stored, error) {
	bytes, err := b.record(tx, hardBucket)
	if err != nil {
		return raft.Stored{}, err
	}
	record, err := decodeHard(bytes)
	if err != nil {
		return raft.Stored{}, damaged(b.path, hardName, err)
	}
	stored := raft.Stored{File: b.path, Hard: record.hard}
	read := content{hardRecord: record}
	read.base, read.snapshot, err = b.readSnapshots(tx, record)
	if stored.Snapshot = read.snapshot; err != nil {
		return stored, err
	}
	stored.Log, err = b.home.readLog(ctx, tx, &read)
	stored.Commit = min(read.commit, stored.Log.Last.Index)
	if err == nil {
		b.written, b.commit = read, read.commit
	}
	return stored, err
}

// nameCluster names the cluster of the store in an error about damage, if something readable still says it. The store is that of
// this member only once its identity has been read.
func (b *boltStore) nameCluster(ctx context.Context, err error) {
	var damage *raft.CorruptError
	if b.member == 0 || !errors.As(err, &damage) {
		return
	}
	_ = b.guard("loading", func() error { // of a second damage, nothing is said
		return b.db.View(func(tx *bbolt.Tx) error {
			damage.Cluster = b.clusterIn(ctx, tx)
			return nil
		})
	})
}

// clusterIn returns the cluster that the record of term and vote, the log's base, the recorded snapshot or entry 1 names. It is zero
// if none of them is readable, or if the base and the snapshot name different ones.
func (b *boltStore) clusterIn(ctx context.Context, tx *bbolt.Tx) (of raft.ClusterID) {
	bytes, _ := b.record(tx, hardBucket)
	if hard, err := decodeHard(bytes); err == nil && hard.hard.Cluster != (raft.ClusterID{}) {
		return hard.hard.Cluster
	}
	if in := tx.Bucket(snapshotBucket); in != nil {
		base, err := decodeBase(in.Get(baseKey), raft.EntryID{})
		if err == nil {
			of = base.Cluster
		}
		snapshot, err := decodeSnapshot(in.Get(recordKey))
		switch {
		case err != nil:
		case of == raft.ClusterID{}:
			of = snapshot.Cluster
		case of != snapshot.Cluster:
			return raft.ClusterID{}
		}
	}
	if of != (raft.ClusterID{}) {
		return of
	}
	if log, _ := b.home.readLog(ctx, tx, &content{}); log.Bootstrap != nil { // up to the damage
		return log.Bootstrap.Cluster
	}
	return raft.ClusterID{}
}
