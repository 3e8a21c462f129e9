// Package testca issues certificates of members, for tests.
package testca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/transport"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority that is valid for ten years.
func New(t testing.TB) *Authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &Authority{key: newKey(t)}
	data, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(data)
	require.NoError(t, err)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// PEM returns the certificates of several authorities as the contents of a file.
func PEM(all ...*Authority) []byte {
	var b bytes.Buffer
	for _, a := range all {
		b.Write(encode("CERTIFICATE", a.cert.Raw))
	}
	return b.Bytes()
}

func encode(kind string, data []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
}

// Pair is the contents of the files of a certificate and its key.
type Pair struct{ Certificate, Key []byte }

// Issue returns a certificate of a member that ends at a time, and began an hour before that or before now.
func (a *Authority) Issue(t testing.TB, cluster string, id raft.NodeID, until time.Time) Pair {
	t.Helper()
	from := time.Now()
	if until.Before(from) {
		from = until
	}
	return a.Sign(t, &x509.Certificate{
		NotBefore: from.Add(-time.Hour), NotAfter: until, URIs: []*url.URL{transport.IdentityURI(cluster, id)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
}

// Sign returns a certificate with a new key that follows a template.
func (a *Authority) Sign(t testing.TB, template *x509.Certificate) Pair {
	t.Helper()
	key := newKey(t)
	template.SerialNumber = big.NewInt(2)
	data, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return Pair{Certificate: encode("CERTIFICATE", data), Key: encode("PRIVATE KEY", private)}
}

// Files writes ca.pem, and a certificate of a member that is valid for ten years, into a directory. It returns the names of
// the files.
func (a *Authority) Files(t testing.TB, dir, cluster string, id raft.NodeID) (authorities, certificate, key string) {
	t.Helper()
	pair := a.Issue(t, cluster, id, time.Now().AddDate(10, 0, 0))
	authorities, certificate, key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, string(id)+".pem"), filepath.Join(dir, string(id)+".key")
	for file, data := range map[string][]byte{authorities: PEM(a), certificate: pair.Certificate, key: pair.Key} {
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	return authorities, certificate, key
}
