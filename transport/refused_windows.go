package transport

import "syscall"

// connRefused is WSAECONNREFUSED, what a dial returns when the host answers and nobody listens;
// syscall.ECONNREFUSED is an invented number on Windows, which no call returns.
const connRefused = syscall.Errno(10061)
