//go:build unix

package client

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// checkPrivate returns why the directory may have been written to by others.
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

// running reports whether there is a process of that id, be it another user's.
func running(pid int) bool {
	if pid <= 0 {
		return false // a group of processes
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
