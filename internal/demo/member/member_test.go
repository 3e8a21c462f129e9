package member_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coxswain/raft/internal/demo/member"
	"github.com/coxswain/raft/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logged runs a member and returns the first log line that contains the text.
func logged(t *testing.T, text string, peers ...string) string {
	t.Helper()
	return loggedIn(t, t.TempDir(), "segments", text, peers...)
}

func loggedIn(t *testing.T, dir, log, text string, peers ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- member.Run(ctx, member.Options{
			ID: "n1", Cluster: "test", Data: dir, RaftAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0",
			Peers: peers, LogLevel: "info", Log: log,
		}, write)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			break
		}
	}
	found := lines.Text()
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	require.NoError(t, <-ended)
	return found
}

func TestRun_LogsWhatItWaitsForUntilItIsReady(t *testing.T) {
	assert.Contains(t, logged(t, "not ready yet"), "waits to be added")
	assert.Contains(t, logged(t, "not ready yet", "n1=127.0.0.1:1=http://h", "n2=127.0.0.1:2=http://h"), "n2")
	assert.Contains(t, logged(t, "n1: ready", "n1=127.0.0.1:1=http://h"), "leader=n1")
}

// Before a configuration names the member, the flags define the names under which the member answers.
func TestRun_AnswersUnderItsOwnNamesAlone(t *testing.T) {
	machine, err := os.Hostname()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- member.Run(ctx, member.Options{
			ID: "n1", Cluster: "test", Data: t.TempDir(), RaftAddr: "127.0.0.1:0", HTTPAddr: "localhost:0", URL: "https://n1.kv.example",
			Peers: []string{"n1=127.0.0.1:1=http://n1.lan:1", "n2=127.0.0.1:2=http://n2.lan"}, LogLevel: "info",
		}, write)
		_ = write.Close()
	}()
	lines, url := bufio.NewScanner(read), ""
	for url == "" && lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), "clients=")
		url, _, _ = strings.Cut(rest, " ")
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	for host, want := range map[string]int{
		"n1.kv.example": 200, "n1.lan:4001": 200, machine: 200, "localhost:1": 200, "evil.example": 403,
	} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status", nil)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		assert.Equal(t, want, response.StatusCode, host)
		require.NoError(t, response.Body.Close())
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestRun_SaysInFlagsWhoseDataItIs(t *testing.T) {
	dir := t.TempDir()
	loggedIn(t, dir, "segments", "n1: ready", "n1=127.0.0.1:1=http://h")
	assert.DirExists(t, filepath.Join(dir, storage.LogDir), "these members keep their log in segments")
	assert.Contains(t, loggedIn(t, dir, "bbolt", "--log", "n1=127.0.0.1:1=http://h"), "raftkv migrate moves it")
	err := member.Run(t.Context(), member.Options{
		ID: "n2", Cluster: "test", Data: dir, RaftAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", LogLevel: "info",
	}, io.Discard)
	assert.EqualError(t, err, `--data: it belongs to member id "n1", not to "n2": name this member's directory, or correct --id or --cluster`)
}
