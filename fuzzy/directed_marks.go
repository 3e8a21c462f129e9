package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// markScenarios put a disk back into an earlier state.
var markScenarios = []scenario{
	{
		name: "lost-acknowledgement", voters: 3, play: lostAcknowledgement,
		about: "a member that lacks what it acknowledged in this term marks its store and ends; the leader " +
			"counts it no more",
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
}

// forgets ends a process whose disk loses the log that it synced since the image was taken. The disk keeps all the rest,
// its starts and memory included, so that no handshake reveals the loss.
func (d *director) forgets(n *node, since image) {
	n.crash()
	n.disk.restore(since, false)
	d.c.faulted("the disk of %s has lost what it had synced: %s", n.name(), n.disk.describe())
	d.settle()
}

// losesWhatItAcknowledged has every member acknowledge three writes, and removes them from b's disk.
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

// foundOut expects that b ends for good, and that its leader knows.
func (d *director) foundOut(a, b *node) {
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
	d.foundOut(a, b)
	d.expect(2, "a commits with c", func() bool { return d.state(t) == answeredWell })
	d.start(b)
	d.check("no start of b follows", func() bool { return b.core == nil })
	d.always(4, "a reigns on", func() bool { return reigns() && a.progressOf(c).State == "replicate" })
}

func lostAcknowledgementWhileIdle(d *director) {
	a, b, _ := d.losesWhatItAcknowledged()
	reigns := d.reignsOn(a)
	d.start(b)
	d.foundOut(a, b)
	d.check("a reigns on", reigns)
}

// b cannot even write down what it is: until it can, the leader must not count what it says.
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

// The answer to b's read, and the append that shows the loss, come in one step.
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
	d.foundOut(a, b)
	d.check("a reigns on", reigns)
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
