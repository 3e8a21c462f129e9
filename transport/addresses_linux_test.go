package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
)

// blackHole makes an address that does not answer: its queue of connections is full, so that the system drops every packet.
func blackHole(t *testing.T, at netip.AddrPort) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	require.NoError(t, unix.Listen(fd, 0))
	for {
		conn, err := net.DialTimeout("tcp", at.String(), 100*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// hangs makes an address that accepts connections and never answers.
func hangs(t *testing.T, at netip.AddrPort) {
	l, err := net.Listen("tcp", at.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // also closes what it has not accepted
}

// Only one of the addresses of a name works, at each place in the order that the resolver returns.
func TestDialTCP_EachAddressOfANameIsTriedInTheEnd(t *testing.T) {
	for _, row := range []struct {
		rule string
		bad  func(*testing.T, netip.AddrPort)
	}{
		{"nobody listens at the others", func(*testing.T, netip.AddrPort) { /* nothing to do */ }},
		{"the others do not answer", blackHole},
		{"the others accept and hang", hangs},
	} {
		t.Run(row.rule, func(t *testing.T) {
			leaks.Check(t)
			peer, _ := listenAs(t, "c", Options{})
			good := peer.Addr().(*net.TCPAddr).AddrPort()
			all := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), good.Addr()}
			for _, other := range all[:2] {
				row.bad(t, netip.AddrPortFrom(other, good.Port()))
			}
			tcp, r := listenAs(t, "b", Options{HandshakeTimeout: 300 * time.Millisecond, RedialMin: time.Millisecond, RedialMax: time.Millisecond})
			tcp.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return all, nil }
			address := fmt.Sprintf("c.test:%d", good.Port())
			tcp.Connect([]raft.Contact{{Member: raft.Member{ID: "c"}, Addresses: []string{address}}})
			r.AwaitUp(t, "c")
		})
	}
}

// A dial is refused only if each address of the name refuses it.
func TestDialTCP_IsRefusedByAllAddressesOrNot(t *testing.T) {
	leaks.Check(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	port := free.Addr().(*net.TCPAddr).AddrPort().Port()
	silent, refusing, other := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.4")
	blackHole(t, netip.AddrPortFrom(silent, port))
	tcp, _ := listenAs(t, "b", Options{})
	for _, row := range []struct {
		all     []netip.Addr
		refused bool
	}{
		{[]netip.Addr{refusing, other}, true},
		{[]netip.Addr{silent, refusing}, false},
		{[]netip.Addr{refusing, silent}, false},
	} {
		tcp.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return row.all, nil }
		limit := 50 * time.Millisecond // for the silent one
		if row.refused {
			limit = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := tcp.dialTCP(ctx, fmt.Sprintf("c.test:%d", port))
		cancel()
		require.Error(t, err)
		require.Equal(t, row.refused, nobodyListens(err), "%v: %v", row.all, err)
	}
}
