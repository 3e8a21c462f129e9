package files_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/files"
)

func TestOS_CreatesWritesRenamesAndLists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, files.OS.MakeDir(dir))
	require.NoError(t, files.OS.MakeDir(dir), "the directory may exist")
	part, whole := filepath.Join(dir, "x.part"), filepath.Join(dir, "x")

	f, err := files.OS.Create(part)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("text"), 2)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	assert.EqualValues(t, 6, size)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	_, err = files.OS.Create(part)
	assert.ErrorIs(t, err, fs.ErrExist)

	require.NoError(t, files.OS.Rename(part, whole))
	require.NoError(t, files.OS.SyncDir(dir))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	list, err := files.OS.List(dir)
	require.NoError(t, err)
	assert.Equal(t, []files.Info{{Name: "a"}, {Name: "x", Bytes: 6}}, list)

	f, err = files.OS.Open(whole)
	require.NoError(t, err)
	defer f.Close()
	read := make([]byte, 4)
	_, err = f.ReadAt(read, 2)
	require.NoError(t, err)
	assert.Equal(t, "text", string(read))

	require.NoError(t, files.OS.Remove(whole))
	_, err = files.OS.Open(whole)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, files.OS.Remove(whole), fs.ErrNotExist)
	_, err = files.OS.List(whole)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestOS_FreeAsksTheFileSystem(t *testing.T) {
	free, err := files.OS.Free(t.TempDir())
	require.NoError(t, err)
	assert.Positive(t, free)
	missing := filepath.Join(t.TempDir(), "missing")
	_, err = files.OS.Free(missing)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, missing)
}
