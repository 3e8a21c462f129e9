//go:build unix

package local

import (
	"os"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
