package main_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coxswain/raft/internal/demo/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}))
	return user, program
}

// status returns the output of "raftkv status" about the demo, with any exit code.
func status(t *testing.T) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), program, "status").CombinedOutput()
	return string(out)
}

func TestEndToEnd_TheKeysOfTheDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	user, terminal := openTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	demo := exec.CommandContext(ctx, program, "demo")
	demo.Stdin, demo.Stdout, demo.Stderr = terminal, terminal, terminal
	require.NoError(t, demo.Start())
	require.NoError(t, terminal.Close())
	t.Cleanup(func() { _ = demo.Process.Kill() })
	var shown strings.Builder
	defer func() {
		if t.Failed() {
			t.Log(shown.String())
		}
	}()
	press := func(key, until string) string {
		for { // repeat if there was no leader, or a failover was under way
			_, err := user.WriteString(key)
			require.NoError(t, err)
			got := readUntil(t, user.Read, until, "nobody leads: ", "wait for the last ", "now: ")
			shown.WriteString(got)
			if strings.Contains(got, until) {
				return got
			}
		}
	}
	assert.Contains(t, press("", "q quit"), "8 clients")
	assert.Contains(t, press("", "histories checked"), "leader")
	assert.Contains(t, press("k", " acknowledged, 0 lost\r\n"), " killed → ")
	press("", "  down")
	press("r", " restarted, pid ")
	press("k", " acknowledged, 0 lost\r\n")
	press("k", " → nobody leads: 1 of 3 nodes run, and 2 are needed") // at once
	press("a", "nobody leads: 1 of 3 nodes run")
	press("", "nothing is written: 1 of 3 nodes run")
	press("?", "?  hide this")
	press("?", "? help")
	press("y", "'y' does nothing here")
	assert.NotContains(t, press("r", " restarted, pid ")+press("", "writes/s"), "writes stopped", "that was no failover")
	press("z", " frozen → ")
	press("z", " resumed\r\n")
	press("a", "n4 joined after ")
	assert.Contains(t, status(t), "\nn4  ")
	press("w", " was replaced after ")
	press("x", "n4 was removed after ")
	assert.NotContains(t, status(t), "n4")
	press("a", "n4 joined after ")
	assert.Contains(t, press("q", "linearizable"), "verdict: ")
	rest, _ := io.ReadAll(user) // read until the program has closed its end
	shown.Write(rest)
	require.NoError(t, demo.Wait())
}

func TestEndToEnd_GetEndsItsLineOnATerminalAlone(t *testing.T) {
	t.Parallel()
	c, leader := startCluster(t)
	require.Eventually(t, func() bool {
		_, err := c.clients()[0].Put(t.Context(), "greeting", []byte("hello"), client.Condition{})
		return err == nil
	}, patience, poll)
	get := func() *exec.Cmd {
		return exec.CommandContext(t.Context(), program, "get", "greeting", "--server", leader.URL())
	}
	out, err := get().Output()
	require.NoError(t, err)
	assert.Equal(t, "hello", string(out), "without a new line")

	user, terminal := openTerminal(t)
	shown := get()
	shown.Stdout = terminal
	require.NoError(t, shown.Run())
	assert.Equal(t, "hello\r\n", readUntil(t, user.Read, "\n"))
	require.NoError(t, terminal.Close())
}
