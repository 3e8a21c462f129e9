package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/member"
)

// files are those that a member has.
func filesOf(trusted, dir, id string) member.CertificateFiles {
	return member.TLSFiles(filepath.Join(dir, trusted), filepath.Join(dir, id+".pem"), filepath.Join(dir, id+".key"))
}

// newAuthority returns an authority of the cluster jobs with a certificate of n1.
func newAuthority(t *testing.T, former string) *Authority {
	t.Helper()
	a, err := New(filepath.Join(t.TempDir(), "certs"), "jobs", former, 3650)
	require.NoError(t, err)
	_, err = a.Issue("n1", []string{"n1.jobs", "10.0.0.1"}, 365)
	require.NoError(t, err)
	return a
}

// replace puts other files of a member into a directory, in one step for the reader.
func (a *Authority) replace(t *testing.T, name string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, name), text, 0o600))
}

func (a *Authority) read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(a.dir, name))
	require.NoError(t, err)
	return text
}

func TestIssue_AMemberStartsWithItsFiles(t *testing.T) {
	a := newAuthority(t, "")
	status, err := filesOf("ca.pem", a.dir, "n1").Check("jobs", "n1")
	require.NoError(t, err)
	assert.Equal(t, 364, status.DaysLeft)
	assert.Equal(t, a.Cert.Subject.String(), status.Issuer)
	assert.Equal(t, []string{status.Issuer}, status.Authorities)
	for _, name := range []string{"ca.pem", "ca.key", "n1.pem", "n1.key"} {
		info, err := os.Stat(filepath.Join(a.dir, name))
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, info.Mode().Perm(), name)
	}
	rows, err := Show(a.dir)
	require.NoError(t, err)
	assert.Len(t, rows, 4)
	for _, row := range rows {
		assert.Empty(t, row.Problem, row.File)
	}
	assert.Contains(t, rows[3].What, "raft://jobs/n1, by CN=jobs ")
}

func TestRenew_KeepsKeyAndHosts(t *testing.T) {
	a := newAuthority(t, "")
	key := a.read(t, "n1.key")
	opened, err := Open(a.dir)
	require.NoError(t, err)
	cert, err := opened.Renew("n1", nil, 500)
	require.NoError(t, err)
	assert.Equal(t, key, a.read(t, "n1.key"))
	assert.Equal(t, []string{"n1.jobs"}, cert.DNSNames)
	assert.True(t, cert.IPAddresses[0].Equal([]byte{10, 0, 0, 1}))
	status, err := filesOf("ca.pem", a.dir, "n1").Check("jobs", "n1")
	require.NoError(t, err)
	assert.Equal(t, 499, status.DaysLeft)
	cert, err = opened.Renew("n1", []string{"other"}, 500)
	require.NoError(t, err)
	assert.Equal(t, []string{"other"}, cert.DNSNames)
}

// A certificate that has ended can be renewed, as at night.
func TestRenew_AfterTheEnd(t *testing.T) {
	a := newAuthority(t, "")
	expired := a.sign(t, "jobs", "n1", a.read(t, "n1.pem"), time.Now().Add(-time.Minute))
	a.replace(t, "n1.pem", expired)
	_, err := a.Renew("n1", nil, 365)
	require.NoError(t, err)
	_, err = filesOf("ca.pem", a.dir, "n1").Check("jobs", "n1")
	assert.NoError(t, err)
}

// sign returns a certificate for the key of another one, that ends at a time.
func (a *Authority) sign(t *testing.T, cluster, id string, of []byte, until time.Time) []byte {
	t.Helper()
	template, err := (&Authority{Cert: &x509.Certificate{Subject: pkix.Name{CommonName: cluster}, NotAfter: time.Now().AddDate(9, 0, 0)}}).template(id, nil, 365)
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = until.Add(-time.Hour), until
	file := filepath.Join(t.TempDir(), "pem")
	require.NoError(t, os.WriteFile(file, of, 0o600))
	all, err := readCertificates(file)
	require.NoError(t, err)
	_, text, err := create(template, a.Cert, all[0].PublicKey, a.key)
	require.NoError(t, err)
	return text
}

// A new authority takes three steps. Members that are a step apart accept each other. Without one of the steps, they do not.
func TestNew_OnlyMembersAStepApartAcceptEachOther(t *testing.T) {
	former := newAuthority(t, "")
	next := newAuthority(t, filepath.Join(former.dir, "ca.pem"))
	steps := []struct{ trusted, issued string }{
		{filepath.Join(former.dir, "ca.pem"), former.dir},
		{filepath.Join(next.dir, BothFile), former.dir},
		{filepath.Join(next.dir, BothFile), next.dir},
		{filepath.Join(next.dir, "ca.pem"), next.dir},
	}
	accepts := func(i, k int) bool {
		_, err := member.TLSFiles(steps[i].trusted, filepath.Join(steps[k].issued, "n1.pem"), filepath.Join(steps[k].issued, "n1.key")).Check("jobs", "n1")
		return err == nil
	}
	for i := range steps {
		for k := range steps {
			apart := i - k
			assert.Equal(t, apart >= -1 && apart <= 1, accepts(i, k) && accepts(k, i), "steps %d and %d", i, k)
		}
	}
}
