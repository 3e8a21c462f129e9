package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/transport"
	"github.com/stretchr/testify/require"
)

func TestEndToEnd_EveryMemberAnswersEverything(t *testing.T) {
	t.Parallel()
	c, _ := startCluster(t)
	key := api.KeyPath("a key/with ünusual parts/..")
	value := strings.Repeat("\x00\xff", 1<<19) // the largest possible one
	for _, row := range []struct {
		rule, method, path, body string
		status                   int
		contains                 string
		forwarded                bool
	}{
		{"a follower forwards writes", "PUT", key, value, 200, `"revision":`, true},
		{"a follower reads what was written", "GET", key, "", 200, value, false},
		{"a listing", "GET", "/kv?prefix=a", "", 200, `"bytes":1048576`, false},
		{"health", "GET", "/healthz", "", 200, "ok", false},
		{"readiness", "GET", "/readyz", "", 200, "ready", false},
		{"status", "GET", "/status", "", 200, `"leader_url":"http://`, false},
		{"metrics of the library", "GET", "/metrics", "", 200, "\nraft_", false},
		{"metrics of the transport", "GET", "/metrics", "", 200, "\nraft_transport_inbound ", false},
		{"metrics of the process", "GET", "/metrics", "", 200, "\ngo_goroutines ", false},
		{"a value that is too large", "PUT", key, value + "x", 413, "value_too_large", false},
	} {
		require.Eventually(t, func() bool { // the leader may change at any time
			follower := c.others(c.leader("").ID)[0]
			response, body := send(t, row.method, follower.URL()+row.path, row.body)
			by, from := response.Header.Get(api.NodeHeader), response.Header.Get(api.ForwardedHeader)
			return response.StatusCode == row.status && strings.Contains(body, row.contains) &&
				row.forwarded == (from == follower.ID) && row.forwarded == (by != follower.ID)
		}, patience, poll, row.rule)
	}
}

func send(t *testing.T, method, url, body string) (*http.Response, string) {
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(answer)
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func writePEM(t *testing.T, file, kind string, data []byte) {
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func newAuthority(t *testing.T) authority {
	a := authority{key: newKey(t), file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	data, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(data)
	require.NoError(t, err)
	writePEM(t, a.file, "CERTIFICATE", data)
	return a
}

// flags returns flags with which a member uses a new certificate for its id.
func (a authority) flags(t *testing.T, id string) []string {
	key, dir := newKey(t), t.TempDir()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		URIs:        []*url.URL{transport.IdentityURI("demo", raft.NodeID(id))},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	data, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	require.NoError(t, err)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certFile, "CERTIFICATE", data)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	writePEM(t, keyFile, "PRIVATE KEY", private)
	return []string{"--tls-cert", certFile, "--tls-key", keyFile, "--tls-ca", a.file}
}

func TestEndToEnd_TLSKeepsOutACertificateOfAnotherMember(t *testing.T) {
	t.Parallel()
	c, ca := newCluster(t), newAuthority(t)
	n1, n2, n3 := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	start := func(n local.Node, certificate string) *local.Process {
		return startApart(t, append(c.ServeArgs(n), ca.flags(t, certificate)...))
	}
	start(n1, "n1")
	start(n2, "n2")
	wrong := start(n3, "n2")
	c.await(n1, "says what is wrong", func(s api.Status) bool {
		return !s.Bootstrapped && strings.Contains(strings.Join(s.Missing, "\n"), "certificate")
	})
	wrong.Kill()
	start(n3, "n3")
	c.await(n1, "has a leader", func(s api.Status) bool { return s.Leader != "" })
	c.write()
}
