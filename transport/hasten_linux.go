package transport

import (
	"net"
	"syscall"
	"time"
)

// TCP options that package syscall does not name.
const (
	tcpThinLinearTimeouts = 16
	tcpRTOMaxMS           = 44 // this and the following options: since Linux 6.15
	tcpRTOMinUS           = 45
	tcpDelackMaxUS        = 46
)

const (
	retransmitMin = 20 * time.Millisecond // longer than a round trip and its variance; the system's default is 200 ms
	retransmitMax = time.Second           // the smallest value that Linux accepts; the system's default is 120 s
	ackDelayMax   = 5 * time.Millisecond  // well below retransmitMin: a delayed ack must not cause a retransmission
)

// hasten makes the system retransmit lost packets sooner. A heartbeat is one small packet every third of an election timeout.
// If the packet is lost, TCP usually waits for its retransmission timer, and everything that is sent later waits, too. By
// default the timer exceeds an election timeout, and doubles each time. If a fifth of all packets is lost, the cluster has a
// new leader every second without hasten, and a stable leader with it. hasten skips options that the kernel does not know,
// and connections other than TCP.
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
