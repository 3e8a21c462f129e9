package testnet

import (
	"bytes"
	"regexp"
	"syscall"
	"testing"

	"github.com/coxswain/raft/internal/namespace"
)

// logged finds what a test has logged in the output of its process.
var logged = regexp.MustCompile(`(?m)^ *[a-z_0-9]+\.go:[0-9]+: (.*)$`)

// Inside runs body in a process of its own, which is this test started again in a new network namespace
// with this network in it. It logs what the test has logged there. Without the right to make one it
// calls without, with the reason.
func Inside(t *testing.T, environment []string, body func(*Net), without func(reason string)) {
	t.Helper()
	out, err := namespace.Run(t, syscall.CLONE_NEWNET, environment, func() {
		n, err := Open()
		if err != nil {
			t.Skipf("testnet: %v", err)
		}
		defer n.Close()
		body(n)
	})
	if err != nil {
		without("no network namespace: " + err.Error())
		return
	}
	if bytes.Contains(out, []byte("--- SKIP: ")) {
		without(string(out))
		return
	}
	for _, line := range logged.FindAllSubmatch(out, -1) {
		t.Log(string(line[1]))
	}
}
