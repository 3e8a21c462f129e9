//go:build !linux

package apart

// Main says that this system has no namespaces.
func Main(func(dir string) error) { say("skipped: network namespaces need Linux") }
