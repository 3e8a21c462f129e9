package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// A panic of a core is a finding. A panic of the simulation or of a checker is not a finding, even if the output of a core
// provoked it.
func TestPanic_OfACheckerIsNotOneOfTheCore(t *testing.T) {
	for _, row := range []struct {
		who    string
		panics func(n *node)
		class  Class
		rule   string
	}{
		{"a checker that looks beyond a log", func(n *node) { _ = n.log[len(n.log)] }, Simulation, "simulation"},
		{"a core without its state", func(*node) { (*raft.Core)(nil).Step(raft.Now{}) }, Panic, "panic"},
	} {
		t.Run(row.who, func(t *testing.T) {
			c := newCluster(Seed{"calm", 2}, calmOfThree(t))
			c.trace = func(r *Record) {
				if r.Kind == "send" {
					row.panics(c.nodes[0])
				}
			}
			c.guarded()
			require.NotNil(t, c.failure)
			assert.Equal(t, row.class, c.failure.Class, c.failure.Text)
			assert.Equal(t, row.rule, c.failure.Rule)
		})
	}
}

// Misdelivered messages come from a cluster that cannot hold this cluster's entry 1. A member without a cluster would take
// that for the entry of a recovered cluster.
func TestRun_NoStrangerBringsEntry1(t *testing.T) {
	c, lead, joiner := running(t)
	m := message(lead, joiner, lead.status.Term, raft.AppendRequest{Last: lead.status.Last})
	m.Cluster = lead.status.Cluster
	cluster := joiner.status.Cluster
	for range 100 {
		joiner.status.Cluster = cluster
		if got := c.strayed(joiner, *m); got.Cluster == m.Cluster {
			assert.Equal(t, raft.VoteRequest{}, got.Body, "a member of a cluster may get anything")
		}
		joiner.status.Cluster = raft.ClusterID{}
		assert.Equal(t, m.Cluster, c.strayed(joiner, *m).Cluster)
	}
}
