package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/testca"
	"github.com/stretchr/testify/assert"
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
	}{
		{"a follower forwards writes", "PUT", key, value, 200, `"revision":`},
		{"a follower reads what was written", "GET", key, "", 200, value},
		{"a listing", "GET", "/kv?prefix=a", "", 200, `"bytes":1048576`},
		{"health", "GET", "/healthz", "", 200, "ok"},
		{"readiness", "GET", "/readyz", "", 200, "ready"},
		{"status", "GET", "/status", "", 200, `"leader_url":"http://`},
		{"metrics of the library", "GET", "/metrics", "", 200, "\nraft_"},
		{"metrics of the transport", "GET", "/metrics", "", 200, "\nraft_transport_inbound "},
		{"metrics of the process", "GET", "/metrics", "", 200, "\ngo_goroutines "},
		{"a value that is too large", "PUT", key, value + "x", 413, "value_too_large"},
	} {
		require.Eventually(t, func() bool { // the leader may change at any time
			follower := c.others(c.leader("").ID)[0]
			response, body := send(t, row.method, follower.URL()+row.path, row.body)
			return response.StatusCode == row.status && strings.Contains(body, row.contains) && response.Header.Get(api.NodeHeader) == follower.ID
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

// tlsFlags returns flags with which a member uses a new certificate for the id.
func tlsFlags(t *testing.T, ca *testca.Authority, id string) []string {
	authorities, certificate, key := ca.Files(t, t.TempDir(), "demo", raft.NodeID(id))
	return []string{"--tls-cert", certificate, "--tls-key", key, "--tls-ca", authorities}
}

func TestEndToEnd_TLSKeepsOutACertificateOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	c, ca := newCluster(t), testca.New(t)
	n1, n2, n3 := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	start := func(n local.Node, by *testca.Authority) *local.Process {
		return startApart(t, append(c.ServeArgs(n), tlsFlags(t, by, n.ID)...))
	}
	start(n1, ca)
	start(n2, ca)
	wrong := start(n3, testca.New(t))
	c.await(n1, "says what is wrong", func(s api.Status) bool {
		return !s.Bootstrapped && strings.Contains(strings.Join(s.Missing, "\n"), "certificate")
	})
	wrong.Kill()
	start(n3, ca)
	c.await(n1, "has a leader", func(s api.Status) bool { return s.Leader != "" })
	c.write()
}

// No other member would accept such a certificate, so the member does not start.
func TestEndToEnd_TLSFilesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	c, ca := newCluster(t), testca.New(t)
	args := c.ServeArgs(c.Nodes[2])
	code, says := runServe(t, append(args, tlsFlags(t, ca, "n2")...))
	assert.Equal(t, 1, code)
	assert.Contains(t, says, "--tls-cert ")
	assert.Contains(t, says, "it must carry raft://demo/n3: issue a certificate for this member")
	flags, other := tlsFlags(t, ca, "n3"), tlsFlags(t, ca, "n3")
	flags[3] = other[3]
	code, says = runServe(t, append(args, flags...))
	assert.Equal(t, 1, code)
	assert.Contains(t, says, "--tls-key "+flags[3])
	assert.Contains(t, says, "it must be the key of "+flags[1])
}
