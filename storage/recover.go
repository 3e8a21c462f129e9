package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// RecoverOptions tunes Recover. The zero value is good.
type RecoverOptions struct {
	// LockWait is how long Recover waits for another process to release the store. 0 means 1 s.
	LockWait time.Duration
	// Despite recovers a store that is marked as an older image of its disk, or as contradicting its cluster. Set it only if no
	// other survivor is left: entries that were acknowledged may be missing in such a store.
	Despite bool
}

// Recovery says what Recover has done.
type Recovery struct {
	ID       raft.NodeID        // the only member of the new cluster
	Name     string             // node.Config.Cluster, which stays
	Former   raft.ClusterID     // of the cluster that had lost its majority
	Cluster  raft.ClusterID     // of the new one
	Before   raft.Configuration // the members of the former cluster, as far as this disk knows
	Last     raft.EntryID       // the last entry that was kept
	Commit   raft.Index         // up to here this disk knew that entries were committed; those after it count as committed now
	Recovery raft.EntryID       // the entry that makes the log that of the new cluster
}

// Recover makes the stopped member whose store is in dir the only member of a new cluster, with every entry in its log. It is for
// the case that a majority of the former cluster is lost for good, and no member can lead any more: see docs/recovery.md. name is
// node.Config.Cluster of the store, as a confirmation.
//
// Entries that only lost members held, or knew to be committed, may be lost. Of several survivors, recover the one that
// raft.BestSurvivor names (Inspect returns what it compares). First make sure that the lost members stay away: a majority of them, where it still
// runs, goes on as the former cluster. The new cluster has another id, so no member of the former one can join it with its old store:
// set that store aside, and add the member as a new one.
//
// One transaction records everything. If the process ends before it, nothing has changed. After it, every start of the member
// completes what is left. Then Recover refuses to do it again.
//
// It fails with a *NoStoreError if there is no store in dir, and the error matches raft.ErrLocked if a process has it
// open. It is a *raft.IdentityError for another name, and a *raft.NotRecoverableError for a store that belongs to no cluster, or whose
// configuration does not name its member or names no other voter. A marked store is refused with the error of its mark, unless opts.Despite is set, and a
// damaged one with a *raft.CorruptError: recover another survivor. Otherwise the errors are those of Open.
func Recover(ctx context.Context, dir, name string, opts RecoverOptions) (Recovery, error) {
	return recoverStore(ctx, dir, name, opts.LockWait, opts.recovery())
}

func (o RecoverOptions) recovery() recovery {
	return func(s *raft.Stored, id raft.NodeID, to raft.ClusterID) (raft.Recovered, error) {
		return s.Recover(id, to, raft.Incarnation(salt()), time.Now().UnixNano(), o.Despite)
	}
}

// recovery returns what makes the stored state of a member that of a new cluster.
type recovery func(s *raft.Stored, id raft.NodeID, to raft.ClusterID) (raft.Recovered, error)

// recoverStore records a recovery and completes it.
func recoverStore(ctx context.Context, dir, name string, lockWait time.Duration, r recovery) (Recovery, error) {
	done, err := recordRecovery(ctx, dir, name, lockWait, r)
	if err != nil {
		return Recovery{}, err
	}
	store, id, err := openNamed(dir, name, lockWait)
	if err != nil {
		return done, err
	}
	_, err = store.Load(ctx, raft.Identity{Cluster: name, ID: id, Nonce: salt()}) // as the next start will: it appends the entry
	return done, errors.Join(err, store.close())
}

func recordRecovery(ctx context.Context, dir, name string, lockWait time.Duration, recovered recovery) (done Recovery, err error) {
	store, id, err := openNamed(dir, name, lockWait)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	stored, err := store.Load(ctx, raft.Identity{Cluster: name, ID: id, Nonce: salt()})
	if err != nil {
		return done, err
	}
	var cluster raft.ClusterID
	_, _ = rand.Read(cluster[:]) // it never fails
	r, err := recovered(&stored, id, cluster)
	if err != nil {
		return done, err
	}
	done = Recovery{
		ID: id, Name: name, Former: stored.Cluster(), Cluster: cluster, Before: stored.Log.Configuration(), Last: stored.Log.Last,
		Commit: max(stored.Commit, stored.Log.Base.ID.Index), Recovery: r.Entry.ID(),
	}
	return done, store.recover(r)
}

// openNamed opens an existing store of either kind, and returns its member. It refuses a store of another name.
func openNamed(dir, name string, lockWait time.Duration) (anyStore, raft.NodeID, error) {
	if err := checkPlace(dir); err != nil {
		return anyStore{}, "", err
	}
	store, err := openAny(files.OS, dir, LogOptions{LockWait: lockWait, access: toChange})
	if err != nil {
		return anyStore{}, "", err
	}
	meta, err := store.owner()
	switch {
	case err != nil:
	case meta.uninitialized():
		err = &NoStoreError{dir, "no member has ever been started on what is there"}
	case meta.Cluster != name:
		err = &raft.IdentityError{What: "cluster", Stored: meta.Cluster, Given: name}
	}
	if err != nil {
		return anyStore{}, "", errors.Join(err, store.close())
	}
	return store, raft.NodeID(meta.ID), nil
}

// recoveryBucket holds the entry of the last recovery, which finishRecovery appends to the log.
var recoveryBucket = []byte("recovery")

const (
	recoveryVersion = 1
	recoveryName    = "the record of the recovery"
)

// recover records everything of a recovery in one transaction: what changes, and the entry that is still to be appended.
func (b *boltStore) recover(r raft.Recovered) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ready(); err != nil {
		return err
	}
	next, lineage := b.written, lineageRecord{starts: b.lineage.starts} // a new incarnation has met nobody, and has no mark
	next.hard = r.Hard
	return b.update("recovering", func(tx *bbolt.Tx) error {
		meta, err := b.readMeta(tx)
		if err != nil {
			return err
		}
		meta.LogOf, meta.Incarnation = uint64(meta.logOf()), uint64(r.Incarnation)
		record, err := meta.encode()
		if err != nil {
			return err
		}
		if r.Snapshot.ID.Index > 0 {
			err = b.putSnapshot(tx, &next, r.Snapshot)
		}
		if r.Base.ID.Index > 0 {
			err = errors.Join(err, putBase(tx, r.Base))
		}
		pending, bucketErr := tx.CreateBucketIfNotExists(recoveryBucket)
		if err = errors.Join(err, bucketErr); err != nil {
			return err
		}
		return errors.Join(lineage.put(tx), tx.Bucket(metaBucket).Put(recordKey, record),
			tx.Bucket(hardBucket).Put(recordKey, next.encode()),
			pending.Put(recordKey, sealed(append([]byte{recoveryVersion}, r.Entry.Record()...))))
	})
}

// finishRecovery appends the entry of a recovery to a log that does not hold it yet. The log itself is written only here, because
// it may not be in the bbolt file. Nothing else can have been appended in between, so a log that reaches that far holds the entry.
func (b *boltStore) finishRecovery(stored *raft.Stored) error {
	var e raft.Entry
	err := b.guard("reading", func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			in := tx.Bucket(recoveryBucket)
			if in == nil {
				return nil
			}
			record, err := openRecord(recoveryName, recoveryVersion, in.Get(recordKey))
			if err == nil {
				e, err = raft.DecodeEntry(append([]byte(nil), record...))
			}
			if err != nil {
				return damaged(b.path, recoveryName, err)
			}
			return nil
		})
	})
	if err != nil || e.Index <= stored.Log.Last.Index {
		return err
	}
	next := b.written
	w := raft.StorageWrite{Log: &raft.LogWrite{After: stored.Log.Last, Entries: []raft.Entry{e}}}
	if err := stored.Log.Observe(e); err != nil {
		return damaged(b.path, recoveryName, err)
	}
	if err := b.home.write(w, &next, b.lineage); err != nil {
		return err
	}
	b.written = next
	return nil
}
