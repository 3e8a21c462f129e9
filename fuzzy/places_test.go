package fuzzy

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// finding returns a running cluster whose members find each other by their addresses.
func finding(t *testing.T) (c *cluster, lead, follower *node) {
	p := calmOfThree(t)
	p.Members = Members{Admins: 1, Think: sim.In(100 * time.Hour), Patience: sim.In(time.Second)}
	p.Node.Handshakes = true
	c = runningAs(t, p)
	lead = c.nodes[c.leader()]
	return c, lead, c.nodes[(lead.index+1)%3]
}

func (c *cluster) until(t *testing.T, end sim.Time) {
	t.Helper()
	for c.now() < end {
		c.turn()
	}
	require.Nil(t, c.failure)
	require.GreaterOrEqual(t, c.leader(), 0)
}

func mover() *nemesis {
	rate := FaultRate{Move, sim.In(time.Second), sim.In(10 * time.Millisecond)}
	return &nemesis{rate: rate, random: sim.NewStream(1, sim.PartitionConcern)}
}

// If a member moves, it dials the other members, and they learn its new address.
func TestPlaces_AMemberThatMovesIsFound(t *testing.T) {
	c, lead, follower := finding(t)
	mover().moveTo(c, follower, "elsewhere:1")
	assert.False(t, lead.dials(follower))
	c.until(t, c.now()+sim.In(time.Second))
	require.NotNil(t, follower.core)
	assert.True(t, lead.dials(follower))
	i := slices.IndexFunc(lead.contacts(), func(k raft.Contact) bool { return k.Peer() == follower.peer() })
	assert.Equal(t, []string{"elsewhere:1", string(follower.id) + ":1"}, lead.contacts()[i].Addresses)
}

// Two members may exchange their addresses. Then each learns that the other one answers at its own former address.
func TestPlaces_MembersChangePlaces(t *testing.T) {
	c, lead, follower := finding(t)
	third := c.nodes[3-lead.index-follower.index]
	m, place := mover(), third.place
	m.moveTo(c, third, follower.place)
	m.moveTo(c, follower, place)
	assert.Empty(t, c.left, "nobody else may move to a place that is taken")
	c.until(t, c.now()+sim.In(3*time.Second))
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			assert.True(t, n == other || n.dials(other) || n != lead && other != lead, "%s dials %s", n.name(), other.name())
		}
	}
}

// After all members have moved, no member finds another one until one of them gets the addresses from an operator.
func TestPlaces_WhenAllHaveMovedOneIsTold(t *testing.T) {
	c, lead, _ := finding(t)
	m := mover()
	for _, n := range c.nodes {
		m.moveTo(c, n, c.fresh(n))
	}
	for range 2000 {
		c.turn()
	}
	require.Nil(t, c.failure)
	require.Negative(t, c.leader())
	lead.tellPlaces()
	c.until(t, c.now()+sim.In(3*time.Second))
}

// Two members have moved at the same time. Both know the address of the third member, but neither knows the address of the
// other. One of the two may lead although it was not healed. It then gets the addresses, as from an operator who starts
// members at new addresses.
func TestPlaces_ALeaderThatIsNotHealedFindsTheHealed(t *testing.T) {
	c, a, b := finding(t)
	between, m := c.nodes[3-a.index-b.index], mover()
	between.crash()
	m.moveTo(c, a, c.fresh(a))
	m.moveTo(c, b, c.fresh(b))
	for end := c.now() + sim.In(time.Second); c.now() < end; {
		c.turn()
	}
	between.start()
	c.until(t, c.now()+sim.In(3*time.Second))
	for range 10 {
		if c.nodes[c.leader()] != between {
			break
		}
		between.crash()
		for end := c.now() + sim.In(time.Second); c.now() < end; {
			c.turn()
		}
		between.start()
		c.until(t, c.now()+sim.In(3*time.Second))
	}
	lead := c.nodes[c.leader()]
	require.False(t, lead == between, "one of those that have moved leads")
	lost := c.nodes[3-lead.index-between.index]
	require.False(t, lead.dials(lost) || lost.dials(lead))

	l := &liveness{c: c, core: 1<<between.index | 1<<lost.index, leader: lead, exiled: true}
	l.reunite()
	assert.True(t, lead.table == nil && lost.table == nil, "no link leads to one that is cut off")
	l.exiled = false
	require.False(t, l.followed())
	l.reunite()
	c.until(t, c.now()+sim.In(time.Second))
	assert.True(t, lead.dials(lost) && lost.dials(lead))
	assert.True(t, l.followed())
	assert.Nil(t, between.table, "it knew both")
}

// twins returns a cluster of one voter and one learner with the same id. In the configuration, the learner has the voter's
// address.
func twins(t *testing.T) (c *cluster, lead, twin *node) {
	t.Helper()
	p := calmOfThree(t)
	p.Voters, p.Node.Handshakes = 1, true
	p.Members = Members{Spares: 1, Twins: 1, Admins: 1, Think: sim.In(100 * time.Hour), Patience: sim.In(time.Second)}
	c = newCluster(Seed{"calm", 2}, p)
	c.prepare()
	c.until(t, sim.In(time.Second))
	lead, twin = c.nodes[0], c.nodes[1]
	require.Equal(t, lead.id, twin.id)
	r := raft.Replacement{Old: lead.peer(), New: raft.Member{ID: twin.id, Incarnation: twin.disk.incarnation, Address: lead.place}}
	c.work.change(lead, 0, &changing{Change: raft.Change{Replace: []raft.Replacement{r}, Patience: time.Second / 4}})
	c.until(t, c.now()+sim.In(time.Second)) // it is given up, and leaves a learner
	require.True(t, includes(lead.config(), twin.peer()))
	return c, lead, twin
}

// Two members with the same id may exchange their addresses, too. Then each runs at the address at which it expects the
// other.
func TestPlaces_TwinsChangePlaces(t *testing.T) {
	c, lead, twin := twins(t)
	m, place, other := mover(), lead.place, twin.place
	c.work.change(lead, 0, &changing{Change: raft.Change{Update: []raft.Update{{Peer: twin.peer(), Address: &other}}}})
	c.until(t, c.now()+sim.In(time.Second))
	require.True(t, lead.dials(twin) && twin.dials(lead))
	m.moveTo(c, lead, other)
	m.moveTo(c, twin, place)
	c.until(t, c.now()+sim.In(3*time.Second))
	assert.True(t, lead.dials(twin) && twin.dials(lead))
}

// Before there is a term, a member answers any process that it finds under an id of its list. So a member may have found the
// wrong process under an id. It then gets the right address, even if the right process calls it.
func TestPlaces_BeforeATermACalledMemberIsTold(t *testing.T) {
	c, lead, follower := finding(t)
	follower.contacts()
	follower.hands.book.dialed = nil
	l := &liveness{c: c, core: 7, leader: lead}
	l.reunite()
	require.Nil(t, follower.table)
	follower.status.Term = 0
	l.reunite()
	assert.NotNil(t, follower.table)
}

// A leader may run at the address at which it expects the other member of its id. It then does not dial that member at all,
// so a table of addresses does not help. The leader corrects the address in the configuration, as on the request of an admin.
func TestPlaces_TheAddressOfATwinIsCorrected(t *testing.T) {
	c, lead, twin := twins(t)
	lead.tellPlaces()
	c.until(t, c.now()+sim.In(time.Second))
	require.False(t, lead.dials(twin) || twin.dials(lead))

	l := &liveness{c: c, core: 3, leader: lead}
	require.False(t, l.followed())
	l.reunite()
	c.until(t, c.now()+sim.In(time.Second))
	assert.True(t, lead.dials(twin) && l.followed())
	m, _ := lead.config().Peer(twin.peer())
	assert.Equal(t, twin.place, m.Address)
	requests := len(c.work.requests)
	l.reunite()
	assert.Len(t, c.work.requests, requests, "they know each other")
}

func TestInvariants_OfPlacesNoticeTheirBreach(t *testing.T) {
	for _, row := range []struct {
		rule   string
		breach func(c *cluster, lead, follower *node)
	}{
		{"I11", func(c *cluster, lead, follower *node) { // the address of another start
			m := raft.Sightings{Seen: slices.Clone(lead.disk.memory.Seen)}
			m.Seen[0].Address = "nowhere:1"
			c.check.checkPlaces(lead, &m)
		}},
		{"I11", func(c *cluster, lead, follower *node) { // an earlier address first
			for i := range lead.contacts() {
				lead.hands.book.dialed[i].Addresses = []string{"nowhere:1", follower.place}
			}
			c.check.checkContacts(lead)
		}},
		{"L19", func(c *cluster, lead, follower *node) {
			lead.hands.book.dialed = nil
			(&liveness{c: c, core: 7, leader: lead, exiled: true}).checkFound()
		}},
		{"L18", func(c *cluster, lead, follower *node) {
			knowsGone(lead, follower)
			(&liveness{c: c, core: 7, leader: lead, exiled: true}).checkRemovalKnown()
		}},
	} {
		c, lead, follower := finding(t)
		row.breach(c, lead, follower)
		expectBreach(t, c, row.rule)
	}
	c, lead, _ := finding(t)
	l := &liveness{c: c, core: 7, leader: lead, exiled: true}
	l.checkFound()
	l.checkRemovalKnown()
	assert.Nil(t, c.failure)
}

// knowsGone makes a leader know that the removal of a follower is committed.
func knowsGone(lead, follower *node) {
	l := expels(lead, follower)
	l.Removed = []raft.Removal{{Peer: follower.peer(), Index: l.index}}
	lead.status.Commit = l.index
}

// A leader that was elected after a removal does not serve the removed member. This member has time to learn about its
// removal while other members dial it. It learns about the removal when they disconnect it. A leader itself informs the
// members that it has removed, so they get no such time.
func TestLiveness_AMemberRemovedBeforeAnElectionIsToldAfterItsTime(t *testing.T) {
	c, lead, follower := finding(t)
	l := &liveness{c: c, core: 7, leader: lead, exiled: true}
	assert.False(t, l.parting(), "nobody was removed")
	knowsGone(lead, follower)
	assert.True(t, l.parting(), "it is still dialed")
	o := &lead.seen.inOffice
	o.gone = []departure{{peer: follower.peer()}}
	assert.False(t, l.parting(), "the leader was to tell it")
	o.gone, lead.hands.book.dialed = nil, nil
	assert.False(t, l.parting(), "its time is over")
	l.checkRemovalKnown()
	expectBreach(t, c, "L18")
}
