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

// Options are the settings of a TCP transport. The transport copies them. If a field is zero, its default applies, which its
// comment documents.
type Options struct {
	// TLS makes every connection use mutual TLS 1.3. It needs a certificate with the usages server and client. The
	// certificate is in Certificates, or comes from the callbacks that choose one. TLS also needs RootCAs, the authorities of
	// the members' certificates, for both directions. If ClientCAs is set, it replaces RootCAs for inbound connections. Host
	// names are not checked: a certificate names a member by its URI, see IdentityURI. Nil: no TLS.
	//
	// No field weakens this. The transport sets ClientAuth and MinVersion, also in the result of GetConfigForClient. It never
	// resumes sessions. VerifyPeerCertificate and VerifyConnection receive verified chains, and can only reject more peers.
	// If a field would weaken TLS, Validate refuses it with a *TLSFieldError.
	//
	// If certificates or authorities change while the member runs, set TLSSource instead.
	TLS *tls.Config
	// TLSSource returns the present TLS, in place of the field TLS, which must be nil then. The transport calls it for every
	// connection that it dials or accepts, from several goroutines. A change applies to connections that are made from then on,
	// and leaves the others open. So members may change their certificates without a restart, and also their authorities: first
	// let RootCAs hold the old and the new authority on all members, then change all certificates, then drop the old authority.
	// TLSSource must not block. It must never change a configuration that it has returned. If the configuration has a fault,
	// no connection is made, and the error is a *TLSFieldError.
	TLSSource func() *tls.Config
	// VerifyPeer replaces the rule that a certificate carries IdentityURI(cluster, id). Its arguments are the names in the
	// peer's Hello and the state of the finished TLS handshake. The chain in that state is already verified. If VerifyPeer
	// returns an error, the connection is closed. VerifyPeer may be called from several goroutines at once.
	VerifyPeer func(cluster string, id raft.NodeID, state tls.ConnectionState) error
	// Insecure allows addresses beyond loopback without TLS. Then anybody who can reach the port can act as a
	// member of the cluster, and can petition the leader under any id (raft.Who).
	Insecure bool
	// Resolve returns the "host:port" to dial for a member. The transport calls it for each dial, within DialTimeout, and opens all
	// lanes of a connection at the address that it returned. A member that has moved has several addresses, and the transport
	// tries them in turn. m.Address is the address to resolve.
	// If the configuration has another incarnation of this member's id at the same address, the transport does not call
	// Resolve for that incarnation. In that case, correct the configuration (node.Node.UpdateMember). Nil: the member's
	// Address.
	Resolve func(ctx context.Context, m raft.Member) (string, error)

	// FrameBytesMax bounds one append message, in both directions, in bytes. It must be at least the larger of
	// Config.AppendBytesMax and Config.CommandBytesMax, plus 64 KiB; otherwise node.Start refuses it. Set the same value on
	// all members. Members announce their limits when they connect. No member sends a message that the other does not accept.
	// A leader refuses commands that exceed the smallest limit. If an entry of the log is too large for a member, the leader
	// sends the member a snapshot. Default 72 MiB, enough for every Config; at least 64 KiB, at most 1 GiB.
	FrameBytesMax int
	// HandshakesMax bounds the inbound connections whose handshake is not finished. Each of them uses a file descriptor and,
	// while it is silent, about 10 KiB. At the limit, a new connection replaces one of them. It prefers a connection from an
	// address where no member was dialed, then a connection at an earlier stage of its handshake, then the oldest connection.
	// Default 2,048.
	HandshakesMax int
	// InboundMax bounds the inbound connections whose handshake is finished. At the limit, a member that
	// Connect names replaces a caller that Connect does not name. Default 2,048: four lanes for each of twice
	// raft.MembersMax members.
	InboundMax int

	// DialTimeout bounds the time to resolve the address and connect, for each lane. Default 2 s.
	DialTimeout time.Duration
	// HandshakeTimeout bounds a handshake, including that of TLS. Default 2 s.
	HandshakeTimeout time.Duration
	// WriteTimeout is the longest time that a write of 128 KiB may take. If a write takes longer, the connection is closed. A
	// slow link that makes progress stays open, however large the message is. The receiver closes a connection if fewer than
	// 16 KiB of a message arrive within twice its own WriteTimeout. Default 10 s.
	WriteTimeout time.Duration
	// IdleTimeout is the longest silence before a connection is closed. A running member is never silent for more than two
	// thirds of it. If the bulk connection is dead while heartbeats pass, writes stop for at most this time. The longer
	// IdleTimeout of the two members applies to both. Default: four times the longer ElectionTimeout of the two members, but
	// at least 2 s and at most 8 s.
	IdleTimeout time.Duration
	// RedialMin and RedialMax bound the pause between two dials of a peer. The pause doubles after each dial that fails, and
	// after a connection that lasts for less than the pause. It has a random part. Defaults: 10 ms and 1 s. With a RedialMax above
	// 1 s, refusals may not count (raft.PeerStatus), so the place of a lost member may be free only after 10 s.
	RedialMin, RedialMax time.Duration

	// Logger gets at most one line a minute for each kind of trouble. Nil: no logging.
	Logger hclog.Logger
}

// withDefaults returns the options with defaults in place of zero values.
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
	timeoutMax    = time.Hour // of any timeout
	idleElections = 4
	idleMin       = 2 * time.Second
	idleMax       = 8 * time.Second
)

// idleTimeout returns the IdleTimeout between two members. It returns the longer one, because each member sends beats only as
// often as its own setting requires. The default depends on the election timeout. It can be several election timeouts,
// because a cluster replaces a silent leader much earlier.
func idleTimeout(a, b raft.Hello) time.Duration {
	longer := min(max(a.ElectionTimeout, b.ElectionTimeout), idleMax)
	standard := min(max(idleElections*longer, idleMin), idleMax)
	return max(cmp.Or(a.IdleTimeout, standard), cmp.Or(b.IdleTimeout, standard))
}

// hello returns the hello of this member to a peer. The hello includes the settings of this transport that the peer's
// transport needs.
func (t *TCP) hello(to raft.Peer) raft.Hello {
	h := t.links.handler.Hello(to)
	h.IdleTimeout = t.options.IdleTimeout
	return h
}

// beatInterval returns the time between two beats: a third of the shortest value that idleTimeout can return.
func (o Options) beatInterval() time.Duration { return cmp.Or(o.IdleTimeout, idleMin) / 3 }

// Validate returns all faults of the options as one joined error, or nil if there are none. Listen and New call it.
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
	if o.TLS != nil && o.TLSSource != nil {
		errs = append(errs, &TLSFieldError{Remedy: "must be nil if there is a TLSSource"})
	}
	if o.secured() {
		_, err := o.presentTLS()
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("transport: invalid options: %w", err)
	}
	return nil
}

// checkAddress refuses an address beyond loopback without TLS. It is called with a resolved address.
func (o Options) checkAddress(address string) error {
	if o.secured() || o.Insecure {
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
