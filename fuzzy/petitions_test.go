package fuzzy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Some runs have processes that petition, correct their entries, and set their stores aside.
func TestPetitions_SomeRunsHaveThem(t *testing.T) {
	runs, sum := 0, Stats{}
	for number := range uint64(250) {
		p, err := Draw(Seed{"members", number})
		require.NoError(t, err)
		if p.Members.Pace == 0 {
			continue
		}
		r := RunProfile(Seed{"members", number}, p, nil)
		require.Nil(t, r.Failure, number)
		runs++
		sum.Petitions += r.Petitions
		sum.Corrections += r.Corrections
		sum.Aside += r.Aside
	}
	assert.Positive(t, runs)
	assert.Greater(t, sum.Petitions, runs)
	assert.Greater(t, sum.Corrections, runs)
	assert.Positive(t, sum.Aside)
}

// pacedOfThree returns a cluster that has run for two seconds, whose processes look for their places.
func pacedOfThree(t *testing.T) (c *cluster, lead, other *node) {
	p := calmOfThree(t)
	p.Members = Members{Admins: 1, Think: sim.In(time.Hour), Patience: p.ElectionTimeout, Pace: 1}
	p.Node.Seekers, p.Node.Handshakes = sim.Million, true
	c = newCluster(Seed{"calm", 2}, p)
	c.prepare()
	c.until(t, sim.In(5*time.Second))
	require.GreaterOrEqual(t, c.leader(), 0)
	lead = c.nodes[c.leader()]
	return c, lead, c.nodes[(lead.index+1)%3]
}

// joiningBreaches are breaches of N104 to N106.
var joiningBreaches = []struct {
	rule   string
	breach func(k *checker, lead, other *node)
}{
	{"N104", func(k *checker, lead, other *node) { // another id
		k.checkGrant(lead, &raft.Who{From: raft.Peer{ID: "x", Incarnation: 1}}, &raft.Change{Promote: []raft.Peer{other.peer()}})
	}},
	{"N104", func(k *checker, lead, other *node) { // an address that it has not asked for
		k.checkGrant(lead, &raft.Who{From: other.peer()}, &raft.Change{Update: []raft.Update{{Peer: other.peer(), Address: &lead.place}}})
	}},
	{"N104", func(k *checker, lead, other *node) { // which is heard
		k.checkGrant(lead, &raft.Who{From: raft.Peer{ID: other.id, Incarnation: 1}}, &raft.Change{Remove: []raft.Peer{other.peer()}})
	}},
	{"N104", func(k *checker, lead, _ *node) {
		lead.places = append(lead.places, lead.place)
		k.checkGrant(lead, &raft.Who{From: lead.peer()}, &raft.Change{Remove: []raft.Peer{lead.peer()}})
	}},
	{"N104", func(k *checker, lead, other *node) { // one long silence, which may be a pause of the leader
		lead.desk.heard, lead.desk.since = nil, 0
		lead.desk.watched = []watching{{peer: other.peer(), quiet: 9 * time.Second}}
		k.checkGrant(lead, &raft.Who{From: raft.Peer{ID: other.id, Incarnation: 1}}, &raft.Change{Remove: []raft.Peer{other.peer()}})
	}},
	{"N104", func(k *checker, lead, other *node) {
		k.checkContacted(lead, &raft.Member{ID: other.id, Incarnation: 1, Address: other.place})
	}},
	{"N104", func(k *checker, lead, _ *node) {
		one := &inquiry{reply: raft.WhoReply{Granted: true}}
		one.question.Who.From = raft.Peer{ID: "x", Incarnation: 1}
		k.checkGranted(lead, one)
	}},
	{"N104", func(k *checker, lead, _ *node) { // refused, and not told why
		one := &inquiry{}
		one.question.Who.Petition = &raft.Petition{}
		k.checkGranted(lead, one)
	}},
	{"N105", func(k *checker, _, other *node) { // again
		other.seeking.entry.right = true
		k.checkCorrection(other, &raft.Change{})
	}},
	{"N105", func(k *checker, lead, other *node) {
		other.seeking.entry = correcting{}
		k.checkCorrection(other, &raft.Change{Remove: []raft.Peer{lead.peer()}})
	}},
	{"N105", func(k *checker, lead, other *node) { // which has not said so
		other.seeking.entry = correcting{}
		wrong := "x:1"
		k.checkCorrection(other, &raft.Change{Update: []raft.Update{{Peer: lead.peer(), Address: &wrong}}})
	}},
	{"N105", func(k *checker, lead, other *node) {
		other.seeking.entry = correcting{}
		k.checkCorrection(other, &raft.Change{Update: []raft.Update{{Peer: other.peer(), Address: &lead.place}}})
	}},
	{"N105", func(k *checker, _, other *node) { // somebody has changed it
		other.seeking.entry = correcting{first: &raft.Member{Address: "x:1"}}
		k.checkCorrection(other, &raft.Change{Update: []raft.Update{{Peer: other.peer(), Address: &other.place}}})
	}},
	{"N106", func(k *checker, _, other *node) { // not confirmed
		k.checkAside(other, &aside{}, &inquiry{reply: raft.WhoReply{Cluster: other.status.Cluster}})
	}},
	{"N106", func(k *checker, lead, other *node) { // nobody was heard since
		one := &inquiry{of: other, asked: k.c.now() + 1, proved: true, reply: raft.WhoReply{Cluster: other.status.Cluster}}
		other.disk.damaged, one.lacks = true, lead.backing(one)
		k.checkAside(other, &aside{}, one)
	}},
	{"N106", func(k *checker, _, other *node) { // another cluster
		other.disk.damaged = true
		k.checkAside(other, &aside{}, &inquiry{proved: true})
	}},
	{"N106", func(k *checker, _, other *node) { // it contradicts others
		other.disk.damaged, other.disk.mark = true, &raft.Mark{Kind: raft.MarkContradicted}
		k.checkAside(other, &aside{}, &inquiry{proved: true, reply: raft.WhoReply{Cluster: other.status.Cluster}})
	}},
	{"N106", func(k *checker, _, other *node) { k.checkRejoins(other, 2) }},
}

func TestPetitions_EachBreachIsNoticed(t *testing.T) {
	for _, row := range joiningBreaches {
		c, lead, other := pacedOfThree(t)
		require.Nil(t, c.failure)
		require.Empty(t, lead.backing(&inquiry{of: other}), "what holds is not noticed")
		row.breach(c.check, lead, other)
		expectBreach(t, c, row.rule)
	}
}

// A petitioner whose disk is emptied while it waits has nevertheless been at the address of the member whose place it asked for.
func TestPetitions_N104CountsAPetitionerThatIsGone(t *testing.T) {
	c, lead, other := pacedOfThree(t)
	former := other.peer()
	other.disk.wipe()
	petitioner := other.peer()
	other.disk.wipe()
	c.check.checkGrant(lead, &raft.Who{From: petitioner}, &raft.Change{Remove: []raft.Peer{former}})
	assert.Nil(t, c.failure)
}

// A search for leave to set a store aside is about the store that began it. Once the disk is emptied, nothing allows the process
// to set aside the store that comes next.
func TestPetitions_AnEmptiedDiskEndsTheSearch(t *testing.T) {
	c, _, other := pacedOfThree(t)
	other.crash()
	other.disk.damaged = true
	for other.beginAside(); other.aside.closed; other.beginAside() { // a store rarely says no cluster
	}
	other.empty()
	other.beginAside()
	require.True(t, other.aside.closed, "a store that says no cluster is kept")
	c.until(t, c.now()+sim.In(5*time.Second))
	assert.Zero(t, c.stats.Aside)
}

// A process that has neither a place nor a reason is noticed.
func TestPetitions_AProcessWithoutAPlaceIsNoticed(t *testing.T) {
	c, lead, other := pacedOfThree(t)
	l := &liveness{c: c, leader: lead, core: 7, exiled: true}
	require.True(t, l.joined())
	other.seeking.petitioned = true
	lead.status.Config.Members = append([]raft.Member(nil), lead.status.Config.Members...)
	for i := range lead.status.Config.Members {
		if m := &lead.status.Config.Members[i]; m.Peer() == other.peer() {
			m.Kind = raft.Learner
		}
	}
	assert.False(t, l.joined())
	assert.Equal(t, other, l.displaced())
	other.seeking.learner = true
	assert.True(t, l.joined())
}
