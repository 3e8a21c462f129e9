// Package built gives tests with real processes one build of raftkv.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Variable of the environment names a built raftkv: the one that "make test" builds for all packages, or an older
// release to compare with.
const Variable = "RAFTKV_PROGRAM"

var program = sync.OnceValues(build)

// Raftkv returns the path of raftkv: the one that Variable names, otherwise one that is built now, once in a process and
// the processes that it starts. Call Remove at the end.
func Raftkv() (string, error) { return program() }

// temp is the directory of what was built here.
var temp string

// Remove removes what was built.
func Remove() {
	if temp != "" {
		_ = os.RemoveAll(temp) // it is temporary anyway
	}
}

func build() (path string, err error) {
	if path = os.Getenv(Variable); path != "" {
		_, _ = os.Stat(path) // go test notes what it looks at, and runs the test again when the program has changed
		return path, nil
	}
	if temp, err = os.MkdirTemp("", "raftkv-built-"); err != nil {
		return "", err
	}
	path = filepath.Join(temp, "raftkv")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", path, "github.com/coxswain/raft/cmd/raftkv").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building raftkv: %w\n%s", err, out)
	}
	return path, os.Setenv(Variable, path)
}
