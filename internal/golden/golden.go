// Package golden compares output with a file that is kept with the code, and shows whether a directory has changed.
package golden

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite golden files (make fix)")

// Check compares got with the file. With -update, it writes the file instead. remedy is the advice for a difference that is
// intended.
func Check(t testing.TB, path, got, remedy string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if got != string(want) {
		t.Errorf("%s changed; if that is intended: %s\ngone: %q\nnew:  %q", path, remedy,
			lacking(string(want), got), lacking(got, string(want)))
	}
}

// Contents returns the content of each file in a directory and its subdirectories.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	}))
	return all
}

// lacking returns the lines of a that b does not have.
func lacking(a, b string) []string {
	has := strings.Split(b, "\n")
	return slices.DeleteFunc(strings.Split(a, "\n"), func(line string) bool { return slices.Contains(has, line) })
}
