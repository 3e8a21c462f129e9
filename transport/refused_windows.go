package transport

import "syscall"

// connRefused is WSAECONNREFUSED, the error of a dial if the host answers but nobody listens. On Windows,
// syscall.ECONNREFUSED is an invented number that no call returns.
const connRefused = syscall.Errno(10061)

// connReset is WSAECONNRESET, the error of a connection that the other side reset.
const connReset = syscall.WSAECONNRESET
