package namespace

import (
	"bytes"
	"regexp"
	"syscall"
	"testing"

	"github.com/coxswain/raft/internal/testnet"
)

// logged matches the lines that a test has logged, in the output of its process.
var logged = regexp.MustCompile(`(?m)^ *[a-z_0-9]+\.go:[0-9]+: (.*)$`)

// WithNet runs body in a new process: this test, started again in a new network namespace with this network. WithNet copies the
// log of the new process to the log of this test. If WithNet may not create a namespace, it calls the function without and
// passes the reason.
func WithNet(t *testing.T, body func(*testnet.Net), without func(reason string)) {
	t.Helper()
	out, err := Run(t, syscall.CLONE_NEWNET, func() {
		n, err := testnet.Open()
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
