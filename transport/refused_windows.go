package transport

import "syscall"

// connRefused is WSAECONNREFUSED, which a dial returns when the host answers but nobody listens. On Windows
// syscall.ECONNREFUSED is an invented number that no call returns.
const connRefused = syscall.Errno(10061)
