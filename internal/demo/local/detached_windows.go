package local

import "syscall"

// detached returns attributes that shield the child from Ctrl-C in the console.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
