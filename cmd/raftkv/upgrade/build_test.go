package upgrade_test

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/coxswain/raft/cmd/raftkv/internal/cli" // so that a change of the program invalidates cached test results
)

const (
	// buildMax bounds the build of both programs, including the download of their modules.
	buildMax = 5 * time.Minute
	// previousDir holds the source of the previous release.
	previousDir = "../../../compat/previous"
	// previousVariable is the name of an environment variable. It holds the path of a built raftkv of the previous release.
	previousVariable = "RAFTKV_PREVIOUS"
)

// previousProgram builds raftkv of the previous release, and returns its path and version.
func previousProgram(ctx context.Context, t *testing.T) (program, version string) {
	text, err := os.ReadFile(filepath.Join(previousDir, "release.json"))
	require.NoError(t, err)
	var release struct{ Version, SHA256 string }
	require.NoError(t, json.Unmarshal(text, &release))
	if built := os.Getenv(previousVariable); built != "" {
		return built, release.Version
	}
	source := sourceDir(t, release.SHA256)
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		unpack(t, filepath.Join(previousDir, release.Version+".zip"), source)
	}
	return build(ctx, t, source), release.Version
}

// sourceDir returns the directory for the source. The directory is the same in every run, because the build cache identifies
// packages by their directories.
func sourceDir(t *testing.T, sum string) string {
	name := "previous-" + sum[:16]
	if cache, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(cache, "coxswain")
		if os.MkdirAll(cache, 0o700) == nil {
			return filepath.Join(cache, name)
		}
	}
	return filepath.Join(t.TempDir(), name)
}

// unpack writes the files of the archive to the directory. The directory appears only once it is complete.
func unpack(t *testing.T, archive, dir string) {
	in, err := zip.OpenReader(archive)
	require.NoError(t, err)
	defer in.Close()
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	require.NoError(t, err)
	defer os.RemoveAll(part)
	for _, f := range in.File {
		if f.FileInfo().IsDir() {
			continue
		}
		require.True(t, filepath.IsLocal(f.Name), "%s", f.Name)
		name := filepath.Join(part, f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		opened, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(opened)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
	if err := os.Rename(part, dir); err != nil {
		require.DirExists(t, dir, "nobody else has unpacked it meanwhile: %v", err)
	}
}

// build builds raftkv from the module in this directory. The go command takes the dependencies from the module cache, or
// downloads them.
func build(ctx context.Context, t *testing.T, module string) (program string) {
	ctx, cancel := context.WithTimeoutCause(ctx, buildMax, fmt.Errorf("building took longer than %v", buildMax))
	defer cancel()
	program = filepath.Join(t.TempDir(), "raftkv")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	began := time.Now()
	command := exec.CommandContext(ctx, "go", "build", "-C", module, "-buildvcs=false", "-o", program, "./cmd/raftkv")
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.CombinedOutput()
	require.NoError(t, errors.Join(err, context.Cause(ctx)), "%s", out)
	t.Logf("built from %s in %v", module, time.Since(began).Round(100*time.Millisecond))
	return program
}
