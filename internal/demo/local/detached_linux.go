package local

import "syscall"

// detached returns attributes that shield the child from Ctrl-C in the terminal, and kill it when its parent ends.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
