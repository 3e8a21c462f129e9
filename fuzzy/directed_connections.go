package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// connectionScenarios have partial and one-way connections, and lanes of different speeds.
var connectionScenarios = []scenario{
	{name: "bridge", voters: 5, play: bridge, source: "Howard and Abraham 2020",
		about: "if every member reaches only one common member, that one leads"},
	{name: "constrained-election", voters: 5, play: constrainedElection, source: "OmniPaxos, EuroSys 2023",
		about: "if only one member reaches a quorum, it leads; if its log lags, nobody leads and terms do not race"},
	{name: "chain", voters: 3, play: chain, source: "OmniPaxos, EuroSys 2023",
		about: "the last member of a chain, which does not reach the leader, deposes nobody"},
	{name: "leader-behind-a-bridge", voters: 5, play: leaderBehindABridge, source: "Cloudflare, 2020",
		about: "a leader that only one follower reaches steps down although that follower hears it"},
	{name: "sends-but-does-not-hear", voters: 3, play: sendsButDoesNotHear, source: "dissertation §6.2",
		about: "a leader that can send but not hear steps down within two election timeouts"},
	{name: "hears-but-does-not-send", voters: 3, play: hearsButDoesNotSend, source: "dissertation §9.6",
		about: "a leader that can hear but not send is replaced, and disturbs nobody when it is heard again"},
	{name: "follower-that-does-not-hear", voters: 3, play: followerThatDoesNotHear, source: "dissertation §9.6",
		about: "a follower that can send but not hear asks for pre-votes without effect"},
	{name: "rejoining-member", voters: 3, play: rejoiningMember, source: "dissertation §9.6",
		about: "a member that was cut off for long comes back in the term in which it left"},
	{name: "slow-appends", voters: 3, play: slowAppends, source: "paper §5.2",
		about: "heartbeats alone keep a follower following that gets no entries, but commit nothing there"},
	{name: "slow-heartbeats", voters: 3, play: slowHeartbeats, source: "paper §5.2",
		about: "appends alone keep a follower following, and its leader leading"},
}

// somebodyCommits expects that the leader of the newest term commits an entry of that term.
func (d *director) somebodyCommits(timeouts float64) {
	d.expect(timeouts, "the leader commits", func() bool {
		i, committed := d.c.leader(), d.c.check.canonical
		return i >= 0 && len(committed) > 0 && committed[len(committed)-1].by == d.c.nodes[i].status.Term
	})
}

func bridge(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.c.faulted("b is the bridge: nobody sees anybody else")
	d.c.net.Links.Bridge(b.index)
	d.expect(5, "a, which sees no quorum, steps down", func() bool { return !a.leads() })
	d.expect(30, "b leads", b.leads)
	d.somebodyCommits(3)
	d.always(10, "b leads on", d.reignsOn(b))
}

func constrainedElection(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.c.faulted("a is cut off, and the others see c alone")
	d.c.net.Links.ConstrainedElection(a.index, c.index)
	d.expect(30, "c leads", c.leads)
	d.somebodyCommits(3)
	d.heal()
	d.until("all are equal", func() bool { return d.equal() })
	behind := d.lose(nil, these(a), raft.AppendRequest{})
	d.written(c)
	d.c.faulted("c is cut off, and the others see a alone, which lags")
	d.c.net.Links.ConstrainedElection(c.index, a.index)
	behind.stop()
	term := c.status.Term
	d.always(20, "nobody but c leads, and terms do not race", func() bool {
		for _, n := range d.c.nodes {
			if n != c && n.leads() || n.status.Term > term+1 {
				return false
			}
		}
		return true
	})
	d.heal()
	d.somebodyCommits(15)
}

// equal reports whether all members hold and have applied the same log.
func (d *director) equal() bool {
	return !slices.ContainsFunc(d.c.nodes, func(n *node) bool {
		return n.status.Last != d.c.nodes[0].status.Last || n.applied != n.last()
	})
}

func chain(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.c.faulted("a, b and c are a chain")
	d.c.net.Links.Chain([]int{0, 1, 2})
	asks := d.record(these(c), nil, raft.PreVoteRequest{})
	d.always(20, "a leads on in its term", d.reignsOn(a))
	d.given("c has asked for pre-votes", asks.some())
	d.written(a)
}

func leaderBehindABridge(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.c.faulted("a sees b alone")
	d.c.net.Links.BehindBridge(a.index, b.index)
	d.expect(5, "a, which sees no quorum, steps down", func() bool { return !a.leads() })
	d.expect(30, "another leads", func() bool { return !a.leads() && !d.nobodyLeads() })
	d.somebodyCommits(3)
	i := d.c.nodes[d.c.leader()]
	d.always(10, "it leads on", d.reignsOn(i))
}

func sendsButDoesNotHear(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	d.isolate(sim.Inward, a)
	d.expect(2, "a steps down", func() bool { return !a.leads() })
	d.expect(20, "another leads", func() bool { return !d.nobodyLeads() })
	d.somebodyCommits(3)
}

func hearsButDoesNotSend(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	d.isolate(sim.Outward, a)
	d.expect(20, "another leads, and a knows", func() bool {
		i := d.c.leader()
		return i > 0 && a.status.Leader == d.c.nodes[i].id
	})
	next := d.c.nodes[d.c.leader()]
	d.written(next)
	reigns := d.reignsOn(next)
	d.always(10, "it leads on", reigns)
	d.heal()
	d.always(10, "it leads on when a is heard again", reigns)
}

func followerThatDoesNotHear(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.isolate(sim.Inward, c)
	asks := d.record(these(c), nil, raft.PreVoteRequest{})
	reigns := d.reignsOn(a)
	d.always(20, "a leads on in its term", reigns)
	d.given("c has asked for pre-votes", asks.some())
	d.heal()
	d.always(5, "a leads on when c hears again", reigns)
}

func rejoiningMember(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	reigns := d.reignsOn(a)
	d.isolate(sim.BothWays, c)
	d.written(a)
	d.always(30, "a leads on in its term", reigns)
	d.given("c has given up on a", c.status.Leader == "")
	d.heal()
	d.always(10, "a leads on, and c raises no term", func() bool {
		return reigns() && c.status.Term == a.status.Term
	})
	d.expect(1, "c has what it missed", d.equal)
}

func slowAppends(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	reigns, before := d.reignsOn(a), c.status.Commit
	appends := d.hold(these(a), these(c), raft.AppendRequest{})
	for range 20 {
		d.written(a)
		d.always(0.5, "a leads, c follows, and commits nothing that it does not hold", func() bool {
			return reigns() && c.status.Leader == a.id && c.status.Commit == before
		})
	}
	appends.release()
	d.expect(3, "c has all", d.equal)
	d.check("a leads on", reigns)
}

func slowHeartbeats(d *director) {
	a := d.c.nodes[0]
	d.bootstrap()
	reigns := d.reignsOn(a)
	beats := d.hold(these(a), nil, raft.Heartbeat{})
	for range 40 {
		d.write(a, 1)
		d.always(0.25, "a leads on", reigns)
	}
	beats.release()
	d.always(3, "a leads on when the heartbeats arrive", reigns)
}
