package storage

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/coxswain/raft/internal/files"
	"github.com/coxswain/raft/internal/namespace"
)

// treeOf returns all files below the directory with their content.
func treeOf(t *testing.T, dir string) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := os.Stat(path); err != nil || info.IsDir() { // Stat follows links
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(content)
		return err
	}))
	return found
}

// aStoreOfFiles makes files that look like a store to SetAside, because SetAside does not look at the data.
func aStoreOfFiles(t *testing.T, dir string) map[string]string {
	for name, content := range asideContent {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
	return treeOf(t, dir)
}

func mountTmpfs(t *testing.T, at, options string) {
	require.NoError(t, os.MkdirAll(at, 0o700))
	require.NoError(t, unix.Mount("tmpfs", at, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

func bind(t *testing.T, from, at string) {
	require.NoError(t, unix.Mount(from, at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// If a directory of the store is a mount, or a link to a mount, SetAside empties the directory and leaves it in place. The
// mount may belong to the same file system or to another one.
func TestSetAside_MountsAreEmptied(t *testing.T) {
	for _, how := range []string{"another file system", "the same one", "a link to another one", "a link to the same one"} {
		t.Run(how, func(t *testing.T) {
			namespace.WithMounts(t, func() {
				dir, other := t.TempDir(), t.TempDir()
				for _, part := range asideParts {
					at, real := filepath.Join(dir, part), filepath.Join(other, part)
					require.NoError(t, os.Mkdir(real, 0o700))
					if how != "the same one" && how != "a link to the same one" {
						mountTmpfs(t, real, "size=2m")
					}
					if how == "another file system" || how == "the same one" {
						require.NoError(t, os.Mkdir(at, 0o700))
						bind(t, real, at)
					} else {
						require.NoError(t, os.Symlink(real, at))
					}
				}
				aStoreOfFiles(t, dir)
				require.NoError(t, os.Mkdir(filepath.Join(dir, LogDir, "lost+found"), 0o700))
				aside, err := SetAside(dir)
				require.NoError(t, err)
				require.Equal(t, asideContent, treeOf(t, aside))
				require.NotContains(t, treeOf(t, dir), asideRecord)
				for _, part := range asideParts {
					require.Empty(t, treeOf(t, filepath.Join(other, part)))
				}
				require.DirExists(t, filepath.Join(dir, LogDir, "lost+found"), "a directory that does not belong to the store stays")
				_, err = loaded(t.Context(), t, dir)
				require.NoError(t, err)
			})
		})
	}
}

// If SetAside finds in advance that it will fail, it changes nothing.
func TestSetAside_RefusesBeforeItMoves(t *testing.T) {
	for _, c := range []struct {
		what    string
		prepare func(t *testing.T, dir, other string)
		want    error
		says    string
	}{
		{"raft.db is a mount", func(t *testing.T, dir, other string) {
			require.NoError(t, os.WriteFile(filepath.Join(other, "db"), []byte(asideContent[BoltFile]), 0o600))
			bind(t, filepath.Join(other, "db"), filepath.Join(dir, BoltFile))
		}, nil, BoltFile + " is on another mount than its directory"},
		{"a segment is a mount", func(t *testing.T, dir, other string) {
			segment := filepath.Join(dir, LogDir, "0000000000000002.seg")
			require.NoError(t, os.WriteFile(filepath.Join(other, "segment"), []byte("more entries"), 0o600))
			bind(t, filepath.Join(other, "segment"), segment)
		}, nil, "0000000000000002.seg is on another mount than its directory"},
		{"the log may not be written to", func(t *testing.T, dir, _ string) {
			at := filepath.Join(dir, LogDir)
			bind(t, at, at)
			require.NoError(t, unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, ErrNotWritable, LogDir},
		{"there is no room for a copy", func(t *testing.T, dir, other string) {
			mountTmpfs(t, other, "size=4m")
			require.NoError(t, os.WriteFile(filepath.Join(other, "0000000000000001.seg"), make([]byte, 3<<20), 0o600))
			bind(t, other, filepath.Join(dir, LogDir))
		}, ErrDiskFull, "3145728 bytes are to be copied from other mounts, and 3"},
		{"a file to copy is not a regular file", func(t *testing.T, dir, other string) {
			require.NoError(t, unix.Mkfifo(filepath.Join(other, "pipe"), 0o600))
			bind(t, other, filepath.Join(dir, LogDir))
			t.Cleanup(func() { _ = os.Remove(filepath.Join(other, "pipe")) })
		}, files.ErrNotRegular, "not a regular file"},
	} {
		t.Run(c.what, func(t *testing.T) {
			namespace.WithMounts(t, func() {
				dir, other := filepath.Join(t.TempDir(), "data"), t.TempDir()
				mountTmpfs(t, dir, "size=3m")
				aStoreOfFiles(t, dir)
				c.prepare(t, dir, other)
				before := names(t, dir)
				for range 2 {
					_, err := SetAside(dir)
					require.ErrorContains(t, err, c.says)
					if mount := (*MountError)(nil); c.want == nil {
						require.ErrorAs(t, err, &mount)
					} else {
						require.ErrorIs(t, err, c.want)
					}
					require.Equal(t, before, names(t, dir))
				}
			})
		})
	}
}

// names returns the names of everything below the directory.
func names(t *testing.T, dir string) (found []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		found = append(found, path)
		return err
	}))
	return found
}
