package testnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	packetBytesMax = 1500 // the device's default MTU
	queueMax       = 8192 // packets on the way from one member to another; more are lost
	addressesAt    = 12   // the offset of the source and destination addresses in an IPv4 packet
	addressBytes   = 4
	packetBytesMin = 20 + 4 // an IPv4 header and the TCP ports

	congestionControl = "/proc/sys/net/ipv4/tcp_congestion_control"
)

// Net is the network between the members. Its methods may be called from any goroutine.
//
// A packet to 10.9.from.to leaves through the TUN device. Net reads the packet, exchanges its source and destination, and
// writes it back. The kernel then sees a packet from 10.9.from.to that has arrived at the home address. The answer takes the
// same path. The exchange does not change any checksum.
type Net struct {
	device *os.File
	tasks  sync.WaitGroup

	mu    sync.Mutex
	links [MembersMax][MembersMax]Link
	ways  [MembersMax][MembersMax]chan packet
	lost  int
}

// packet is a packet on its way.
type packet struct {
	bytes []byte
	due   time.Time
}

// Open creates the network in the network namespace of this process.
func Open() (*Net, error) {
	if err := raise("lo"); err != nil {
		return nil, fmt.Errorf("testnet: loopback: %w", err)
	}
	device, err := openDevice("tun0")
	if err != nil {
		return nil, fmt.Errorf("testnet: TUN device: %w", err)
	}
	chooseCongestionControl()
	n := &Net{device: device}
	for from := range n.ways {
		for to := range n.ways[from] {
			way := make(chan packet, queueMax)
			n.ways[from][to] = way
			n.tasks.Go(func() { n.deliver(way) })
		}
	}
	n.tasks.Go(n.read)
	return n, nil
}

// chooseCongestionControl selects cubic, which most machines use. If the namespace may not select cubic, the function selects
// reno, which is the most similar one. If the namespace may select neither, it keeps its default.
func chooseCongestionControl() {
	for _, algorithm := range []string{"cubic", "reno"} {
		if os.WriteFile(congestionControl, []byte(algorithm), 0) == nil {
			return
		}
	}
}

// CongestionControl returns the congestion control algorithm of the members' TCP.
func (n *Net) CongestionControl() string {
	algorithm, err := os.ReadFile(congestionControl)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(algorithm))
}

// Treat sets what happens to the packets from one member to another.
func (n *Net) Treat(from, to int, how Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[from][to] = how
}

// Lost returns how many packets were dropped on purpose.
func (n *Net) Lost() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// Close ends the network.
func (n *Net) Close() error {
	err := n.device.Close()
	n.tasks.Wait()
	return err
}

// read reads packets from the device until it is closed.
func (n *Net) read() {
	defer func() {
		for from := range n.ways {
			for _, way := range n.ways[from] {
				close(way)
			}
		}
	}()
	buffer := make([]byte, packetBytesMax)
	for {
		size, err := n.device.Read(buffer)
		if err != nil {
			return
		}
		if from, to, ok := ends(buffer[:size]); ok {
			n.forward(from, to, append([]byte(nil), buffer[:size]...))
		}
	}
}

// ends returns the sender and the receiver of a packet.
func ends(p []byte) (from, to int, ok bool) {
	if len(p) < packetBytesMin || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return 0, 0, false
	}
	destination := p[addressesAt+addressBytes:]
	if destination[0] != 10 || destination[1] != 9 || destination[2] >= MembersMax || destination[3] >= MembersMax {
		return 0, 0, false
	}
	from, to = int(destination[2]), int(destination[3])
	head := int(p[0]&15) * 4
	if len(p) < head+4 {
		return 0, 0, false
	}
	if binary.BigEndian.Uint16(p[head+2:]) >= ephemeralMin { // an answer, to the member that dialed
		from, to = to, from
	}
	return from, to, true
}

// forward drops the packet, or queues it for its way back to the device.
func (n *Net) forward(from, to int, p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how := n.links[from][to]
	if rand.IntN(100) < how.Loss {
		n.lost++
		return
	}
	exchange(p)
	select {
	case n.ways[from][to] <- packet{p, time.Now().Add(how.Delay)}:
	default:
	}
}

// exchange swaps the source and the destination addresses.
func exchange(p []byte) {
	source, destination := p[addressesAt:addressesAt+addressBytes], p[addressesAt+addressBytes:addressesAt+2*addressBytes]
	for i := range source {
		source[i], destination[i] = destination[i], source[i]
	}
}

// deliver writes the packets of one link to the device, each when it is due.
func (n *Net) deliver(way <-chan packet) {
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		_, _ = n.device.Write(p.bytes) // on an error the packet is lost: the kernel has no room, or the device is closed
	}
}

// openDevice creates a TUN device with the home address. The kernel routes all addresses that begin with 10 to it.
func openDevice(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = configure(fd, name)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func configure(fd int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return err
	}
	return errors.Join(assign(name, unix.SIOCSIFADDR, [4]byte{10, 8, 0, 1}),
		assign(name, unix.SIOCSIFNETMASK, [4]byte{255, 0, 0, 0}), raise(name))
}

// control makes a request about an interface.
func control(name string, number uint, set func(*unix.Ifreq) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := set(request); err != nil {
		return err
	}
	return unix.IoctlIfreq(socket, number, request)
}

func assign(name string, number uint, address [4]byte) error {
	return control(name, number, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) })
}

// raise brings an interface up.
func raise(name string) error {
	return control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	})
}
