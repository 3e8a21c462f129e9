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

// running reports whether there is a process with that id, even another user's.
func running(pid int) bool {
	if pid <= 0 {
		return false // it would name a group of processes
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
