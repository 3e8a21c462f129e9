package node_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/node"
	"github.com/coxswain/raft/storage"
	"github.com/coxswain/raft/transport"
)

// issuer issues certificates.
type issuer struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return issuer{t, key, cert}
}

// issue returns the TLS configuration of the member with the given id.
func (i issuer) issue(id raft.NodeID) *tls.Config {
	i.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{transport.IdentityURI("test", id)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(i.t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, &key.PublicKey, i.key)
	require.NoError(i.t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(i.cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: trusted}
}

// alone starts a cluster of one on real connections, and returns it once it leads.
func alone(t *testing.T, o transport.Options) (*node.Node, *transport.TCP) {
	t.Helper()
	wire, err := transport.Listen("127.0.0.1:0", o)
	require.NoError(t, err)
	cfg := node.Config{ID: "n1", Cluster: "test", Initial: []raft.Member{{ID: "n1", Address: wire.Addr().String()}}}
	n, err := node.Start(t.Context(), cfg, newJournal(), storage.NewMemory(), wire)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	require.NoError(t, n.Ready(t.Context()))
	propose(t, n, "first")
	return n, wire
}

// accepting handles the connections of a listener one after another, until the test ends.
func accepting(t *testing.T, l net.Listener, handle func(net.Conn)) string {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			handle(c)
		}
	}()
	return l.Addr().String()
}

func isSilent(t *testing.T, l net.Listener) string { return accepting(t, l, func(net.Conn) {}) }

// wanting starts the member n9 on the listener. n9 waits to be added.
func wanting(t *testing.T, l net.Listener, o transport.Options) string {
	t.Helper()
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	wire, err := transport.New(l, dial, o)
	require.NoError(t, err)
	n, err := node.Start(t.Context(), node.Config{ID: "n9", Cluster: "test"}, newJournal(), storage.NewMemory(), wire)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	return l.Addr().String()
}

// If the process at the address is not the joining member, the leader appends nothing.
func TestChange_AProcessThatIsNoMemberIsNotAppended(t *testing.T) {
	mine, foreign := newIssuer(t), newIssuer(t)
	const short, long = 200 * time.Millisecond, time.Minute
	for _, row := range []struct {
		what    string
		secured bool
		within  time.Duration // of a handshake
		listen  func(t *testing.T, l net.Listener) string
		says    string
	}{
		{"nobody", false, long, func(_ *testing.T, l net.Listener) string { _ = l.Close(); return l.Addr().String() }, "refused"},
		{"a black hole", false, short, isSilent, "i/o timeout"},
		{"a web server", false, long, func(t *testing.T, l net.Listener) string {
			return accepting(t, l, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
		}, "a handshake does not begin with"},
		{"a black hole, with TLS", true, short, isSilent, "i/o timeout"},
		{"a certificate of another authority", true, long, func(t *testing.T, l net.Listener) string {
			return wanting(t, l, transport.Options{TLS: foreign.issue("n9")})
		}, "certificate signed by unknown authority"},
		{"the certificate of another member", true, long, func(t *testing.T, l net.Listener) string {
			return wanting(t, l, transport.Options{TLS: mine.issue("n8")})
		}, "raft://test/n9"},
		{"no certificate", true, long, func(t *testing.T, l net.Listener) string { return wanting(t, l, transport.Options{}) }, "TLS"},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			o := transport.Options{HandshakeTimeout: row.within}
			if row.secured {
				o.TLS = mine.issue("n1")
			}
			n, wire := alone(t, o)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			n9 := raft.Member{ID: "n9", Address: row.listen(t, l)}
			call := func(ctx context.Context, n *node.Node) (node.Members, error) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() { // ends the wait for contact, which would take five seconds
					for wire.Peer(raft.Peer{ID: "n9"}).Err == nil && ctx.Err() == nil {
						<-time.After(10 * time.Millisecond)
					}
					cancel()
				}()
				return adds(n9)(ctx, n)
			}
			e := refused[*node.UnreachableError](t, n, call, row.says)
			assert.Equal(t, []any{n9.ID, n9.Address}, []any{e.ID, e.Address})
			assert.Len(t, n.Members().Members, 1)
		})
	}
}
