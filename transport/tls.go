package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"github.com/coxswain/raft"
)

// IdentityURI returns the URI that a member's certificate carries as a subject alternative name,
// raft://<cluster name>/<member id>. A certificate cannot contain a cluster name that is not a valid host name.
func IdentityURI(cluster string, id raft.NodeID) *url.URL {
	return &url.URL{Scheme: "raft", Host: cluster, Path: "/" + string(id)}
}

// tlsConfigs returns the TLS configurations of inbound and outbound connections.
func tlsConfigs(o Options) (inbound, outbound *tls.Config) {
	if o.TLS == nil {
		return nil, nil
	}
	inbound = o.TLS.Clone()
	inbound.MinVersion = tls.VersionTLS13
	inbound.ClientAuth = tls.RequireAndVerifyClientCert
	if inbound.ClientCAs == nil {
		inbound.ClientCAs = inbound.RootCAs
	}
	outbound = o.TLS.Clone()
	outbound.MinVersion = tls.VersionTLS13
	// This skips the comparison of host names. verifyChain verifies the chain, and identify compares the
	// identity after the Hello.
	outbound.InsecureSkipVerify = true
	further := outbound.VerifyConnection
	outbound.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verifyChain(state, o.TLS.RootCAs); err != nil || further == nil {
			return err
		}
		return further(state)
	}
	return inbound, outbound
}

// verifyChain checks that the certificate of a dialed peer chains to one of the roots.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
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
	err := fmt.Errorf("its URIs are %v; it must carry %s", state.PeerCertificates[0].URIs, want)
	return &CertificateError{Member: id, Err: err}
}
