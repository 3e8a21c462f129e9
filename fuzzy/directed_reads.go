package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// readScenarios show what a read must see (dissertation §6.4).
var readScenarios = []scenario{
	{name: "suspended-leader-reads", voters: 3, play: suspendedLeaderReads, source: "Jepsen on etcd and Consul, 2014",
		about: "a leader that was suspended and wakes up cut off answers no read"},
	{name: "old-answers-confirm-nothing", voters: 3, play: oldAnswersConfirmNothing, source: "etcd #20418",
		about: "replies to earlier heartbeats do not confirm a read that is requested now"},
	{name: "read-ids-after-a-restart", voters: 3, play: readIDsAfterARestart, source: "class of etcd #20418",
		about: "the reply to a read from before a restart answers no read after it"},
	{
		name: "late-read-reply", voters: 3, play: lateReadReply,
		about: "the reply to a read that was given up answers no later read",
	},
	{
		name: "two-readers-in-one-round", voters: 5, play: twoReadersInOneRound,
		about: "replies to an earlier round do not confirm the round that two followers share, and each follower is answered",
	},
}

func suspendedLeaderReads(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	d.isolate(sim.BothWays, a)
	d.suspend(a)
	d.elect(b)
	d.written(b)
	d.resume(a)
	d.given("a believes that it leads", a.leads())
	t := d.read(a)
	d.always(3, "a answers no read", func() bool { return d.state(t) != answeredWell })
}

func oldAnswersConfirmNothing(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	old := d.hold(these(b, c), these(a), raft.HeartbeatReply{})
	d.until("both have answered a heartbeat", func() bool { return len(old.kept) >= 2 })
	d.isolate(sim.Outward, a)
	d.suspend(a)
	d.wait(0.1)
	old.stop()
	quiet := d.lose(these(b, c), these(a))
	d.elect(b)
	d.written(b)
	d.resume(a)
	t := d.read(a)
	d.given("a believes that it leads", a.leads())
	old.release()
	d.check("a answers no read", func() bool { return a.leads() && d.state(t) != answeredWell })
	quiet.stop()
}

func readIDsAfterARestart(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	reply := d.hold(these(a), these(b), raft.ReadReply{})
	d.read(b)
	d.until("a answers b", reply.some)
	d.crash(b)
	d.written(a)
	d.start(b)
	d.until("b follows a", func() bool { return b.status.Leader == a.id })
	lost := d.lose(these(b), these(a), raft.ReadRequest{})
	t := d.read(b)
	d.until("b asks again", lost.some)
	reply.release()
	d.check("the old answer answers nothing", func() bool { return d.state(t) == unanswered })
	lost.stop()
	d.expect(3, "the read is answered", func() bool { return d.state(t) == answeredWell })
}

func lateReadReply(d *director) {
	a, b := d.c.nodes[0], d.c.nodes[1]
	d.bootstrap()
	reply := d.hold(these(a), these(b), raft.ReadReply{})
	first := d.read(b)
	d.until("a answers b", reply.some)
	d.until("b gives up", func() bool { return d.state(first) == answeredNo })
	d.written(a)
	lost := d.lose(these(b), these(a), raft.ReadRequest{})
	t := d.read(b)
	d.until("b asks again", lost.some)
	reply.release()
	d.check("the old answer answers nothing", func() bool { return d.state(t) == unanswered })
	lost.stop()
	d.expect(3, "the read is answered", func() bool { return d.state(t) == answeredWell })
}

// Replies to the round of a's own read arrive late and repeatedly. c restarts before its answer comes.
func twoReadersInOneRound(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	d.bootstrap()
	earlier := d.hold(n[1:], these(a), raft.HeartbeatReply{})
	own := d.read(a)
	d.until("two have answered the first round", func() bool { return len(earlier.kept) >= 4 })
	first, second := d.read(b), d.read(c)
	d.until("a has both requests", func() bool { return a.status.Reads == 3 })
	earlier.stop()
	shared := d.hold(n[1:], these(a), raft.HeartbeatReply{})
	late := earlier.taken()
	d.arriveTogether(late...)
	d.check("a's own read is answered", func() bool { return d.state(own) == answeredWell })
	d.until("the shared round is answered", func() bool { return len(shared.kept) >= 4 })
	d.arriveTogether(late...)
	d.check("the other reads are not", func() bool {
		return a.status.Reads == 2 && d.state(first) == unanswered && d.state(second) == unanswered
	})
	replies := d.hold(these(a), these(c), raft.ReadReply{})
	shared.release()
	d.expect(2, "b is answered", func() bool { return d.state(first) == answeredWell && replies.some() })
	d.crash(c)
	d.written(a)
	d.start(c)
	d.until("c follows a", func() bool { return c.status.Leader == a.id })
	lost := d.lose(these(c), these(a), raft.ReadRequest{})
	again := d.read(c)
	d.until("c asks again", lost.some)
	replies.release()
	d.check("the earlier answer answers nothing", func() bool { return d.state(again) == unanswered })
	lost.stop()
	d.expect(3, "c is answered", func() bool { return d.state(again) == answeredWell })
}

// transferScenarios transfer leadership (dissertation §3.10).
var transferScenarios = []scenario{
	{name: "transfer-to-a-laggard", voters: 3, play: transferToALaggard, source: "dissertation §3.10",
		about: "the target is brought up to date before it is asked to campaign, and no proposal comes between"},
	{name: "planned-transfer", voters: 5, play: plannedTransfer, shape: func(p *Profile) { p.Load.Holds = true },
		about: "the leader first applies what it has accepted, and then the target campaigns; a write that comes meanwhile waits"},
	{name: "transfer-that-fails", voters: 3, play: transferThatFails, source: "dissertation §3.10",
		about: "a transfer to an unreachable member is given up, and the leader keeps serving"},
	{name: "stale-timeout-now", voters: 3, play: staleTimeoutNow, source: "raft-rs #234",
		about: "a TimeoutNow that was delayed into a later term deposes nobody"},
	{name: "late-timeout-now", voters: 3, play: lateTimeoutNow, source: "paper §5.4.1",
		about: "a TimeoutNow that arrives after its transfer was given up elects no member whose log is behind"},
	{name: "transfer-to-a-learner", voters: 3, learners: 1, play: transferToALearner, source: "dissertation §4.2.1",
		about: "leadership is not transferred to a learner"},
	{name: "transfer-by-a-leader-that-ends", voters: 3, play: transferByALeaderThatEnds,
		about: "a leader that ends once the target may campaign does not refuse the transfer: its outcome is unknown"},
}

func transferByALeaderThatEnds(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.written(a)
	order := d.hold(these(a), these(b), raft.TimeoutNow{})
	t := d.transfer(a, b)
	d.until("a tells b to campaign", order.some)
	a.post(raft.Closing{})
	d.check("the outcome is unknown", func() bool { return d.state(t) == answeredUnknown })
	d.crash(a)
	order.release()
	d.expect(20, "somebody leads", func() bool { return b.leads() || c.leads() })
}

func transferToALaggard(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	appends := d.hold(these(a), these(c), raft.AppendRequest{})
	d.written(a)
	term := a.status.Term
	t := d.transfer(a, c)
	refused := d.write(a, 1)
	d.check("a proposal during a transfer is refused", func() bool { return d.state(refused) == answeredNo })
	d.wait(0.2)
	d.check("a waits until c has all", func() bool {
		return d.state(t) == unanswered && a.leads() && c.status.Term == term
	})
	appends.release()
	d.expect(3, "c leads the next term", func() bool {
		return c.leads() && c.status.Term == term+1 && d.state(t) == answeredWell
	})
}

func plannedTransfer(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	term := a.status.Term
	appends := d.hold(these(a), these(d.c.nodes[1], d.c.nodes[3], d.c.nodes[4]), raft.AppendRequest{})
	accepted := d.write(a, 1)
	d.until("c has the whole log", func() bool { return c.last() == a.last() && len(c.queue) == 0 })
	t := d.transfer(a, c)
	held := d.write(a, 1)
	d.wait(0.3)
	d.check("a waits until the write is applied", func() bool {
		return d.state(t) == unanswered && d.state(accepted) == acceptedOnly && d.state(held) == unanswered && c.status.Term == term
	})
	appends.release()
	d.expect(3, "c leads the next term", func() bool { return c.leads() && d.state(t) == answeredWell })
	d.check("the first write is acknowledged, the second one is not applied", func() bool {
		return d.state(accepted) == answeredWell && d.state(held) == answeredNo
	})
}

func transferThatFails(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	d.lose(these(a), these(c), raft.TimeoutNow{}, raft.AppendRequest{})
	t := d.transfer(a, c)
	d.given("the transfer is under way", d.state(t) == unanswered)
	reigns := d.reignsOn(a)
	d.expect(3, "the transfer is given up", func() bool { return d.state(t) == answeredNo })
	d.check("a still leads", reigns)
	w := d.write(a, 1)
	d.expect(3, "a serves again", func() bool { return d.state(w) == answeredWell })
}

func staleTimeoutNow(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	old := d.hold(these(a), these(c), raft.TimeoutNow{})
	t := d.transfer(a, c)
	d.until("a asks c to campaign", old.some)
	d.until("the transfer is given up", func() bool { return d.state(t) == answeredNo })
	old.stop()
	d.crash(a)
	d.elect(b)
	d.written(b)
	d.until("c follows b", func() bool { return c.status.Leader == b.id })
	old.release()
	d.always(5, "b still leads", d.reignsOn(b))
}

func lateTimeoutNow(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.wait(1)
	late := d.hold(these(a), these(c), raft.TimeoutNow{})
	t := d.transfer(a, c)
	d.until("the transfer is given up", func() bool { return late.some() && d.state(t) == answeredNo })
	appends := d.lose(these(a), these(c), raft.AppendRequest{})
	d.written(a)
	d.given("c follows a, and lacks what is committed", c.status.Leader == a.id && c.last() < a.last())
	rivals := d.onlyCandidate(c)
	late.release()
	d.always(5, "c does not lead", func() bool { return !c.leads() })
	d.given("c has stood for election", c.status.Term > 1)
	appends.stop()
	rivals.stop()
	d.somebodyCommits(20)
}

func transferToALearner(d *director) {
	a, learner := d.c.nodes[0], d.c.nodes[3]
	d.bootstrap()
	d.wait(1)
	reigns := d.reignsOn(a)
	t := d.transfer(a, learner)
	d.check("it is refused", func() bool { return d.state(t) == answeredNo })
	d.always(5, "a still leads", reigns)
}
