// Package namespace runs a test in separate Linux namespaces. There the test may mount file systems or change the network.
package namespace

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// insideVariable is set in a process that is in the new namespaces.
const insideVariable = "COXSWAIN_NAMESPACE_INSIDE"

// Run starts this test again in a process with new namespaces of the given kinds (syscall.CLONE_NEW...). That process calls
// body, and Run returns the output of that process. If Run cannot create a namespace here, it does not call body, and the
// error gives the reason.
func Run(t testing.TB, kinds uintptr, body func()) (output []byte, err error) {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		body()
		return nil, nil
	}
	inside := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	inside.Env = append(os.Environ(), insideVariable+"=1")
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: kinds, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		inside.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		inside.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		inside.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	inside.Stdout, inside.Stderr = &out, &out
	if err := inside.Start(); err != nil {
		return nil, err
	}
	err = inside.Wait()
	passed, skipped := bytes.Contains(out.Bytes(), []byte("--- PASS: "+t.Name())), bytes.Contains(out.Bytes(), []byte("--- SKIP: "))
	if err != nil || !passed && !skipped {
		t.Fatalf("in separate namespaces: %v\n%s", err, out.Bytes())
	}
	return out.Bytes(), nil
}

// WithMounts calls body in a namespace where body may mount file systems. If that is not possible, WithMounts skips the test.
func WithMounts(t testing.TB, body func()) {
	t.Helper()
	_, err := Run(t, syscall.CLONE_NEWNS, func() {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatalf("making the mounts private: %v", err)
		}
		body()
	})
	if err != nil {
		t.Skipf("no mount namespace here: %v", err)
	}
}
