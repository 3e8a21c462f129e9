package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
)

// newsScenarios have members that hear that the process of their leader has ended.
var newsScenarios = []scenario{
	{name: "news-of-a-crash", voters: 3, shape: connections, play: newsOfACrash,
		about: "when a leader's process ends, the others hear of it at once, hear nothing of it afterwards, and elect another"},
	{name: "news-of-a-silent-host", voters: 3, shape: connections, play: newsOfASilentHost,
		about: "when a leader's host loses its power, nobody hears of it, and the others elect another after the timeout"},
	{name: "lie-to-a-minority", voters: 5, shape: connections, play: lieToAMinority,
		about: "a minority whose dials of a leader that lives are refused elects nobody"},
	{name: "lie-to-one-after-another", voters: 5, shape: connections, play: lieToOneAfterAnother,
		about: "members that hear one after another that a leader has ended, which lives, elect nobody"},
	{name: "lie-to-all", voters: 5, shape: connections, play: lieToAll,
		about: "if all hear at once that a leader has ended, which lives, it costs at most one election"},
}

// connections makes transports report connections.
func connections(p *Profile) { p.Node.Connections = true }

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
	d.expect(20, "b or c leads", func() bool { return b.leads() || c.leads() })
	next := d.c.nodes[d.c.leader()]
	d.start(a)
	d.always(10, "it leads on when a is back", d.reignsOn(next))
	d.check("nobody hears it again", func() bool { return d.c.stats.News == 2 })
}

func newsOfASilentHost(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	a.vanish()
	d.expect(20, "b or c leads", func() bool { return b.leads() || c.leads() })
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
	d.always(10, "there is at most one election", func() bool {
		return !slices.ContainsFunc(d.c.nodes, func(n *node) bool { return n.status.Term > term+1 })
	})
	d.expect(5, "somebody leads", func() bool { return !d.nobodyLeads() })
	d.somebodyCommits(3)
}
