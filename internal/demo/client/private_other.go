//go:build !unix

package client

import "os"

// checkPrivate checks nothing, because on these systems each user has a private temporary directory.
func checkPrivate(string) error { return nil }

// running reports whether a process with this id exists.
func running(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = process.Release() // its error does not matter
	return true
}
