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
	packetBytesMax = 1500 // also the device's
	queueMax       = 8192 // packets that are on the way from one member to another; more are lost
	addressesAt    = 12   // where an IPv4 packet has its source and its destination
	addressBytes   = 4
	packetBytesMin = 20 + 4 // the ports of TCP included

	congestionControl = "/proc/sys/net/ipv4/tcp_congestion_control"
)

// Net is the network between the members. Its methods may be called from any goroutine.
//
// A packet to 10.9.from.to leaves through the TUN device, is read here, and comes back with source and
// destination exchanged: for the kernel it has arrived at the home address from 10.9.from.to. The answer
// takes the same way. An exchange changes no checksum.
type Net struct {
	device *os.File
	tasks  sync.WaitGroup

	mu    sync.Mutex
	links [MembersMax][MembersMax]Link
	ways  [MembersMax][MembersMax]chan packet
	lost  int
}

// packet is one on its way.
type packet struct {
	bytes []byte
	due   time.Time
}

// Open makes the network of the namespace that this process runs in.
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

// chooseCongestionControl takes what most machines run, or what resembles it most: a namespace may not
// choose everything, and keeps what it has if it may choose neither.
func chooseCongestionControl() {
	for _, algorithm := range []string{"cubic", "reno"} {
		if os.WriteFile(congestionControl, []byte(algorithm), 0) == nil {
			return
		}
	}
}

// CongestionControl is the algorithm of the members' TCP.
func (n *Net) CongestionControl() string {
	algorithm, err := os.ReadFile(congestionControl)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(algorithm))
}

// Treat changes what happens to the packets from one member to another.
func (n *Net) Treat(from, to int, how Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[from][to] = how
}

// Lost is how many packets have been lost on purpose.
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

// read takes the packets off the device until it is closed.
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

// ends returns who sends a packet and to whom.
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
	if binary.BigEndian.Uint16(p[head+2:]) >= ephemeralMin { // an answer: to the one who has dialed
		from, to = to, from
	}
	return from, to, true
}

// forward loses the packet, or sends it on its way back to the device.
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

// exchange makes the source the destination and the other way round.
func exchange(p []byte) {
	source, destination := p[addressesAt:addressesAt+addressBytes], p[addressesAt+addressBytes:addressesAt+2*addressBytes]
	for i := range source {
		source[i], destination[i] = destination[i], source[i]
	}
}

// deliver writes the packets of one way, each when it is due.
func (n *Net) deliver(way <-chan packet) {
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		_, _ = n.device.Write(p.bytes) // the kernel has no room, or it is closed: lost
	}
}

// openDevice makes a TUN device that holds the home address, and everything that begins with 10.
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

// raise turns an interface on.
func raise(name string) error {
	return control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	})
}
