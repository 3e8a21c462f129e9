package fuzzy

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/handshake"
	"github.com/coxswain/raft/internal/sim"
)

// A run may begin close to a limit. It must get beyond the limit: a removal is forgotten, and so is a start.
func TestPast_RunsGetBeyondTheLimits(t *testing.T) {
	forgotten, longest := 0, uint64(0)
	for number := uint64(0); number < 100 && (forgotten == 0 || longest <= lineageMax); number++ {
		seed := Seed{Profile: "members", Number: number}
		p, err := Draw(seed)
		require.NoError(t, err)
		if p.Members.Gone == 0 && p.Node.Starts == 0 {
			continue
		}
		c := newCluster(seed, p)
		c.guarded()
		require.Nil(t, c.failure, "seed %d", number)
		newest := committedConfig(c.check.canonical)
		if p.Members.Gone > 0 && newest.Removed[0] != pastConfig(newest).Removed[0] {
			forgotten++
		}
		for _, n := range c.nodes {
			longest = max(longest, n.disk.lineage.Last().Count)
		}
	}
	t.Logf("%d runs forgot a removal; a disk was started %d times", forgotten, longest)
	assert.Positive(t, forgotten)
	assert.Greater(t, longest, uint64(lineageMax))
}

// pastConfig returns the configuration with which the run began.
func pastConfig(l *loggedConfig) *loggedConfig {
	for l.term > 1 {
		l = l.before
	}
	return l
}

// The past of a cluster is one that its members could have had.
func TestPast_IsLawful(t *testing.T) {
	for gone := removalsMax - 3; gone <= removalsMax; gone++ {
		for spares := range 4 {
			p := calmOfThree(t)
			p.Members = Members{Spares: spares, Admins: 1, Think: sim.In(1e9), Patience: sim.In(1e9), Gone: gone}
			c := newCluster(Seed{"calm", 2}, p)
			require.Nil(t, c.failure)
			newest := committedConfig(c.check.canonical)
			assert.Len(t, newest.Removed, gone)
			assert.NoError(t, newest.Validate())
			for l := newest; l.before != nil; l = l.before {
				assert.Empty(t, unlawful(&l.before.Configuration, &l.Configuration, l.index))
			}
			held := 0 // of the voters of the joint configuration, a majority holds it
			for _, n := range c.nodes {
				if len(n.disk.log) >= 4 {
					held++
				}
			}
			assert.Greater(t, 2*held, 3+min(spares, oldsMax))
		}
	}
}

// pasts break the rules about what lies at a limit.
var pasts = map[string]func(c *cluster, lead, follower *node){
	"I8": func(c *cluster, lead, follower *node) {
		h, hello := lead.handshake(lead.disk.memory), follower.hello(lead.peer())
		h.Removed = []raft.Removal{{Peer: follower.peer(), Index: 7}}
		c.check.checkVerdict(lead, h, &hello, &handshake.Verdict{})
	},
	"I10": func(c *cluster, lead, follower *node) {
		at := lead.status.Commit - 1
		newest := *lead.log[at].config
		newest.Members = slices.DeleteFunc(slices.Clone(newest.Members), func(m raft.Member) bool { return m.Peer() == follower.peer() })
		newest.before, lead.log[at].config = lead.log[at].config, &newest
		c.check.checkJoiner(lead, follower)
	},
	"I12": func(c *cluster, lead, follower *node) {
		h, hello := lead.handshake(lead.disk.memory), follower.hello(lead.peer())
		last := hello.Lineage.Last().Count
		h.Memory = raft.Sightings{Seen: []raft.Sighting{{Peer: follower.peer(), Start: raft.StartID{Count: last, Nonce: 1}}}}
		hello.Lineage = raft.Lineage{{Count: last + lineageMax - 1, Nonce: 2}}
		c.check.checkVerdict(lead, h, &hello, &handshake.Verdict{Rejection: &raft.Rejection{Reason: raft.RejectUnknownStart}})
	},
	"N23": func(c *cluster, lead, follower *node) {
		p := lead.progressOf(follower)
		lead.seen.of(follower.peer()).matched = p.Match
		append := message(lead, follower, lead.hard.Term, raft.AppendRequest{Acknowledged: p.Match - 1})
		c.check.checkSentToPeers(lead, &lead.status, &raft.Output{Send: []raft.Message{*append}})
	},
}

func TestPast_TheInvariantsCanFail(t *testing.T) {
	for rule, breach := range pasts {
		c, lead, follower := running(t)
		breach(c, lead, follower)
		expectBreach(t, c, rule)
	}
}

// Members of the past that no longer exist are not healed.
func TestPast_StrangersAreNotHealed(t *testing.T) {
	c, lead, _ := running(t)
	live := &liveness{c: c, core: 7}
	assert.Equal(t, lead, live.healed(lead.peer()))
	assert.Nil(t, live.healed(raft.Peer{ID: "gone-0", Incarnation: 1}))
}
