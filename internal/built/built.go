// Package built gives tests and measurements with real processes one build of raftkv.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Variable is the name of an environment variable. The variable holds the path of a built raftkv. This is the raftkv that
// "make test" builds for all packages, or an older release for a comparison.
const Variable = "RAFTKV_PROGRAM"

var program = sync.OnceValues(build)

// Raftkv returns the path of the raftkv that Variable names. If Variable is not set, Raftkv builds one. It builds only once
// for a process and the processes that this process starts. Call Remove at the end.
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
