// Package apart runs an example in Linux namespaces of its own, where it may build networks between its processes.
package apart

import (
	"fmt"
	"os"
)

// insideVariable holds the directory for files, in the process that is in new namespaces.
const insideVariable = "COXSWAIN_APART"

// ImpossibleError says why this machine cannot run the example.
type ImpossibleError struct{ Why string }

func (e *ImpossibleError) Error() string { return e.Why }

// Inside reports whether this process is in the new namespaces. A test's TestMain runs the example then.
func Inside() bool { return os.Getenv(insideVariable) != "" }

func say(what ...any) { _, _ = fmt.Fprintln(os.Stderr, what...) } // there is nowhere to report a failure
