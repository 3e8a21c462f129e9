package fuzzy

import "github.com/coxswain/raft"

// preferenceScenarios have members with priorities.
var preferenceScenarios = []scenario{
	{name: "flapping-favorite", voters: 3, shape: prefersMembers, play: flappingFavorite,
		about: "a favorite that crashes every 15 seconds, for ten minutes, costs at most eight elections"},
	{name: "favorite-returns", voters: 3, shape: prefersMembers, play: favoriteReturns,
		about: "a favorite that was down without having led takes over ten seconds after the election of another"},
	{name: "standbys-alone", voters: 3, shape: prefersMembers, play: standbysAlone,
		about: "standbys that are left alone elect a caretaker, which transfers its leadership as soon as another voter is back"},
	{name: "only-a-standby-can-win", voters: 3, shape: prefersMembers, play: onlyAStandbyCanWin,
		about: "a standby that denies the only other candidate because of its log soon leads, and transfers its leadership to it"},
}

func prefersMembers(p *Profile) {
	changesMembers(p)
	p.Node.Preferences, p.Node.Connections = allPreferences, true
}

// prefer makes a leader give each member the priority that has its place.
func (d *director) prefer(leader *node, priorities ...raft.Priority) {
	var ch raft.Change
	for i := range priorities {
		ch.Update = append(ch.Update, raft.Update{Peer: d.c.nodes[i].peer(), Priority: &priorities[i]})
	}
	d.changed(leader, ch)
}

const tenSeconds = 67 // election timeouts

func flappingFavorite(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	d.prefer(a, 9, 1, 1)
	before := d.c.check.elections
	for range 40 {
		d.wait(93)
		d.crash(a)
		d.wait(7)
		d.start(a)
	}
	changes := d.c.check.elections - before
	d.check("the leader changes at most eight times", func() bool { return changes <= 8 })
	d.given("the favorite has led again", d.c.stats.Takeovers > 0)
	d.somebodyCommits(3)
}

func favoriteReturns(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.crash(b)
	d.prefer(a, 1, 9, 1)
	d.start(b)
	d.always(5, "a leads on", d.reignsOn(a)) // b catches up
	d.expect(2*tenSeconds, "b leads", b.leads)
	d.written(b)
	d.check("it has counted no loss", func() bool { return a.hard.Losses == 0 && b.hard.Losses == 0 })
	d.always(2*tenSeconds, "b leads on", d.reignsOn(b))
}

func standbysAlone(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.prefer(a, 1, raft.PriorityNever, raft.PriorityNever)
	d.until("a has written that it leads", func() bool { return a.disk.hard.Leading })
	a.vanish()
	d.expect(20, "b or c leads", func() bool { return b.leads() || c.leads() })
	d.somebodyCommits(3)
	d.always(tenSeconds, "a standby leads", func() bool { return b.leads() || c.leads() })
	d.start(a)
	d.wait(3)
	d.given("it has lost its leadership, so it backs off", a.status.Backoff > 0)
	d.expect(2*tenSeconds, "a leads", a.leads)
	d.written(a)
}

func onlyAStandbyCanWin(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.prefer(a, 1, raft.PriorityNever, 1)
	lost := d.lose(these(a), these(c), raft.AppendRequest{})
	d.written(a)
	d.given("only b holds what a has committed", b.last() == a.last() && c.last() < a.last())
	d.crash(a)
	d.expect(8, "b leads", b.leads)
	lost.stop()
	d.expect(8, "c leads", c.leads)
	d.written(c)
}
