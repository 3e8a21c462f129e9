package member

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A start does not wait for a writer of a named pipe.
func TestReadAddresses_OfANamedPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, addressesFile), 0o600))
	_, known := readAddresses(dir)
	assert.False(t, known)
	require.NoError(t, writeAddresses(dir, addresses{Raft: "h:1", URL: "http://h:2"}))
	was, known := readAddresses(dir)
	assert.True(t, known)
	assert.Equal(t, addresses{"h:1", "http://h:2"}, was)
}

// The end of a member does not wait for a reader of a named pipe.
func TestWriteAddresses_InThePlaceOfANamedPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, addressesFile+".new"), 0o600))
	require.NoError(t, writeAddresses(dir, addresses{Raft: "h:1", URL: "http://h:2"}))
	was, known := readAddresses(dir)
	assert.True(t, known)
	assert.Equal(t, addresses{"h:1", "http://h:2"}, was)
}
