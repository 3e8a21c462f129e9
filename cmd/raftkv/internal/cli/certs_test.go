package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coxswain/raft/cmd/raftkv/internal/cli"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every command says what comes next, up to a change of the authority.
func TestCerts_SayWhatComesNext(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, row := range []struct {
		args string
		code int
		says string
	}{
		{"authority --cluster jobs", 0, "\nnext: raftkv certs member --dir certs ID...\n"},
		{"member n1 n2 n3", 0, "\nnext: copy ca.pem, ID.pem and ID.key to each member, for its --tls-ca, --tls-cert and --tls-key\n"},
		{"show", 0, "certs/n3.pem  raft://jobs/n3, by CN=jobs "},
		{"member --renew n1", 0, "\nnext: copy ID.pem to each member, over its --tls-cert\n"},
		{"member n1", 1, "certs/n1.key exists, and is kept"},
		{"member n4 n1", 5, "certs/n1.key exists, and is kept: use another --dir for a new authority, and --renew for a new certificate; done before: n4"},
		{"authority --cluster jobs --dir new --former certs/ca.pem", 0, "\nnext: raftkv certs member --dir new ID...\n"},
		{"member --dir new n1 n2 n3", 0, "says that all use it:\n1. ca-both.pem, over its --tls-ca; 2. ID.pem and ID.key, over its --tls-cert and --tls-key; 3. ca.pem, over its --tls-ca\n"},
		{"show --dir new", 0, "new/ca-both.pem  authority CN=jobs "},
		{"show --dir none", 1, "open none: no such file or directory"},
		{"member", 2, "requires at least 1 arg(s)"},
		{"authority", 1, `--cluster "" has 0 bytes`},
		{"show --server n1", 2, `--server "n1": write http://host:port`},
	} {
		code, out, errs := run(t, "", strings.Fields("certs "+row.args)...)
		assert.Equal(t, row.code, code, "%s: %s", row.args, errs)
		assert.Contains(t, out+errs, row.says, row.args)
	}
	require.NoError(t, os.WriteFile(filepath.Join("certs", "n2.key"), nil, 0o600))
	code, out, errs := run(t, "", "certs", "show")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "put the key of certs/n2.pem there")
	assert.Equal(t, "raftkv: not all is well\n", errs)
	var cut strings.Builder
	code = cli.Run(t.Context(), []string{"certs", "member", "n5"}, cli.Streams{Out: unwritable{}, Err: &cut})
	assert.Equal(t, 5, code)
	assert.Contains(t, cut.String(), "the command succeeded, but its output could not be written")
}

func TestCerts_ShowWhatRunningMembersUse(t *testing.T) {
	var urls []string
	for _, used := range []string{
		`{"id":"n1","tls":{"issuer":"CN=new","authorities":["CN=new","CN=old"],"not_after":"2030-01-02T03:04:05Z"}}`,
		`{"id":"n2","tls":{"issuer":"CN=old","authorities":["CN=old"],"not_after":"2030-01-02T03:04:05Z","problem":"it ends"}}`,
		`{"id":"n3"}`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, used) }))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	code, out, _ := run(t, "", "certs", "show", "--server", urls[0])
	assert.Zero(t, code)
	assert.Equal(t, "n1  by CN=new; trusts CN=new and CN=old  until 2030-01-02T03:04:05Z  ok\n", out)
	code, out, _ = run(t, "", "certs", "show", "--server", strings.Join(urls, ","))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "n1  by CN=new; trusts CN=new and CN=old  until 2030-01-02T03:04:05Z  not trusted by n2\n")
	assert.Contains(t, out, "n2  by CN=old; trusts CN=old")
	assert.Contains(t, out, "  it ends\nn3 ")
	assert.Contains(t, out, "  it has no certificate files, or does not tell\n")
}
