package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changingTLS is the TLS configuration of a member that changes while the member runs.
type changingTLS struct{ now atomic.Pointer[tls.Config] }

func (c *changingTLS) options() transport.Options { return transport.Options{TLSSource: c.now.Load} }

// issued returns the configuration of a member with a certificate of one authority, which trusts these authorities.
func issued(t *testing.T, id raft.NodeID, by *authority, trusted ...*authority) *tls.Config {
	t.Helper()
	c := by.config(t, transport.IdentityURI("test", id))
	c.RootCAs = x509.NewCertPool()
	for _, a := range trusted {
		c.RootCAs.AddCert(a.cert)
	}
	return c
}

// The authority changes in two steps. At each step a member that is already there meets one that is not, in both directions,
// and the connections that are open stay open.
func TestTLSSource_TheAuthorityChangesWhileMembersRun(t *testing.T) {
	former, next := newAuthority(t), newAuthority(t)
	var ofA, ofB, ofC changingTLS
	set := func(by *authority, trusted ...*authority) func(id raft.NodeID, c *changingTLS) {
		return func(id raft.NodeID, c *changingTLS) { c.now.Store(issued(t, id, by, trusted...)) }
	}
	steps := []func(raft.NodeID, *changingTLS){
		set(former, former), set(former, former, next), set(next, former, next), set(next, next),
	}
	steps[0]("a", &ofA)
	steps[0]("b", &ofB)
	a, fromA := start(t, "a", ofA.options())
	b, fromB := start(t, "b", ofB.options())
	a.Connect(at("b", b.Addr().String()))
	b.Connect(at("a", a.Addr().String()))
	fromA.AwaitUp(t, "b")
	fromB.AwaitUp(t, "a")
	for i := 1; i < len(steps); i++ {
		steps[i]("a", &ofA)
		steps[i-1]("c", &ofC)
		c, fromC := start(t, "c", ofC.options())
		c.Connect(at("a", a.Addr().String()))
		fromC.AwaitUp(t, "a")
		a.Connect(append(at("b", b.Addr().String()), at("c", c.Addr().String())...))
		fromA.AwaitUp(t, "c")
		steps[i]("b", &ofB)
		require.NoError(t, c.Close())
		a.Connect(at("b", b.Addr().String()))
	}
	assert.True(t, a.Peer(firstOf("b")).Connected)
	assert.True(t, b.Peer(firstOf("a")).Connected)
	assert.Equal(t, uint64(1), b.Stats().Dialed)

	steps[0]("c", &ofC) // of the former authority alone
	c, fromC := start(t, "c", ofC.options())
	c.Connect(at("a", a.Addr().String()))
	fromC.AwaitLost(t, "a", false)
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, c.Peer(firstOf("a")).Err, &unknown)
	a.Connect(append(at("b", b.Addr().String()), at("c", c.Addr().String())...))
	require.Eventually(t, func() bool { return errors.As(a.Peer(firstOf("c")).Err, &unknown) }, time.Minute, time.Millisecond)
}

// A source that goes wrong makes no connection less safe: there is none until it is right again.
func TestTLSSource_AFaultyConfigurationMakesNoConnection(t *testing.T) {
	ca := newAuthority(t)
	good := issued(t, "a", ca, ca)
	lax := good.Clone()
	lax.InsecureSkipVerify = true
	var ofA changingTLS
	_, err := transport.Listen(loopback, ofA.options())
	require.ErrorContains(t, err, "TLSSource returned nil")
	both := ofA.options()
	both.TLS = good
	_, err = transport.Listen(loopback, both)
	require.ErrorContains(t, err, "Options.TLS: must be nil if there is a TLSSource")

	ofA.now.Store(good)
	a, fromA := start(t, "a", ofA.options())
	b, _ := start(t, "b", transport.Options{TLS: issued(t, "b", ca, ca)})
	for _, faulty := range []*tls.Config{nil, lax} {
		ofA.now.Store(faulty)
		a.Connect(at("b", b.Addr().String()))
		refuses := func() bool { return errors.As(a.Peer(firstOf("b")).Err, new(*transport.TLSFieldError)) }
		require.Eventually(t, refuses, time.Minute, time.Millisecond)
		before := a.Stats().TLSFailed
		b.Connect(at("a", a.Addr().String()))
		require.Eventually(t, func() bool { return a.Stats().TLSFailed > before }, time.Minute, time.Millisecond)
		a.Connect(nil)
		b.Connect(nil)
	}
	ofA.now.Store(good)
	a.Connect(at("b", b.Addr().String()))
	fromA.AwaitUp(t, "b")
}
