package fuzzy

import (
	"slices"
	"strings"

	"github.com/coxswain/raft"
)

// bootstrapScenarios show how a cluster is bootstrapped, and what a member with an emptied disk may do. The first scenarios
// are counterexamples that a model check found for rejected designs. The model's members 1 to 4 are a to d here. The
// scenarios skip the steps that the present rules prevent.
var bootstrapScenarios = []scenario{
	{name: "bootstrap-1", voters: 3, play: bootstrap1, source: "model check, bootstrap 1",
		about: "a majority that holds entry 1 holds no election without the rest, and a second cluster is " +
			"bootstrapped only if nothing was decided"},
	{name: "bootstrap-2", voters: 3, play: bootstrap2, source: "model check, bootstrap 2",
		about: "entry 1 of a lost bootstrapper does not replace another one that a member holds"},
	{name: "bootstrap-3", voters: 3, play: bootstrap3, source: "model check, bootstrap 3",
		about: "a bootstrapper that has campaigned never probes the members again"},
	{name: "bootstrap-4", voters: 4, play: bootstrap4, source: "model check, bootstrap 4",
		about: "of two lists that share a member at most one becomes a cluster"},
	{name: "bootstrap-5-first", voters: 2, play: bootstrap5First, source: "model check, bootstrap 5, first half",
		about: "a member that loses its disk between its answer and entry 1 wedges nothing: the probe is " +
			"called again"},
	{name: "bootstrap-5-second", voters: 2, play: bootstrap5Second, source: "model check, bootstrap 5, second half",
		about: "a bootstrapper does not win before the other holds entry 1, so that losing its disk then wedges " +
			"nothing"},
	{name: "bootstrap-6", voters: 2, play: bootstrap6, source: "model check, bootstrap 6",
		about: "a bootstrapper that won and restarts continues in its cluster, and a member with a term takes no other " +
			"entry 1"},
	{name: "bootstrap-7", voters: 3, play: bootstrap7, source: "model check, bootstrap 7",
		about: "a bootstrapper that loses its disk once another holds its entry 1 is refused, nobody has voted, " +
			"and it says what to do"},
	{name: "bootstrap-uninitialized-votes", voters: 3, play: uninitializedVotes, source: "model check, bootstrap 1 and 2",
		about: "an uninitialized member answers no vote request"},
	{name: "bootstrap-holders-wait", voters: 3, play: holdersWait, source: "model check, bootstrap",
		about: "a member that holds entry 1 at term 0 does not campaign, however long the bootstrapper is gone"},
	{
		name: "bootstrap-earlier-probe", voters: 3, play: earlierProbe,
		about: "answers to an earlier probe do not count in the present one",
	},
	{name: "bootstrap-unequal-lists", voters: 3, play: unequalLists, source: "model check, bootstrap 4",
		about: "members with different lists bootstrap nothing until their lists agree"},
	{name: "bootstrap-lists-given-later", voters: 3, play: listsGivenLater,
		about: "members that run are given their list one by one, one of them again after a crash, and only then begin"},
	{name: "misdelivered-probe", voters: 3, play: misdeliveredProbe, source: "etcd #17081",
		about: "a member does not answer a probe that was meant for another"},
	{name: "another-cluster", voters: 3, play: anotherCluster, source: "etcd #17081",
		about: "a message of another cluster changes nothing"},
	{name: "earlier-life-of-a-disk", voters: 3, play: earlierLifeOfADisk, source: "model check, bootstrap 2",
		about: "a message for a lost disk is not accepted by the disk that replaced it"},
}

// unborn reports whether no member has a term and no member campaigns. Without a term, no member has voted.
func (d *director) unborn() bool {
	return !slices.ContainsFunc(d.c.nodes, func(n *node) bool {
		return n.disk.hard.Term > 0 || n.core != nil && (n.status.Term > 0 || n.status.Role != raft.Follower)
	})
}

func (n *node) belongsTo(cluster raft.ClusterID) bool {
	return len(n.disk.log) > 0 && n.bootstrapOnDisk().Cluster == cluster
}

func (n *node) bootstrapOnDisk() raft.Bootstrap {
	f, _ := raft.DecodeBootstrap(n.disk.log[0].entry.Data) // cannot fail: it was accepted
	return f
}

// holdsOne reports whether entry 1 is durable on this node.
func (n *node) holdsOne() bool { return len(n.disk.log) > 0 }

func bootstrap1(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	first := d.hold(these(a), these(c), raft.BootstrapRequest{}).byThisLife()
	d.start(a, b, c)
	d.until("a holds entry 1", a.holdsOne)
	d.always(5, "nobody has voted, since c does not hold it", d.unborn)
	d.given("b holds entry 1, and c has answered the probe", b.holdsOne() && first.some())
	d.wipe(a, b)
	d.start(a, b)
	d.expect(20, "a, anew, leads", a.leads)
	d.written(a)
	first.release()
	d.check("c is in the new cluster", func() bool { return c.belongsTo(a.status.Cluster) })
}

func bootstrap2(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	old := d.hold(these(a), nil, raft.BootstrapRequest{}).byThisLife()
	d.start(a, b, c)
	d.until("a holds entry 1", a.holdsOne)
	d.always(5, "nobody has voted, since nobody else holds it", d.unborn)
	d.given("b and c have answered the probe", len(old.kept) >= 2)
	d.wipe(a)
	late := d.hold(these(a), these(c), raft.BootstrapRequest{}).byThisLife()
	d.start(a)
	d.until("b holds another entry 1", func() bool { return b.holdsOne() && late.some() })
	for _, m := range old.taken() {
		if m.To == b.index {
			d.arriveTogether(m)
		}
	}
	d.check("b keeps it", func() bool { return b.belongsTo(a.status.Cluster) })
	late.release()
	d.expect(20, "a leads", a.leads)
	d.written(a)
}

func bootstrap3(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	votes := d.hold(these(a), nil, raft.VoteRequest{})
	d.start(a, b, c)
	d.until("a stands in term 1", func() bool { return votes.some() && a.disk.hard.Term == 1 })
	cluster := a.status.Cluster
	votes.forget()
	d.crash(a)
	rolls := d.record(these(a), nil, raft.BootstrapProbe{})
	d.start(a)
	d.expect(20, "somebody leads", func() bool { return !d.nobodyLeads() })
	d.check("a has not probed the members again, and the cluster is the same", func() bool {
		return !rolls.some() && a.status.Cluster == cluster
	})
	d.wipe(c)
	d.start(c)
	d.somebodyCommits(20)
	d.always(3, "b stays in it", func() bool { return b.belongsTo(cluster) })
}

// The members a, b, c and d have the lists 123, 123, 123 and 34. c answers a, restarts with the other list, and bootstraps
// with d.
func bootstrap4(d *director) {
	n := d.c.nodes
	a, b, c, dd := n[0], n[1], n[2], n[3]
	abc := raft.NewConfiguration(slices.Clone(d.c.initial.Members[:3]))
	cd := raft.NewConfiguration(slices.Clone(d.c.initial.Members[2:]))
	a.initial, b.initial, c.initial, dd.initial = abc, abc, abc, cd
	first := d.hold(these(a), these(c), raft.BootstrapRequest{})
	d.start(a, b, c)
	d.until("a and b hold entry 1, and c has answered the probe", func() bool {
		return a.holdsOne() && b.holdsOne() && first.some()
	})
	d.crash(c)
	c.initial = cd
	first.stop()
	d.start(c, dd)
	d.until("c leads its cluster", c.leads)
	d.written(c)
	first.release()
	d.always(15, "a and b do not begin another", func() bool {
		return a.disk.hard.Term == 0 && b.disk.hard.Term == 0 && c.belongsTo(c.status.Cluster)
	})
}

func bootstrap5First(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	first := d.hold(these(a), these(b), raft.BootstrapRequest{})
	d.start(a, b)
	d.until("a holds entry 1, and b has answered the probe", func() bool { return a.holdsOne() && first.some() })
	cluster := a.bootstrapOnDisk().Cluster
	d.wipe(b)
	first.stop()
	d.start(b)
	d.expect(25, "a leads", a.leads)
	d.check("entry 1 was made again, with another cluster id", func() bool {
		return !a.belongsTo(cluster) && b.belongsTo(a.status.Cluster)
	})
	first.release()
	d.written(a)
}

func bootstrap5Second(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	first := d.hold(these(a), these(b), raft.BootstrapRequest{}).byThisLife()
	d.start(a, b)
	d.until("a holds entry 1", a.holdsOne)
	d.always(5, "a has not won, since b does not hold it", d.unborn)
	d.given("b has answered the probe", first.some())
	d.wipe(a)
	d.start(a)
	d.expect(20, "a, anew, leads", a.leads)
	d.written(a)
	first.release()
	d.check("b is in the new cluster", func() bool { return b.belongsTo(a.status.Cluster) })
}

func bootstrap6(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	bootstraps := d.record(these(a), these(b), raft.BootstrapRequest{})
	d.bootstrap()
	cluster := a.status.Cluster
	rolls := d.record(these(a), nil, raft.BootstrapProbe{})
	d.crash(a)
	d.start(a)
	d.expect(20, "one of them leads", func() bool { return a.leads() || b.leads() })
	d.check("a has not probed the members again", func() bool { return !rolls.some() })
	d.given("b was sent entry 1", bootstraps.some())
	d.forge(bootstraps.taken()[0], func(m *raft.Message) {
		r := m.Body.(raft.BootstrapRequest)
		f, _ := raft.DecodeBootstrap(r.Entry.Data) // cannot fail: it was sent
		f.Probe.Counter += 9
		f.Cluster[0] ^= 0xff
		r.Entry = raft.Entry{Index: 1, Kind: raft.EntryBootstrap, Time: r.Entry.Time, Data: f.Encode()}
		m.Cluster, m.Body = f.Cluster, r
	})
	d.wait(0.1)
	d.check("b takes no other entry 1", func() bool { return b.belongsTo(cluster) && b.status.Cluster == cluster })
}

func bootstrap7(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.hold(these(a), these(c), raft.BootstrapRequest{})
	d.start(a, b, c)
	d.until("a and b hold entry 1", func() bool { return a.holdsOne() && b.holdsOne() })
	d.wipe(a)
	for _, h := range d.holds {
		h.forget()
	}
	d.start(a)
	d.expect(3, "a says what is wrong", func() bool {
		return strings.Contains(strings.Join(a.status.Missing, "\n"), "b already belongs to a cluster")
	})
	d.always(10, "nobody has voted", d.unborn)
	d.wipe(a, b, c)
	d.start(a, b, c)
	d.expect(20, "once all stores are emptied, a leads", a.leads)
}

// c has answered the probe, and a vote request of a broken bootstrapper arrives.
func uninitializedVotes(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	first := d.hold(these(a), these(c), raft.BootstrapRequest{})
	d.start(a, b, c)
	d.until("c has answered the probe", first.some)
	votes := d.record(these(c), nil, raft.VoteReply{})
	d.forge(first.kept[0], func(m *raft.Message) {
		m.Term, m.Body = 1, raft.VoteRequest{Last: raft.EntryID{Index: 1}}
	})
	d.always(1, "c has not voted", func() bool { return c.disk.hard == raft.HardState{} && !votes.some() })
	first.release()
	d.expect(20, "a leads", a.leads)
}

func holdersWait(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	held := d.hold(these(b, c), these(a), raft.BootstrapReply{})
	d.start(a, b, c)
	d.until("all hold entry 1", func() bool { return len(held.kept) >= 2 })
	d.crash(a)
	d.always(20, "nobody has voted", d.unborn)
	held.stop()
	d.start(a)
	d.expect(20, "a leads", a.leads)
}

func earlierProbe(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	old := d.hold(these(b, c), these(a), raft.BootstrapProbeReply{})
	d.start(a, b, c)
	d.until("b and c have answered", func() bool { return len(old.kept) >= 2 })
	old.stop()
	d.crash(a)
	d.wipe(c)
	fresh := d.hold(these(b, c), these(a), raft.BootstrapProbeReply{})
	d.start(a, c)
	d.until("they have answered again", func() bool { return len(fresh.kept) >= 2 })
	old.release()
	d.check("the old answers bootstrap nothing", func() bool { return a.last() == 0 })
	fresh.release()
	d.expect(6, "a leads", a.leads)
}

func unequalLists(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	all := d.c.initial
	c.initial = raft.NewConfiguration([]raft.Member{all.Members[0], all.Members[2]})
	d.start(a, b, c)
	d.always(5, "nobody holds an entry 1", func() bool { return a.last() == 0 && b.last() == 0 && c.last() == 0 })
	d.check("a says what is wrong", func() bool {
		return strings.Contains(strings.Join(a.status.Missing, "\n"), "c was started with another list")
	})
	d.crash(c)
	c.initial = all
	d.start(c)
	d.expect(20, "a leads", a.leads)
}

func listsGivenLater(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	all := d.c.initial
	give := func(n *node) { n.post(raft.InitialGiven{Initial: all}) }
	for _, n := range d.c.nodes {
		n.initial = raft.Configuration{}
	}
	none := func() bool { return a.last() == 0 && b.last() == 0 && c.last() == 0 }
	d.start(a, b, c)
	d.always(2, "nobody begins without a list", none)
	give(a)
	give(b)
	d.always(3, "c has no list", none)
	d.check("a says so", func() bool {
		return strings.Contains(strings.Join(a.status.Missing, "\n"), "c was started without a list")
	})
	d.crash(b)
	d.start(b)
	give(c)
	d.always(3, "b has forgotten its list, and takes no entry 1", func() bool { return b.last() == 0 && d.unborn() })
	b.initial = all
	give(b)
	d.expect(20, "a leads", a.leads)
	a.initial, c.initial = all, all
}

func misdeliveredProbe(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	calls := d.record(these(a), these(b), raft.BootstrapProbe{})
	own := d.hold(these(a), these(c), raft.BootstrapProbe{})
	answers := d.record(these(c), nil, raft.BootstrapProbeReply{})
	d.start(a, b, c)
	d.until("b is asked", calls.some)
	m := calls.taken()[0]
	m.To = c.index
	d.arriveTogether(m)
	d.wait(0.1)
	d.check("c has not answered", func() bool { return !answers.some() })
	own.release()
	d.expect(20, "a leads", a.leads)
}

func anotherCluster(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	beats := d.record(these(a), these(b), raft.Heartbeat{})
	appends := d.record(these(a), these(b), raft.AppendRequest{})
	d.bootstrap()
	d.until("a is heard", beats.some)
	reigns := d.reignsOn(a)
	for _, m := range append(beats.taken()[:1], appends.taken()...) {
		d.forge(m, func(m *raft.Message) {
			m.Cluster[0] ^= 0xff
			m.Term += 7
		})
	}
	d.forge(beats.d.heartbeat(a, b), func(m *raft.Message) {
		m.Cluster[0] ^= 0xff
		m.Term, m.Body = m.Term+7, raft.VoteRequest{Last: raft.EntryID{Term: 7, Index: 1 << 20}, Transfer: true}
	})
	d.always(3, "a leads on in its term", func() bool { return reigns() && b.status.Term == a.status.Term })
}

// heartbeat waits for a heartbeat and returns a copy of it. The heartbeat itself also arrives at its receiver.
func (d *director) heartbeat(from, to *node) (m messageUnderWay) {
	beats := d.record(these(from), these(to), raft.Heartbeat{})
	d.until(from.name()+" is heard", beats.some)
	return beats.taken()[0]
}

func earlierLifeOfADisk(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	appends := d.record(these(a), these(c), raft.AppendRequest{})
	d.bootstrap()
	d.written(a)
	d.wipe(c)
	d.start(c)
	for _, m := range append(appends.taken(), d.heartbeat(a, d.c.nodes[1])) {
		m.To = c.index
		d.arriveTogether(m)
	}
	d.wait(0.1)
	d.check("c is uninitialized", func() bool { return c.status.Uninitialized && c.disk.hard == raft.HardState{} })
	d.written(a)
}
