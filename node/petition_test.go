package node

import (
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
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
