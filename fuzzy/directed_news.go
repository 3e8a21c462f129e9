package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// newsScenarios have members that hear that the process of their leader has ended.
var newsScenarios = []scenario{
	{name: "news-of-a-crash", voters: 3, shape: preferringAll, play: newsOfACrash,
		about: "when a leader's process ends, the others hear of it at once, hear nothing of it afterwards, and elect another"},
	{name: "first-successor", voters: 5, shape: preferringAll, play: firstSuccessor,
		about: "with the news that the leader's process has ended, its first successor is elected in one round, and no term is wasted"},
	{name: "second-successor", voters: 5, shape: preferringAll, play: secondSuccessor,
		about: "if the first successor ends with the leader, the second one is elected long before a timeout"},
	{name: "news-a-moment-later", voters: 5, shape: preferringAll, play: newsAMomentLater,
		about: "a first successor that hears the news a moment before the others is elected as soon as these hear it"},
	{name: "news-of-a-silent-host", voters: 3, shape: preferringAll, play: newsOfASilentHost,
		about: "when a leader's host loses its power, nobody hears of it, and a successor is elected soon after the timeout"},
	{name: "lie-to-a-minority", voters: 5, shape: preferringAll, play: lieToAMinority,
		about: "a minority whose dials of a leader that lives are refused elects nobody"},
	{name: "lie-to-one-after-another", voters: 5, shape: preferringAll, play: lieToOneAfterAnother,
		about: "members that hear one after another that a leader has ended, which lives, elect nobody"},
	{name: "lie-to-all", voters: 5, shape: preferringAll, play: lieToAll,
		about: "if all hear at once that a leader has ended, which lives, it costs at most one election"},
}

// preferringAll makes transports report connections, and switches no preference off.
func preferringAll(p *Profile) { p.Node.Connections, p.Node.Preferences = true, allPreferences }

// hears counts the news that members hear.
func (d *director) hears(what string, count int, timeouts float64) {
	before := d.c.stats.News
	d.expect(timeouts, what, func() bool { return d.c.stats.News == before+count })
}

// lies tells members, all at once, that a process has ended. Their dials are refused for a tenth of a timeout.
func (d *director) lies(about *node, to ...*node) {
	before := d.c.stats.News
	for _, n := range to {
		n.lie(about, d.timeouts(0.1))
	}
	d.given("they have heard it", d.c.stats.News == before+len(to))
}

func newsOfACrash(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	appends := d.hold(these(a), nil, raft.AppendRequest{})
	d.write(a, 1)
	d.until("a has sent it", func() bool { return len(appends.kept) >= 2 })
	d.crash(a)
	d.hears("b and c hear that a has ended", 2, 0.5)
	ends := []raft.Index{b.last(), c.last()}
	appends.release()
	d.check("nothing arrives that a sent before", func() bool { return slices.Equal(ends, []raft.Index{b.last(), c.last()}) })
	d.expect(0.5, "b or c leads", func() bool { return b.leads() || c.leads() })
	next := d.c.nodes[d.c.leader()]
	d.start(a)
	d.always(10, "it leads on when a is back", d.reignsOn(next))
	d.check("nobody hears it again", func() bool { return d.c.stats.News == 2 })
}

// listed waits until all have the list of a's successors, and forgets what a bootstrap has cost.
func (d *director) listed() {
	d.until("all know a's successors", func() bool {
		return !slices.ContainsFunc(d.c.nodes, func(n *node) bool { return len(n.status.Successors) != len(d.c.nodes)-1 })
	})
	d.wait(1)
}

// ends ends a leader and perhaps others. All hear of the leader's end at once.
func (d *director) ends(lead *node, others ...*node) {
	live := slices.DeleteFunc(slices.Clone(d.c.nodes), func(n *node) bool { return n == lead || slices.Contains(others, n) })
	d.crash(others...)
	d.lies(lead, live...)
	d.crash(lead)
}

func firstSuccessor(d *director) {
	d.bootstrap()
	for range 5 {
		d.listed()
		lead := d.c.nodes[d.c.leader()]
		first, term := d.c.at(lead.status.Successors[0]), lead.status.Term
		d.ends(lead)
		d.expect(0.3, first.name()+", the first successor, leads", first.leads)
		d.check("no term is wasted", func() bool { return first.status.Term == term+1 })
		d.start(lead)
	}
}

func secondSuccessor(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.listed()
	term := a.status.Term
	d.ends(a, b)
	d.expect(0.5, "c, the second successor, leads", c.leads)
	d.check("no term is wasted", func() bool { return c.status.Term == term+1 })
}

func newsAMomentLater(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.listed()
	term := a.status.Term
	d.lose(these(a), nil)
	d.lies(a, b)
	d.wait(0.02)
	d.given("b is denied pre-votes", b.status.Role == raft.PreCandidate)
	d.lies(a, d.c.nodes[2:]...)
	d.crash(a)
	d.expect(0.3, "b, the first successor, leads", b.leads)
	d.check("no term is wasted", func() bool { return b.status.Term == term+1 })
}

func newsOfASilentHost(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	term := a.status.Term
	a.vanish()
	d.always(0.8, "they wait for a", func() bool { return !b.leads() && !c.leads() })
	d.expect(0.5, "b or c leads", func() bool { return b.leads() || c.leads() })
	d.check("no term is wasted", func() bool { return max(b.status.Term, c.status.Term) == term+1 })
	d.start(a)
	d.wait(5)
	d.check("nobody has heard that a has ended", func() bool { return d.c.stats.News == 0 })
}

func lieToAMinority(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	reigns := d.reignsOn(a)
	for range 5 {
		d.lies(a, b, c)
		d.always(2, "a leads on", reigns)
	}
	d.written(a)
}

func lieToOneAfterAnother(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	d.wait(1)
	reigns := d.reignsOn(a)
	for range 3 {
		for _, n := range d.c.nodes[1:] {
			d.lies(a, n)
			d.always(0.5, "a leads on", reigns)
		}
	}
	d.written(a)
}

func lieToAll(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	d.wait(1)
	term := a.status.Term
	d.lies(a, d.c.nodes[1:]...)
	d.always(10, "there is at most one other leader", func() bool {
		later := 0
		for t := range d.c.check.leaders {
			if t > term {
				later++
			}
		}
		return later <= 1
	})
	d.expect(5, "somebody leads", func() bool { return !d.nobodyLeads() })
	d.somebodyCommits(3)
}
