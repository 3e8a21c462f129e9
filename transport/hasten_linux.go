package transport

import (
	"net"
	"syscall"
	"time"
)

// Options of TCP that package syscall does not name.
const (
	tcpThinLinearTimeouts = 16
	tcpRTOMaxMS           = 44 // this and the ones below: since Linux 6.15
	tcpRTOMinUS           = 45
	tcpDelackMaxUS        = 46
)

const (
	retransmitMin = 20 * time.Millisecond // beyond the round trip and its spread; the system's is 200 ms
	retransmitMax = time.Second           // the smallest value that Linux accepts; the system's is 120 s
	ackDelayMax   = 5 * time.Millisecond  // well below retransmitMin: a delayed ack must not cause a retransmission
)

// hasten makes the system retransmit lost packets sooner. A heartbeat is one small packet every third of an
// election timeout: when one is lost, TCP usually has to wait for its timer, and everything sent after that
// packet waits with it. The timer's default is longer than an election timeout, and doubles each time. With a
// fifth of all packets lost, this is the difference between a new leader every second and a stable one.
// Options that the kernel does not know, and connections other than TCP, are skipped.
func hasten(conn net.Conn) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for _, option := range [...]struct{ name, value int }{
			{tcpThinLinearTimeouts, 1},
			{tcpRTOMinUS, int(retransmitMin.Microseconds())},
			{tcpRTOMaxMS, int(retransmitMax.Milliseconds())},
			{tcpDelackMaxUS, int(ackDelayMax.Microseconds())},
		} {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, option.name, option.value)
		}
	}) // it fails if the connection is closed already
}
