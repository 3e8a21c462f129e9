//go:build solaris || aix || android

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/coxswain/raft"
)

// tryLock locks the file until it is closed. The error matches raft.ErrLocked if another process has locked it.
func tryLock(file *os.File) error {
	err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return raft.ErrLocked
	}
	return err
}
