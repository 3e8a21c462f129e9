package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/coxswain/raft"
)

var (
	// ErrDiskFull is matched by the error of a store whose disk, or quota, has no room left. Nothing
	// that was written before is lost: make room, then start the member again.
	ErrDiskFull = errors.New("storage: no space left on the disk: make room and start again")
	// ErrNotWritable is matched by the error of opening a store on a read-only file system, or without
	// permission to write there. Nothing was changed: mount it writable, or correct the permissions.
	ErrNotWritable = errors.New("storage: data directory is not writable: check the mount and the permissions")
	// ErrOtherLog is matched by the error of opening a store that keeps its entries in another way: OpenBolt in the bbolt
	// file, OpenLog in segments. Open takes either. Nothing was changed.
	ErrOtherLog = errors.New("storage: the store keeps its entries in another way: open it with storage.Open")
	// ErrUnfinished is matched by the error of a Migrate that failed when the copy was to become the log, or later. Call it again:
	// it moves the log, or finds that it was moved, and removes what is left over. A member may also be started before that.
	ErrUnfinished = errors.New("storage: the log may have been moved: repeat that to be sure")
	// ErrStoreClosed is matched by the errors of a store that is closed.
	ErrStoreClosed = errors.New("storage: store is closed")
)

// InTheWayError is returned by Migrate if there is a file where the segments are to be which is not of this store. It may hold what
// another member needs, so nothing is removed: move it away.
type InTheWayError struct {
	File   string
	Reason error
}

func (e *InTheWayError) Error() string {
	return fmt.Sprintf("storage: %s is no part of this store (%v): move it out of that directory", e.File, e.Reason)
}

func (e *InTheWayError) Unwrap() error { return e.Reason }

// ForeignFileError is returned by Open, OpenBolt, OpenLog and Migrate if the file in the place of raft.db is one of bbolt that another
// program has written, such as hashicorp's raft-boltdb. It is not damaged, and nothing was changed: give the member a directory of its
// own or, if nobody needs that file, move it away.
type ForeignFileError struct {
	File   string
	Reason error // how that shows
}

func (e *ForeignFileError) Error() string {
	return fmt.Sprintf("storage: another program has written %s (%v): give the member another directory, or move that file away", e.File, e.Reason)
}

func (e *ForeignFileError) Unwrap() error { return e.Reason }

// explain wraps an error of bbolt or of the file system with the operation and the path and, where the operator
// can help, with the error that says how.
func explain(doing, path string, err error) error {
	var remedy error
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		remedy = raft.ErrLocked
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("%w: %s %s", ErrStoreClosed, doing, path)
	case isDiskFull(err):
		remedy = ErrDiskFull
	case errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission):
		remedy = ErrNotWritable
	default:
		return withRemedy(fmt.Errorf("storage: %s %s: %w", doing, path, err))
	}
	return fmt.Errorf("%w: %s %s: %w", remedy, doing, path, err)
}

// isDiskFull also checks the text, because that is all that bbolt keeps of an error that occurred while it grew
// its file.
func isDiskFull(err error) bool {
	const errorDiskFull = syscall.Errno(112) // Windows: ERROR_DISK_FULL
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error()) ||
		runtime.GOOS == "windows" && errors.Is(err, errorDiskFull)
}

// damaged returns the error for stored bytes that are not what was written there; if another release wrote
// them, it is that release's version error.
func damaged(path, where string, reason error) error {
	var later *raft.LaterVersionError
	var earlier *raft.EarlierVersionError
	switch {
	case errors.As(reason, &later):
		named := *later
		named.File = path
		return &named
	case errors.As(reason, &earlier):
		named := *earlier
		named.File = path
		return &named
	}
	return &raft.CorruptError{File: path, Where: where, Reason: reason}
}
