package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// replicationScenarios show log matching, the commit rule, and the answers to clients (paper §5.3, §5.4.2).
var replicationScenarios = []scenario{
	{name: "figure-8-d", voters: 5, shape: oneEntryEach, play: figure8d, source: "paper, Figure 8, (a) to (d)",
		about: "an entry of an earlier term is not committed although a majority stores it, and may still be overwritten"},
	{name: "figure-8-e", voters: 5, shape: oneEntryEach, play: figure8e, source: "paper, Figure 8, (a) to (e)",
		about: "once a majority stores an entry of the leader's own term, all entries before it are safe"},
	{name: "entry-that-was-cut", voters: 5, play: entryThatWasCut, source: "paper §5.4.2",
		about: "an entry that was truncated from its leader's log may still be committed: its client is not told " +
			"otherwise"},
	{
		name: "deposed-and-committed-at-once", voters: 3, play: deposedAndCommittedAtOnce,
		about: "a leader that learns in one step that it is deposed and that its entry is committed says so " +
			"once",
	},
	{name: "same-length-other-terms", voters: 3, play: sameLengthOtherTerms, source: "paper §5.3",
		about: "an append that follows an entry of another term is rejected although the log is long enough"},
	{
		name: "restart-learns-the-commit", voters: 3, play: restartLearnsTheCommit,
		about: "a follower that restarts learns the commit index again, even if nobody writes",
	},
	{
		name: "hint-without-its-entries", voters: 5, shape: tornWrites, play: hintWithoutItsEntries,
		about: "a crash that leaves the commit index of a write, and not its entries, commits nothing of what " +
			"they were to overwrite",
		source: "etcd #5664, #13509",
	},
	{name: "contradicting-leader", voters: 3, play: contradictingLeader, source: "Figure 3, Leader Append-Only",
		about: "a member to which a leader of a newer term shows a log that contradicts what is committed there " +
			"cuts nothing: it marks its store and ends, and no start follows"},
}

func oneEntryEach(p *Profile) { p.Limits.AppendBytesMax = 1 }

// figure8c plays the figure up to (c). At the index of the entry, a, b and c hold an entry of term 2, and e holds one of term
// 3.
func figure8c(d *director) (x raft.EntryID, own *hold) {
	n := d.c.nodes
	a, b, c, e := n[0], n[1], n[2], n[4]
	d.bootstrap()
	appends := d.lose(these(a), these(c, n[3], e), raft.AppendRequest{})
	d.write(a, 1)
	x = a.log[a.last()-1].entry.ID()
	d.until("(a) a and b store the entry", func() bool { return a.stores(x) && b.stores(x) })
	d.crash(a)
	fromE := d.lose(these(e), nil, raft.AppendRequest{})
	d.elect(e)
	d.until("(b) e stores another one in its place", func() bool {
		return len(e.disk.log) >= int(x.Index) && !e.stores(x)
	})
	d.crash(e)
	appends.stop()
	appends = d.lose(these(a), these(n[3]), raft.AppendRequest{})
	own = d.hold(these(a), nil, raft.AppendRequest{}).where(func(m *raft.Message) bool {
		return m.Body.(raft.AppendRequest).Last.Term == m.Term
	})
	d.start(a)
	d.elect(a)
	d.until("(c) a, b and c store the entry", func() bool {
		return b.stores(x) && c.stores(x) && a.progressOf(c).Match == x.Index
	})
	d.wait(0.5)
	d.check("a has not committed it", func() bool { return a.status.Commit < x.Index })
	fromE.stop()
	appends.stop()
	return x, own
}

func figure8d(d *director) {
	a, e := d.c.nodes[0], d.c.nodes[4]
	x, own := figure8c(d)
	own.forget()
	d.crash(a)
	d.start(e)
	d.elect(e)
	d.expect(5, "(d) e overwrites it everywhere", func() bool {
		for _, n := range d.c.nodes[1:] {
			if n.stores(x) || len(n.disk.log) < int(x.Index) {
				return false
			}
		}
		return true
	})
	d.somebodyCommits(3)
}

func figure8e(d *director) {
	a, c, e := d.c.nodes[0], d.c.nodes[2], d.c.nodes[4]
	x, own := figure8c(d)
	own.release()
	d.expect(3, "(e) a commits", func() bool { return a.status.Commit > x.Index })
	d.given("c stores an entry of a's term", len(c.disk.log) > int(x.Index))
	d.crash(a)
	d.start(e)
	d.standsInVain(e)
	d.somebodyCommits(20)
	d.check("the entry is committed", func() bool { return d.c.check.canonical[x.Index-1].id == x })
}

// b also holds a's entry. c's entry replaces it on a, and then b is elected.
func entryThatWasCut(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	d.bootstrap()
	d.lose(these(a), these(c, n[3], n[4]), raft.AppendRequest{})
	replies := d.lose(these(b), these(a), raft.AppendReply{})
	w := d.write(a, 1)
	x := a.log[a.last()-1].entry.ID()
	d.until("a and b store the entry", func() bool { return a.stores(x) && b.stores(x) })
	d.isolate(sim.BothWays, b)
	d.suspend(a)
	d.lose(these(c), these(b, n[3], n[4]), raft.AppendRequest{}) // including those in flight when it dies
	told := d.record(these(c), these(a), raft.AppendRequest{})
	d.elect(c)
	d.until("c has told a", told.some)
	fromA := d.lose(these(a), nil)
	d.resume(a)
	d.until("a's entry is truncated", func() bool { return len(a.disk.log) >= int(x.Index) && !a.stores(x) })
	d.crash(c)
	for _, h := range []*hold{replies, fromA} {
		h.stop()
	}
	d.heal()
	d.elect(b)
	d.expect(5, "b commits it", func() bool {
		return d.c.check.committed() >= x.Index && d.c.check.canonical[x.Index-1].id == x
	})
	d.check("its client was told that nobody knows", func() bool { return d.state(w) == answeredUnknown })
}

func deposedAndCommittedAtOnce(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.lose(nil, these(a), raft.AppendReply{})
	w := d.write(a, 1)
	x := a.log[a.last()-1].entry.ID()
	d.until("all store the entry", func() bool {
		return a.stores(x) && b.stores(x) && c.stores(x) && a.status.Persisted == x.Index
	})
	d.suspend(a)
	toA := d.hold(nil, these(a))
	d.elect(b)
	d.until("b commits the entry", func() bool { return b.status.Commit > x.Index })
	b.post(raft.PeerUp{ID: a.id, Incarnation: a.disk.incarnation, StartCount: a.disk.startCount})
	told := func(m *raft.Message) bool {
		r, ok := m.Body.(raft.AppendRequest)
		return ok && r.Commit >= x.Index
	}
	d.until("b tells a", func() bool { return toA.some() && told(&toA.kept[len(toA.kept)-1].Message.message) })
	messages := toA.taken()
	d.given("a does not know that its term has ended", a.frozen && a.leads())
	d.arriveTogether(messages[len(messages)-1])
	d.resume(a)
	d.given("a follows and commits in one step", a.status.Leader == b.id && a.status.Commit >= x.Index)
	d.expect(1, "the write is acknowledged", func() bool { return d.state(w) == answeredWell })
}

func sameLengthOtherTerms(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.isolate(sim.BothWays, a)
	d.write(a, 2)
	d.elect(b)
	d.written(b)
	d.until("c has what b has", func() bool {
		return c.status.Last == b.status.Last && c.status.Persisted == c.last()
	})
	d.given("a's log is as long, of another term", a.last() == c.last() && a.log[a.last()-1].hash != c.log[c.last()-1].hash)
	d.crash(b)
	conflicts := d.record(these(a), these(c), raft.AppendConflict{})
	d.heal()
	d.elect(c)
	d.expect(3, "a's log is repaired", func() bool {
		return a.status.Last == c.status.Last && a.applied == c.last()
	})
	d.check("a has refused an append", conflicts.some)
}

func restartLearnsTheCommit(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	beats := d.lose(these(a), these(c), raft.Heartbeat{})
	d.written(a)
	d.until("a knows that c has it", func() bool { return a.progressOf(c).Match == a.last() })
	d.given("c does not know that it is committed", c.status.Commit < a.status.Commit)
	d.crash(c)
	d.start(c)
	d.given("c has it", c.last() == a.last())
	beats.stop()
	d.expect(6, "c applies it, and nobody writes", func() bool { return c.applied == a.status.Commit })
}

func tornWrites(p *Profile) { p.Node.Atomic = false }

// b has an entry of a that was never committed. b is about to overwrite it with a committed entry of c.
func hintWithoutItsEntries(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	d.bootstrap()
	d.lose(these(a), these(c, n[3], n[4]), raft.AppendRequest{})
	d.write(a, 1)
	x := a.log[a.last()-1].entry.ID()
	d.until("b stores the entry", func() bool { return b.stores(x) && b.status.Persisted == x.Index })
	d.isolate(sim.BothWays, a)
	appends := d.lose(these(c), these(b), raft.AppendRequest{})
	rival := d.lose(these(b), nil, raft.PreVoteRequest{}, raft.VoteRequest{}) // its log is longer than most
	d.elect(c)
	d.until("c commits another in its place, and b knows nothing but its term", func() bool {
		return c.status.Commit >= x.Index && b.disk.hard.Term == c.status.Term && len(b.queue) == 0
	})
	d.stall(b)
	appends.stop()
	d.until("b is about to overwrite the entry", func() bool { return b.status.Commit >= x.Index })
	d.given("its disk has not begun to", b.stores(x))
	d.tear(b)
	d.given("the entry is still there", b.stores(x))
	d.flow(b)
	d.start(b)
	d.check("b commits nothing that it does not know of", func() bool { return b.status.Commit < x.Index })
	rival.stop()
	d.expect(5, "b applies what is committed", func() bool { return b.applied >= c.status.Commit })
	d.heal()
}

func contradictingLeader(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	appends := d.record(these(a), these(c), raft.AppendRequest{}).where(func(m *raft.Message) bool {
		return len(m.Body.(raft.AppendRequest).Entries) == 1
	})
	d.written(a)
	d.until("c knows that it is committed", func() bool { return c.status.Commit == a.last() })
	end := c.status.Last
	d.forge(appends.taken()[0], func(m *raft.Message) {
		m.Term++
		r := m.Body.(raft.AppendRequest)
		r.Entries = []raft.Entry{{Index: r.Last.Index, Term: m.Term, Kind: raft.EntryNoop}}
		r.Last = r.Entries[0].ID()
		m.Body = r
	})
	d.given("c has heard it", c.status.Term == end.Term+1)
	d.check("c keeps what is committed", func() bool { return c.status.Last == end })
	d.expect(2, "c marks its store and ends", func() bool {
		return c.core == nil && c.disk.mark != nil && c.disk.mark.Kind == raft.MarkContradicted
	})
	d.start(c)
	d.check("no start of c follows, and its log is whole", func() bool { return c.core == nil && c.stores(end) })
	d.somebodyCommits(20)
}
