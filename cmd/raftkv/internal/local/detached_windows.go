package local

import "syscall"

// detached keeps Ctrl-C of the console from the child.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
