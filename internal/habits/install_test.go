package habits

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Commands build in another module, as with `go install github.com/coxswain/raft/cmd/raftkv@latest`. Everything that the
// commands import is therefore in the main module, although a checkout contains other modules.
func TestInstall_TheCommandsBuildOutsideOfTheCheckout(t *testing.T) {
	atRoot(t)
	root, err := os.Getwd()
	require.NoError(t, err)
	own, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	assert.NotRegexp(t, `(?m)^(replace|exclude)\b`, string(own), "with these, go install refuses a module")
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)

	dir := t.TempDir()
	importer := "module example.com/importer\n\ngo 1.25.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(importer), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	cmd := exec.Command("go", "build", "-mod=mod", "-o", dir, module+"/cmd/raftkv", module+"/cmd/raftlab")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range []string{"raftkv", "raftlab"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
}

// The other modules in the checkout are for development: the main module imports none of them.
func TestInstall_TheMainModuleImportsNoneOfTheOthers(t *testing.T) {
	atRoot(t)
	files, err := filepath.Glob("*/go.mod")
	require.NoError(t, err)
	require.Contains(t, files, "elections/go.mod")
	deps := strings.Fields(goCommand(t, ".", "list", "-deps", "-test", "./..."))
	require.Contains(t, deps, module+"/fuzzy")
	for _, file := range files {
		nested := module + "/" + filepath.Dir(file)
		for _, path := range deps {
			assert.False(t, path == nested || strings.HasPrefix(path, nested+"/"), "%s is imported", path)
		}
	}
}
