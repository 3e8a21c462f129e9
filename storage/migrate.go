package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/files"
)

// MigrateOptions tunes Migrate. The zero value is good.
type MigrateOptions struct {
	// LockWait is how long Migrate waits for another process to release the store. 0 means 1 s.
	LockWait time.Duration
	// SegmentBytes is as in LogOptions.
	SegmentBytes int64
	// Progress is called before the first entry is copied, and again after each few MiB; nil: nobody is told.
	Progress func(copied, all uint64)

	copyBytes int // are read and written at once; 0: copyBytesDefault
}

// Migrated says what Migrate has done.
type Migrated struct {
	From, To Kind   // if they are equal, the log was there already
	Entries  uint64 // that the log holds
}

// Migrate moves the log of the store in dir from the bbolt file to segments, or back. No process may have the store open. All
// that the store holds stays the same: the entries, and what is not in the log. Snapshots are not copied.
//
// The log is read and checked, copied, and the copy is checked. Then one transaction in the bbolt file makes the copy the log,
// and what was the log before is not one any more. If the process ends before, the store is what it was; if it ends
// afterwards, the store has been moved. What is left over in either case is removed by the next start, or the next call, which
// may be repeated at any time. Memory is needed for a few MiB of entries, and for what Load returns.
//
// Both copies need room at the same time. The bbolt file does not become smaller: what the entries took there is free for
// later ones.
//
// An earlier release does not open a store in segments, and does so again once the store was moved back.
//
// Its errors match fs.ErrNotExist if there is no store in dir, raft.ErrLocked if a process has it open, ErrDiskFull,
// ErrNotWritable, or ErrUnfinished; or are a *raft.ConfigError, an *InTheWayError, an *UnfinishedAsideError, a *ForeignFileError, a *raft.CorruptError, a *raft.LaterVersionError or a
// *raft.EarlierVersionError, or, for a store that was marked because its member must not go on with it, the error with which its
// node ends. After any of them the log is whole, in one of the two places: where it was, unless the error matches ErrUnfinished.
func Migrate(ctx context.Context, dir string, to Kind, opts MigrateOptions) (Migrated, error) {
	return migrateOn(ctx, files.OS, dir, to, opts)
}

// migrateOn moves a log whose segments are on a disk of their own.
func migrateOn(ctx context.Context, disk files.FS, dir string, to Kind, opts MigrateOptions) (done Migrated, err error) {
	if err := errors.Join(to.check(), checkSegmentBytes(opts.SegmentBytes)); err != nil {
		return done, err
	}
	m, err := openMigration(ctx, disk, dir, opts)
	if err != nil {
		return done, err
	}
	defer func() {
		closed := m.close()
		if closed != nil && err == nil && m.from != to {
			closed = fmt.Errorf("%w: %w", ErrUnfinished, closed)
		}
		err = errors.Join(err, closed)
	}()
	if err := m.begin(); err != nil {
		return done, err
	}
	done = Migrated{From: m.from, To: to, Entries: m.entries()}
	if m.from != to {
		err = m.move(to)
	}
	return done, err
}

func (k Kind) check() error {
	if k != KindBolt && k != KindSegments {
		return fmt.Errorf("storage: there is no kind %q: choose %q or %q", k, KindBolt, KindSegments)
	}
	return nil
}

// migration is a store whose log is being moved. It is open, and no write can come between.
type migration struct {
	ctx   context.Context
	disk  files.FS // of the segments
	dir   string
	opts  MigrateOptions
	from  Kind
	store *boltStore
	read  func(raft.Span, int) ([]raft.Entry, error)
	close func() error

	meta metaRecord
	log  raft.StoredLog // what was found
}

// openMigration opens the store, whatever its kind. Unlike Open, it creates none.
func openMigration(ctx context.Context, disk files.FS, dir string, opts MigrateOptions) (*migration, error) {
	m := &migration{ctx: ctx, disk: disk, dir: dir, opts: opts}
	b, err := openBoltOn(disk, dir, BoltOptions{LockWait: opts.LockWait, existing: true})
	if err == nil {
		m.from, m.store, m.read, m.close = KindBolt, &b.boltStore, b.Entries, b.Close
		return m, nil
	}
	if !errors.Is(err, ErrOtherLog) {
		return nil, err
	}
	l, err := openLogOn(disk, dir, LogOptions{LockWait: opts.LockWait, SegmentBytes: opts.SegmentBytes, existing: true})
	if err != nil {
		return nil, err
	}
	m.from, m.store, m.read, m.close = KindSegments, &l.boltStore, l.Entries, l.Close
	return m, nil
}

// begin reads and checks the store, makes durable what it has found, and removes what an earlier call has left.
func (m *migration) begin() error {
	b := m.store
	if err := m.scan(); err != nil {
		return b.contradictedFirst(err)
	}
	if mark := b.lineage.mark; mark != nil {
		return mark.Err()
	}
	// The process before may have ended in a sync that failed. What is read may then not be on the disk, and only another
	// transaction shows that it is. A second one replaces the head that the failed sync has left: heads are written in turn.
	if err := b.guard("syncing", b.db.Sync); err != nil {
		return err
	}
	for range 2 {
		if err := b.update("moving the log of", func(tx *bbolt.Tx) error { return putMeta(tx, m.meta) }); err != nil {
			return err
		}
	}
	_, err := b.home.tidy()
	return err
}

// scan reads and checks the whole store, as Load does.
func (m *migration) scan() error {
	b := m.store
	err := b.guard("loading", func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			m.meta, err = b.readMeta(tx)
			return err
		})
	})
	if err != nil {
		return err
	}
	owner := raft.Identity{Cluster: m.meta.Cluster, ID: raft.NodeID(m.meta.ID)}
	stored, _, err := b.scan(m.ctx, owner)
	if err != nil {
		return err
	}
	m.log = stored.Log
	return b.check(stored.Snapshot)
}

func (m *migration) entries() uint64 { return uint64(m.log.Last.Index - m.log.Base.ID.Index) }

// move copies the log, and makes the copy the log.
func (m *migration) move(to Kind) error {
	var target destination = &toSegments{migration: m}
	if to == KindBolt {
		target = newToBolt(m)
	}
	err := m.room(target.needs())
	if err == nil {
		err = m.copy(target)
	}
	if err != nil {
		if m.store.failed == nil {
			_, _ = m.store.home.tidy() // or else the next start does
		}
		return err
	}
	err = m.become(target)
	if err == nil {
		err = target.tidy()
	} // or else nobody knows which of the two is the log now, and both stay
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return nil
}

// destination is where the log goes.
type destination interface {
	// needs returns how many bytes may be needed where, and how many there are.
	needs() (where string, bytes, free int64, err error)
	// append copies entries. They are not a part of any log yet.
	append(after raft.EntryID, entries []raft.Entry) error
	// finish makes the copy durable, and returns what a start would find in it.
	finish() (raft.StoredLog, error)
	// record makes the copy the log, and what was the log before nothing.
	record(tx *bbolt.Tx) error
	// format returns that of the store from then on.
	format() uint64
	// tidy removes what was the log before.
	tidy() error
	close() error
}

// room returns an error if the copy may not fit. A disk that is full in the middle would be full for the member, too.
func (m *migration) room(where string, bytes, free int64, err error) error {
	if err != nil || bytes <= free { // a file system that cannot tell is tried
		return nil
	}
	return fmt.Errorf("%w: moving the log of %s needs up to %d bytes in %s, and %d are free",
		ErrDiskFull, m.store.path, bytes, where, free)
}

const copyBytesDefault = 4 << 20

func (m *migration) copy(to destination) (err error) {
	defer func() { err = errors.Join(err, to.close()) }()
	last, all := m.log.Last, m.entries()
	m.report(0, all)
	for at := m.log.Base.ID; at != last; {
		if err := m.ctx.Err(); err != nil {
			return explain("moving the log of", m.store.path, err)
		}
		entries, err := m.read(raft.Span{After: at.Index, Last: last.Index}, cmp.Or(m.opts.copyBytes, copyBytesDefault))
		if err != nil {
			return err
		}
		if err := to.append(at, entries); err != nil {
			return err
		}
		at = entries[len(entries)-1].ID()
		m.report(all-uint64(last.Index-at.Index), all)
	}
	copied, err := to.finish()
	if err == nil && !reflect.DeepEqual(copied, m.log) {
		err = fmt.Errorf("storage: the copy of the log of %s differs from it: it ends with entry %v, the log with %v; nothing was done",
			m.store.path, copied.Last, last)
	}
	return err
}

func (m *migration) report(copied, all uint64) {
	if m.opts.Progress != nil {
		m.opts.Progress(copied, all)
	}
}

// become makes the copy the log, in one transaction.
func (m *migration) become(target destination) error {
	meta := m.meta
	meta.Format = target.format()
	return m.store.update("moving the log of", func(tx *bbolt.Tx) error {
		if err := target.record(tx); err != nil {
			return err
		}
		return putMeta(tx, meta)
	})
}

func putMeta(tx *bbolt.Tx, meta metaRecord) error {
	record, err := meta.encode()
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(recordKey, record)
}
