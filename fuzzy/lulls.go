package fuzzy

import (
	"fmt"
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// The invariant of a cluster at rest. A busy workload hides what a member fails to do, because the next entry repairs it.
//
//	L21  While nobody asks for anything, a cluster that is healed comes to rest by itself. The change of the members has ended, every follower has applied the leader's whole log, served members know their removal, each request is answered, and nothing is in flight.

// Lulls sets the times in which clients and admins begin no requests. A lull begins when the members change, a snapshot is
// installed, or a leader is elected or ends a transfer. Faults continue. Some lulls then heal the cluster, and last until it
// has come to rest.
type Lulls struct {
	Most   int      // maximum number of lulls in a run
	Chance int      // chance that a lull begins at such a moment
	Rests  int      // chance that the lull heals the cluster
	For    sim.Time // mean time with faults, and mean time of a rest
}

// drawLulls gives most runs of members and snapshots some lulls, and a quarter of the runs of some other profiles. In some of
// these runs, clients write seldom. It uses its own stream, so that the other settings do not change.
func drawLulls(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<60)
	some := s.IntN(4)
	drawn := Lulls{1 + s.IntN(8), s.LogUniform(50_000, 500_000), sim.Pick(s, 0, 500_000, sim.Million, sim.Million), s.LogTime(p.unit()/10, 8*p.unit())}
	switch p.Name {
	case "members", "snapshots":
		if some > 0 {
			p.Lulls = drawn
		}
	case "durable", "swarm", "slow", "images":
		if some == 0 {
			p.Lulls = drawn
		}
	}
	if seldom := s.IntN(3) == 0; seldom && p.Lulls.Most > 0 {
		p.Load.Clients, p.Load.Think = 1, s.LogTime(p.unit(), 10*p.unit())
	}
}

// lulls are the lulls of a run.
type lulls struct {
	c      *cluster
	random *sim.Stream
	begun  int
	since  sim.Time  // when the present lull began; 0: there is none
	added  sim.Time  // time to add to the safety phase for the lulls that have ended
	held   []event   // what must not happen before the lull ends
	rest   *liveness // the healed cluster; nil: faults continue
	healed sim.Time  // when the rest began
	rests  sim.Time  // the least time until the rest may end
}

// on reports whether clients and admins begin nothing.
func (l *lulls) on() bool { return l.since > 0 }

// resting reports whether nothing is wrong and nobody injects faults.
func (l *lulls) resting() bool { return l.rest != nil }

// reached is called at each moment at which a lull may begin. During a lull, the network may begin to lose messages at such a
// moment, so that the last ones do not arrive.
func (l *lulls) reached() {
	c, p := l.c, &l.c.profile.Lulls
	switch {
	case l.begun >= p.Most && !l.on() || c.phase != safetyPhase || l.resting():
	case l.on():
		if l.random.IntN(4) == 0 {
			c.net.Faults.Loss = max(c.net.Faults.Loss, sim.Pick(l.random, l.random.IntN(sim.Million), sim.Million))
		}
	case l.random.Chance(p.Chance):
		l.begun++
		l.begin()
		c.faulted("lull: clients and admins begin nothing")
		c.queue.Push(c.now()+1+l.random.Exponential(p.For), event{kind: evLull})
	}
}

func (l *lulls) begin() { l.since = l.c.now() }

// holds keeps an event until the lull ends, and reports whether it does.
func (l *lulls) holds(e event) bool {
	switch e.kind {
	case evClient, evAdmin:
		if !l.on() {
			return false
		}
	case evFault, evFlip, evImage, evAway, evRepair:
		if !l.resting() {
			return false
		}
	default:
		return false
	}
	l.held = append(l.held, e)
	return true
}

// next begins the rest, checks whether the cluster has come to rest, or ends the lull.
func (l *lulls) next() {
	switch {
	case l.c.phase != safetyPhase:
	case l.resting():
		l.watch()
	case l.random.Chance(l.c.profile.Lulls.Rests) && l.heal():
		l.later()
	default:
		l.end()
	}
}

func (l *lulls) later() { l.c.queue.Push(l.c.now()+l.c.profile.ElectionTimeout/2, event{kind: evLull}) }

// heal mends everything. It returns false if no rest can be promised.
func (l *lulls) heal() bool {
	c, p := l.c, &l.c.profile
	var able []int
	for _, n := range c.nodes {
		if !n.disk.damaged && !n.ended {
			able = append(able, n.index)
		}
	}
	rest := &liveness{c: c, core: among64(able), exiled: true, stage: settling, since: c.now()}
	limited := p.Node.Carries > 0 || p.Snapshots.Old > 0 || p.Members.Earlier > 0 || p.Node.OtherLists > 0 || p.Node.Unequal > 0 // until members are replaced or restarted
	if limited || c.anySpoiled() || !p.steady() || c.newestCommitted() == nil || len(c.acquainted(able)) < len(able) ||
		rest.unreached(c.standing(), rest.core) != "" || c.lostToDisks() || p.injects(Image) {
		return false
	}
	c.faulted("lull: %s healed", c.names(rest.core))
	l.rest, l.healed, l.rests = rest, c.now(), c.now()+l.random.Exponential(p.Lulls.For)
	c.net.Calm(1<<len(c.nodes)-1, p.World.network(p.ElectionTimeout))
	c.net.Faults = c.net.CoreFaults
	c.poison = poison{}
	for _, n := range c.nodes {
		n.heal(n.closing)
	}
	return true
}

// watch ends the lull once the cluster has come to rest. The limit counts anew for each leader and each configuration.
func (l *lulls) watch() {
	r, c := l.rest, l.c
	r.reunite()
	unrest := r.unrest()
	switch i := c.leader(); {
	case unrest == "" && c.now() >= l.rests, c.lostToDisks(), c.now()-l.since > restsMax*r.limit():
		l.end()
		return
	case i < 0:
		r.since = c.now()
	case r.term0 != c.nodes[i].status.Term || r.behind != c.nodes[i].status.ConfigIndex:
		r.since, r.term0, r.behind = c.now(), c.nodes[i].status.Term, c.nodes[i].status.ConfigIndex
	}
	c.mustHold(c.now()-r.since <= r.limit(), "L21", "%d units of %v after all were healed, %s\n%s",
		(c.now()-r.since)/c.profile.unit(), c.profile.unit(), unrest, c.describe())
	l.later()
}

// restsMax bounds a lull, in limits of a stage, if the leaders keep changing.
const restsMax = 3

// end lets everybody continue.
func (l *lulls) end() {
	c := l.c
	if c.phase == safetyPhase {
		c.faulted("lull ends")
		c.net.Core, c.net.Faults = 0, c.profile.Network
	}
	if l.resting() {
		for _, n := range c.nodes {
			n.disk.healed = false
		}
	}
	for _, e := range l.held {
		c.queue.Push(c.now()+1, e)
	}
	l.added += c.now() - l.since
	l.since, l.held, l.rest = 0, nil, nil
}

// extends makes the safety phase last longer, by the time of its lulls.
func (l *lulls) extends() bool {
	switch {
	case l.on():
		l.c.queue.Push(l.c.now()+l.c.profile.ElectionTimeout, event{kind: evPhase})
	case l.added > 0:
		l.c.queue.Push(l.c.now()+l.added, event{kind: evPhase})
		l.added = 0
	default:
		return false
	}
	return true
}

// unrest says what keeps a healed cluster from being at rest; "": nothing.
func (l *liveness) unrest() string {
	switch {
	case !l.elected():
		return "nobody leads them"
	case !l.settled():
		return "the change of the members continues"
	case !l.converged():
		return "their logs are not equal"
	case l.parting():
		return "the leader still serves removed members"
	}
	for i := range l.leader.status.Peers {
		p := &l.leader.status.Peers[i]
		if n := l.healed(peerOf(p)); n != nil && n.core != nil && l.counts(n) && (p.State != "replicate" || p.Match < l.leader.status.Last.Index || p.Inflight > 0) {
			return fmt.Sprintf("%s knows of %s only %s up to %d", l.leader, n, p.State, p.Match)
		}
	}
	for _, n := range l.members() {
		_, others := n.needless() // part of a snapshot may wait for the rest
		switch s := &n.status; {
		case !l.counts(n):
		case others > 0:
			return fmt.Sprintf("%s keeps %d files that it neither records nor reads", n, others)
		case s.Pending > 0 || s.Reads > 0:
			return fmt.Sprintf("%s counts %d proposals and %d reads", n, s.Pending, s.Reads)
		case s.Taking.Index > 0 || s.Restoring.Index > 0 || s.Receiving.Index > 0 || n.vault.held != nil:
			return fmt.Sprintf("%s takes a snapshot of %v, receives %v, restores %v", n, s.Taking, s.Receiving, s.Restoring)
		}
	}
	if n := l.c.lulls.untold(); n != nil {
		return fmt.Sprintf("%s does not know that it was removed", n)
	}
	if r := l.unanswered(); r >= 0 {
		return fmt.Sprintf("request %d is not answered (state %d)", r, l.c.work.requests[r].state)
	}
	return ""
}

// toldUnits is the longest time in which a healed leader tells a healed member that it was removed.
const toldUnits = 4

// untold returns a removed member that does not know its removal, although both it and the leader were healed for long enough
// while the leader had to serve it. The leader keeps no entries for such a member, so it must have had the member's next one.
// A member that was never reached knows no cluster, and may join again.
func (l *lulls) untold() *node {
	lead := l.rest.leader
	for _, d := range lead.seen.inOffice.gone {
		n := l.rest.healed(d.peer)
		if n == nil || n.core == nil || d.known == 0 || !n.meets(lead) || n.status.Removed > 0 || n.removedIn > 0 {
			continue // a member that restarts may have forgotten what it knew
		}
		known := l.c.now() - sim.Time(lead.seen.now-d.known)
		served := known + (departTimeouts-2)*l.c.profile.ElectionTimeout - max(known, l.healed)
		if served >= toldUnits*l.c.profile.unit() && n.status.Commit >= max(lead.status.Base.Index, 1) {
			return n
		}
	}
	return nil
}

// checkGivenUp checks that a leader gives up no change during a rest, if all members could catch up within its patience.
func (l *lulls) checkGivenUp(n *node, out *raft.Output) {
	if !l.resting() || n.configBefore == nil || !waits(&n.configBefore.Configuration) ||
		!slices.ContainsFunc(out.Trace, func(e raft.TraceEvent) bool { return e.Kind == raft.TraceChangeGivenUp }) {
		return
	}
	r, patience := l.rest, sim.Time(n.configBefore.Patience)
	r.leader = n
	if r.whole() && patience >= (stageUnits/10+r.backlog())*l.c.profile.unit() && l.c.now()-l.healed >= patience {
		l.c.mustHold(false, "L21", "%s gives up the change of entry %d, although all members are healed", n, n.configBefore.index)
	}
}

// heal ends all faults of a node. The process may have to restart.
func (n *node) heal(restarts bool) {
	n.slow, n.loops, n.dieAfter = 0, 0, 0
	n.disk.stallTill, n.disk.fails, n.disk.healed = 0, false, true
	n.disk.heal()
	n.clock.Resume(n.c.now())
	n.resume()
	if restarts {
		n.upgraded = true
		n.crash()
	}
	n.start()
	n.endWrites()
	n.unstick()
	n.healHang()
	n.healNews()
	n.healLimits()
	n.giveList()
	if len(n.outbox) > 0 {
		n.later(n.sendWait(), event{kind: evFlush}) // its connection accepts messages again
	}
}

// anySpoiled reports whether a fault has damaged a snapshot file. A leader replaces such a file only after further entries.
func (c *cluster) anySpoiled() bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.disk.files.spoiled })
}
