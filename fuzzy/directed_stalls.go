package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// stallScenarios have a leader with a stalled disk, or an FSM that hangs. The leader does not hear all the members that could
// work without it.
var stallScenarios = []scenario{
	{name: "stalled-behind-a-cut", voters: 3, play: stalledBehindACut, source: "Howard and Abraham 2020",
		about: "a leader with a stalled disk transfers its leadership to a follower that reaches a member that the leader does not"},
	{
		name: "stalled-and-unheard", voters: 5, play: stalledAndUnheard,
		about: "a leader with a stalled disk that does not hear two of its followers transfers its leadership " +
			"although another disk is stalled, too",
	},
	{
		name: "stalled-before-a-restart", voters: 3, shape: shakingHands, play: stalledBeforeARestart,
		about: "a leader with a stalled disk cannot record the start of a follower, and transfers its leadership to the other",
	},
	{
		name: "stalled-with-the-others", voters: 3, play: stalledWithTheOthers,
		about: "if all disks are stalled, the leader keeps leading and answers reads",
	},
	{
		name: "stalled-at-a-snapshot", voters: 3, shape: takingSnapshots, play: stalledAtASnapshot,
		about: "a leader whose disk holds the whole log and stalls at the record of a snapshot lets others take over",
	},
	{
		name: "stalled-with-nothing-to-write", voters: 3, shape: smallSnapshots, play: stalledWithNothingToWrite,
		about: "a leader whose idle disk hangs, while its log waits to be committed, notices it, and lets others take over",
	},
	{
		name: "hung-while-another-was-down", voters: 3, shape: hangsEarly, play: hungWhileAnotherWasDown,
		about: "a leader whose FSM hangs steps down again for a voter that was down the first time, and that it still does not hear",
	},
}

func hangsEarly(p *Profile) { p.Node.ApplyStallMax = 2 * p.ElectionTimeout }

func shakingHands(p *Profile) { p.Node.Handshakes = true }

func takingSnapshots(p *Profile) {
	p.Snapshots = Snapshots{On: true, BytesMax: 1000, ChunkBytes: 1000, WindowChunks: 4}
	p.Limits.SnapshotEntries = 8
}

// stallTimeouts returns the time of DiskStallMax and one election, in election timeouts.
func (d *director) stallTimeouts() float64 {
	return float64(d.c.profile.Node.diskStallMax())/float64(d.c.profile.ElectionTimeout) + 5
}

// stalls stalls the disk of a leader during a write, and waits until another member has stored the same write.
func (d *director) stalls(leader, ahead *node) {
	d.stall(leader)
	d.write(leader, 1)
	d.until(ahead.name()+" stores what the leader does not", func() bool {
		return ahead.status.Persisted == leader.last() && leader.status.Persisted < leader.last()
	})
}

// expectTakeover expects that a member that has all entries of its leader takes over. Then it expects that the old leader
// comes back and follows this member.
func (d *director) expectTakeover(next *node) {
	d.expect(d.stallTimeouts(), next.name()+" leads", next.leads)
	d.written(next)
	d.always(10, "it leads on", d.reignsOn(next))
	for _, n := range d.c.nodes {
		d.flow(n)
	}
	d.heal()
	d.expect(15, "all are equal", d.equal)
}

func stalledBehindACut(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.c.faulted("a and c do not see each other")
	d.c.net.Links.CutBoth(sim.Partitions, a.index, c.index)
	d.until("c has given up on a", func() bool { return c.status.Leader == "" })
	d.stalls(a, b)
	d.expectTakeover(b)
}

// c, d and e are a quorum. They store the entries that a has sent, but a does not learn this.
func stalledAndUnheard(d *director) {
	a, b, c, dd, e := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2], d.c.nodes[3], d.c.nodes[4]
	d.bootstrap()
	d.c.faulted("a does not hear d and e")
	d.c.net.Links.Cut(sim.Partitions, dd.index, a.index)
	d.c.net.Links.Cut(sim.Partitions, e.index, a.index)
	d.stall(b)
	d.stalls(a, c)
	d.until("d and e store it, too", func() bool {
		return dd.status.Persisted == a.last() && e.status.Persisted == a.last()
	})
	d.expectTakeover(c)
}

func stalledBeforeARestart(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.stalls(a, b)
	d.crash(c)
	d.start(c)
	d.given("a does not take messages of c", !a.admits(c))
	d.expect(d.stallTimeouts(), "b leads", b.leads)
	d.given("a does not do so yet", !a.admits(c))
	d.expectTakeover(b)
}

func stalledAtASnapshot(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.write(a, 8)
	d.until("a writes the record of a snapshot, and its disk holds the whole log", func() bool {
		return a.writing > 0 && a.merged.Snapshot != nil && a.status.Persisted == a.last()
	})
	d.stall(a)
	d.given("nobody is ahead", a.leads() && b.status.Persisted == a.status.Persisted)
	d.expectTakeover(b)
}

// a's disk cannot be read either. So b, which hears a, never gets the snapshot that it needs.
func stalledWithNothingToWrite(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.leaveBehind(a, b)
	d.lose(these(a), these(b), raft.SnapshotChunk{})
	d.until("b needs a snapshot", func() bool { return a.progressOf(b).State == "snapshot" })
	d.c.faulted("a and c do not see each other")
	d.c.net.Links.CutBoth(sim.Partitions, a.index, c.index)
	d.write(a, 1)
	d.until("the disk of a has nothing to write", func() bool { return a.status.Persisted == a.last() && a.writing == 0 })
	d.stall(a)
	d.given("a leads, and cannot commit", a.leads() && a.status.Commit < a.last())
	d.always(d.stallTimeouts()-6, "a still leads", a.leads)
	d.expectTakeover(c)
}

func stalledWithTheOthers(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	reigns := d.reignsOn(a)
	for _, n := range d.c.nodes {
		d.stall(n)
	}
	d.write(a, 1)
	d.always(d.stallTimeouts(), "a still leads", reigns)
	read := d.read(a)
	d.expect(2, "a answers a read", func() bool { return d.state(read) == answeredWell })
	for _, n := range d.c.nodes {
		d.flow(n)
	}
	d.expect(1, "what waited is committed", func() bool { return a.status.Commit == a.last() })
	d.written(a)
	d.always(5, "a still leads", reigns)
}

// b gets none of a's entries any more, so it is no target. When c is back, b hears a and denies c its votes.
func hungWhileAnotherWasDown(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.c.faulted("the FSM of a hangs")
	a.hang.till = sim.Never
	d.write(a, 1)
	d.until("b and c have the entry at which it hangs", func() bool {
		return a.hang.batch.Index == a.last() && b.stores(a.hang.batch) && c.stores(a.hang.batch)
	})
	d.lose(these(a), these(b), raft.AppendRequest{})
	d.write(a, 1)
	d.until("a stores another entry", func() bool { return a.status.Persisted == a.last() })
	d.crash(c)
	d.until("a steps down", func() bool { return !a.leads() })
	d.given("because its FSM hangs", a.status.FSMHangs && b.status.Term == a.status.Term)
	d.until("a leads again", a.leads)
	d.c.faulted("a and c do not see each other")
	d.c.net.Links.CutBoth(sim.Partitions, a.index, c.index)
	d.start(c)
	d.expect(80, "b or c leads", func() bool { return b.leads() || c.leads() })
}
