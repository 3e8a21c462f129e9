package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

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

func TestEndToEnd_TheKeysOfTheDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	user, terminal := openTerminal(t)
	demo := exec.CommandContext(t.Context(), program, "demo")
	demo.Stdin, demo.Stdout, demo.Stderr = terminal, terminal, terminal
	require.NoError(t, demo.Start())
	require.NoError(t, terminal.Close())
	t.Cleanup(func() { _ = demo.Process.Kill() })
	press := func(key, until string) string {
		_, err := user.WriteString(key)
		require.NoError(t, err)
		return readUntil(t, user.Read, until)
	}
	assert.Contains(t, press("", "q quit"), "8 clients")
	assert.Contains(t, press("", "histories checked"), "leader")
	assert.Contains(t, press("k", " acknowledged, 0 lost\r\n"), " killed → ")
	press("", "  down")
	press("r", " restarted, pid ")
	press("z", " frozen → ")
	press("z", " resumed\r\n")
	assert.Contains(t, press("q", "linearizable"), "verdict: ")
	require.NoError(t, demo.Wait())
}
