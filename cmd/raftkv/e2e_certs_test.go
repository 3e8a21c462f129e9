package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/node"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certs runs "raftkv certs", and returns what it prints.
func certs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append([]string{"certs"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
	return string(out)
}

// certified are members with certificates from directories of authorities.
type certified struct {
	cluster
}

// startCertified returns a cluster with a leader, and the directory of its authority.
func startCertified(t *testing.T) (c certified, authority string) {
	t.Helper()
	c = certified{newCluster(t)}
	authority = filepath.Join(c.dir, "former")
	certs(t, "authority", "--dir", authority, "--cluster", "demo")
	certs(t, append([]string{"member", "--dir", authority}, ids...)...)
	c.More = func(n local.Node) []string {
		return []string{"--tls-ca", c.file(n, "ca.pem"), "--tls-cert", c.file(n, "cert.pem"), "--tls-key", c.file(n, "cert.key")}
	}
	for _, n := range c.Nodes {
		require.NoError(t, os.Mkdir(c.file(n, ""), 0o700))
		c.installAll(n, authority)
	}
	require.NoError(t, c.Start())
	c.leader("")
	return c, authority
}

// ids are those of the members.
var ids = []string{"n1", "n2", "n3"}

// installAll copies the files of an authority to a member.
func (c certified) installAll(n local.Node, dir string) {
	c.t.Helper()
	for as, from := range map[string]string{"ca.pem": "ca.pem", "cert.pem": n.ID + ".pem", "cert.key": n.ID + ".key"} {
		c.install(n, filepath.Join(dir, from), as)
	}
}

// file returns the name of one of a member's files.
func (c certified) file(n local.Node, name string) string {
	return filepath.Join(c.dir, "tls-"+n.ID, name)
}

// install copies a file of an authority to a member.
func (c certified) install(n local.Node, from, as string) {
	c.t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(c.t, err)
	require.NoError(c.t, os.WriteFile(c.file(n, as), text, 0o600))
}

// uses waits until a member uses a certificate.
func (c certified) uses(n local.Node, as func(*node.CertificateStatus) bool) {
	c.t.Helper()
	c.await(n, "uses its new files", func(s api.Status) bool { return s.TLS != nil && s.TLS.Problem == "" && as(s.TLS) })
}

// refusals reports whether a member has ever refused a certificate, or was refused with its own, as its log says.
func (c certified) refusals(n local.Node) bool {
	c.t.Helper()
	log, err := os.ReadFile(filepath.Join(c.dir, n.ID+".log"))
	require.NoError(c.t, err)
	return strings.Contains(string(log), "tls: ")
}

// restart restarts a member, whose connections are then made by the present files of all.
func (c certified) restart(n local.Node) {
	c.t.Helper()
	c.Process(n.ID).Stop(patience)
	require.NoError(c.t, c.Start(n.ID))
	shared := client.NewHTTP(1, patience)
	defer shared.CloseIdleConnections()
	c.await(n, "serves", func(api.Status) bool { return n.Client(shared).Ready(c.t.Context()) == nil })
	c.await(n, "is connected to all", func(s api.Status) bool {
		for _, m := range s.Members {
			if m.ID != n.ID && !m.Connected {
				return false
			}
		}
		return len(s.Members) == len(c.Nodes)
	})
	c.caughtUp()
}

// The certificates are renewed, and then the authority is changed, while clients write. In the middle of each step of the change, a
// member restarts, so that members of both states have to accept each other. They do, and
// no write is lost.
func TestEndToEnd_TheAuthorityOfAllMembersChangesUnderLoad(t *testing.T) {
	t.Parallel()
	c, former := startCertified(t)
	next := filepath.Join(c.dir, "next")
	work, verify := c.work()

	certs(t, append([]string{"member", "--dir", former, "--renew", "--days", "300"}, ids...)...)
	certs(t, "authority", "--dir", next, "--cluster", "demo", "--former", filepath.Join(former, "ca.pem"))
	certs(t, append([]string{"member", "--dir", next}, ids...)...)
	for i, step := range []struct {
		dir   string
		files map[string]string
		used  func(*node.CertificateStatus) bool
	}{
		{former, map[string]string{"cert.pem": "ID.pem"}, func(s *node.CertificateStatus) bool { return s.DaysLeft < 300 }},
		{next, map[string]string{"ca.pem": "ca-both.pem"}, func(s *node.CertificateStatus) bool { return len(s.Authorities) == 2 }},
		{next, map[string]string{"cert.pem": "ID.pem", "cert.key": "ID.key"}, func(s *node.CertificateStatus) bool { return s.Issuer == s.Authorities[0] }},
		{next, map[string]string{"ca.pem": "ca.pem"}, func(s *node.CertificateStatus) bool { return slices.Equal(s.Authorities, []string{s.Issuer}) }},
	} {
		take := func(nodes ...local.Node) {
			for _, n := range nodes {
				for as, from := range step.files {
					c.install(n, filepath.Join(step.dir, strings.Replace(from, "ID", n.ID, 1)), as)
				}
			}
			for _, n := range nodes {
				c.uses(n, step.used)
			}
		}
		take(c.Nodes[0])
		if i > 0 {
			c.restart(c.Nodes[i-1])
		}
		take(c.Nodes[1:]...)
		writes(t, work, 5)
	}
	leader := c.leader("")
	c.restart(leader)
	for _, n := range c.Nodes {
		assert.False(t, c.refusals(n), n.ID)
	}
	verify()
	var urls []string
	for _, n := range c.Nodes {
		urls = append(urls, n.URL())
	}
	says := certs(t, "show", "--server", strings.Join(urls, ","))
	assert.Equal(t, 3, strings.Count(says, "ok\n"), says)
	assert.NotContains(t, says, " and ", "each trusts one authority")

	c.Process(leader.ID).Stop(patience)
	c.installAll(leader, former)
	require.NoError(t, c.Start(leader.ID))
	other := c.others(leader.ID)[0]
	require.Eventually(t, func() bool { return c.refusals(other) }, patience, poll, "the former authority is kept out")
}
