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

// A process that answers at a member's address counts only as long as the member itself does not answer: the last dial ended
// with that answer.
func TestPetition_AnAnswerCountsWhileItIsTheLast(t *testing.T) {
	empty, old := raft.Peer{ID: "n3", Incarnation: 9}, raft.Member{ID: "n3", Incarnation: 3, Address: "n3:1"}
	answer := &raft.Rejection{Reason: raft.RejectWrongIncarnation, From: empty}
	for _, row := range []struct {
		what string
		last error
		want raft.Incarnation
	}{
		{"it was the last answer", fmt.Errorf("dial n3:1: %w", answer), 9},
		{"since then, nobody was reached", fmt.Errorf("dial n3:1: no route to host"), 0},
		{"since then, the member was connected", nil, 0},
		{"since then, another process answered", &raft.Rejection{Reason: raft.RejectWrongIncarnation, From: raft.Peer{ID: "n3", Incarnation: 8}}, 0},
	} {
		cfg := Config{ID: "n1", Cluster: "test", Forward: true}
		n := newNode(cfg.withDefaults(), nil, lastDial{alone{}, row.last}, raft.Stored{Incarnation: 1})
		n.members.publish(membership{now: Members{Configuration: raft.NewConfiguration([]raft.Member{old}), Index: 5, Committed: true}})
		n.identity.refusals[old.Peer()] = *answer
		seen := n.knownOf(empty, raft.Leadership{Role: raft.Leader, Leader: "n1", Term: 3}).Seen
		require.Len(t, seen, 1)
		expect.Equal(t, row.want, seen[0].Answers, row.what)
	}
}

// lastDial is a transport whose last dial of each peer ended so.
type lastDial struct {
	alone
	err error
}

func (d lastDial) Peer(raft.Peer) raft.PeerStatus { return raft.PeerStatus{Err: d.err} }
