//go:build !unix

package client

import "os"

// checkPrivate has nothing to check where every user has a temporary directory of their own.
func checkPrivate(string) error { return nil }

// running reports whether there is a process of that id.
func running(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = process.Release() // nothing was done with it
	return true
}
