package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// staleScenarios deliver late messages. Each message was true when it was sent (the ABA problem).
var staleScenarios = []scenario{
	{name: "overwritten-write", voters: 5, play: overwrittenWrite, source: "etcd-io/raft, append_aba_race",
		about: "entries that are overwritten before their write is reported do not count as durable"},
	{name: "overwritten-acknowledgement", voters: 5, play: overwrittenAcknowledgement, source: "paper §5.1",
		about: "an acknowledgement of entries that were overwritten since does not count for those in their " +
			"place"},
	{name: "late-append", voters: 3, play: lateAppend, source: "paper §5.1",
		about: "an append of a deposed leader is refused although it matches the log"},
	{name: "late-acknowledgement", voters: 3, play: lateAcknowledgement, source: "Figure 2, matchIndex",
		about: "a late acknowledgement does not lower the match index"},
	{name: "late-rejection", voters: 3, play: lateRejection, source: "etcd-io/raft PR 149",
		about: "a late rejection does not move the next index down to the match index"},
	{
		name: "span-races-truncation", voters: 3, play: spanRacesTruncation,
		about: "a span that waits in a sender's queue while the log is truncated is sent to nobody",
	},
	{
		name: "two-leaders-in-one-step", voters: 5, shape: plainMessages, play: twoLeadersInOneStep,
		about: "a follower that takes appends of two terms in one step changes neither message",
	},
}

func overwrittenWrite(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	d.bootstrap()
	d.lose(these(a), these(c, n[3], n[4]), raft.AppendRequest{})
	d.deafen(b)
	d.write(a, 1)
	x := a.log[a.last()-1].entry.ID()
	d.until("the entry is on b's disk, and b has not heard of it", func() bool {
		return b.stores(x) && b.status.Persisted < x.Index
	})
	d.isolate(sim.BothWays, a)
	promises := d.hold(these(c), these(b), raft.AppendRequest{})
	d.elect(c)
	rival := d.lose(these(b), nil, raft.PreVoteRequest{}) // its log is longer than most
	d.until("c sends b another in its place", promises.some)
	d.wait(0.05)
	d.given("b has still not heard of it", b.status.Persisted < x.Index && b.log[x.Index-1].entry.ID() == x)
	d.stall(b)
	promises.release()
	d.until("it is in b's log", func() bool { return b.last() >= x.Index && b.log[x.Index-1].entry.ID() != x })
	rival.stop()
	d.hear(b)
	d.check("b counts nothing of it as durable", func() bool { return b.status.Persisted < x.Index })
	d.wait(0.5)
	d.flow(b)
	d.expect(3, "b has it", func() bool { return b.status.Persisted >= x.Index })
	d.heal()
}

// b acknowledges five entries of term 1. Before the acknowledgement arrives, all but the first entry are replaced. a leads
// again, and has just as many entries of term 3. Only d also holds these entries.
func overwrittenAcknowledgement(d *director) {
	n := d.c.nodes
	a, b, c, dd, e := n[0], n[1], n[2], n[3], n[4]
	d.bootstrap()
	appends := d.lose(these(a), these(c, dd, e), raft.AppendRequest{})
	old := d.hold(these(b), these(a), raft.AppendReply{})
	d.write(a, 5)
	end := a.last()
	d.until("b acknowledges", func() bool {
		return old.some() && old.kept[len(old.kept)-1].Message.message.Body.(raft.AppendReply).Match == end
	})
	old.stop()
	d.isolate(sim.BothWays, b)
	fromA := d.lose(these(a), nil)
	d.elect(c)
	fromA.stop()
	appends.stop()
	d.until("a follows c, and its entries are truncated", func() bool {
		return a.status.Last == c.status.Last && a.last() < end
	})
	d.wait(1)
	d.transfer(c, a)
	d.until("a leads again", a.leads)
	d.until("a has committed", func() bool { return a.status.Commit == a.last() && a.status.Term == 3 })
	d.lose(these(a), these(c, e), raft.AppendRequest{})
	d.write(a, int(end-a.last()))
	d.given("a's log is as long as it was", a.last() == end)
	d.until("d has it", func() bool { return a.progressOf(dd).Match == end && a.status.Persisted == end })
	before := a.status.Commit
	old.release()
	d.check("a commits nothing", func() bool { return a.status.Commit == before })
}

// c has b's entry, and does not know that this entry is committed. Then a's append for the same index arrives.
func lateAppend(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	late := d.hold(these(a), these(c), raft.AppendRequest{})
	d.lose(these(a), these(b), raft.AppendRequest{})
	d.write(a, 1)
	d.until("a has sent its entry", late.some)
	late.stop()
	d.isolate(sim.BothWays, a)
	beats := d.lose(these(b), these(c), raft.Heartbeat{})
	d.elect(b)
	d.until("b commits its own", func() bool { return b.status.Commit == b.last() })
	d.given("c has it, and does not know that it is committed", c.last() == b.last() && c.status.Commit < b.status.Commit)
	end := c.status.Last
	late.release()
	d.wait(0.1)
	d.check("c keeps it", func() bool { return c.status.Last == end })
	d.crash(b)
	beats.stop()
	d.heal()
	d.standsInVain(a)
	d.expect(20, "c leads", c.leads)
}

func lateAcknowledgement(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	late := d.hold(these(c), these(a), raft.AppendReply{})
	d.written(a)
	d.until("c acknowledges", late.some)
	late.stop()
	for range 3 {
		d.written(a)
	}
	d.until("c has all", func() bool { return a.progressOf(c).Match == a.last() })
	late.release()
	d.check("what matches stays", func() bool { return a.progressOf(c).Match == a.last() })
}

// brought makes the first leader (the first node) die before c has its entries. Then it makes the next leader, b, bring c up
// to date. It returns the messages that c rejects meanwhile.
func (d *director) brought(b, c *node) *hold {
	a := d.c.nodes[0]
	d.bootstrap()
	d.lose(these(a), these(c), raft.AppendRequest{})
	for range 3 {
		d.written(a)
	}
	d.crash(a)
	rejections := d.record(these(c), these(b), raft.AppendConflict{})
	d.elect(b)
	d.until("c has all", func() bool { return rejections.some() && b.progressOf(c).Match == b.last() })
	return rejections
}

func lateRejection(d *director) {
	b, c := d.c.nodes[1], d.c.nodes[2]
	rejections := d.brought(b, c)
	for _, m := range rejections.taken() {
		d.arriveTogether(m)
		d.check("the next entry to send is above what matches", func() bool {
			return b.progressOf(c).Next > b.progressOf(c).Match
		})
	}
}

func spanRacesTruncation(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.muffle(a)
	d.write(a, 3)
	d.given("a's span waits", slices.ContainsFunc(a.outbox, func(m raft.Message) bool { return m.Lane() == raft.LaneBulk }))
	end := a.last()
	d.elect(b)
	d.until("a's entries are truncated", func() bool { return a.status.Leader == b.id && a.last() < end })
	d.unmute()
	d.somebodyCommits(3)
	d.expect(3, "all are equal", d.equal)
}

func plainMessages(p *Profile) { p.Node.Codec = 0 }

// a has sent two entries to c. b has the first of them. b, in term 2, sends c a different second entry.
func twoLeadersInOneStep(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	d.bootstrap()
	d.lose(these(a), these(n[3], n[4]), raft.AppendRequest{})
	d.crash(c)
	d.write(a, 1)
	first := a.last()
	d.until("b has the first entry", func() bool { return a.progressOf(b).Match == first })
	appends := d.lose(these(a), these(b), raft.AppendRequest{})
	d.write(a, 1)
	pair := d.hold(these(a), these(c), raft.AppendRequest{}).where(func(m *raft.Message) bool {
		return len(m.Body.(raft.AppendRequest).Entries) == 2
	})
	d.lose(these(a), these(c), raft.AppendRequest{}).where(func(m *raft.Message) bool { // a sender may split the span
		r := m.Body.(raft.AppendRequest)
		return len(r.Entries) == 1 && r.Last.Index == first
	})
	d.start(c)
	d.until("a sends c both", pair.some)
	d.lose(these(a), nil)
	other := d.hold(these(b), these(c), raft.AppendRequest{})
	notC := d.lose(these(b), these(c), raft.VoteRequest{}, raft.Heartbeat{})
	d.elect(b)
	d.until("b sends c another second one", other.some)
	d.given("c is in term 1", c.status.Term == 1)
	one, two := pair.taken()[0], other.taken()[0]
	entries := one.Message.message.Body.(raft.AppendRequest).Entries
	want := []raft.EntryID{entries[0].ID(), entries[1].ID()}
	d.arriveTogether(one, two)
	end := two.Message.message.Body.(raft.AppendRequest).Last
	d.given("c has taken both", c.status.Term == 2 && c.status.Last == end)
	d.check("the message is what it was", func() bool {
		return entries[0].ID() == want[0] && entries[1].ID() == want[1]
	})
	notC.stop()
	appends.stop()
}
