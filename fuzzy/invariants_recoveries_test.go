package fuzzy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// recoveredFrom returns a cluster that was recovered from the disk of a member, and its survivor.
func recoveredFrom(t *testing.T, c *cluster, from *node) (*cluster, *node) {
	c.kin = &kin{random: sim.NewStream(1, sim.MembersConcern), clusters: []*cluster{c}, most: 1}
	from.loses()
	require.Equal(t, from, c.recoverBest([]*node{from}))
	require.Nil(t, c.failure)
	heir := c.kin.clusters[1]
	require.Nil(t, heir.failure)
	return heir, heir.nodes[from.index]
}

func TestInvariants_OfRecoveriesNoticeTheirBreach(t *testing.T) {
	founded := func(change func(heir *cluster, n *node, e *raft.Entry)) func(t *testing.T, c *cluster, lead, follower *node) *cluster {
		return func(t *testing.T, c *cluster, lead, _ *node) *cluster {
			heir, n := recoveredFrom(t, c, lead)
			e := *n.disk.recovery
			change(heir, n, &e)
			heir.check.checkFounded(n, &lead.disk, &e)
			return heir
		}
	}
	for rule, row := range map[string]struct {
		rule   string
		breach func(t *testing.T, c *cluster, lead, follower *node) *cluster
	}{
		"the survivor lacks what another disk knows to be committed": {"G26", func(_ *testing.T, c *cluster, lead, follower *node) *cluster {
			lead.disk.commit, follower.disk.log = c.check.committed(), follower.disk.log[:1]
			c.check.checkSurvivor(follower, []*node{lead, follower})
			return c
		}},
		"the survivor lacks what a quorum holds": {"G26", func(_ *testing.T, c *cluster, lead, follower *node) *cluster {
			lead.disk.commit, follower.disk.commit, follower.disk.log = 0, 0, follower.disk.log[:1]
			c.check.checkSurvivor(follower, c.nodes)
			return c
		}},
		"a disk knows too much": {"G26", func(_ *testing.T, c *cluster, lead, _ *node) *cluster {
			lead.disk.commit, c.check.canonical = 2, c.check.canonical[:1]
			c.check.checkSurvivor(lead, []*node{lead})
			return c
		}},
		"the log is another one": {"G27", founded(func(heir *cluster, _ *node, _ *raft.Entry) { heir.check.canonical[1].hash++ })},
		"the base is of the former cluster": {"G27", founded(func(_ *cluster, n *node, _ *raft.Entry) {
			n.disk.base = raft.Base{ID: raft.EntryID{Index: 2, Term: 1}}
		})},
		"the term is too low": {"G27", founded(func(_ *cluster, _ *node, e *raft.Entry) { e.Term-- })},
		"a vote is kept":      {"G27", founded(func(_ *cluster, n *node, _ *raft.Entry) { n.disk.hard.Vote = n.peer() })},
		"it has two voters": {"G27", founded(func(heir *cluster, _ *node, e *raft.Entry) {
			config := *heir.check.canonical[e.Index-1].slot.config
			config.Members = append(config.Members, raft.Member{ID: "z", Incarnation: 9})
			heir.check.canonical[e.Index-1].slot.config = &config
		})},
		"a term of the former cluster reaches it": {"G27", func(t *testing.T, c *cluster, lead, _ *node) *cluster {
			heir, _ := recoveredFrom(t, c, lead)
			c.check.checkFormerTerms(heir.begins)
			return heir
		}},
		"a member leaves its cluster": {"G28", func(_ *testing.T, c *cluster, lead, _ *node) *cluster {
			c.check.checkBelongs(lead, raft.ClusterID{1, 2})
			return c
		}},
		"a member is of the former cluster": {"G28", func(t *testing.T, c *cluster, lead, _ *node) *cluster {
			heir, n := recoveredFrom(t, c, lead)
			n.status.Cluster = lead.disk.cluster()
			heir.check.checkBelongs(n, n.status.Cluster)
			return heir
		}},
		"a former member is accepted": {"G28", func(t *testing.T, c *cluster, lead, follower *node) *cluster {
			heir, n := recoveredFrom(t, c, lead)
			follower.disk.hard.Cluster = n.disk.cluster()
			heir.check.checkApart(n, follower)
			return heir
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			c, lead, follower := running(t)
			failed := row.breach(t, c, lead, follower)
			require.NotNil(t, failed.failure)
			assert.Equal(t, row.rule, failed.failure.Rule)
		})
	}
}

// Clusters are recovered, again and by two operators, members join them, and former members come back with their disks.
func TestRecoveries_HappenInTheSimulator(t *testing.T) {
	var total Stats
	again, two := 0, 0
	for number := range uint64(fewer(40)) {
		p, err := Draw(Seed{"recoveries", number})
		require.NoError(t, err)
		c := newCluster(Seed{"recoveries", number}, p)
		c.guarded()
		require.Nil(t, c.failure)
		heirs := map[*cluster]int{}
		for _, k := range c.all()[1:] {
			if heirs[k.former]++; heirs[k.former] == 2 {
				two++
			}
			if k.former.former != nil {
				again++
			}
			if len(k.newestCommitted().Members) > 1 {
				total.Changed++
			}
		}
		total.Recoveries, total.Strangers = total.Recoveries+c.stats.Recoveries, total.Strangers+c.stats.Strangers
	}
	t.Logf("%d recovered, %d of recovered ones, %d by two operators, %d of them have members, %d messages of other clusters",
		total.Recoveries, again, two, total.Changed, total.Strangers)
	assert.Positive(t, total.Recoveries)
	assert.Positive(t, again)
	assert.Positive(t, two)
	assert.Positive(t, total.Changed)
	assert.Positive(t, total.Strangers)
}

// A trace names all nodes at its beginning, also those of clusters that are recovered later.
func TestRecoveries_InATrace(t *testing.T) {
	var nodes []string
	recovered := 0
	r, err := Run(Seed{"recoveries", 4}, func(r *Record) {
		if r.Kind == "begin" {
			nodes = r.Nodes
		}
		if r.Node != "" {
			require.Contains(t, nodes, r.Node)
			if strings.HasSuffix(r.Node, "+") {
				recovered++
			}
		}
	})
	require.NoError(t, err)
	require.Nil(t, r.Failure)
	assert.Positive(t, recovered)
}
