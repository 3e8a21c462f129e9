package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// Contact with a caller that cannot be reached keeps others from joining, so each failure doubles its pause. A success ends that.
func TestPetitions_ACallerThatCannotBeReachedPauses(t *testing.T) {
	p := newPetitions(&Node{base: time.Now()})
	failed := fmt.Errorf("raft: %w", &UnreachableError{ID: "n4", Err: errors.New("refused")})
	pause := func() time.Duration {
		p.note("n4", failed)
		return p.waits["n4"].pause
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		expect.Equal(t, want*time.Second, pause())
	}
	p.note("n4", nil)
	expect.Equal(t, time.Second, pause(), "it was reached in between")
	for i := range 1000 {
		p.note(raft.NodeID(fmt.Sprint("s", i)), failed)
		expect.LessOrEqual(t, len(p.waits), petitionsMax)
	}
}
