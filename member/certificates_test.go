package member

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/testca"
	"github.com/coxswain/raft/transport"
)

const year = 365 * 24 * time.Hour

// certified returns the settings of a member with certificate files.
func certified(t *testing.T, ca *testca.Authority) Config {
	t.Helper()
	files := TLSFiles(ca.Files(t, t.TempDir(), "test", "n1"))
	return Config{ID: "n1", Cluster: "test", Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: files, Logger: hclog.NewNullLogger()}
}

// write replaces the contents of the files; nil leaves a file as it is.
func (f CertificateFiles) write(t *testing.T, authorities, certificate, key []byte) {
	t.Helper()
	for name, text := range map[string][]byte{f.Authorities: authorities, f.Certificate: certificate, f.Key: key} {
		if text != nil {
			require.NoError(t, os.WriteFile(name, text, 0o600))
		}
	}
}

// badFiles are ways to get the files wrong, with the file that is named and what is said about it.
var badFiles = []struct {
	rule string
	edit func(t *testing.T, ca *testca.Authority, f CertificateFiles)
	file func(CertificateFiles) string
	says string
}{
	{"certificate and key are swapped", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "test", "n1", time.Now().Add(year))
		f.write(t, nil, p.Key, p.Certificate)
	}, certificateFile, "was it mixed up with the key?"},
	{"the key is of another certificate", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		f.write(t, nil, nil, ca.Issue(t, "test", "n1", time.Now().Add(year)).Key)
	}, keyFile, "it must be the key of"},
	{"the certificate has expired", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "test", "n1", time.Now().Add(-time.Hour))
		f.write(t, nil, p.Certificate, p.Key)
	}, certificateFile, "the certificate expired at"},
	{"the certificate is of another member", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "test", "n2", time.Now().Add(year))
		f.write(t, nil, p.Certificate, p.Key)
	}, certificateFile, "its URIs are [raft://test/n2], but it must carry raft://test/n1"},
	{"the certificate is of another cluster", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "other", "n1", time.Now().Add(year))
		f.write(t, nil, p.Certificate, p.Key)
	}, certificateFile, "it must carry raft://test/n1"},
	{"the certificate is of another authority", func(t *testing.T, _ *testca.Authority, f CertificateFiles) {
		p := testca.New(t).Issue(t, "test", "n1", time.Now().Add(year))
		f.write(t, nil, p.Certificate, p.Key)
	}, certificateFile, "must hold the authority that has issued it"},
	{"the certificate is for clients alone", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Sign(t, &x509.Certificate{NotAfter: time.Now().Add(year), URIs: []*url.URL{transport.IdentityURI("test", "n1")},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		f.write(t, nil, p.Certificate, p.Key)
	}, certificateFile, "it needs the usages server and client"},
	{"the certificate is half written", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "test", "n1", time.Now().Add(year))
		f.write(t, nil, p.Certificate[:len(p.Certificate)/2], p.Key)
	}, certificateFile, "it is incomplete: 1 PEM blocks begin, and 0 can be read"},
	{"the second authority is half written", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		both := testca.PEM(ca, testca.New(t))
		f.write(t, both[:len(both)-100], nil, nil)
	}, authoritiesFile, "it is incomplete: 2 PEM blocks begin, and 1 can be read"},
	{"the key is half written", func(t *testing.T, ca *testca.Authority, f CertificateFiles) {
		p := ca.Issue(t, "test", "n1", time.Now().Add(year))
		f.write(t, nil, p.Certificate, p.Key[:len(p.Key)/2])
	}, keyFile, "it must be the key of"},
	{"the authorities are empty", func(t *testing.T, _ *testca.Authority, f CertificateFiles) {
		f.write(t, []byte{}, nil, nil)
	}, authoritiesFile, "there is no certificate in it"},
	{"a file is missing", func(t *testing.T, _ *testca.Authority, f CertificateFiles) {
		require.NoError(t, os.Remove(f.Key))
	}, keyFile, "no such file"},
	{"a file is a directory", func(t *testing.T, _ *testca.Authority, f CertificateFiles) {
		require.NoError(t, os.Remove(f.Key))
		require.NoError(t, os.Mkdir(f.Key, 0o700))
	}, keyFile, "not a regular file"},
	{"a file is much too large", func(t *testing.T, _ *testca.Authority, f CertificateFiles) {
		require.NoError(t, os.Truncate(f.Certificate, 1<<30))
	}, certificateFile, "it takes at most 1048576"},
}

func authoritiesFile(f CertificateFiles) string { return f.Authorities }
func certificateFile(f CertificateFiles) string { return f.Certificate }
func keyFile(f CertificateFiles) string         { return f.Key }

func TestCertificates_AMemberDoesNotStartOnBadFiles(t *testing.T) {
	for _, row := range badFiles {
		t.Run(row.rule, func(t *testing.T) {
			ca := testca.New(t)
			cfg := certified(t, ca)
			row.edit(t, ca, cfg.TLS)
			_, err := Start(t.Context(), cfg, &counter{})
			var field *raft.ConfigError
			var file *CertificateError
			require.ErrorAs(t, err, &field)
			require.ErrorAs(t, err, &file)
			assert.Equal(t, "TLS", field.Field)
			assert.Equal(t, row.file(cfg.TLS), file.File)
			assert.Contains(t, err.Error(), row.says)
			assert.NoFileExists(t, filepath.Join(cfg.Dir, "raft.db"), "the store is not touched")
		})
	}
}

// Check says what a start would say, and names the authorities.
func TestCertificates_CheckIsWhatAStartWouldSay(t *testing.T) {
	for _, row := range badFiles {
		ca := testca.New(t)
		cfg := certified(t, ca)
		s, err := cfg.TLS.Check(cfg.Cluster, cfg.ID)
		require.NoError(t, err)
		assert.Empty(t, s.Problem)
		assert.Equal(t, "CN=test", s.Issuer)
		assert.Equal(t, []string{"CN=test"}, s.Authorities)
		row.edit(t, ca, cfg.TLS)
		_, err = cfg.TLS.Check(cfg.Cluster, cfg.ID)
		assert.ErrorContains(t, err, row.says, row.rule)
	}
}

// A running member keeps what it has, says so loudly, and takes good files as soon as they are there.
func TestCertificates_ARunningMemberKeepsTheFormerFiles(t *testing.T) {
	for _, row := range badFiles {
		t.Run(row.rule, func(t *testing.T) {
			ca := testca.New(t)
			cfg := certified(t, ca)
			var log bytes.Buffer
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
			c, err := newCertificates(cfg)
			require.NoError(t, err)
			former := c.config.Load()
			row.edit(t, ca, cfg.TLS)
			now := time.Now()
			look := func() {
				now = now.Add(certificatePause)
				c.look(now)
				c.report(now)
			}
			look()
			assert.Empty(t, c.status(time.Now()).Problem, "the files may be in the middle of their replacement")
			assert.Same(t, former, c.config.Load())
			for range 3 {
				look()
			}
			s := c.status(time.Now())
			assert.True(t, s.Refused)
			assert.Contains(t, s.Problem, "the former ones stay in use: "+row.file(cfg.TLS)+": ")
			assert.Contains(t, s.Problem, row.says)
			assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte(`a problem has begun: verdict="certificate not used"`)), log.String())
			assert.Contains(t, log.String(), row.says)
			assert.Same(t, former, c.config.Load())

			require.NoError(t, os.RemoveAll(cfg.TLS.Key))
			p := ca.Issue(t, "test", "n1", time.Now().Add(year))
			cfg.TLS.write(t, testca.PEM(ca), p.Certificate, p.Key)
			look()
			assert.Empty(t, c.status(time.Now()).Problem)
			assert.NotSame(t, former, c.config.Load())
			assert.Contains(t, log.String(), "the certificates were read again")
			assert.NotContains(t, log.String(), "a problem has ended", "so soon")
			now = now.Add(certificateLines)
			look()
			assert.Contains(t, log.String(), `a problem has ended: verdict="certificate not used"`)
		})
	}
}

// If the former files come back, there is nothing to take, and no problem any more.
func TestCertificates_TheFormerFilesComeBack(t *testing.T) {
	ca := testca.New(t)
	cfg := certified(t, ca)
	c, err := newCertificates(cfg)
	require.NoError(t, err)
	key, err := os.ReadFile(cfg.TLS.Key)
	require.NoError(t, err)
	cfg.TLS.write(t, nil, nil, []byte("nonsense"))
	c.look(time.Now())
	c.look(time.Now())
	require.True(t, c.status(time.Now()).Refused)
	cfg.TLS.write(t, nil, nil, key)
	c.look(time.Now())
	assert.False(t, c.status(time.Now()).Refused)
}

// A certificate that is not valid yet is taken as soon as it is.
func TestCertificates_WaitUntilTheyAreValid(t *testing.T) {
	ca := testca.New(t)
	cfg := certified(t, ca)
	c, err := newCertificates(cfg)
	require.NoError(t, err)
	former, begins := c.config.Load(), time.Now().Add(time.Hour)
	p := ca.Sign(t, &x509.Certificate{NotBefore: begins, NotAfter: begins.Add(year), URIs: []*url.URL{transport.IdentityURI("test", "n1")},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	cfg.TLS.write(t, nil, p.Certificate, p.Key)
	c.look(time.Now())
	c.look(time.Now())
	assert.Same(t, former, c.config.Load())
	assert.Contains(t, c.status(time.Now()).Problem, "not valid")
	c.look(begins.Add(time.Minute))
	assert.NotSame(t, former, c.config.Load())
	assert.False(t, c.status(time.Now()).Refused)
}

func TestCertificates_TheLast30DaysAreAProblem(t *testing.T) {
	ca := testca.New(t)
	cfg := certified(t, ca)
	until := time.Now().Add(100 * 24 * time.Hour).Truncate(time.Second)
	p := ca.Issue(t, "test", "n1", until)
	cfg.TLS.write(t, nil, p.Certificate, p.Key)
	var log bytes.Buffer
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	c, err := newCertificates(cfg)
	require.NoError(t, err)
	const day = 24 * time.Hour
	for _, row := range []struct {
		left time.Duration
		days int
		says string
	}{
		{100*day - time.Hour, 99, ""},
		{30*day + time.Second, 30, ""},
		{30 * day, 30, cfg.TLS.Certificate + " ends at " + until.UTC().Format(time.RFC3339) + ", in 30 days: renew it"},
		{12 * time.Hour, 0, "in 0 days"},
		{-36 * time.Hour, -1, " ended at "},
	} {
		s := c.status(until.Add(-row.left))
		assert.Equal(t, row.days, s.DaysLeft)
		assert.True(t, until.Equal(s.NotAfter))
		if row.says == "" {
			assert.Empty(t, s.Problem)
		}
		assert.Contains(t, s.Problem, row.says)
	}
	for hour := range 72 {
		c.report(until.Add(-10*day + time.Minute + time.Duration(hour)*time.Hour))
	}
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	assert.Contains(t, log.String(), `a problem has begun: verdict="certificate ends"`)
}

// An authority that ends first ends the certificate, too.
func TestCertificates_AnAuthorityMayEndFirst(t *testing.T) {
	ca := testca.New(t)
	cfg := certified(t, ca)
	p := ca.Issue(t, "test", "n1", time.Now().AddDate(20, 0, 0))
	cfg.TLS.write(t, nil, p.Certificate, p.Key)
	c, err := newCertificates(cfg)
	require.NoError(t, err)
	assert.Contains(t, c.status(time.Now().AddDate(9, 11, 25)).Problem, "an authority of "+cfg.TLS.Certificate+" ends at ")
}

// With another rule for identities, the certificate need not name the member.
func TestCertificates_VerifyPeerReplacesTheRule(t *testing.T) {
	ca := testca.New(t)
	cfg := certified(t, ca)
	p := ca.Issue(t, "test", "n2", time.Now().Add(year))
	cfg.TLS.write(t, nil, p.Certificate, p.Key)
	_, err := newCertificates(cfg)
	require.Error(t, err)
	cfg.Net.VerifyPeer = func(string, raft.NodeID, tls.ConnectionState) error { return nil }
	_, err = newCertificates(cfg)
	require.NoError(t, err)
}
