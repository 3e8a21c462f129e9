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
)

// issueAndRenew calls what a command would call on a directory, and returns the first error.
func issueAndRenew(dir string) error {
	a, err := Open(dir)
	if err == nil {
		_, err = a.Renew("n1", nil, 365)
	}
	if err == nil {
		_, err = a.Issue("n2", nil, 365)
	}
	return err
}

// authorityFrom replaces the authority by one that is valid between two times.
func (a *Authority) authorityFrom(t *testing.T, from, until time.Time) {
	t.Helper()
	key, keyText, err := newKey()
	require.NoError(t, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "jobs"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	_, text, err := create(template, template, key.Public(), key)
	require.NoError(t, err)
	a.replace(t, "ca.pem", text)
	a.replace(t, "ca.key", keyText)
}

// badFiles are ways to get a directory wrong, and what the commands say about it.
var badFiles = []struct {
	rule       string
	edit       func(t *testing.T, a *Authority)
	says, show string // show: what else Show says, if it is not the same
}{
	{"the authority has ended", func(t *testing.T, a *Authority) {
		a.authorityFrom(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	}, "ca.pem: authority CN=jobs ended at ", ""},
	{"the authority is of the future", func(t *testing.T, a *Authority) {
		a.authorityFrom(t, time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))
	}, "correct the clock of this machine", ""},
	{"the authority ends before the certificate", func(t *testing.T, a *Authority) {
		a.authorityFrom(t, time.Now(), time.Now().Add(100*24*time.Hour+time.Minute))
	}, "before the certificate would: use --days 100, or make a new authority, with --former", "must hold the authority that has issued it"},
	{"the key is of another authority", func(t *testing.T, a *Authority) {
		a.replace(t, "ca.key", newAuthority(t, "").read(t, "ca.key"))
	}, "ca.key: tls: private key does not match public key: put the key of ", ""},
	{"ca.pem is no authority", func(t *testing.T, a *Authority) {
		a.replace(t, "ca.pem", a.read(t, "n1.pem"))
		a.replace(t, "ca.key", a.read(t, "n1.key"))
	}, "CN=n1 is not an authority of a cluster: name the directory, or the ca.pem, of one", "it must carry raft://jobs/ca"},
	{"ca.pem is no certificate", func(t *testing.T, a *Authority) {
		a.replace(t, "ca.pem", a.read(t, "ca.key"))
	}, "ca.pem: there is no certificate in it: was it mixed up with the key?", ""},
	{"ca.pem is half written", func(t *testing.T, a *Authority) {
		text := a.read(t, "ca.pem")
		a.replace(t, "ca.pem", text[:len(text)/2])
	}, "ca.pem: it is incomplete", ""},
	{"ca.key is missing", func(t *testing.T, a *Authority) {
		require.NoError(t, os.Remove(filepath.Join(a.dir, "ca.key")))
	}, "ca.key: no such file or directory: put the key of ", "-"},
	{"the member's key is of another one", func(t *testing.T, a *Authority) {
		a.replace(t, "n1.key", newAuthority(t, "").read(t, "n1.key"))
	}, "n1.key: tls: private key does not match public key: put the key of ", ""},
	{"the member's certificate is half written", func(t *testing.T, a *Authority) {
		text := a.read(t, "n1.pem")
		a.replace(t, "n1.pem", text[:len(text)/2])
	}, "n1.pem: it is incomplete", ""},
	{"the certificate is of another member", func(t *testing.T, a *Authority) {
		a.replace(t, "n1.pem", a.sign(t, "jobs", "n7", a.read(t, "n1.pem"), time.Now().Add(time.Hour)))
	}, "n1.pem: it is of [raft://jobs/n7], not of raft://jobs/n1: put the certificate of this member there", "it must carry raft://jobs/n1"},
	{"the certificate is of another cluster", func(t *testing.T, a *Authority) {
		a.replace(t, "n1.pem", a.sign(t, "other", "n1", a.read(t, "n1.pem"), time.Now().Add(time.Hour)))
	}, "n1.pem: it is of [raft://other/n1], not of raft://jobs/n1", "in 0 days: renew it"},
	{"a renewal was interrupted", func(t *testing.T, a *Authority) { a.replace(t, "n1.pem.part", nil) },
		"n1.pem.part: file exists: another command is writing it, or was interrupted: then remove it", unfinished},
	{"a new member was interrupted", func(t *testing.T, a *Authority) { a.replace(t, "n2.key.part", []byte("-----BEGIN")) },
		"n2.key.part: file exists: another command is writing it, or was interrupted: then remove it", unfinished},
	{"a new member was interrupted between its files", func(t *testing.T, a *Authority) { a.replace(t, "n2.key", a.read(t, "n1.key")) },
		"n2.pem: another command is writing them, or was interrupted: then remove ", ""},
	{"a certificate without its key", func(t *testing.T, a *Authority) { a.replace(t, "n2.pem", a.read(t, "n1.pem")) },
		"n2.pem exists, and is kept", "n2.key: no such file or directory"},
}

// Bad files change nothing. The error names the file and the remedy, and so does Show.
func TestBadFiles(t *testing.T) {
	for _, row := range badFiles {
		t.Run(row.rule, func(t *testing.T) {
			a := newAuthority(t, "")
			row.edit(t, a)
			before := contents(t, a.dir)
			assert.ErrorContains(t, issueAndRenew(a.dir), row.says)
			after := contents(t, a.dir)
			if before["n1.pem"] != after["n1.pem"] { // the renewal was before it
				_, err := filesOf("ca.pem", a.dir, "n1").Check("jobs", "n1")
				require.NoError(t, err)
				after["n1.pem"] = before["n1.pem"]
			}
			assert.Equal(t, before, after, "nothing is lost, and nothing is left")
			rows, err := Show(a.dir)
			require.NoError(t, err)
			var problems string
			for _, r := range rows {
				problems += r.Problem + "\n"
			}
			switch row.show {
			case "-": // a member has none
			case "":
				assert.Contains(t, problems, row.says)
			default:
				assert.Contains(t, problems, row.show)
			}
		})
	}
}

// contents returns the files in a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range list {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		all[f.Name()] = string(text)
	}
	return all
}

// The remedy that the error names is one: without the key, the command succeeds.
func TestIssue_AfterACrashBetweenTheTwoFiles(t *testing.T) {
	a := newAuthority(t, "")
	key := filepath.Join(a.dir, "n2.key")
	a.replace(t, "n2.key", a.read(t, "n1.key"))
	_, err := a.Issue("n2", nil, 365)
	assert.ErrorContains(t, err, "then remove "+key+", and repeat that command")
	_, err = a.Renew("n2", nil, 365)
	assert.ErrorContains(t, err, "then remove "+key)
	require.NoError(t, os.Remove(key))
	_, err = a.Issue("n2", nil, 365)
	require.NoError(t, err)
}

func TestNew_RefusesWhatItCannotUse(t *testing.T) {
	there := newAuthority(t, "")
	trusted := filepath.Join(there.dir, "ca.pem")
	ended := newAuthority(t, "")
	ended.authorityFrom(t, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	elsewhere := filepath.Join(t.TempDir(), "new")
	before := contents(t, there.dir)
	for _, row := range []struct {
		dir, cluster, former string
		days                 int
		says                 string
	}{
		{there.dir, "jobs", "", 1, "ca.key exists, and is kept: use another --dir for a new authority"},
		{there.dir, "jobs", trusted, 1, "ca.key exists, and is kept"},
		{file, "jobs", "", 1, file + ": not a directory: name another --dir"},
		{elsewhere, "", "", 1, `--cluster "" has 0 bytes`},
		{elsewhere, "a b", "", 1, "printable ASCII without spaces"},
		{elsewhere, "a/b", "", 1, `--cluster "a/b": x509: cannot parse URI`},
		{elsewhere, "jobs", "", 0, "--days 0: use 1 to 36500"},
		{elsewhere, "jobs", "", 36501, "--days 36501: use 1 to 36500"},
		{elsewhere, "other", trusted, 1, trusted + " is of cluster jobs, not of --cluster other: name the ca.pem of this cluster"},
		{elsewhere, "jobs", filepath.Join(ended.dir, "ca.pem"), 1, "ca.pem: authority CN=jobs ended at "},
		{elsewhere, "jobs", filepath.Join(there.dir, "n1.pem"), 1, "n1.pem: CN=n1 is not an authority of a cluster"},
		{elsewhere, "jobs", filepath.Join(there.dir, "ca.key"), 1, "was it mixed up with the key?"},
		{elsewhere, "jobs", filepath.Join(there.dir, "none"), 1, "none: no such file or directory: put the certificate there, or name another directory"},
	} {
		_, err := New(row.dir, row.cluster, row.former, row.days)
		assert.ErrorContains(t, err, row.says)
	}
	assert.Equal(t, before, contents(t, there.dir))
	assert.NoDirExists(t, elsewhere)
}

// On a member, there is ca.pem without ca.key.
func TestNew_RefusesTheDirectoryOfAMember(t *testing.T) {
	a := newAuthority(t, "")
	require.NoError(t, os.Remove(filepath.Join(a.dir, "ca.key")))
	before := contents(t, a.dir)
	_, err := New(a.dir, "jobs", "", 1)
	assert.ErrorContains(t, err, "ca.pem exists, and is kept")
	assert.Equal(t, before, contents(t, a.dir))
}

func TestIssue_RefusesWhatItCannotUse(t *testing.T) {
	a := newAuthority(t, "")
	before := contents(t, a.dir)
	for _, row := range []struct{ id, host, says string }{
		{"n1", "", "n1.key exists, and is kept: use another --dir for a new authority, and --renew for a new certificate"},
		{"", "", `member id "" has 0 bytes`},
		{"n 2", "", "printable ASCII without spaces"},
		{"../n2", "", `member id "../n2": no files of a member can have this name`},
		{"CA", "", `member id "CA": no files of a member can have this name`},
		{"ca-both", "", `member id "ca-both": no files`},
		{"n2", "n2:5001", `--host "n2:5001": use a name or an IP address, without a port`},
		{"n2", "dürer", "x509: "},
	} {
		var hosts []string
		if row.host != "" {
			hosts = []string{row.host}
		}
		_, err := a.Issue(row.id, hosts, 365)
		assert.ErrorContains(t, err, row.says, row.id)
	}
	_, err := a.Renew("n2", nil, 365)
	assert.ErrorContains(t, err, "n2.pem: no such file or directory: put the certificate there")
	assert.Equal(t, before, contents(t, a.dir))
}

func TestPut_ADirectoryThatCannotBeWritten(t *testing.T) {
	a := newAuthority(t, "")
	require.NoError(t, os.Chmod(a.dir, 0o500))
	dir := a.dir
	t.Cleanup(func() { assert.NoError(t, os.Chmod(dir, 0o700)) })
	if os.Getuid() == 0 { // for whom every directory can be written
		a.dir = "/proc/self"
	}
	_, err := a.Issue("n2", nil, 365)
	assert.ErrorContains(t, err, "n2.key.part: ")
	assert.ErrorContains(t, err, ": run this as the owner of the directory, or name another --dir")
}

func TestShow_ADirectoryWithoutCertificates(t *testing.T) {
	dir := t.TempDir()
	_, err := Show(dir)
	assert.EqualError(t, err, dir+": there is no certificate in it: name another --dir")
	_, err = Show(filepath.Join(dir, "none"))
	assert.ErrorContains(t, err, "no such file or directory")
}
