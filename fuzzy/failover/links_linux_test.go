package failover

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/built"
	"github.com/coxswain/raft/internal/namespace"
)

// A leader that nobody hears is replaced after a timeout, whether it hears the others or not.
func TestRun_DropsPackets(t *testing.T) {
	if _, err := built.Raftkv(); err != nil { // the namespace has no network for a build
		t.Fatal(err)
	}
	_, err := namespace.Run(t, syscall.CLONE_NEWNET, func() {
		t.Setenv(insideVariable, "1")
		r, err := Run(t.Context(), Options{Members: 3, Trials: 1, Kinds: []string{"silence", "oneway"}, Bound: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range r.Results {
			if k.LeftOut != "" {
				t.Skip(k.LeftOut)
			}
			assert.Greater(t, k.On.Max, 50.0, "%s: nobody campaigns at once", k.Kind)
			assert.Positive(t, k.Off.Count)
		}
	})
	if err != nil {
		t.Skip("no network namespace: " + err.Error())
	}
}

func TestRun_SaysWhyItDropsNoPackets(t *testing.T) {
	_, reason := openLinks()
	assert.Contains(t, reason, "needs root")
}
