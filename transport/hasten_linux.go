package transport

import (
	"net"
	"syscall"
	"time"
)

// Options of TCP that package syscall does not name.
const (
	tcpThinLinearTimeouts = 16
	tcpRTOMaxMS           = 44 // since Linux 6.15, like those below
	tcpRTOMinUS           = 45
	tcpDelackMaxUS        = 46
)

const (
	retransmitMin = 20 * time.Millisecond // beyond the round trip and its spread; the system's is 200 ms
	retransmitMax = time.Second           // the least that can be chosen; the system's is 120 s
	ackDelayMax   = 5 * time.Millisecond  // well below retransmitMin, or what was late would be sent again
)

// hasten has the system repeat lost packets soon. A heartbeat is one small packet every third of an
// election timeout: when one is lost, TCP mostly has to wait for its timer, and everything behind that
// packet waits with it. The timer's default is longer than an election timeout, and doubles each time.
// With a fifth of all packets lost this makes the difference between a leader every second and one that
// stays. What a system does not know, or a connection that is not TCP, is left as it is.
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
	}) // the connection is closed already
}
