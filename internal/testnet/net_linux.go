package testnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	addressesAt    = 12 // the offset of the source and destination addresses in an IPv4 packet
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
	Links
	device *os.File
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
	if err := configure("tun0", [4]byte{10, 8, 0, 1}, [4]byte{255, 0, 0, 0}); err != nil {
		return nil, errors.Join(fmt.Errorf("testnet: TUN device: %w", err), device.Close())
	}
	chooseCongestionControl()
	n := &Net{device: device}
	for to := range MembersMax {
		n.leadTo(to, device)
	}
	n.readers.Go(n.read)
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

// Close ends the network.
func (n *Net) Close() error {
	err := n.device.Close()
	n.close()
	return err
}

// read reads packets from the device until it is closed.
func (n *Net) read() {
	read(n.device, func(p []byte) {
		if from, to, ok := ends(p); ok {
			exchange(p)
			n.forward(from, to, p)
		}
	})
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

// exchange swaps the source and the destination addresses.
func exchange(p []byte) {
	source, destination := p[addressesAt:addressesAt+addressBytes], p[addressesAt+addressBytes:addressesAt+2*addressBytes]
	for i := range source {
		source[i], destination[i] = destination[i], source[i]
	}
}

// openDevice creates a TUN device.
func openDevice(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// configure gives a device an address, and routes its network to it.
func configure(name string, address, mask [4]byte) error {
	return errors.Join(assign(name, unix.SIOCSIFADDR, address), assign(name, unix.SIOCSIFNETMASK, mask), raise(name))
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
