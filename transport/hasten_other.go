//go:build !linux

package transport

import "net"

// hasten does nothing where lost packets cannot be repeated sooner than the system likes.
func hasten(net.Conn) {}
