//go:build !windows

package transport

import "syscall"

// connRefused is the error of a dial if the host answers but nobody listens.
const connRefused = syscall.ECONNREFUSED

// connReset is the error of a connection that the other side reset.
const connReset = syscall.ECONNRESET
