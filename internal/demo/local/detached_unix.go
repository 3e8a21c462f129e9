//go:build unix && !linux

package local

import "syscall"

// detached returns attributes that shield the child from Ctrl-C in the terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
