package storage

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/coxswain/raft"
)

// lockName is the file that a process locks as long as it uses a store, before it locks raft.db. It stays when the store is set
// aside, so that no process makes a new store meanwhile. It is empty, and is never removed: another process may wait for it.
const lockName = "raft.lock"

// lockEvery is how often a lock that another process holds is tried again.
const lockEvery = 20 * time.Millisecond

// lockDir keeps other processes from the store in dir, whether there is one or not, until unlock is called. It waits so long for
// another process to release it.
func lockDir(dir string, wait time.Duration) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, filePermissions)
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
