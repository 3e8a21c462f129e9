package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/backup"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aBackup returns a backup of entry 5 that the given member has taken.
func aBackup(t *testing.T, by raft.NodeID) []byte {
	t.Helper()
	m := raft.Member{ID: by, Address: "a:1", Incarnation: 7}
	var to bytes.Buffer
	w, err := backup.NewWriter(&to, backup.Head{
		Name: "raftkv", Cluster: raft.ClusterID{0xab}, Member: m, Term: 3, At: time.Unix(1, 0),
		Base: raft.Base{ID: raft.EntryID{Term: 3, Index: 5}, Cluster: raft.ClusterID{0xab}, Bootstrapper: m.Peer(), ConfigIndex: 1,
			Config: raft.NewConfiguration([]raft.Member{m})},
	})
	require.NoError(t, err)
	_, err = w.Write(bytes.Repeat([]byte("state"), 40_000))
	require.NoError(t, err)
	require.NoError(t, w.Finish())
	return to.Bytes()
}

// gives starts a server that has the status, and answers GET /backup.
func gives(t *testing.T, status string, answer http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.BackupPath {
			answer(w, r)
			return
		}
		_, _ = w.Write([]byte(status))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const (
	ofFollower = `{"id":"n2","role":"follower","leader":"n1"}`
	ofLeader   = `{"id":"n1","role":"leader","leader":"n1"}`
)

func giving(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }
}

func TestBackup_IsACompleteFileOrNone(t *testing.T) {
	whole := aBackup(t, "n2")
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	breaksOff := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	hangs := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(whole[:len(whole)/2])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	refuses := func(w http.ResponseWriter, _ *http.Request) {
		api.Errorf("overloaded", "ask another member", "another backup").Write(w)
	}
	for _, row := range []struct {
		rule    string
		answers []http.HandlerFunc // of the leader and a follower
		code    int
		want    string
	}{
		{"a follower is asked first", []http.HandlerFunc{giving(aBackup(t, "n1")), giving(whole)}, 0, "a backup of entry 5 of cluster ab"},
		{"another one is asked if it is refused", []http.HandlerFunc{giving(aBackup(t, "n1")), refuses}, 0, "taken by n1"},
		{"another one is asked if it breaks off", []http.HandlerFunc{giving(aBackup(t, "n1")), breaksOff}, 0, "taken by n1"},
		{"one ends before it answers", []http.HandlerFunc{refuses, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 1, "unreachable: "},
		{"all break off", []http.HandlerFunc{breaksOff, breaksOff}, 1, "broke off: unexpected EOF"},
		{"all are of an earlier release", []http.HandlerFunc{http.NotFound, http.NotFound}, 1, "check that"},
		{"one says that it knows no such path", []http.HandlerFunc{refuses, func(w http.ResponseWriter, _ *http.Request) {
			api.Errorf("not_found", "ask for another path", "no such path").Write(w)
		}}, 1, "runs an earlier release"},
		{"it hangs", []http.HandlerFunc{refuses, hangs}, 1, "nothing came within 300ms (--timeout)"},
		{"a bit was changed on the way", []http.HandlerFunc{refuses, giving(flipped)}, 1, "the backup is damaged"},
		{"a proxy has cut it", []http.HandlerFunc{refuses, giving(whole[:len(whole)-9])}, 1, "it is cut short"},
		{"it is something else", []http.HandlerFunc{refuses, giving([]byte("<html>"))}, 1, "it does not begin like a backup"},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "monday")
		servers := gives(t, ofLeader, row.answers[0]) + "," + gives(t, ofFollower, row.answers[1])
		code, out, errs := run(t, "", "backup", name, "--timeout", "300ms", "--server", servers)
		assert.Equal(t, row.code, code, "%s: %s", row.rule, errs)
		assert.Contains(t, out+errs, row.want, row.rule)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		if row.code != 0 {
			assert.Empty(t, left, row.rule)
			continue
		}
		require.Len(t, left, 1, row.rule)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		by := raft.NodeID("n1")
		if strings.Contains(out, "taken by n2") {
			by = "n2"
		}
		assert.Equal(t, aBackup(t, by), got, row.rule)
	}
}

func TestBackup_ReplacesNothing(t *testing.T) {
	server := gives(t, ofFollower, giving(aBackup(t, "n2")))
	for _, taken := range []string{"monday", "monday.part"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "monday")
		require.NoError(t, os.WriteFile(filepath.Join(dir, taken), []byte("mine"), 0o600))
		code, _, errs := run(t, "", "backup", name, "--server", server)
		assert.Equal(t, 1, code)
		assert.Contains(t, errs, filepath.Join(dir, taken)+" exists already")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, left, 1)
		got, err := os.ReadFile(filepath.Join(dir, taken))
		require.NoError(t, err)
		assert.Equal(t, "mine", string(got))
	}
	code, _, errs := run(t, "", "backup", filepath.Join(t.TempDir(), "no", "monday"), "--server", server)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "no such file")
	code, _, _ = run(t, "", "backup", "--server", server)
	assert.Equal(t, 2, code)
}
