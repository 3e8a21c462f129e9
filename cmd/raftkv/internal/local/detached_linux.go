package local

import "syscall"

// detached keeps Ctrl-C of the terminal from the child, and kills it when its parent ends.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
