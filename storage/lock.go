package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
)

// lockName is the file that a process locks as long as it uses a store, before it locks raft.db. It stays when the store is set
// aside, so that no process makes a new store meanwhile. It is empty, and is never removed: another process may wait for it.
const lockName = "raft.lock"

// lockPermissions let a process of another user lock the file as well. There is nothing to read.
const lockPermissions = 0o644

// lockEvery is how often a lock that another process holds is tried again.
const lockEvery = 20 * time.Millisecond

// lockDir keeps other processes from the store in dir, whether there is one or not, until unlock is called. It waits so long for
// another process to release it.
func lockDir(dir string, wait time.Duration) (unlock func(), err error) {
	name := filepath.Join(dir, lockName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, lockPermissions)
	if errors.Is(err, fs.ErrPermission) { // another user has made it, such as root on a day of repairs
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
