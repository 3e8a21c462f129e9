//go:build !unix || solaris || aix || android

package storage

import (
	"errors"
	"os"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockFile returns an error if a process has the file open. It does not keep other processes out afterwards. On Windows it
// need not, because an open file cannot be moved.
func lockFile(path string) (unlock func(), err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, filePermissions, &bbolt.Options{ReadOnly: true, Timeout: time.Millisecond})
	if err == nil {
		return func() {}, db.Close()
	}
	var errno syscall.Errno
	if errors.Is(err, bolterrors.ErrTimeout) || errors.As(err, &errno) {
		return nil, err
	}
	return func() {}, nil // the file is damaged, and nobody can open it
}
