package transport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/leaks"
	"github.com/coxswain/raft/transport"
	"github.com/coxswain/raft/transport/transporttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// authority issues certificates of members.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	leaks.Check(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{key: key, cert: cert, pool: pool}
}

// config returns the TLS configuration of a member. The member's certificate has these URIs.
func (a *authority) config(t *testing.T, uris ...*url.URL) *tls.Config {
	t.Helper()
	return a.configBetween(t, time.Time{}, time.Now().Add(time.Hour), uris...)
}

// configBetween does the same as config, with a certificate that is valid from `from` to `until`.
func (a *authority) configBetween(t *testing.T, from, until time.Time, uris ...*url.URL) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, URIs: uris,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: a.pool,
	}
}

func (a *authority) member(t *testing.T, cluster string, id raft.NodeID) transport.Options {
	t.Helper()
	return transport.Options{TLS: a.config(t, transport.IdentityURI(cluster, id))}
}

// tlsNetwork gives every member a certificate for all the ids that the suite uses.
type tlsNetwork struct {
	*tcpNetwork
	authority *authority
}

func (n *tlsNetwork) New(t *testing.T, id raft.NodeID) raft.Transport {
	var uris []*url.URL
	for _, appearance := range []raft.NodeID{"a", "b", "c"} {
		uris = append(uris, transport.IdentityURI("test", appearance))
	}
	n.options = transport.Options{TLS: n.authority.config(t, uris...)}
	return n.tcpNetwork.New(t, id)
}

func TestTLS_CertificateMustNameItsMember(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	own := ca.member(t, "test", "a")
	web, err := url.Parse("https://test/a")
	require.NoError(t, err)
	rows := []struct {
		rule   string
		caller transport.Options
	}{
		{"of another member", ca.member(t, "test", "c")},
		{"of another cluster", ca.member(t, "other", "a")},
		{"without a URI", transport.Options{TLS: ca.config(t)}},
		{"with a URI of another kind", transport.Options{TLS: ca.config(t, web)}},
	}
	for _, row := range rows {
		t.Run("a caller's "+row.rule, func(t *testing.T) {
			b, _ := start(t, "b", ca.member(t, "test", "b"))
			a, r := start(t, "a", row.caller)
			a.Connect(at("b", b.Addr().String()))
			assert.Equal(t, raft.RejectCertificate, r.AwaitRejected(t, "b").Rejection.Reason)
			assert.Positive(t, b.Stats().Rejected[raft.RejectCertificate])
		})
		t.Run("an acceptor's "+row.rule, func(t *testing.T) {
			a, _ := start(t, "a", row.caller)
			b, r := start(t, "b", ca.member(t, "test", "b"))
			b.Connect(at("a", a.Addr().String()))
			r.AwaitLost(t, "a", false)
			var wrong *transport.CertificateError
			require.ErrorAs(t, b.Peer(firstOf("a")).Err, &wrong)
			assert.Equal(t, raft.NodeID("a"), wrong.Member)
		})
	}
	t.Run("of another authority", func(t *testing.T) {
		b, _ := start(t, "b", stranger.member(t, "test", "b"))
		a, r := start(t, "a", own)
		a.Connect(at("b", b.Addr().String()))
		r.AwaitLost(t, "b", false)
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, a.Peer(firstOf("b")).Err, &unknown)
	})
	t.Run("of several members, this one among them", func(t *testing.T) {
		several := ca.config(t, transport.IdentityURI("test", "c"), transport.IdentityURI("test", "a"))
		b, _ := start(t, "b", ca.member(t, "test", "b"))
		a, r := start(t, "a", transport.Options{TLS: several})
		a.Connect(at("b", b.Addr().String()))
		r.AwaitUp(t, "b")
	})
}

func TestTLS_CallerWithoutACertificateIsTurnedAway(t *testing.T) {
	ca := newAuthority(t)
	b, _ := start(t, "b", ca.member(t, "test", "b"))
	for name, config := range map[string]*tls.Config{
		"no certificate":                     {InsecureSkipVerify: true},
		"a certificate of another authority": {InsecureSkipVerify: true, Certificates: newAuthority(t).config(t).Certificates},
		"an older version of TLS":            {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.Stats().TLSFailed
			conn, err := net.Dial("tcp", b.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			client := tls.Client(conn, config)
			if err = client.Handshake(); err == nil { // a client of TLS 1.3 learns of it at its first read
				_, err = client.Read(make([]byte, 1))
			}
			var alert *net.OpError
			require.ErrorAs(t, err, &alert)
			assert.Equal(t, "remote error", alert.Op)
			_, err = io.ReadAll(conn) // the acceptor counts before it closes
			require.NoError(t, err)
			assert.Equal(t, before+1, b.Stats().TLSFailed)
		})
	}
}

func TestTLS_PlaintextAndTLSDoNotMeet(t *testing.T) {
	ca := newAuthority(t)
	secure, fromSecure := start(t, "a", ca.member(t, "test", "a"))
	plain, fromPlain := start(t, "b", transport.Options{})
	plain.Connect(at("a", secure.Addr().String()))
	fromPlain.AwaitLost(t, "a", false)
	require.ErrorContains(t, plain.Peer(firstOf("a")).Err, "handshake with \"a\"")
	assert.Positive(t, secure.Stats().TLSFailed)

	secure.Connect(at("b", plain.Addr().String()))
	fromSecure.AwaitLost(t, "b", false)
	require.ErrorContains(t, secure.Peer(firstOf("b")).Err, "TLS handshake")
	assert.Positive(t, plain.Stats().Malformed)
}

func TestTLS_VerifyPeerReplacesTheRule(t *testing.T) {
	ca := newAuthority(t)
	refuse := errors.New("not on the list")
	allow := func(opts transport.Options, allowed ...raft.NodeID) transport.Options {
		opts.VerifyPeer = func(cluster string, id raft.NodeID, state tls.ConnectionState) error {
			assert.Equal(t, "test", cluster)
			assert.NotEmpty(t, state.PeerCertificates)
			for _, a := range allowed {
				if a == id {
					return nil
				}
			}
			return refuse
		}
		return opts
	}
	b, _ := start(t, "b", allow(transport.Options{TLS: ca.config(t)}, "a"))
	a, r := start(t, "a", allow(transport.Options{TLS: ca.config(t)}, "b"))
	a.Connect(at("b", b.Addr().String()))
	r.AwaitUp(t, "b")
	c, r := start(t, "c", allow(transport.Options{TLS: ca.config(t)}))
	c.Connect(at("b", b.Addr().String()))
	// The caller is rejected as well. It ignores this rejection, because it does not trust the peer that sent it.
	r.AwaitLost(t, "b", false)
	require.ErrorIs(t, c.Peer(firstOf("b")).Err, refuse)
}

// If no bytes arrive, a read ends after half of the timeout. This leaves a TLS connection intact.
func TestTLS_SilenceForMostOfTheTimeoutDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := newAuthority(t)
		n := newPipeNetwork(transport.Options{})
		open := func(id raft.NodeID, idle time.Duration) (*transport.TCP, *transporttest.Recorder) {
			opts := authority.member(t, "test", id)
			opts.IdleTimeout = idle
			tcp, err := transport.New(n.listen(string(id)), n.dial, opts)
			require.NoError(t, err)
			r := transporttest.NewRecorder(id)
			require.NoError(t, tcp.Start(r))
			return tcp, r
		}
		a, r := open("a", 4*time.Second)
		b, _ := open("b", 12*time.Second) // b answers every three seconds
		a.Connect(at("b", "b"))
		r.AwaitUp(t, "b")
		time.Sleep(10 * time.Minute)
		assert.True(t, a.Peer(firstOf("b")).Connected)
		assert.Equal(t, uint64(1), a.Stats().Dialed)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

func TestTLS_LargeRecordsArrive(t *testing.T) {
	ca := newAuthority(t)
	b, seen := start(t, "b", ca.member(t, "test", "b"))
	a, r := start(t, "a", ca.member(t, "test", "a"))
	a.Connect(at("b", b.Addr().String()))
	r.AwaitUp(t, "b")
	m := raft.Message{
		From: raft.Peer{ID: "a", Incarnation: 1}, To: raft.Peer{ID: "b", Incarnation: 1}, Term: 7,
		Body: transporttest.Append(raft.EntryID{Term: 7}, []int{10, 100 << 10, 10, 3 << 20}, 0),
	}
	require.NoError(t, a.Send(firstOf("b"), raft.LaneBulk, []raft.Message{m}))
	assert.True(t, assert.ObjectsAreEqual(m, seen.AwaitMessages(t, 1)[0]))
}
