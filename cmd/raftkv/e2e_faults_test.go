package main_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coxswain/raft/admin"
	"github.com/coxswain/raft/internal/demo/api"
	"github.com/coxswain/raft/internal/demo/client"
	"github.com/coxswain/raft/internal/demo/local"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndToEnd_AMemberWithAnEmptiedDiskSaysSoAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	w, verify := c.work()
	wiped := c.others(leader.ID)[0]
	writes(t, w, 20)
	c.Kill(wiped.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(wiped.ID)))
	require.NoError(t, c.Start(wiped.ID))
	c.await(wiped, "knows that it was wiped", func(s api.Status) bool { return s.Wiped })
	writes(t, w, 20)
	status := c.status(wiped)
	assert.Zero(t, status.Applied, "it applies nothing")
	assert.Equal(t, "unknown here: this member's disk was emptied, and it does not count", status.Tolerance)
	for _, n := range c.Nodes {
		if n != wiped {
			c.await(n, "counts two voters", func(s api.Status) bool {
				return s.Tolerance == "none: 2 of 3 voters can be reached, and the next failure stops the cluster"
			})
		}
		require.Eventually(t, func() bool { // the leader may change at any time
			response, err := http.Get(n.URL() + admin.ReadyPath)
			return err == nil && response.Body.Close() == nil && (n != wiped) == (response.StatusCode == http.StatusOK)
		}, patience, poll, "%s: readiness", n.ID)
	}
	verify()
}

// replaced returns a copy of the arguments in which the value of one flag is changed.
func replaced(args []string, flag string, change func(string) string) []string {
	changed := append([]string(nil), args...)
	for i := range changed[:len(changed)-1] {
		if changed[i] == flag {
			changed[i+1] = change(changed[i+1])
		}
	}
	return changed
}

// startApart starts a process outside of the cluster. The process ends with the test.
func startApart(t *testing.T, args []string) *local.Process {
	t.Helper()
	p, err := local.StartProcess(program, args, filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func TestEndToEnd_UnequalConfigurationsFoundNothingAndSayWhy(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule   string
		flag   string
		change func(string) string
		says   string
	}{
		{"unequal --peers lists", "--peers", func(peer string) string {
			return strings.Replace(peer, "n2=127.0.0.1:", "n2=localhost:", 1)
		}, "list"},
		{"another cluster's name", "--cluster", func(string) string { return "other" }, "cluster"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			c := newCluster(t)
			require.NoError(t, c.Start("n1", "n2"))
			startApart(t, replaced(c.ServeArgs(c.Nodes[2]), row.flag, row.change))
			var missing []string
			c.await(c.Nodes[0], "says what differs", func(s api.Status) bool {
				missing = s.Missing
				return strings.Contains(strings.Join(s.Missing, "\n"), row.says)
			})
			t.Logf("n1 says: %s", strings.Join(missing, "; "))
			status := c.status(c.Nodes[0])
			assert.False(t, status.Bootstrapped)
			assert.Empty(t, status.Leader)
			_, err := c.clientOf(c.Nodes[0]).Put(t.Context(), "k", nil, client.Condition{})
			assert.Equal(t, admin.NoLeader, api.CodeOf(err))
		})
	}
}

func TestEndToEnd_AMemberOfAnotherClusterIsKeptOut(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	outsider := c.others(leader.ID)[0]
	c.Kill(outsider.ID)
	require.NoError(t, os.RemoveAll(c.DataDir(outsider.ID)))
	startApart(t, replaced(c.ServeArgs(outsider), "--cluster", func(string) string { return "other" }))
	c.await(c.leader(""), "does not take it in", func(s api.Status) bool {
		for _, m := range s.Members {
			if m.ID == outsider.ID {
				return !m.Connected && strings.Contains(m.ConnectionErr, `is of "other"`)
			}
		}
		return false
	})
	c.write() // two of three members continue
}

func TestEndToEnd_APeerThatDoesNotResolveIsNamedInTheStatus(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	startApart(t, replaced(c.ServeArgs(c.Nodes[0]), "--peers", func(peer string) string {
		return strings.Replace(peer, "n2=127.0.0.1:", "n2=no.such.host.invalid:", 1)
	}))
	c.await(c.Nodes[0], "says which host does not resolve", func(s api.Status) bool {
		for _, m := range s.Members {
			if m.ID == "n2" {
				return !m.Connected && strings.Contains(m.ConnectionErr, "no.such.host.invalid") &&
					strings.Contains(strings.Join(s.Missing, "\n"), m.ConnectionErr)
			}
		}
		return false
	})
}

// runServe runs a member that must end by itself with an error. It returns the exit code and the output of the member.
func runServe(t *testing.T, args []string) (code int, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	stdin, err := cmd.StdinPipe() // stays open
	require.NoError(t, err)
	defer stdin.Close()
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Run(), &exit), "it fails: %s", out.String())
	return exit.ExitCode(), out.String()
}

func TestEndToEnd_AStrangerOnTheRaftPortIsLoggedAndChangesNothing(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	stranger, err := net.Dial("tcp", leader.RaftAddr)
	require.NoError(t, err)
	defer stranger.Close()
	_, err = stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, stranger) // until the server closes or resets the connection
	require.Eventually(t, func() bool {
		return strings.Contains(c.LogTail(leader.ID), "inbound connection was not accepted")
	}, patience, poll)
	c.write()
}

func TestEndToEnd_AMemberThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	args := c.ServeArgs(leader)
	elsewhere := func(string) string { return "127.0.0.1:0" }
	free := replaced(replaced(args, "--raft-addr", elsewhere), "--http-addr", elsewhere)
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, row := range []struct {
		rule string
		args []string
		says []string
	}{
		{"the HTTP port is in use", args, []string{"--http-addr", "in use", "a free port"}},
		{"the raft port is in use", replaced(args, "--http-addr", elsewhere), []string{"--raft-addr", "in use", "a free port"}},
		{"the data is in use", free, []string{"--data", "in use by another process: end it"}},
		{"the data is a file", replaced(free, "--data", func(string) string { return file }), []string{"--data", file}},
		{"an HTTP address that does not resolve",
			replaced(args, "--http-addr", func(string) string { return "no.such.host.invalid:1" }),
			[]string{"--http-addr", "no.such.host.invalid"}},
		{"a raft address that does not resolve",
			replaced(free, "--raft-addr", func(string) string { return "no.such.host.invalid:1" }),
			[]string{"--raft-addr", "cannot listen on no.such.host.invalid:1", "choose an address of this machine"}},
	} {
		code, says := runServe(t, row.args)
		assert.Equal(t, 1, code, row.rule)
		for _, want := range row.says {
			assert.Contains(t, says, want, row.rule)
		}
	}
	c.Kill(leader.ID)
	for _, row := range []struct {
		rule, flag, value, says string
	}{
		{"the data of another member", "--id", c.others(leader.ID)[0].ID, "member id"},
		{"the data of another cluster", "--cluster", "other", "cluster"},
	} {
		code, says := runServe(t, replaced(args, row.flag, func(string) string { return row.value }))
		assert.Equal(t, 1, code, row.rule)
		assert.Contains(t, says, "--data: it belongs to "+row.says, row.rule)
	}
}
