package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"

	"github.com/coxswain/raft"
)

// tryLock locks the file until it is closed. The error matches raft.ErrLocked if another process has locked it.
func tryLock(file *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), how, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return raft.ErrLocked
	}
	return err
}
