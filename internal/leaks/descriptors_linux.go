package leaks

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descriptors returns the open files and sockets. Devices and pipes are left out: the runtime opens some of them when they are
// first used, and keeps them.
func descriptors() map[string]string {
	const dir = "/proc/self/fd"
	all := map[string]string{}
	list, _ := os.ReadDir(dir) // without /proc nothing is counted
	for _, entry := range list {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		fd, _ := strconv.Atoi(entry.Name())
		isFile := strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/proc/")
		switch {
		case err != nil: // it was closed meanwhile
		case isFile:
			all[entry.Name()+target] = "open file: " + target
		case strings.HasPrefix(target, "socket:"):
			all[entry.Name()+target] = "open socket: " + ends(fd)
		}
	}
	return all
}

// ends returns the addresses of a socket.
func ends(fd int) string {
	local, _ := unix.Getsockname(fd)
	remote, _ := unix.Getpeername(fd)
	return fmt.Sprintf("from %s to %s", address(local), address(remote))
}

func address(at unix.Sockaddr) string {
	switch at := at.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr), uint16(at.Port)).String()
	case *unix.SockaddrUnix:
		return at.Name
	}
	return "nowhere"
}
