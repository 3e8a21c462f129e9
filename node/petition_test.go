package node

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// A caller with which contact fails waits: see joining.Petitions.
func TestPetition_WhichFailuresAreThoseOfContact(t *testing.T) {
	for _, err := range []error{&UnreachableError{ID: "n4"}, &raft.NotEmptyError{ID: "n4"}, &raft.WasRemovedError{ID: "n4"}} {
		expect.True(t, contactFailed(fmt.Errorf("raft: %w", err)))
	}
	expect.False(t, contactFailed(nil))
	expect.False(t, contactFailed(&raft.ChangePendingError{}))
}

// The places that one change takes are free at the same time, and that of the leader itself never.
func TestPetition_PlacesOfOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{ID: "n1", Cluster: "test", Forward: true}
		n := newNode(cfg.withDefaults(), nil, alone{}, raft.Stored{Incarnation: 1})
		leads := raft.Leadership{Role: raft.Leader, Leader: "n1", Term: 3}
		n.watched.publish(leads)
		n.history.office = leads
		var c raft.Change
		in := []raft.Member{{ID: "n1", Incarnation: 1, Address: "h1:1"}}
		for i, id := range []raft.NodeID{"n2", "n3", "n4"} {
			old := raft.Member{ID: id, Incarnation: raft.Incarnation(i + 2), Address: string(id) + ":1"}
			by := raft.Member{ID: id, Incarnation: old.Incarnation + 10, Address: "elsewhere:" + string(id[1])}
			in, c.Replace = append(in, old), append(c.Replace, raft.Replacement{Old: raft.Peer{ID: id}, New: by})
		}
		n.members.publish(membership{now: Members{Configuration: raft.NewConfiguration(in), Index: 5, Committed: true}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.NoError(t, n.petitions.awaitPlaces(ctx, c))
		expect.InDelta(t, joining.SilenceMin, time.Since(began), float64(time.Second))

		began, c.Replace = time.Now(), []raft.Replacement{{Old: n.identity.self, New: raft.Member{ID: "n1", Incarnation: 9, Address: "elsewhere:9"}}}
		expect.ErrorAs(t, n.petitions.awaitPlaces(ctx, c), new(*joining.InUseError))
		expect.Zero(t, time.Since(began))
	})
}
