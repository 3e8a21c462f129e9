package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// memberScenarios change the members.
var memberScenarios = []scenario{
	{
		name: "removed-and-let-go", voters: 3, shape: changesMembers, play: removedAndLetGo,
		about: "a member that learns nothing while it is still served after its removal is told about the removal in the next handshake",
	},
	{
		name: "removed-and-called", voters: 4, shape: oneJoins, play: removedAndCalled,
		about: "a member that has let in a stranger, and learns that it was removed, tells it",
	},
	{
		name: "needed-after-two-leaders", voters: 5, shape: changesMembers, play: neededAfterTwoLeaders,
		about: "a member whose removal two fallen leaders hold is needed to elect a third one, which does not know of the removal",
	},
}

// changesMembers makes members find each other by their addresses, and lets only the director change the members.
func changesMembers(p *Profile) {
	hour := sim.In(time.Hour)
	p.Members = Members{Admins: 1, Think: 100 * hour, Patience: hour}
	p.Node.Handshakes = true
}

func oneJoins(p *Profile) {
	changesMembers(p)
	p.Members.Spares = 1
}

// change makes a leader change the members, and waits until the change is done.
func (d *director) change(n *node, ch raft.Change) {
	t := d.c.work.change(n, 0, &changing{Change: ch})
	d.until(n.name()+" has changed the members", func() bool { return d.state(t) == answeredWell })
}

// expectRemovalKnown expects a member to end because another member has informed it of its removal.
func (d *director) expectRemovalKnown(n *node) {
	d.expect(20, n.name()+" is told that it was removed", func() bool { return n.removedIn == n.life+1 || n.ended })
}

// c still has its connections to the others. The others close their connections to c, so no message reaches c.
func removedAndLetGo(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.lose(these(a, b), these(c))
	d.change(a, raft.Change{Remove: []raft.Peer{c.peer()}})
	d.until("b knows it", func() bool { return b.knowsRemoved(c.peer()) })
	d.wait(5)
	d.given("c is still served, and has heard nothing", a.dials(c) && b.dials(c) && c.core != nil && includes(c.config(), c.peer()))
	d.expectRemovalKnown(c)
}

// b is cut off while e joins, so b does not know e when e calls it. By the time b learns about e, e has been removed,
// and is cut off from all but b.
func removedAndCalled(d *director) {
	n := d.c.nodes
	a, b, e := n[0], n[1], n[4]
	d.start(n...)
	d.until("a leads", func() bool { return a.leads() && b.applied >= 2 && n[2].applied >= 2 && n[3].applied >= 2 })
	d.isolate(sim.BothWays, b)
	d.c.net.Links.Mend(sim.Partitions, b.index, e.index)
	d.c.net.Links.Mend(sim.Partitions, e.index, b.index)
	joins := raft.Member{ID: e.id, Incarnation: e.peer().Incarnation, Address: e.place, Kind: raft.Voter}
	d.change(a, raft.Change{Add: []raft.Member{joins}})
	d.until("b dials e back", func() bool { return b.admits(e) && b.dials(e) })
	for _, other := range these(a, n[2], n[3]) {
		d.c.net.Links.CutBoth(sim.Partitions, other.index, e.index)
	}
	d.change(a, raft.Change{Remove: []raft.Peer{e.peer()}})
	d.wait(20)
	d.given("e does not know that it was removed, and asks b for votes", b.dials(e) && e.core != nil && votes(e.config(), e.peer()))
	for _, other := range these(a, n[2], n[3]) {
		d.c.net.Links.Mend(sim.Partitions, other.index, b.index)
		d.c.net.Links.Mend(sim.Partitions, b.index, other.index)
	}
	d.until("b knows it", func() bool { return b.knowsRemoved(e.peer()) })
	d.expectRemovalKnown(e)
}

// begin makes a leader begin a removal, and waits until another member holds its first configuration.
func (d *director) begin(n *node, gone, holder *node) {
	d.c.work.change(n, 0, &changing{Change: raft.Change{Remove: []raft.Peer{gone.peer()}}})
	d.until(holder.name()+" holds the removal", func() bool {
		return len(holder.config().Outgoing) > 0 && holder.status.Persisted == holder.last()
	})
}

// c, d and e are a quorum only together. Nobody but a and b holds the removal of e.
func neededAfterTwoLeaders(d *director) {
	n := d.c.nodes
	a, b, c, dd, e := n[0], n[1], n[2], n[3], n[4]
	d.bootstrap()
	first := d.lose(these(a), these(c, dd, e), raft.AppendRequest{})
	d.begin(a, e, b)
	d.crash(a)
	second := d.lose(these(b), nil, raft.AppendRequest{}, raft.Heartbeat{})
	d.elect(b)
	d.crash(b)
	first.stop()
	second.stop()
	d.given("nobody else knows of the removal", c.status.ConfigIndex == 1 && dd.status.ConfigIndex == 1 && e.status.ConfigIndex == 1)
	d.elect(c)
	d.written(c)
	d.start(a, b)
	d.expect(20, "the removal is rolled back", func() bool { return a.status.ConfigIndex == 1 && b.status.ConfigIndex == 1 })
	d.check("e was not told that it was removed", func() bool { return e.core != nil && e.removedIn == 0 })
	d.change(c, raft.Change{Remove: []raft.Peer{e.peer()}})
	d.expectRemovalKnown(e)
}
