package testnet

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
)

// insideVariable says that the test runs in a network namespace of its own.
const insideVariable = "COXSWAIN_TESTNET_INSIDE"

// logged finds what a test has logged in the output of its process.
var logged = regexp.MustCompile(`(?m)^ *[a-z_0-9]+\.go:[0-9]+: (.*)$`)

// Inside runs body in a process of its own, which is this test started again in a new network namespace
// with this network in it. It logs what the test has logged there. Without the right to make one it
// calls without, with the reason.
func Inside(t *testing.T, environment []string, body func(*Net), without func(reason string)) {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		n, err := Open()
		if err != nil {
			t.Skipf("testnet: %v", err)
		}
		defer n.Close()
		body(n)
		return
	}
	inside := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	inside.Env = append(append(os.Environ(), insideVariable+"=1"), environment...)
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		inside.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		inside.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		inside.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	inside.Stdout, inside.Stderr = &out, &out
	if err := inside.Start(); err != nil {
		without("no network namespace: " + err.Error())
		return
	}
	err := inside.Wait()
	if bytes.Contains(out.Bytes(), []byte("--- SKIP: ")) {
		without(out.String())
		return
	}
	if err != nil {
		t.Fatalf("in its own network namespace: %v\n%s", err, out.String())
	}
	for _, line := range logged.FindAllSubmatch(out.Bytes(), -1) {
		t.Log(string(line[1]))
	}
}
