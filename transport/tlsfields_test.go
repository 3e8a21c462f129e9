package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tlsField describes the effect of a field of tls.Config in Options.TLS.
type tlsField struct {
	weaken  func(*tls.Config) // weakens TLS as far as the field can; nil: the field does not affect which peers are verified
	refused bool
}

// tlsFields has all fields of tls.Config.
var tlsFields = map[string]tlsField{
	"Rand": {}, "NameToCertificate": {}, "NextProtos": {}, "CipherSuites": {}, "PreferServerCipherSuites": {},
	"CurvePreferences": {}, "DynamicRecordSizingDisabled": {}, "KeyLogWriter": {},
	"EncryptedClientHelloKeys": {}, "GetEncryptedClientHelloKeys": {},

	"RootCAs":      {refused: true, weaken: func(c *tls.Config) { c.RootCAs = nil }},
	"Certificates": {refused: true, weaken: func(c *tls.Config) { c.Certificates = nil }},
	"GetCertificate": {weaken: func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
	}},
	"GetClientCertificate": {weaken: func(c *tls.Config) {
		own := &c.Certificates[0]
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}},
	"GetConfigForClient": {weaken: func(c *tls.Config) {
		lax := &tls.Config{
			Certificates: c.Certificates, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true,
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13,
		}
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return lax, nil }
	}},
	"VerifyPeerCertificate": {weaken: func(c *tls.Config) {
		c.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { return nil }
	}},
	"VerifyConnection":   {weaken: func(c *tls.Config) { c.VerifyConnection = func(tls.ConnectionState) error { return nil } }},
	"ServerName":         {weaken: func(c *tls.Config) { c.ServerName = "another.example" }},
	"ClientAuth":         {weaken: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }},
	"ClientCAs":          {weaken: func(c *tls.Config) { c.ClientCAs = c.RootCAs }},
	"InsecureSkipVerify": {refused: true, weaken: func(c *tls.Config) { c.InsecureSkipVerify = true }},
	"Time":               {weaken: func(c *tls.Config) { c.Time = func() time.Time { return time.Now().Add(-time.Hour) } }},
	"MinVersion":         {weaken: func(c *tls.Config) { c.MinVersion = tls.VersionTLS10 }},
	"MaxVersion":         {refused: true, weaken: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }},
	"Renegotiation":      {weaken: func(c *tls.Config) { c.Renegotiation = tls.RenegotiateFreelyAsClient }},

	"SessionTicketsDisabled": {weaken: func(c *tls.Config) { c.SessionTicketsDisabled = false }},
	"SessionTicketKey":       {weaken: func(c *tls.Config) { c.SetSessionTicketKeys([][32]byte{{1}}) }},
	"ClientSessionCache":     {weaken: func(c *tls.Config) { c.ClientSessionCache = tls.NewLRUClientSessionCache(0) }},
	"WrapSession": {weaken: func(c *tls.Config) {
		c.WrapSession = func(_ tls.ConnectionState, s *tls.SessionState) ([]byte, error) { return s.Bytes() }
	}},
	"UnwrapSession": {weaken: func(c *tls.Config) {
		c.UnwrapSession = func(ticket []byte, _ tls.ConnectionState) (*tls.SessionState, error) {
			return tls.ParseSessionState(ticket)
		}
	}},
	"EncryptedClientHelloConfigList": {refused: true, weaken: func(c *tls.Config) { c.EncryptedClientHelloConfigList = []byte{0} }},
	"EncryptedClientHelloRejectionVerify": {refused: true, weaken: func(c *tls.Config) {
		c.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { return nil }
	}},
}

// A later version of Go may add a field. In that case, decide here what the field means, and document it in SECURITY.md.
func TestTLS_EveryFieldHasAMeaning(t *testing.T) {
	page, err := os.ReadFile("../SECURITY.md")
	require.NoError(t, err)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[tls.Config]()) {
		meaning, known := tlsFields[f.Name]
		if !f.IsExported() {
			continue
		}
		assert.True(t, known, "%s is not in tlsFields", f.Name)
		if meaning.weaken != nil {
			assert.True(t, strings.Contains(string(page), "`"+f.Name+"`"), "SECURITY.md does not mention %s", f.Name)
		}
	}
}

func TestTLS_NoFieldLetsAStrangerIn(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	forged := &stranger.config(t, transport.IdentityURI("test", "a")).Certificates[0]
	for name, field := range tlsFields {
		if field.weaken == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			opts := ca.member(t, "test", "b")
			field.weaken(opts.TLS)
			if field.refused {
				_, err := transport.Listen(loopback, opts)
				var refused *transport.TLSFieldError
				require.ErrorAs(t, err, &refused)
				assert.Equal(t, name, refused.Field)
				return
			}
			b, fromB := start(t, "b", opts)
			a, fromA := start(t, "a", transport.Options{TLS: &tls.Config{
				RootCAs: ca.pool, Certificates: []tls.Certificate{*forged},
				// Unlike Certificates, this certificate is sent whatever authorities the acceptor asks for.
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return forged, nil },
			}})
			a.Connect(at("b", b.Addr().String()))
			fromA.AwaitLost(t, "b", false)
			assert.Zero(t, b.Stats().Inbound)

			b.Connect(at("a", a.Addr().String()))
			fromB.AwaitLost(t, "a", false)
			var unknown x509.UnknownAuthorityError
			require.ErrorAs(t, b.Peer(firstOf("a")).Err, &unknown)

			c, fromC := start(t, "c", ca.member(t, "test", "c"))
			c.Connect(at("b", b.Addr().String()))
			fromC.AwaitUp(t, "b")
			b.Connect(at("c", c.Addr().String()))
			fromB.AwaitUp(t, "c")
		})
	}
}

// The user's own callbacks get verified chains on both sides, and can reject a peer.
func TestTLS_CallbacksSeeVerifiedChainsAndMayRefuse(t *testing.T) {
	ca := newAuthority(t)
	revoked := errors.New("revoked")
	check := func(chains [][]*x509.Certificate) error {
		if len(chains) == 0 {
			return errors.New("no chain was verified")
		}
		if strings.HasSuffix(chains[0][0].URIs[0].Path, "/c") {
			return revoked
		}
		return nil
	}
	for name, set := range map[string]func(*transport.Options){
		"VerifyPeerCertificate": func(o *transport.Options) {
			o.TLS.VerifyPeerCertificate = func(_ [][]byte, chains [][]*x509.Certificate) error { return check(chains) }
		},
		"VerifyConnection": func(o *transport.Options) {
			o.TLS.VerifyConnection = func(s tls.ConnectionState) error { return check(s.VerifiedChains) }
		},
		"VerifyPeer": func(o *transport.Options) {
			o.VerifyPeer = func(_ string, _ raft.NodeID, s tls.ConnectionState) error { return check(s.VerifiedChains) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			checking := ca.member(t, "test", "b")
			set(&checking)
			b, fromB := start(t, "b", checking)
			a, fromA := start(t, "a", ca.member(t, "test", "a"))
			c, fromC := start(t, "c", ca.member(t, "test", "c"))
			a.Connect(at("b", b.Addr().String()))
			fromA.AwaitUp(t, "b")
			b.Connect(at("a", a.Addr().String()))
			fromB.AwaitUp(t, "a")
			b.Connect(at("c", c.Addr().String()))
			fromB.AwaitLost(t, "c", false)
			require.ErrorIs(t, b.Peer(firstOf("c")).Err, revoked)
			c.Connect(at("b", b.Addr().String()))
			if name == "VerifyPeer" {
				assert.Equal(t, raft.RejectCertificate, fromC.AwaitRejected(t, "b").Rejection.Reason)
			} else {
				fromC.AwaitLost(t, "b", false)
			}
		})
	}
}

// Certificates change while members run, and then the authority of callers changes.
func TestTLS_CertificatesAndAuthorityRotate(t *testing.T) {
	old, next := newAuthority(t), newAuthority(t)
	both := x509.NewCertPool()
	both.AddCert(old.cert)
	both.AddCert(next.cert)
	type state struct {
		own     *tls.Certificate
		callers *x509.CertPool
	}
	rotating := func(id raft.NodeID) (transport.Options, func()) {
		var now atomic.Pointer[state]
		first := old.member(t, "test", id).TLS
		now.Store(&state{&first.Certificates[0], both})
		serve := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now.Load().own, nil }
		opts := transport.Options{RedialMax: 20 * time.Millisecond, TLS: &tls.Config{
			RootCAs: both, Certificates: first.Certificates, GetCertificate: serve,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now.Load().own, nil },
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{Certificates: first.Certificates, GetCertificate: serve, RootCAs: now.Load().callers}, nil
			},
		}}
		return opts, func() {
			now.Store(&state{&next.member(t, "test", id).TLS.Certificates[0], next.pool})
		}
	}
	optsA, rotateA := rotating("a")
	optsB, rotateB := rotating("b")
	a, fromA := start(t, "a", optsA)
	b, fromB := start(t, "b", optsB)
	a.Connect(at("b", b.Addr().String()))
	fromA.AwaitUp(t, "b")
	rotateA()
	rotateB()
	b.Connect(at("a", a.Addr().String()))
	fromB.AwaitUp(t, "a")

	modern, fromModern := start(t, "c", next.member(t, "test", "c")) // it trusts only the next authority
	modern.Connect(at("a", a.Addr().String()))
	fromModern.AwaitUp(t, "a")
	outdated, fromOutdated := start(t, "c", transport.Options{TLS: &tls.Config{
		RootCAs: both, Certificates: old.member(t, "test", "c").TLS.Certificates,
	}})
	outdated.Connect(at("a", a.Addr().String()))
	fromOutdated.AwaitLost(t, "a", false)
}

func TestTLS_SessionsAreNeverResumed(t *testing.T) {
	ca := newAuthority(t)
	opts := ca.member(t, "test", "b")
	further := opts.TLS.Clone()
	opts.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return further, nil }
	opts.TLS.ClientSessionCache = forbiddenCache{t}
	b, fromB := start(t, "b", opts)
	a, _ := start(t, "a", ca.member(t, "test", "a"))
	b.Connect(at("a", a.Addr().String()))
	fromB.AwaitUp(t, "a")

	client := ca.member(t, "test", "c").TLS
	client.InsecureSkipVerify, client.ServerName = true, "b"
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	for range 2 {
		conn, err := tls.Dial("tcp", b.Addr().String(), client)
		require.NoError(t, err)
		assert.False(t, conn.ConnectionState().DidResume)
		_, err = conn.Write(make([]byte, 64)) // this begins no handshake of ours
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn) // a client would read its session ticket here
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

// forbiddenCache is a session cache that fails the test when it is used.
type forbiddenCache struct{ t *testing.T }

func (c forbiddenCache) Get(string) (*tls.ClientSessionState, bool) {
	c.t.Error("a session is looked up")
	return nil, false
}
func (c forbiddenCache) Put(string, *tls.ClientSessionState) { c.t.Error("a session is kept") }

// Both sides use the clock in the options.
func TestTLS_TimeOfTheOptionsCounts(t *testing.T) {
	ca := newAuthority(t)
	past := time.Now().Add(-24 * time.Hour)
	member := func(id raft.NodeID) transport.Options {
		o := transport.Options{TLS: ca.configBetween(t, time.Time{}, past.Add(time.Hour), transport.IdentityURI("test", id))}
		o.TLS.Time = func() time.Time { return past }
		return o
	}
	b, _ := start(t, "b", member("b"))
	a, r := start(t, "a", member("a"))
	a.Connect(at("b", b.Addr().String()))
	r.AwaitUp(t, "b")
}

func TestTLS_TheErrorSaysHowACertificateIsOutsideItsTime(t *testing.T) {
	ca, now := newAuthority(t), time.Now()
	for _, row := range []struct {
		name        string
		from, until time.Time
		told, not   string
	}{
		{"not yet valid", now.Add(30 * time.Minute), now.Add(time.Hour), "is not valid before", "expired"},
		{"expired", now.Add(-time.Hour), now.Add(-time.Minute), "expired at", "not yet"},
	} {
		t.Run(row.name, func(t *testing.T) {
			lines := make(logLines, 16)
			opts := ca.member(t, "test", "b")
			opts.Logger = hclog.New(&hclog.LoggerOptions{Output: lines})
			b, fromB := start(t, "b", opts)
			outside := transport.Options{TLS: ca.configBetween(t, row.from, row.until, transport.IdentityURI("test", "a"))}
			a, fromA := start(t, "a", outside)

			a.Connect(at("b", b.Addr().String()))
			line := <-lines
			assert.Contains(t, line, row.told)
			assert.NotContains(t, line, row.not)
			fromA.AwaitLost(t, "b", false)
			assert.ErrorContains(t, a.Peer(firstOf("b")).Err, "has expired or is not valid yet")

			b.Connect(at("a", a.Addr().String()))
			fromB.AwaitLost(t, "a", false)
			err := b.Peer(firstOf("a")).Err
			var told *transport.CertificateTimeError
			require.ErrorAs(t, err, &told)
			assert.True(t, row.from.Truncate(time.Second).Equal(told.NotBefore))
			assert.Contains(t, err.Error(), row.told)
			assert.NotContains(t, err.Error(), row.not)
		})
	}
}

// logLines receives the first lines of a log.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}
