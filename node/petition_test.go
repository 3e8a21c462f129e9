package node

import (
	"fmt"
	"testing"

	expect "github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
)

// A caller with which contact fails waits: see joining.Petitions.
func TestPetition_WhichFailuresAreThoseOfContact(t *testing.T) {
	for _, err := range []error{&UnreachableError{ID: "n4"}, &raft.NotEmptyError{ID: "n4"}, &raft.WasRemovedError{ID: "n4"}} {
		expect.True(t, contactFailed(fmt.Errorf("raft: %w", err)))
	}
	expect.False(t, contactFailed(nil))
	expect.False(t, contactFailed(&raft.ChangePendingError{}))
}
