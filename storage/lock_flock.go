//go:build unix && !solaris && !aix && !android

package storage

import (
	"errors"
	"os"
	"syscall"

	"github.com/coxswain/raft"
)

// lockFile locks the file as bbolt does. The lock keeps all other processes out until the caller calls unlock. Unlike bbolt,
// lockFile also locks a damaged file.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	err = tryLock(file)
	if err == nil {
		err = checkName(file, path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// tryLock locks the file until it is closed. The error matches raft.ErrLocked if another process has locked it.
func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return raft.ErrLocked
	}
	return err
}
