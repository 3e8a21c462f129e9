//go:build unix && !linux

package local

import "syscall"

// detached keeps Ctrl-C of the terminal from the child.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
