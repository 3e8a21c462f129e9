//go:build !linux

package transport

import "net"

// hasten does nothing on systems where the retransmission timer of a connection cannot be set.
func hasten(net.Conn) {}
