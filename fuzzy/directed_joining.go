package fuzzy

import (
	"slices"
	"strings"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// joiningScenarios show who gets a place in the cluster, and who has to wait.
var joiningScenarios = []scenario{
	{name: "lost-disk-takes-its-place", voters: 3, shape: looksForPlaces, play: lostDiskTakesItsPlace,
		about: "a founder whose disk was emptied gets the place of its former store without a command"},
	{name: "stray-process-is-refused", voters: 3, shape: hasAStray, play: strayIsRefused,
		about: "a second process with the id of a member is refused as long as the member runs, and told why"},
	{name: "damaged-store-is-set-aside", voters: 3, shape: looksForPlaces, play: damagedIsSetAside,
		about: "a member with a damaged store joins anew once a leader has confirmed it"},
	{name: "damaged-majority-is-kept", voters: 3, shape: looksForPlaces, play: damagedMajorityIsKept,
		about: "if the stores of a majority are damaged at once, none is set aside"},
	{name: "removed-until-rejoin", voters: 3, shape: looksForPlaces, play: removedUntilRejoin,
		about: "a removed member stays out until it is started with the number of its removal"},
	{name: "moved-at-once", voters: 3, shape: looksForPlaces, play: movedAtOnce,
		about: "members that all have other addresses after a restart correct their entries"},
}

// looksForPlaces makes all processes look for their cluster.
func looksForPlaces(p *Profile) {
	changesMembers(p)
	p.Members.Pace, p.Node.Seekers = 4, sim.Million
}

// hasAStray adds a process with the id of the first member.
func hasAStray(p *Profile) {
	looksForPlaces(p)
	p.Members.Spares, p.Members.Twins = 1, 1
}

// leads waits until somebody leads, and has confirmed that.
func (d *director) leads() *node {
	d.until("somebody leads", func() bool { i := d.c.leader(); return i >= 0 && d.c.nodes[i].applied >= 2 })
	return d.c.nodes[d.c.leader()]
}

// votesNow reports whether the leader's committed configuration names the process as a voter.
func (d *director) votesNow(n *node) bool {
	i := d.c.leader()
	if i < 0 {
		return false
	}
	s := &d.c.nodes[i].status
	m := member(&s.Config, n.peer())
	return m != nil && m.Kind == raft.Voter && s.ConfigCommitted == s.ConfigIndex
}

// awaits reports whether a process says that it waits for something.
func (n *node) awaits(text string) bool {
	return slices.ContainsFunc(n.seeking.rules.Missing(n.state()), func(m string) bool { return strings.Contains(m, text) })
}

func lostDiskTakesItsPlace(d *director) {
	d.start(d.c.nodes...)
	lead := d.leads()
	n := d.c.nodes[(lead.index+1)%3]
	former := n.peer()
	d.wipe(n)
	n.forgetHands()
	d.start(n)
	d.expect(80, "it votes again", func() bool { return d.votesNow(n) })
	d.check("its former store does not", func() bool { return !includes(&d.c.nodes[d.c.leader()].status.Config, former) })
	d.written(d.c.nodes[d.c.leader()])
}

func strayIsRefused(d *director) {
	founders, stray := d.c.nodes[:3], d.c.nodes[3]
	d.start(founders...)
	a := d.leads()
	d.given("a leads", a.index == 0)
	d.start(stray)
	d.until("it is refused", func() bool { return stray.awaits("a is a member already") })
	d.always(80, "it is no member", func() bool { return !d.votesNow(stray) })
	d.crash(a)
	d.expect(120, "it has the place", func() bool { return d.votesNow(stray) })
}

func (d *director) damage(nodes ...*node) {
	d.crash(nodes...)
	for _, n := range nodes {
		n.disk.damaged = true
	}
	d.start(nodes...)
}

func damagedIsSetAside(d *director) {
	d.start(d.c.nodes...)
	lead := d.leads()
	n := d.c.nodes[(lead.index+1)%3]
	d.damage(n)
	d.until("the store is set aside", func() bool { return d.c.stats.Aside == 1 && n.core != nil })
	d.start(n)
	d.expect(80, "its member votes again", func() bool { return d.votesNow(n) })
}

func damagedMajorityIsKept(d *director) {
	d.start(d.c.nodes...)
	lead := d.leads()
	d.damage(d.c.nodes[(lead.index+1)%3], d.c.nodes[(lead.index+2)%3])
	d.always(80, "no store is set aside", func() bool { return d.c.stats.Aside == 0 })
}

func removedUntilRejoin(d *director) {
	d.start(d.c.nodes...)
	lead := d.leads()
	n := d.c.nodes[(lead.index+1)%3]
	d.change(lead, raft.Change{Remove: []raft.Peer{n.peer()}})
	d.until("it has ended", func() bool { return n.core == nil })
	by := n.removedBy()
	d.given("its removal is known", by > 0)
	for _, rejoin := range []raft.Index{0, by - 1, by + 1} {
		n.ended, n.rejoin = false, rejoin
		d.start(n)
		d.always(40, "it stays out", func() bool { return !d.votesNow(n) && d.c.stats.Aside == 0 })
		d.crash(n)
	}
	n.ended, n.rejoin = false, by
	d.start(n)
	d.until("the store is set aside", func() bool { return d.c.stats.Aside == 1 && n.core != nil })
	d.start(n)
	d.expect(80, "it votes again", func() bool { return d.votesNow(n) })
}

func movedAtOnce(d *director) {
	d.start(d.c.nodes...)
	d.leads()
	d.wait(5)
	d.crash(d.c.nodes...)
	for _, n := range d.c.nodes {
		n.place = d.c.fresh(n)
		n.places = append(n.places, n.place)
	}
	d.start(d.c.nodes...)
	d.expect(120, "each entry has the new address", func() bool {
		i := d.c.leader()
		return i >= 0 && !slices.ContainsFunc(d.c.nodes, func(n *node) bool {
			m := member(&d.c.nodes[i].status.Config, n.peer())
			return m == nil || m.Address != n.place
		})
	})
}
