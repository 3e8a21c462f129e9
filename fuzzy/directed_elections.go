package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// electionScenarios show which members may win an election, and which must be able to win.
var electionScenarios = []scenario{
	{name: "longer-log-of-an-older-term", voters: 3, play: longerLogOfAnOlderTerm, source: "paper §5.4.1",
		about: "a long log of an older term loses to a short one of a newer term"},
	{name: "vote-by-the-end-of-the-log", voters: 3, play: voteByTheEndOfTheLog, source: "paper §5.4.1",
		about: "a voter compares a candidate's log with the end of its own, committed or not as far as it knows"},
	{name: "votes-of-an-earlier-term", voters: 3, play: votesOfAnEarlierTerm, source: "paper §5.2",
		about: "votes that arrive after their term has passed elect nobody"},
	{name: "equal-timers", voters: 3, shape: punctualWorld, play: equalTimers, source: "paper §5.2",
		about: "followers whose timers have so far been equal do not split votes forever"},
	{name: "laggard-asks-often", voters: 3, play: laggardAsksOften, source: "paper §5.2",
		about: "a member that cannot win and keeps asking for votes does not keep others from winning"},
	{name: "told-of-a-leader", voters: 3, shape: punctual, play: toldOfALeader, source: "dissertation §4.2.3",
		about: "a member that was told of a leader but has not heard it is free to vote for another"},
	{name: "silence-frees-voters", voters: 3, play: silenceFreesVoters, source: "dissertation §9.6",
		about: "a voter whose leader has been silent for a timeout grants the first pre-vote that it is " +
			"asked for"},
	{name: "grants-of-an-earlier-round", voters: 3, play: grantsOfAnEarlierRound, source: "dissertation §9.6",
		about: "pre-votes of an earlier attempt do not count in a later one"},
	{name: "vote-request-from-before", voters: 3, play: voteRequestFromBefore, source: "dissertation §4.2.3",
		about: "a vote request that was delayed deposes no leader that is heard again"},
	{name: "two-terms-in-one-step", voters: 5, play: twoTermsInOneStep, source: "paper §5.1",
		about: "a voter that receives two new terms in one step votes only in the second"},
	{name: "crash-within-a-vote", voters: 5, play: crashWithinAVote, source: "paper §5.2",
		about: "a voter that crashes while it votes never votes twice in a term"},
}

func longerLogOfAnOlderTerm(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.isolate(sim.BothWays, a)
	d.write(a, 5)
	d.elect(b)
	d.written(b)
	d.given("a's log is longer than c's, and of an older term", a.last() > c.last())
	d.crash(b)
	d.heal()
	d.standsInVain(a)
	d.expect(8, "c leads", c.leads)
}

func voteByTheEndOfTheLog(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.lose(these(a), these(c), raft.AppendRequest{})
	d.lose(these(a), these(b), raft.Heartbeat{})
	d.write(a, 1)
	d.until("a commits an entry", func() bool { return a.status.Commit == a.last() })
	d.given("b holds it, and does not know that it is committed", b.last() == a.last() && b.status.Commit < b.last())
	d.crash(a)
	d.standsInVain(c)
	d.expect(8, "b leads", b.leads)
}

func votesOfAnEarlierTerm(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.crash(a)
	rivals := d.onlyCandidate(b)
	votes := d.hold(these(c), these(b), raft.VoteReply{})
	d.until("c votes for b in term 2", votes.some)
	votes.stop()
	requests := d.lose(these(b), these(c), raft.VoteRequest{})
	d.until("b stands in term 3", func() bool { return b.status.Term == 3 && requests.some() })
	votes.release()
	d.check("b does not lead term 3 by votes of term 2", func() bool { return !b.leads() })
	requests.stop()
	rivals.stop()
	d.expect(20, "somebody leads", func() bool { return b.leads() || c.leads() })
}

// punctual keeps timers from firing late, because a member with a fast clock would take a late timer for a suspension.
func punctual(p *Profile) { p.Node.Punctual = true }

func punctualWorld(p *Profile) {
	p.Network.Delay = sim.Delay{Min: p.ElectionTimeout / 150, Mean: p.ElectionTimeout / 300}
	p.Node.DiskDelay = sim.Delay{Min: p.ElectionTimeout / 150}
	punctual(p)
}

func equalTimers(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	beats := d.record(these(a), nil, raft.Heartbeat{})
	d.until("both hear a heartbeat at the same instant", func() bool {
		return len(beats.kept) >= 2 && len(beats.kept)%2 == 0
	})
	d.crash(a)
	d.expect(20, "b or c leads", func() bool { return b.leads() || c.leads() })
}

func laggardAsksOften(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	appends := d.lose(these(a), these(c), raft.AppendRequest{})
	d.written(a)
	d.crash(a)
	appends.stop()
	asks := d.record(these(c), these(b), raft.PreVoteRequest{})
	d.hurry(c, 4)
	d.expect(15, "b leads", b.leads)
	d.given("c has asked", asks.some())
	d.hurry(c, 1)
}

func silenceFreesVoters(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	beats := d.record(these(a), these(c), raft.Heartbeat{})
	d.until("c hears a, and has patience for more than an election timeout", func() bool {
		return beats.some() && c.patience() > d.timeouts(1.03)
	})
	d.crash(a)
	rivals := d.onlyCandidate(b)
	asks := d.hold(these(b), these(c), raft.PreVoteRequest{})
	grants := d.record(these(c), these(b), raft.PreVoteReply{}).where(func(m *raft.Message) bool {
		return m.Body.(raft.PreVoteReply).Granted
	})
	d.hurry(b, 4)
	d.wait(1.02)
	d.given("b has asked, and c does not ask yet", asks.some() && c.status.Role == raft.Follower)
	asks.release()
	d.expect(0.05, "c grants the pre-vote", grants.some)
	d.hurry(b, 1)
	rivals.stop()
	d.expect(20, "somebody leads", func() bool { return b.leads() || c.leads() })
}

// c has just heard from the leader a. Then an answer to an old question of c arrives, which says that b leads the next term.
func toldOfALeader(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	asks := d.hold(these(c), these(a), raft.PreVoteRequest{})
	unheard := d.lose(these(a), these(c))
	d.until("c asks", asks.some)
	unheard.stop()
	d.until("c hears a again", func() bool { return c.status.Leader == a.id })
	silent := d.lose(these(b), these(c))
	began := d.c.now()
	d.transfer(a, b)
	d.until("a follows b", func() bool { return a.status.Leader == b.id })
	d.given("c follows a", c.status.Leader == a.id)
	asks.release()
	d.until("c is told that b leads", func() bool { return c.status.Leader == b.id })
	d.crash(b)
	rivals := d.onlyCandidate(a)
	grants := d.record(these(c), these(a), raft.PreVoteReply{}).where(func(m *raft.Message) bool {
		return m.Body.(raft.PreVoteReply).Granted
	})
	d.hurry(a, 8)
	d.expect(0.4, "c grants a's pre-vote", grants.some)
	d.given("c has heard a within an election timeout", d.c.now()-began < d.timeouts(0.6))
	d.hurry(a, 1)
	rivals.stop()
	silent.stop()
	d.expect(20, "somebody leads", func() bool { return a.leads() || c.leads() })
}

func grantsOfAnEarlierRound(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.suspend(a)
	rivals := d.onlyCandidate(b)
	grants := d.hold(these(c), these(b), raft.PreVoteReply{}).where(func(m *raft.Message) bool {
		return m.Body.(raft.PreVoteReply).Granted
	})
	d.until("c would vote for b", grants.some)
	d.resume(a)
	d.until("both hear a again", func() bool { return b.status.Leader == a.id && c.status.Leader == a.id })
	grants.stop()
	d.c.net.Links.CutBoth(sim.Partitions, a.index, b.index)
	d.until("b asks again", func() bool { return b.status.Role == raft.PreCandidate })
	old := d.reignsOn(a)
	grants.release()
	d.always(3, "b does not stand for election, for c hears a", func() bool {
		return b.status.Term == a.status.Term && old()
	})
	rivals.stop()
}

func voteRequestFromBefore(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.suspend(a)
	rivals := d.onlyCandidate(c)
	requests := d.hold(these(c), nil, raft.VoteRequest{})
	d.until("c stands for election", func() bool { return len(requests.kept) == 2 })
	d.crash(c)
	d.resume(a)
	beats := d.record(these(a), these(b), raft.Heartbeat{})
	d.until("b hears a again", func() bool { return b.status.Leader == a.id })
	d.wait(0.7)
	d.until("a has told it so", beats.some)
	reigns := d.reignsOn(a)
	requests.release()
	d.always(8, "a leads on in its term", reigns)
	rivals.stop()
}

// b has requested votes in term 2 and sleeps. d requests votes in term 3. e receives both requests in one step.
func twoTermsInOneStep(d *director) {
	n := d.c.nodes
	a, b, dd, e := n[0], n[1], n[3], n[4]
	d.bootstrap()
	d.crash(a)
	requests := d.hold(nil, these(e), raft.VoteRequest{})
	d.lose(these(dd), these(b))
	d.lose(these(b), these(dd), raft.VoteRequest{})
	rivals := d.onlyCandidate(b)
	d.until("b stands for election, and has c's vote", func() bool {
		return requests.some() && d.c.check.votes[voteKey{n[2].disk.incarnation, 0, b.status.Term}] == b.peer()
	})
	d.wait(0.02)
	d.suspend(b)
	rivals.stop()
	rivals = d.onlyCandidate(dd)
	d.until("d stands in the next term", func() bool {
		return len(requests.kept) > 1 && dd.status.Term > b.status.Term
	})
	d.given("e is in an earlier term", e.status.Term < b.status.Term)
	d.arriveTogether(requests.taken()...)
	d.until("e's vote is durable", func() bool { return e.disk.hard.Term == dd.status.Term })
	d.resume(b)
	d.always(0.1, "b does not lead by a vote that was never given", func() bool { return !b.leads() })
	rivals.stop()
}

func crashWithinAVote(d *director) {
	c, e := d.c.nodes[2], d.c.nodes[4]
	d.bootstrap()
	for effects := 1; effects <= 4; effects++ {
		d.lose(nil, nil, raft.VoteReply{})
		requests := d.hold(nil, these(c), raft.VoteRequest{})
		rivals := d.onlyCandidate(e)
		for _, n := range d.c.nodes {
			if n.leads() {
				d.crash(n)
				d.start(n)
			}
		}
		d.until("e stands for election", requests.some)
		d.dieAfter(c, effects)
		d.arriveTogether(requests.taken()...)
		d.reached(1, func() bool { return c.core == nil })
		d.crash(c)
		rivals.stop()
		d.start(c)
		for _, h := range d.holds {
			h.forget()
		}
		d.until("somebody leads, and all are equal", func() bool { return !d.nobodyLeads() && d.equal() })
	}
}
