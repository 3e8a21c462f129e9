//go:build !windows

package transport

import "syscall"

// connRefused is what a dial returns when the host answers but nobody listens.
const connRefused = syscall.ECONNREFUSED
