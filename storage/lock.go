package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
)

// lockName is the file that a process locks as long as it uses a store. The process locks this file before it locks raft.db.
// SetAside leaves the file in its place, so that no process creates a new store during the move. The file is empty. Nobody
// ever removes it, because another process may be waiting for the lock.
const lockName = "raft.lock"

// lockPermissions let a process of another user lock the file, too. The file has no content to read.
const lockPermissions = 0o644

// lockEvery is the time between two attempts to get a lock that another process holds.
const lockEvery = 20 * time.Millisecond

// lockDir keeps other processes from using or creating a store in dir, until the caller calls unlock. It waits up to the
// given time for another process to release the lock.
func lockDir(dir string, wait time.Duration) (unlock func(), err error) {
	name := filepath.Join(dir, lockName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, lockPermissions)
	if errors.Is(err, fs.ErrPermission) { // another user created it, such as root during a repair
		file, err = os.Open(name)
	}
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(wait); ; time.Sleep(min(lockEvery, wait)) {
		if err = tryLock(file); !errors.Is(err, raft.ErrLocked) || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
