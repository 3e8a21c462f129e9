package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/coxswain/raft"
)

// IdentityURI returns the URI of a member: raft://<cluster name>/<member id>. The member's certificate carries it as a
// subject alternative name. If the cluster name is not a valid host name, a certificate cannot contain it.
func IdentityURI(cluster string, id raft.NodeID) *url.URL {
	return &url.URL{Scheme: "raft", Host: cluster, Path: "/" + string(id)}
}

// secured reports whether the connections use TLS.
func (o Options) secured() bool { return o.TLS != nil || o.TLSSource != nil }

// presentTLS returns the TLS configuration for a new connection. inboundTLS or outboundTLS must still guard it.
func (o Options) presentTLS() (*tls.Config, error) {
	c := o.TLS
	if o.TLSSource != nil {
		c = o.TLSSource()
	}
	return c, errors.Join(checkTLS(c)...)
}

// checkTLS returns the faults of a TLS configuration: fields that are set but cannot have their usual effect. inboundTLS and
// outboundTLS set the other fields that matter for security. SECURITY.md lists all fields.
func checkTLS(c *tls.Config) (errs []error) {
	if c == nil {
		return []error{&TLSFieldError{Remedy: "TLSSource returned nil: it must return a configuration"}}
	}
	served := len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil
	sent := len(c.Certificates) > 0 || c.GetClientCertificate != nil
	const noECH = "members send no server name to hide, and encrypted hellos change which peer is verified"
	for _, f := range []struct {
		name   string
		wrong  bool
		remedy string
	}{
		{"RootCAs", c.RootCAs == nil, "no RootCAs: name the authorities of the members' certificates"},
		{"Certificates", !served || !sent, "no certificate: a member needs one as server and as client"},
		{"InsecureSkipVerify", c.InsecureSkipVerify, "must be false: certificates are always verified"},
		{"MaxVersion", c.MaxVersion != 0 && c.MaxVersion < tls.VersionTLS13, "must be 0 or at least TLS 1.3"},
		{"EncryptedClientHelloConfigList", c.EncryptedClientHelloConfigList != nil, "must be nil: " + noECH},
		{"EncryptedClientHelloRejectionVerify", c.EncryptedClientHelloRejectionVerify != nil, "must be nil: " + noECH},
	} {
		if f.wrong {
			errs = append(errs, &TLSFieldError{Field: f.name, Remedy: f.remedy})
		}
	}
	return errs
}

// inboundTLS returns a copy of c that verifies every caller, whatever c and its callbacks say. The copy uses the authorities
// in c. If c names none, it uses the given authorities.
func inboundTLS(c *tls.Config, authorities *x509.CertPool) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs = cmp.Or(c.ClientCAs, c.RootCAs, authorities)
	c.SessionTicketsDisabled = true // a resumed session would prove only what was true when it began
	c.GetCertificate = alwaysAsked(c)
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			chosen = inboundTLS(chosen, c.ClientCAs)
			if len(chosen.Certificates) == 0 && chosen.GetCertificate == nil {
				chosen.Certificates, chosen.GetCertificate = c.Certificates, c.GetCertificate
			}
			return chosen, nil
		}
	}
	return c
}

// alwaysAsked changes c so that c.GetCertificate is called for every caller, and returns that function. Without this change,
// crypto/tls behaves differently if Certificates is set: it calls the function only for callers that name the server. Members
// do not name it.
func alwaysAsked(c *tls.Config) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	ask, otherwise := c.GetCertificate, c.Certificates
	if ask == nil || len(otherwise) == 0 {
		return ask
	}
	c.Certificates = nil
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if chosen, err := ask(hello); chosen != nil || err != nil {
			return chosen, err
		}
		for i := range otherwise {
			if hello.SupportsCertificate(&otherwise[i]) == nil {
				return &otherwise[i], nil
			}
		}
		return &otherwise[0], nil
	}
}

// outboundTLS returns a copy of c that verifies every member that is dialed, whatever c says.
func outboundTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientSessionCache = nil // a resumed session would prove only what was true when it began
	// With this setting, crypto/tls does not compare host names. verifyChain verifies the chain, and identify compares the
	// identity after the Hello.
	c.InsecureSkipVerify = true
	ofCertificates, ofConnection := c.VerifyPeerCertificate, c.VerifyConnection
	c.VerifyPeerCertificate = nil // it would be called before the chains are verified
	c.VerifyConnection = func(state tls.ConnectionState) (err error) {
		if state.VerifiedChains, err = verifyChain(state, c); err != nil {
			return err
		}
		if ofCertificates != nil {
			raw := make([][]byte, len(state.PeerCertificates))
			for i, cert := range state.PeerCertificates {
				raw[i] = cert.Raw
			}
			if err := ofCertificates(raw, state.VerifiedChains); err != nil {
				return err
			}
		}
		if ofConnection != nil {
			return ofConnection(state)
		}
		return nil
	}
	return c
}

// verifyChain returns the chains from the certificate of a dialed peer to the RootCAs of c.
func verifyChain(state tls.ConnectionState, c *tls.Config) ([][]*x509.Certificate, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errors.New("no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, further := range state.PeerCertificates[1:] {
		intermediates.AddCert(further)
	}
	return state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: c.RootCAs, Intermediates: intermediates, CurrentTime: clock(c),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// clock returns the time at which certificates must be valid.
func clock(c *tls.Config) time.Time {
	if c != nil && c.Time != nil { // without Options.TLS, a DialFunc may return a TLS connection
		return c.Time()
	}
	return time.Now()
}

// alertExpired is the text of the alert that crypto/tls sends if a certificate has expired or is not valid yet.
var alertExpired = tls.AlertError(45).Error()

// explainTLS explains the error of a TLS handshake. If a certificate is not valid yet, crypto/tls and its alert say that the
// certificate has expired. The returned error says which of the two is true.
func explainTLS(err error, c *tls.Config) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return &CertificateTimeError{NotBefore: invalid.Cert.NotBefore, NotAfter: invalid.Cert.NotAfter, Now: clock(c), Err: err}
	}
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" && alert.Err.Error() == alertExpired {
		return fmt.Errorf("by the peer's clock, this member's certificate has expired or is not valid yet; its log says which: %w", err)
	}
	return err
}

// verifyIdentity checks that the peer of a TLS connection is the member that it claims to be.
func (o Options) verifyIdentity(cluster string, id raft.NodeID, state tls.ConnectionState) error {
	if o.VerifyPeer != nil {
		if err := o.VerifyPeer(cluster, id, state); err != nil {
			return &CertificateError{Member: id, Err: err}
		}
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return &CertificateError{Member: id, Err: errors.New("no certificate")}
	}
	want := IdentityURI(cluster, id)
	for _, u := range state.PeerCertificates[0].URIs {
		if *u == *want {
			return nil
		}
	}
	err := fmt.Errorf("its URIs are %v, but it must carry %s", state.PeerCertificates[0].URIs, want)
	return &CertificateError{Member: id, Err: err}
}
