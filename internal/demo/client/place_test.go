package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/demo/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inTemp gives the test a new temporary directory. It returns the path of the file for this process's place.
func inTemp(t *testing.T) string {
	if runtime.GOOS == "windows" {
		t.Setenv("TMP", t.TempDir())
	}
	t.Setenv("TMPDIR", t.TempDir())
	return filepath.Join(os.TempDir(), "raftkv-"+strconv.Itoa(os.Getuid()),
		"demo-"+strconv.Itoa(os.Getpid())+".json")
}

func TestPlace_IsFoundUntilItIsRemoved(t *testing.T) {
	file := inTemp(t)
	_, err := client.FindPlace()
	assert.ErrorIs(t, err, client.ErrNoDemo)
	first := client.Place{PID: os.Getpid(), Servers: []string{"http://127.0.0.1:4001"}}
	require.NoError(t, first.Save())
	require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-time.Minute)))
	found, err := client.FindPlace()
	require.NoError(t, err)
	assert.Equal(t, first, found)

	second := client.Place{PID: os.Getppid(), Servers: []string{"http://127.0.0.1:5001"}}
	require.NoError(t, second.Save())
	found, err = client.FindPlace()
	require.NoError(t, err)
	assert.Equal(t, second, found, "the demo that was started last")
	first.Servers = append(first.Servers, "http://127.0.0.1:4002")
	require.NoError(t, first.Save())
	found, err = client.FindPlace()
	require.NoError(t, err)
	assert.Equal(t, second, found, "the other one has one more server, and was not started again")
	second.Remove()
	found, err = client.FindPlace()
	require.NoError(t, err)
	assert.Equal(t, first, found, "an earlier demo that still runs")
	first.Remove()
	_, err = client.FindPlace()
	assert.ErrorIs(t, err, client.ErrNoDemo)
}

func TestPlace_OfADemoThatWasKilledIsNotFound(t *testing.T) {
	inTemp(t)
	killed := exec.Command(os.Args[0], "-test.run=^$")
	require.NoError(t, killed.Run())
	first := client.Place{PID: os.Getpid(), Servers: []string{"http://127.0.0.1:4001"}}
	require.NoError(t, first.Save())
	gone := client.Place{PID: killed.Process.Pid, Servers: []string{"http://127.0.0.1:5001"}}
	require.NoError(t, gone.Save())
	found, err := client.FindPlace()
	require.NoError(t, err)
	assert.Equal(t, first, found)
	require.NoError(t, first.Save())
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "raftkv-*", "*"))
	require.NoError(t, err)
	assert.Len(t, left, 1, "the file of the killed demo is removed")
}

func TestPlace_IsNotTrustedIfItMayBeForged(t *testing.T) {
	for rule, content := range map[string]string{
		"garbage":         "{",
		"no servers":      `{"pid":1}`,
		"another machine": `{"pid":1,"servers":["http://192.0.2.1:4001"]}`,
		"another scheme":  `{"pid":1,"servers":["file:///etc/passwd"]}`,
	} {
		file := inTemp(t)
		require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := client.FindPlace()
		assert.ErrorIs(t, err, client.ErrNoDemo, rule)
	}
	if runtime.GOOS == "windows" {
		return // every user has a temporary directory of their own
	}
	file := inTemp(t)
	place := client.Place{PID: os.Getpid(), Servers: []string{"http://127.0.0.1:4001"}}
	require.NoError(t, place.Save())
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
	_, err := client.FindPlace()
	assert.ErrorIs(t, err, client.ErrNoDemo, "others can write to the directory")
	assert.Error(t, place.Save())
}
