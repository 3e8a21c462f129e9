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
	// Progress reports how many of all entries are copied. Migrate calls it before the first entry, and again after every few
	// MiB. If it is nil, there are no reports.
	Progress func(copied, all uint64)

	copyBytes int // bytes of entries that are read and written at once; 0: copyBytesDefault
}

// Migrated says what Migrate has done.
type Migrated struct {
	From, To Kind   // equal if the log was there already
	Entries  uint64 // number of entries in the log
}

// Migrate moves the log of the store in dir from the bbolt file to segments, or back. No process may have the store open. The
// content of the store stays the same. Migrate does not copy snapshots.
//
// Migrate reads and checks the log, copies it, and checks the copy. Then one transaction in the bbolt file makes the copy the
// log. If the process ends before that transaction, the log stays in its old place. If the process ends afterwards, the log
// has moved. In both cases the next start or the next call removes the left-overs. You may repeat Migrate at any time. It
// needs memory for a few MiB of entries and for the data that Load returns.
//
// The disk needs room for both copies at the same time. The bbolt file does not shrink. Later entries reuse the room that the
// moved entries took there.
//
// An earlier release cannot open a store that keeps its log in segments. Once Migrate has moved the log back, the earlier
// release can open the store again.
//
// An error matches fs.ErrNotExist if there is no store in dir, raft.ErrLocked if a process has it open, ErrDiskFull,
// ErrNotWritable, or ErrUnfinished; or it is a *raft.ConfigError, an *InTheWayError, an *UnfinishedAsideError, a
// *ForeignFileError, a *raft.CorruptError, a *raft.LaterVersionError, or a *raft.EarlierVersionError. If the store is marked,
// Migrate returns the error with which the node of the member ends. After an error that matches ErrUnfinished, the log is
// whole in one of the two places. After any other error, the log is whole in its old place.
func Migrate(ctx context.Context, dir string, to Kind, opts MigrateOptions) (Migrated, error) {
	return migrateOn(ctx, files.OS, dir, to, opts)
}

// migrateOn moves a log. The segments are on the given disk.
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

// migration is a store during the move of its log. The store is open, so no other process can write to it.
type migration struct {
	ctx   context.Context
	disk  files.FS // holds the segments
	dir   string
	opts  MigrateOptions
	from  Kind
	store *boltStore
	read  func(raft.Span, int) ([]raft.Entry, error)
	close func() error

	meta metaRecord
	log  raft.StoredLog // what scan found
}

// openMigration opens a store of either kind. Unlike Open, it does not create a store.
func openMigration(ctx context.Context, disk files.FS, dir string, opts MigrateOptions) (*migration, error) {
	s, err := openAny(disk, dir, LogOptions{LockWait: opts.LockWait, SegmentBytes: opts.SegmentBytes, access: toChange})
	if err != nil {
		return nil, err
	}
	return &migration{ctx: ctx, disk: disk, dir: dir, opts: opts, from: s.kind, store: s.boltStore, read: s.read, close: s.close}, nil
}

// begin reads and checks the store, and makes durable what it has read. It then removes the left-overs of an earlier call.
func (m *migration) begin() error {
	b := m.store
	if err := m.scan(); err != nil {
		return b.preferContradiction(err)
	}
	if mark := b.lineage.mark; mark != nil {
		return mark.Err()
	}
	// The previous process may have ended after a failed sync. Then this process may read data that is not on the disk, and
	// only another transaction makes that data durable. bbolt writes the two head pages in turn. So a second transaction
	// replaces the head page that the failed sync left.
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
	stored, meta, err := m.store.scanOwn(m.ctx)
	if err != nil {
		return err
	}
	m.meta, m.log = meta, stored.Log
	return m.store.check(stored.Snapshot)
}

func (m *migration) entries() uint64 { return uint64(m.log.Last.Index - m.log.Base.ID.Index) }

// move copies the log, and makes the copy the log.
func (m *migration) move(to Kind) error {
	var target destination = &toSegments{migration: m}
	if to == KindBolt {
		target = newToBolt(m)
	}
	err := m.checkRoom(target.needs())
	if err == nil {
		err = m.copy(target)
	}
	if err != nil {
		if m.store.failed == nil {
			_, _ = m.store.home.tidy() // if this fails, the next start removes the copy
		}
		return err
	}
	err = m.become(target)
	if err == nil {
		err = target.tidy()
	} // after an error of become, either of the two may be the log, and both stay
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return nil
}

// destination is where the log goes.
type destination interface {
	// needs returns the place of the copy, how many bytes the copy may need there, and how many bytes are free there.
	needs() (where string, bytes, free int64, err error)
	// append copies entries. The copied entries are not part of any log yet.
	append(after raft.EntryID, entries []raft.Entry) error
	// finish makes the copy durable, and returns the log that a start would find in the copy.
	finish() (raft.StoredLog, error)
	// record makes the copy the log. The copy replaces the former log.
	record(tx *bbolt.Tx) error
	// format returns the format of the store after the move.
	format() uint64
	// tidy removes the former log.
	tidy() error
	close() error
}

// checkRoom returns an error if the copy may not fit. The member could not use a copy that fills the disk, either.
func (m *migration) checkRoom(where string, bytes, free int64, err error) error {
	if err != nil || bytes <= free { // if the file system does not report its free room, the copy is tried
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
		err = fmt.Errorf("storage: the copy of the log of %s differs from the log: the copy ends with entry %v, the log with %v; nothing was moved",
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
