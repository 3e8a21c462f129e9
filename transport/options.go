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

// Options are the settings of a TCP transport, which copies them. Every zero value means the default that its
// field documents.
type Options struct {
	// TLS makes every connection use mutual TLS 1.3. It needs Certificates (or the callbacks that choose
	// one), with the usages server and client, and RootCAs, the authorities of the members' certificates,
	// for both directions (ClientCAs, if set, replaces them for inbound connections). Host names are not
	// checked: a certificate names a member by its URI, see IdentityURI. Nil: no TLS.
	//
	// No field switches that off. ClientAuth and MinVersion are set for you, in what GetConfigForClient returns
	// too, and sessions are never resumed. VerifyPeerCertificate and VerifyConnection can only refuse more; the
	// chains that they get are verified. A field that cannot be is refused with a *TLSFieldError.
	//
	// To change certificates while the member runs, set GetCertificate and GetClientCertificate: each is asked
	// about every connection. The authorities of callers may change too: GetConfigForClient returns a
	// configuration with other ClientCAs, or else RootCAs. Those of members that are dialed are RootCAs, which
	// no callback can change: let RootCAs hold the old and the new authority while certificates change.
	TLS *tls.Config
	// VerifyPeer replaces the rule that a certificate carries IdentityURI(cluster, id). It is called with
	// the names in the peer's Hello and the finished TLS handshake, whose chain is verified already; an
	// error closes the connection. It may be called from several goroutines at once.
	VerifyPeer func(cluster string, id raft.NodeID, state tls.ConnectionState) error
	// Insecure allows addresses beyond loopback without TLS: then everybody who reaches the port can act
	// as a member of the cluster.
	Insecure bool
	// Resolve returns the "host:port" to dial for a member. It is called for each dial, within
	// DialTimeout. A member that has moved has several addresses: m.Address is the one whose turn it is.
	// It is not called for another incarnation of this member's id if the configuration has both at one
	// address: correct that (node.Node.UpdateMember).
	// Nil: the member's Address.
	Resolve func(ctx context.Context, m raft.Member) (string, error)

	// FrameBytesMax bounds one append message, in both directions. It must be at least the larger of
	// Config.AppendBytesMax and Config.CommandBytesMax plus 64 KiB: node.Start refuses a smaller one. Set the same
	// value on all members. Members tell each other when they connect, and none sends what the other does not take:
	// a leader refuses commands that do not fit into the smallest one, and a member for which an entry of the log is
	// too large is sent a snapshot. Default 72 MiB, enough for every Config; at least 64 KiB, at most 1 GiB.
	FrameBytesMax int
	// HandshakesMax bounds the inbound connections whose handshake is not finished. Each takes a file
	// descriptor and, while it is silent, about 10 KiB. At the limit a new connection replaces another:
	// preferably one from an address where no member is dialed, then one whose handshake has got less far,
	// then the oldest. Default 2,048.
	HandshakesMax int
	// InboundMax bounds the inbound connections whose handshake is finished. At the limit a member that
	// Connect names replaces one that it does not name. Default 1,536: three lanes for each of twice
	// raft.MembersMax members.
	InboundMax int

	// DialTimeout bounds the time to resolve the address and connect, for each lane. Default 2 s.
	DialTimeout time.Duration
	// HandshakeTimeout bounds a handshake, including that of TLS. Default 2 s.
	HandshakeTimeout time.Duration
	// WriteTimeout is how long a write of 128 KiB may take before the connection is closed. A slow link
	// that makes progress is not cut off, however large the message. The receiver closes a connection on
	// which, within a message, fewer than 16 KiB arrive in twice its own WriteTimeout. Default 10 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be silent before it is closed. A member that is up is never
	// silent for more than two thirds of that. It bounds how long writes stop if the bulk connection is dead
	// while heartbeats pass. Of two members, the longer one holds for both. Default: four times the longer
	// ElectionTimeout of the two members, but at least 2 s and at most 8 s.
	IdleTimeout time.Duration
	// RedialMin and RedialMax bound the pauses between dials of a peer. The pauses double and are jittered.
	// Default 10 ms and 1 s.
	RedialMin, RedialMax time.Duration

	// Logger gets at most one line every ten seconds for each kind of trouble. Nil: no logging.
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
		{&o.InboundMax, 2 * len(lanes) * (raft.MembersMax + 1)},
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
	timeoutMax    = time.Hour // of any
	idleElections = 4
	idleMin       = 2 * time.Second
	idleMax       = 8 * time.Second
)

// idleTimeout returns the IdleTimeout between two members: the longer one, because each sends beats as often as its own
// asks for. The default follows the election timeout: by the time a peer has been silent for several of them, an election
// has long replaced it.
func idleTimeout(a, b raft.Hello) time.Duration {
	longer := min(max(a.ElectionTimeout, b.ElectionTimeout), idleMax)
	standard := min(max(idleElections*longer, idleMin), idleMax)
	return max(cmp.Or(a.IdleTimeout, standard), cmp.Or(b.IdleTimeout, standard))
}

// hello returns what this member says first on a connection to that peer, with the setting of the transport that the other
// side's transport needs.
func (t *TCP) hello(to raft.Peer) raft.Hello {
	h := t.links.handler.Hello(to)
	h.IdleTimeout = t.options.IdleTimeout
	return h
}

// beatInterval returns a third of the shortest idleTimeout.
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
		{"FrameBytesMax", o.FrameBytesMax, frameBytesLeast, 1 << 30},
		{"HandshakesMax", o.HandshakesMax, 1, 1 << 16},
		{"InboundMax", o.InboundMax, 2, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			add("%s: %d; must be %d to %d", f.name, f.value, f.min, f.max)
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
		if f.value < time.Millisecond || f.value > timeoutMax {
			add("%s: %v; must be 1 ms to 1 h", f.name, f.value)
		}
	}
	if o.RedialMin > o.RedialMax {
		add("RedialMin: %v; must not be above RedialMax, %v", o.RedialMin, o.RedialMax)
	}
	errs = append(errs, checkTLS(o.TLS)...)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("transport: invalid options: %w", errors.Join(errs...))
}

// checkAddress refuses an address beyond loopback without TLS. It is called with a resolved address.
func (o Options) checkAddress(address string) error {
	if o.TLS != nil || o.Insecure {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil // not an internet address: a pipe or a socket of this host
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return &InsecureError{Address: address}
}
