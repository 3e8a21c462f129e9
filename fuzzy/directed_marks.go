package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// markScenarios return a disk to an earlier state.
var markScenarios = []scenario{
	{
		name: "lost-acknowledgement", voters: 3, play: lostAcknowledgement,
		about: "a member that lacks what it acknowledged in this term marks its store and ends; the leader " +
			"no longer counts it",
	},
	{
		name: "lost-acknowledgement-of-an-idle-leader", voters: 3, play: lostAcknowledgementWhileIdle,
		about: "a lost acknowledgement is found through heartbeat replies, without a write",
	},
	{
		name: "lost-acknowledgement-and-nobody-else", voters: 3, play: lostAcknowledgementAndNobodyElse,
		about: "a leader whose only live follower has lost what it acknowledged commits nothing with it",
	},
	{
		name: "lost-acknowledgement-and-a-read", voters: 3, play: lostAcknowledgementAndARead,
		about: "a member that finds its loss in the step in which a read is confirmed does not answer the read",
	},
	{
		name: "late-conflicts", voters: 3, play: lateConflicts,
		about: "conflicts from before an acknowledgement, doubled and late, prove no loss, nor does a restart",
	},
	{
		name: "loss-shown-by-a-stranger", voters: 3, shape: withSpares, play: lossShownByAStranger,
		about: "a member stops voting once a leader that it does not know has shown what it has lost, and marks its " +
			"store when it learns who that was",
	},
	{
		name: "loss-shown-by-a-liar", voters: 3, shape: withSpares, play: lossShownByALiar,
		about: "a member to which a stranger has shown a loss that never happened votes again once a later leader has appended to its log",
	},
	{
		name: "lost-acknowledgement-behind-the-base", voters: 3, shape: askedSnapshots, play: lostAcknowledgementBehindTheBase,
		about: "a member whose disk holds a deposed leader's entry in the place of the one that it acknowledged last is found out, " +
			"although its leader's log begins right behind that entry",
	},
	{
		name: "as-many-starts-as-are-remembered", voters: 3, shape: func(p *Profile) { p.Node.Handshakes = true }, play: asManyStartsAsAreRemembered,
		about: "a member is accepted if the start that was seen of it is the oldest that it remembers, and refused without a mark " +
			"after one start more",
	},
}

// askedSnapshots makes members take snapshots only if they are asked to, and keep only the last entry that these cover.
func askedSnapshots(p *Profile) {
	smallSnapshots(p)
	p.Limits.SnapshotEntries = 1 << 20
}

// withSpares adds two nodes that are to join, and a client that can change the members.
func withSpares(p *Profile) {
	p.Members = Members{Spares: 2, Admins: 1, Think: sim.In(1e6 * time.Hour), Patience: 20 * p.ElectionTimeout}
}

// forgets ends a process. Its disk loses the part of the log that it has synced since the image was taken. The disk keeps the
// rest, including its starts and memory, so no handshake reveals the loss.
func (d *director) forgets(n *node, since image) {
	n.crash()
	n.disk.restore(since, false)
	d.c.faulted("the disk of %s has lost what it had synced: %s", n.name(), n.disk.describe())
	d.settle()
}

// losesWhatItAcknowledged makes every member acknowledge three writes, and then removes them from b's disk.
func (d *director) losesWhatItAcknowledged() (a, b, c *node) {
	a, b, c = d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.written(a)
	before := b.disk.image()
	for range 3 {
		d.written(a)
	}
	d.until("b and c have acknowledged all", func() bool {
		return a.progressOf(b).Match == a.last() && a.progressOf(c).Match == a.last()
	})
	d.forgets(b, before)
	return a, b, c
}

// expectLossFound expects that b ends permanently, and that its leader notices the loss.
func (d *director) expectLossFound(a, b *node) {
	d.expect(5, "b marks its store and ends", func() bool {
		return b.core == nil && b.disk.mark != nil && b.disk.mark.Kind == raft.MarkStaleImage
	})
	d.expect(2, "a takes b for stale", func() bool { return a.progressOf(b).State == "stale" })
}

func lostAcknowledgement(d *director) {
	a, b, c := d.losesWhatItAcknowledged()
	reigns := d.reignsOn(a)
	d.start(b)
	t := d.write(a, 1)
	d.expectLossFound(a, b)
	d.expect(2, "a commits with c", func() bool { return d.state(t) == answeredWell })
	d.start(b)
	d.check("no start of b follows", func() bool { return b.core == nil })
	d.always(4, "a still leads", func() bool { return reigns() && a.progressOf(c).State == "replicate" })
}

func lostAcknowledgementWhileIdle(d *director) {
	a, b, _ := d.losesWhatItAcknowledged()
	reigns := d.reignsOn(a)
	d.start(b)
	d.expectLossFound(a, b)
	d.check("a still leads", reigns)
}

// b cannot even record durably that it has lost entries. Until b can, the leader must not count b's answers.
func lostAcknowledgementAndNobodyElse(d *director) {
	a, b, c := d.losesWhatItAcknowledged()
	d.crash(c)
	reigns := d.reignsOn(a)
	d.start(b)
	d.stall(b)
	d.expect(2, "a takes b for stale", func() bool { return a.progressOf(b).State == "stale" })
	t := d.write(a, 1)
	d.expect(2, "a steps down", func() bool { return !reigns() })
	d.given("nothing was committed", d.state(t) != answeredWell)
	d.flow(b)
	d.expect(5, "b ends", func() bool { return b.core == nil && b.disk.mark != nil })
	d.start(c)
	d.somebodyCommits(20)
}

// The answer to b's read and the append that shows b's loss arrive in one step.
func lostAcknowledgementAndARead(d *director) {
	a, b, _ := d.losesWhatItAcknowledged()
	reigns := d.reignsOn(a)
	appends := d.hold(these(a), these(b), raft.AppendRequest{})
	d.start(b)
	d.until("b follows a, which has an append on its way to it", func() bool { return b.status.Leader == a.id && appends.some() })
	replies := d.hold(these(a), these(b), raft.ReadReply{})
	t := d.read(b)
	d.until("a has answered the read", replies.some)
	d.given("b waits for it", d.state(t) == unanswered)
	d.arriveTogether(append(replies.taken(), appends.taken()...)...)
	d.check("b refuses the read", func() bool { return d.state(t) == answeredNo })
	d.expectLossFound(a, b)
	d.check("a still leads", reigns)
}

func lateConflicts(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	conflicts := d.brought(b, c)
	d.crash(c)
	d.start(c)
	d.until("c has restarted, and follows b", func() bool { return c.status.Leader == b.id })
	for _, m := range conflicts.taken() {
		d.arriveTogether(m, m)
	}
	d.until("c has all again", func() bool {
		return b.progressOf(c).State == "replicate" && b.progressOf(c).Match == b.last()
	})
	for _, m := range conflicts.taken() {
		d.arriveTogether(m, m)
		d.check("c counts", func() bool { return b.progressOf(c).State == "replicate" })
	}
	d.isolate(sim.BothWays, a)
	d.written(b)
}

// replacedBehindItsBack replaces a and b by d and e. c sees the replacement. c acknowledges the entries that d then writes,
// while e lacks them. Then c forgets all of this. d shows c the loss, and then fails.
func (d *director) replacedBehindItsBack() (c, dd, e *node) {
	n := d.c.nodes
	a, b := n[0], n[1]
	c, dd, e = n[2], n[3], n[4]
	d.bootstrap()
	d.written(a)
	d.until("c has it", func() bool { return a.progressOf(c).Match == a.last() })
	before := c.disk.image()
	d.changed(a, raft.Change{Add: []raft.Member{joiner(dd), joiner(e)}, Remove: []raft.Peer{b.peer()}})
	d.transfer(a, dd)
	d.until("d leads", dd.leads)
	d.changed(dd, raft.Change{Remove: []raft.Peer{a.peer()}})
	d.until("e has all", func() bool { return dd.progressOf(e).Match == dd.last() })
	lost := d.lose(these(dd), these(e), raft.AppendRequest{})
	for range 3 {
		d.written(dd)
	}
	d.given("c has acknowledged it", dd.progressOf(c).Match == dd.last())
	d.forgets(c, before)
	d.start(c)
	d.expect(5, "d shows c what it has lost", func() bool { return c.status.Suspected == dd.peer() })
	d.expect(2, "d takes c for stale", func() bool { return dd.progressOf(c).State == "stale" })
	lost.stop()
	d.crash(dd)
	return c, dd, e
}

// changed asks a leader to change the members, and waits until the change is done.
func (d *director) changed(n *node, change raft.Change) {
	t := d.c.work.change(n, 0, &changing{Change: change})
	d.settle()
	d.until(n.name()+" has changed the members", func() bool { return d.state(t) == answeredWell })
}

// joiner returns a node as a member that is to become a voter.
func joiner(n *node) raft.Member {
	return raft.Member{ID: n.id, Address: n.place, Kind: raft.Voter, Incarnation: n.disk.incarnation}
}

func lossShownByAStranger(d *director) {
	c, dd, e := d.replacedBehindItsBack()
	d.standsInVain(e)
	d.check("c still keeps its vote", func() bool { return c.status.Suspected == dd.peer() })
	d.start(dd)
	d.expect(20, "c learns who d is, marks its store and ends", func() bool {
		return c.core == nil && c.disk.mark != nil && c.disk.mark.By == dd.peer()
	})
	d.somebodyCommits(20)
}

// A process that is not a member tells c that c has lost entries that it acknowledged. The process claims a term that no
// member has led. a and b continue without c's vote. Later c is one of the two members that elect a leader.
func lossShownByALiar(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	appends := d.hold(these(a), these(c), raft.AppendRequest{})
	d.written(a)
	d.until("an append is on its way to c", appends.some)
	liar := d.c.nodes[3].peer()
	d.forge(appends.taken()[0], func(m *raft.Message) {
		m.From, m.Term = liar, m.Term+1
		nowhere := raft.EntryID{Term: m.Term, Index: a.last() + 9}
		m.Body = raft.AppendRequest{Prev: nowhere, Last: nowhere, Acknowledged: nowhere.Index}
	})
	d.check("c keeps its vote", func() bool { return c.status.Suspected == liar })
	d.expect(20, "c votes again", func() bool { return c.status.Suspected == (raft.Peer{}) })
	d.given("c keeps running", c.core != nil && c.disk.mark == nil)
	d.somebodyCommits(20)
	d.crash(b)
	d.expect(20, "c elects a", a.leads)
	d.somebodyCommits(20)
	d.expect(3, "c has all", func() bool { return c.last() == a.last() })
}

// b has an entry of its own that nobody else has. c's entry takes its place, and b acknowledges it. Then b's disk forgets this.
func lostAcknowledgementBehindTheBase(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.transfer(a, b)
	d.until("b leads", b.leads)
	d.written(b)
	d.until("c has all", func() bool { return b.progressOf(c).Match == b.last() })
	d.isolate(sim.BothWays, b)
	d.write(b, 1)
	d.until("b's entry is durable", func() bool { return len(b.disk.log) == int(b.last()) })
	before := b.disk.image()
	d.elect(c)
	d.heal()
	d.until("b has acknowledged what took its place", func() bool {
		return c.progressOf(b).Match == c.last() && int(c.last()) == len(before.log) && a.status.Commit == c.last()
	})
	d.forgets(b, before)
	for range 2 {
		d.written(c)
		d.c.work.snapshot(c, d.nextClient())
		d.until("c's log begins before its last entry", func() bool { return c.status.Base.Index == c.last()-1 })
	}
	d.start(b)
	d.expectLossFound(c, b)
}

// c's disk stalls whenever a sees a start of it, so c does not know durably that a remembers the start.
func asManyStartsAsAreRemembered(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	for _, further := range []int{lineageMax - 1, lineageMax} {
		d.crash(c)
		d.stall(c)
		d.start(c)
		d.until("a remembers the start", func() bool { return a.disk.memory.SeenOf(c.peer()).Start == c.disk.lineage.Last() })
		d.crash(c)
		d.flow(c)
		c.disk.restarts(d.c, further-1)
		d.start(c)
		if further < lineageMax {
			d.expect(4, "a accepts c", func() bool { return a.admits(c) })
		}
	}
	d.always(4, "a does not accept c", func() bool { return !a.admits(c) })
	d.check("c is not marked", func() bool { return c.core != nil && c.hands.mark == nil })
}
