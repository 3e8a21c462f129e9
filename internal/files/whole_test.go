package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteWhole_AppearsWhenItIsComplete(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	failed := errors.New("half of it is missing")
	assert.ErrorIs(t, WriteWhole(name, func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, failed)
	}), failed)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)

	require.NoError(t, WriteWhole(name, func(f *os.File) error {
		assert.NoFileExists(t, name, "it is not complete")
		_, err := f.WriteString("all")
		return err
	}))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "all", string(text))
	assert.NoFileExists(t, name+".part")
}

// A file that cannot be made durable does not appear. Sync is what fails here: on a closed file, as everything does.
func TestWriteWhole_AppearsWhenItIsDurable(t *testing.T) {
	dir := t.TempDir()
	var failed *os.PathError
	require.ErrorAs(t, WriteWhole(filepath.Join(dir, "file"), (*os.File).Close), &failed)
	assert.Equal(t, "sync", failed.Op)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWriteWhole_ReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	there, begun, late := filepath.Join(dir, "there"), filepath.Join(dir, "begun"), filepath.Join(dir, "late")
	require.NoError(t, os.WriteFile(there, []byte("mine"), 0o600))
	require.NoError(t, os.WriteFile(begun+".part", []byte("mine"), 0o600))
	for name, inTheWay := range map[string]string{there: there, begun: begun + ".part", late: late} {
		var exists *ExistsError
		require.ErrorAs(t, WriteWhole(name, func(*os.File) error { return os.WriteFile(late, []byte("mine"), 0o600) }), &exists)
		assert.Equal(t, inTheWay, exists.Name)
		text, err := os.ReadFile(inTheWay)
		require.NoError(t, err)
		assert.Equal(t, "mine", string(text))
		require.NoError(t, os.RemoveAll(late))
	}
}
