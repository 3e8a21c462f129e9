package storage

import (
	"errors"
	"io/fs"
	"time"

	"github.com/coxswain/raft"
)

// Kind says where a store keeps the entries of the log.
type Kind string

// The kinds of stores on the disk.
const (
	KindBolt     Kind = "bbolt"    // a Bolt
	KindSegments Kind = "segments" // a Log
)

// Options tunes a store of either kind. The zero value is good.
type Options struct {
	// New is the kind of a store that Open creates. Empty means KindSegments. If there is a store already, it keeps its kind,
	// and only Migrate changes the kind.
	New Kind
	// LockWait is how long Open waits for another process to release the store. 0 means 1 s.
	LockWait time.Duration
	// SegmentBytes is as in LogOptions.
	SegmentBytes int64
}

// Open opens a store of either kind in dir. If there is none, Open creates an uninitialized store. Its errors are those of
// OpenBolt and OpenLog.
func Open(dir string, opts Options) (raft.SnapshotStorage, error) {
	kind := opts.New
	if kind == "" {
		kind = KindSegments
	}
	if err := kind.check(); err != nil {
		return nil, err
	}
	for _, is := range []Kind{KindBolt, KindSegments} {
		store, err := openAs(is, dir, opts, toChange)
		if !errors.Is(err, ErrOtherLog) && !errors.Is(err, fs.ErrNotExist) {
			return store, err
		}
	}
	return openAs(kind, dir, opts, toCreate)
}

func openAs(kind Kind, dir string, opts Options, access access) (raft.SnapshotStorage, error) {
	if kind == KindBolt {
		b, err := OpenBolt(dir, BoltOptions{LockWait: opts.LockWait, access: access})
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	l, err := OpenLog(dir, LogOptions{LockWait: opts.LockWait, SegmentBytes: opts.SegmentBytes, access: access})
	if err != nil {
		return nil, err
	}
	return l, nil
}
