//go:build unix

package client

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkPrivate returns an error if other users may write to the directory.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only this user can write to", dir)
	}
	return nil
}

// running reports whether a process with this id exists, even if it belongs to another user.
func running(pid int) bool {
	if pid <= 0 {
		return false // such a number names a group of processes
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
