//go:build !unix

package client

import "os"

// checkPrivate checks nothing, because each user has a temporary directory of their own on these systems.
func checkPrivate(string) error { return nil }

// running reports whether there is a process with that id.
func running(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = process.Release() // its error does not matter
	return true
}
