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
	// ErrDiskFull is matched by the error of a store whose disk or quota is full. Earlier writes are not lost: make room, then
	// start the member again.
	ErrDiskFull = errors.New("storage: no space left on the disk: make room and start again")
	// ErrNotWritable is matched by the error of opening a store on a read-only file system, or without
	// permission to write there. Nothing was changed: mount it writable, or correct the permissions.
	ErrNotWritable = errors.New("storage: data directory is not writable: check the mount and the permissions")
	// ErrOtherLog is matched by the error of opening a store of the other kind: OpenBolt only opens a store that keeps its entries
	// in the bbolt file, OpenLog only one that keeps them in segments. Nothing was changed: use Open, which opens either kind.
	ErrOtherLog = errors.New("storage: the store keeps its entries in another way: open it with storage.Open")
	// ErrUnfinished is matched by the error of a Migrate that failed while the copy became the log, or later. Call Migrate again:
	// it moves the log, or finds that the log was moved, and removes the left-overs. The member may also be started before that.
	ErrUnfinished = errors.New("storage: the log may have been moved: repeat that to be sure")
	// ErrStoreClosed is matched by the errors of a store that is closed.
	ErrStoreClosed = errors.New("storage: store is closed")
)

// InTheWayError is returned by Migrate if the directory for the segments holds a file of another store. Another member may need
// that file, so Migrate does not remove it: move it away.
type InTheWayError struct {
	File   string
	Reason error
}

func (e *InTheWayError) Error() string {
	return fmt.Sprintf("storage: %s is no part of this store (%v): move it out of that directory", e.File, e.Reason)
}

func (e *InTheWayError) Unwrap() error { return e.Reason }

// ForeignFileError is returned by Open, OpenBolt, OpenLog and Migrate if raft.db is a bbolt file of another program, such as
// hashicorp's raft-boltdb. The file is not damaged, and nothing was changed: give the member another directory or, if nobody
// needs that file, move it away.
type ForeignFileError struct {
	File   string
	Reason error // what shows that the file is foreign
}

func (e *ForeignFileError) Error() string {
	return fmt.Sprintf("storage: another program has written %s (%v): give the member another directory, or move that file away", e.File, e.Reason)
}

func (e *ForeignFileError) Unwrap() error { return e.Reason }

// explain wraps an error of bbolt or of the file system with the operation and the path. Where an operator can help, it also
// wraps the error that says how.
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

// isDiskFull also checks the text: of an error that occurs while bbolt grows its file, bbolt keeps only the text.
func isDiskFull(err error) bool {
	const errorDiskFull = syscall.Errno(112) // Windows: ERROR_DISK_FULL
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error()) ||
		runtime.GOOS == "windows" && errors.Is(err, errorDiskFull)
}

// damaged returns a *raft.CorruptError for stored bytes that are not what was written there. If another release wrote them,
// it returns the version error in reason, with the name of the file.
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
