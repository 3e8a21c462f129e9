package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/namespace"
)

func TestOS_FreeFallsAsTheDiskFills(t *testing.T) {
	namespace.WithMounts(t, func() {
		dir := t.TempDir()
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"))
		defer unix.Unmount(dir, unix.MNT_DETACH)
		free, err := files.OS.Free(dir)
		require.NoError(t, err)
		assert.EqualValues(t, 2<<20, free)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600))
		free, err = files.OS.Free(dir)
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, free)
	})
}
