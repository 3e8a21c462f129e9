package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coxswain/raft"
	"github.com/hashicorp/go-hclog"
)

// DialFunc connects to an address, "host:port", before ctx ends.
type DialFunc func(ctx context.Context, address string) (net.Conn, error)

// Options is everything that can be tuned about TCP. It is copied and never changed. Every zero value
// means the default that its field documents.
type Options struct {
	// TLS makes every connection a mutual TLS 1.3 one. It needs Certificates (or the callbacks that
	// choose one), whose usages are server and client, and RootCAs, the authorities of the members'
	// certificates, for both directions (ClientCAs, if set, replaces them for inbound ones). Host
	// names are not looked at: a certificate names a member by its URI, see IdentityURI. Nil: no TLS.
	TLS *tls.Config
	// VerifyPeer replaces the rule that a certificate carries IdentityURI(cluster, id). It is called
	// with what the peer's Hello says and the finished TLS handshake, whose chain is verified; an
	// error closes the connection. It may be called from several goroutines at once.
	VerifyPeer func(cluster string, id raft.NodeID, state tls.ConnectionState) error
	// Insecure allows addresses beyond loopback without TLS: whoever reaches the port may then take
	// part in the cluster.
	Insecure bool
	// Resolve returns the "host:port" to dial for a member. It is called for each dial, within
	// DialTimeout. Nil: the member's Address.
	Resolve func(ctx context.Context, m raft.Member) (string, error)

	// FrameBytesMax bounds one append message. Make it the same on all members, and at least the larger
	// of their Config.AppendBytesMax and Config.CommandBytesMax plus 64 KiB: node.Start refuses what
	// does not fit. Default 72 MiB, which fits whatever a Config allows; at least 64 KiB, at most 1 GiB.
	FrameBytesMax int
	// HandshakesMax bounds the inbound connections whose handshake is not finished, each of which takes a
	// file descriptor and, while it is silent, about 10 KiB. One is closed for a newer one: one from an
	// address where no member is dialed, before others; one that has said nothing, before others; and
	// the oldest of these. Default 2,048.
	HandshakesMax int
	// InboundMax bounds the inbound connections whose handshake is finished. A member that Connect names
	// takes the place of one that it does not name. Default 1,024: both lanes of twice raft.MembersMax
	// members.
	InboundMax int

	// DialTimeout bounds the resolving and connecting of one lane. Default 2 s.
	DialTimeout time.Duration
	// HandshakeTimeout bounds a handshake, that of TLS included. Default 2 s.
	HandshakeTimeout time.Duration
	// WriteTimeout is how long 128 KiB of what is sent may take before the connection is closed: a link that
	// is slow but moves on is not cut off, however large a message. The receiver closes one on which,
	// within a message, fewer than 16 KiB arrive in twice its own WriteTimeout. Default 10 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be silent before it is closed; members that live are
	// silent for no more than two thirds of that. It bounds how long writes stop if a connection for
	// appends is dead while heartbeats pass. Make it the same on all members. Default: four times the
	// ElectionTimeout of the two members, the longer one, but at least 2 s and at most 8 s.
	IdleTimeout time.Duration
	// RedialMin and RedialMax bound the pauses between dials of a peer, which double and are
	// jittered. Default 10 ms and 1 s.
	RedialMin, RedialMax time.Duration

	// Logger gets one line for each kind of trouble, at most every ten seconds. Nil: silent.
	Logger hclog.Logger
}

// withDefaults returns the options with every zero value replaced by its default.
func (o Options) withDefaults() Options {
	for _, f := range []struct {
		field    *int
		standard int
	}{
		{&o.FrameBytesMax, FrameBytesMax},
		{&o.HandshakesMax, 2048},
		{&o.InboundMax, 2 * 2 * (raft.MembersMax + 1)},
	} {
		if *f.field == 0 {
			*f.field = f.standard
		}
	}
	for _, f := range []struct {
		field    *time.Duration
		standard time.Duration
	}{
		{&o.DialTimeout, 2 * time.Second},
		{&o.HandshakeTimeout, 2 * time.Second},
		{&o.WriteTimeout, 10 * time.Second},
		{&o.RedialMin, 10 * time.Millisecond},
		{&o.RedialMax, time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.standard
		}
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return o
}

const (
	idleElections = 4
	idleMin       = 2 * time.Second
	idleMax       = 8 * time.Second
)

// idleTimeout is IdleTimeout between two members. The default follows the election timeout: a peer
// that is silent for several of them has been given up by the election long before.
func (o Options) idleTimeout(a, b raft.Hello) time.Duration {
	longer := min(max(a.ElectionTimeout, b.ElectionTimeout), idleMax)
	return cmp.Or(o.IdleTimeout, min(max(idleElections*longer, idleMin), idleMax))
}

// beatInterval is a third of the shortest idleTimeout.
func (o Options) beatInterval() time.Duration { return cmp.Or(o.IdleTimeout, idleMin) / 3 }

// Validate returns everything that is wrong with the options, joined, or nil. Listen and New call it.
func (o Options) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf("Options."+format, args...)) }
	o = o.withDefaults()
	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"FrameBytesMax", o.FrameBytesMax, 64 << 10, 1 << 30},
		{"HandshakesMax", o.HandshakesMax, 1, 1 << 16},
		{"InboundMax", o.InboundMax, 2, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			add("%s: %d; it takes %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"DialTimeout", o.DialTimeout}, {"HandshakeTimeout", o.HandshakeTimeout},
		{"WriteTimeout", o.WriteTimeout}, {"IdleTimeout", cmp.Or(o.IdleTimeout, idleMin)},
		{"RedialMin", o.RedialMin}, {"RedialMax", o.RedialMax},
	} {
		if f.value < time.Millisecond || f.value > time.Hour {
			add("%s: %v; it takes 1 ms to 1 h", f.name, f.value)
		}
	}
	if o.RedialMin > o.RedialMax {
		add("RedialMin: %v is over RedialMax, %v", o.RedialMin, o.RedialMax)
	}
	errs = append(errs, o.checkTLS()...)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("transport: invalid options: %w", errors.Join(errs...))
}

// checkTLS returns what is wrong with Options.TLS.
func (o Options) checkTLS() []error {
	if o.TLS == nil {
		return nil
	}
	var errs []error
	if o.TLS.RootCAs == nil {
		errs = append(errs, errors.New("Options.TLS: no RootCAs: name the authorities of the members' certificates"))
	}
	if o.TLS.InsecureSkipVerify {
		errs = append(errs, errors.New("Options.TLS: InsecureSkipVerify; certificates are always verified"))
	}
	if len(o.TLS.Certificates) == 0 && (o.TLS.GetCertificate == nil || o.TLS.GetClientCertificate == nil) {
		errs = append(errs, errors.New("Options.TLS: no certificate: members prove who they are both ways"))
	}
	return errs
}

// checkAddress refuses an address beyond loopback without TLS. It is called with a resolved address.
func (o Options) checkAddress(address string) error {
	if o.TLS != nil || o.Insecure {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil // not an address of the internet: a pipe or a socket of this host
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return &InsecureError{Address: address}
}
