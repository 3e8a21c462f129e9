package testnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Switch connects hosts. A host is a network namespace with an address of its own; number 0 is this process. Its methods, but
// those of Links, are called from one goroutine.
type Switch struct {
	Links
	devices []*os.File
}

// HostAddress returns the address of a host, without a port.
func HostAddress(host int) string { return fmt.Sprintf("10.9.0.%d", host+1) }

// OpenSwitch creates the switch in the network namespace of this process, which becomes host 0.
func OpenSwitch() (*Switch, error) {
	if err := raise("lo"); err != nil {
		return nil, fmt.Errorf("testnet: loopback: %w", err)
	}
	s := &Switch{}
	return s, s.connect(0, func(device string) error { return configure(device, [4]byte{10, 9, 0, 1}, [4]byte{255, 255, 255, 0}) })
}

// Connect makes the network namespace of a process a host.
func (s *Switch) Connect(host, pid int) error {
	return s.connect(host, func(device string) error {
		inside := fmt.Sprintf("nsenter --net=/proc/%d/ns/net ip ", pid)
		for _, command := range []string{
			"ip link set " + device + " netns " + strconv.Itoa(pid),
			inside + "link set lo up",
			inside + "addr add " + HostAddress(host) + "/24 dev " + device,
			inside + "link set " + device + " up",
		} {
			words := strings.Fields(command)
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, out)
			}
		}
		return nil
	})
}

// connect creates the device of a host, which place puts where the host is.
func (s *Switch) connect(host int, place func(device string) error) error {
	if host < 0 || host >= MembersMax {
		return fmt.Errorf("testnet: host %d: there can be %d", host, MembersMax)
	}
	name := "host" + strconv.Itoa(host)
	device, err := openDevice(name)
	if err == nil {
		if err = place(name); err != nil {
			err = errors.Join(err, device.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("testnet: the network of host %d: %w", host, err)
	}
	s.devices = append(s.devices, device)
	s.leadTo(host, device)
	s.readers.Go(func() {
		read(device, func(p []byte) {
			if to, ok := hostOf(p); ok {
				s.forward(host, to, p)
			}
		})
	})
	return nil
}

// hostOf returns the host to which a packet goes.
func hostOf(p []byte) (host int, ok bool) {
	if len(p) < packetBytesMin || p[0]>>4 != 4 {
		return 0, false
	}
	d := p[addressesAt+addressBytes:]
	host = int(d[3]) - 1
	return host, d[0] == 10 && d[1] == 9 && d[2] == 0 && host >= 0 && host < MembersMax
}

// Close ends the network.
func (s *Switch) Close() error {
	var err error
	for _, device := range s.devices {
		err = errors.Join(err, device.Close())
	}
	s.close()
	return err
}
