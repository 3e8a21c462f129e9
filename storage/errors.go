package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/coxswain/raft"
)

var (
	// ErrDiskFull is matched by the error of a store if its disk or quota is full. Earlier writes are safe. Make room, then
	// start the member again.
	ErrDiskFull = errors.New("storage: no space left on the disk: make room and start again: see docs/runbook.md#no-room")
	// ErrNotWritable is matched by the error of opening a store on a read-only file system, or without permission to write.
	// The call has changed nothing. Mount the file system writable, or correct the permissions.
	ErrNotWritable = errors.New("storage: data directory is not writable: check the mount and the permissions")
	// ErrOtherLog is matched by the error of opening a store of the other kind. OpenBolt opens only a store that keeps its
	// entries in the bbolt file. OpenLog opens only a store that keeps its entries in segments. The call has changed nothing.
	// Use Open, which opens either kind.
	ErrOtherLog = errors.New("storage: the store keeps its entries in another way: open it with storage.Open")
	// ErrUnfinished is matched by the error of a Migrate that failed in or after the step that makes the copy the log. Call
	// Migrate again. It moves the log, or finds that the log has moved, and removes the left-overs. You may also start the
	// member first.
	ErrUnfinished = errors.New("storage: the log may have been moved: repeat that to be sure")
	// ErrStoreClosed is matched by the errors of a store that is closed.
	ErrStoreClosed = errors.New("storage: store is closed")
)

// InTheWayError is returned by Migrate if the directory for the segments holds a file of another store. Migrate does not
// remove the file, because another member may need it. Move the file away.
type InTheWayError struct {
	File   string
	Reason error
}

func (e *InTheWayError) Error() string {
	return fmt.Sprintf("storage: %s is no part of this store (%v): move it out of that directory", e.File, e.Reason)
}

func (e *InTheWayError) Unwrap() error { return e.Reason }

// ForeignFileError is returned by Open, OpenBolt, OpenLog and Migrate if raft.db is a bbolt file of another program, such as
// hashicorp's raft-boltdb. The file is not damaged, and the call has changed nothing. Give the member another directory. If
// nobody needs the file, you may move it away instead.
type ForeignFileError struct {
	File   string
	Reason error // what shows that the file is foreign
}

func (e *ForeignFileError) Error() string {
	return fmt.Sprintf("storage: another program has written %s (%v): give the member another directory, or move that file away", e.File, e.Reason)
}

func (e *ForeignFileError) Unwrap() error { return e.Reason }

// InUseError is returned if another process has the store open. It matches raft.ErrLocked. The call has changed nothing. End that
// process, or name another directory.
type InUseError struct {
	File    string // that is locked
	Process int    // id of the process that has the file open; 0: not known
	Command string // its name; "": not known
	Err     error
}

func (e *InUseError) Error() string {
	if e.Process == 0 {
		return fmt.Sprintf("%v: %v", raft.ErrLocked, e.Err)
	}
	return fmt.Sprintf("%v: %s is open in process %d (%s)", raft.ErrLocked, e.File, e.Process, e.Command)
}

func (e *InUseError) Unwrap() []error { return []error{raft.ErrLocked, e.Err} }

// inUse names the process that has the store open, if the system tells. Only Linux does, and only of processes that this user
// may examine.
func inUse(doing, path string, err error) error {
	e := &InUseError{File: path, Err: fmt.Errorf("%s %s: %w", doing, path, err)}
	locked, statErr := os.Stat(path)
	open, globErr := filepath.Glob("/proc/[0-9]*/fd/*")
	if statErr != nil || globErr != nil {
		return e
	}
	for _, link := range open {
		if file, err := os.Stat(link); err != nil || !os.SameFile(file, locked) {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		if id, err := strconv.Atoi(filepath.Base(process)); err == nil {
			name, _ := os.ReadFile(filepath.Join(process, "comm")) // it may have ended meanwhile
			e.Process, e.Command = id, strings.TrimSpace(string(name))
			return e
		}
	}
	return e
}

// NoStoreError is returned by Inspect, Entries, Verify and Recover if there is no store in the directory. It matches
// fs.ErrNotExist. Name the directory of a member, with raft.db in it.
type NoStoreError struct {
	Dir    string
	Reason string // what is there instead
}

func (e *NoStoreError) Error() string {
	return fmt.Sprintf("storage: there is no store in %q: %s", e.Dir, e.Reason)
}

func (e *NoStoreError) Unwrap() error { return fs.ErrNotExist }

// explain wraps an error of bbolt or of the file system with the operation and the path. If an operator can help, explain
// also wraps the error that says how.
func explain(doing, path string, err error) error {
	var remedy error
	switch {
	case errors.Is(err, bolterrors.ErrTimeout) || errors.Is(err, raft.ErrLocked):
		return inUse(doing, path, err)
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

// isDiskFull reports whether the error says that the disk or a quota is full. It also checks the text, because bbolt keeps
// only the text of an error that occurs while it grows its file.
func isDiskFull(err error) bool {
	const errorDiskFull = syscall.Errno(112) // Windows: ERROR_DISK_FULL
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error()) ||
		runtime.GOOS == "windows" && errors.Is(err, errorDiskFull)
}

// damaged returns a *raft.CorruptError for stored bytes that differ from the bytes that were written there. If another
// release wrote the bytes, damaged returns the version error in reason instead, with the name of the file.
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
