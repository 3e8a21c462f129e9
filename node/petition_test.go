package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/joining"
)

// A caller with which contact fails waits for 1 s, and twice as long after each further failure, for at most 1 min.
func TestPetition_ContactThatFailsIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{ID: "n1", Cluster: "test", Forward: true}
		n := newNode(cfg.withDefaults(), nil, alone{}, raft.Stored{Incarnation: 1})
		n.watched.publish(raft.Leadership{Role: raft.Leader, Leader: "n1"})
		p := n.petitions
		n4 := raft.Who{ClusterName: "test", From: raft.Peer{ID: "n4", Incarnation: 4}, Address: "h4:1", Petition: &raft.Petition{}}
		for _, err := range []error{&UnreachableError{ID: "n4"}, &raft.NotEmptyError{ID: "n4"}, &raft.WasRemovedError{ID: "n4"}} {
			for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
				p.note("n4", err)
				time.Sleep(pause*time.Second - 1)
				_, refused := p.begin(n4)
				require.Equal(t, err, refused, "it waits")
				time.Sleep(time.Nanosecond)
				_, refused = p.begin(n4)
				require.NotEqual(t, err, refused, "it is decided about anew")
			}
			p.note("n4", nil)
			expect.Empty(t, p.waits, "success ends it")
		}
		for i := range 3 * petitionsMax {
			p.note(raft.NodeID(rune('a'+i)), &UnreachableError{})
		}
		expect.LessOrEqual(t, len(p.waits), petitionsMax)
	})
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
