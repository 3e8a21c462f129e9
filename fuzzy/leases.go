package fuzzy

import (
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// This file has leases: the leader is asked for them, and clients read by the lease of a member.

// Leases sets the leases of a run.
type Leases struct {
	Duration sim.Time // how long leases last, once a leader has been asked for them; 0: there are none
	Reads    int      // chance that a read is one by lease
	Turns    int      // chance that the leader is asked for another duration, whenever that is considered
}

// driftBound is how far a clock may be from true time, in millionths, so that leases keep their promise. Two clocks at
// opposite bounds are as far apart as raft.LeaseDriftPercentMax allows.
const driftBound = raft.LeaseDriftPercentMax * sim.Million / 100

// shapeLeases draws clocks at the bound that leases allow, leaders that lose and transfer their leadership all the time, and
// messages that are as late as a lease is long. No clock stops, and no disk is an older image of itself: leases do not cover
// that.
func shapeLeases(s *sim.Stream, p *Profile) {
	only(Crash, CrashLoop, Pause, Usurp, Close, Drift, Jump, Partition, Clog, LateNews, Lie, Slow)(s, p)
	p.Voters, p.Learners, p.World, p.Limits = sim.Pick(s, 2, 3, 3, 3, 5), s.IntN(3)/2, World{}, generousLimits()
	p.ElectionTimeout = sim.Pick(s, p.ElectionTimeout, 4*p.ElectionTimeout)
	p.Leases = Leases{Duration: p.ElectionTimeout * sim.Time(40+s.IntN(60)) / 100, Reads: sim.Million, Turns: s.IntN(2) * 20_000}
	p.Node.DriftMax, p.Node.Unequal = driftBound, sim.Pick(s, 0, 0, 2, 4)
	p.Node.StepDelay.Mean = min(p.Node.StepDelay.Mean, sim.In(2*time.Millisecond))
	p.FaultsFrom, p.Length = 4*p.ElectionTimeout, s.LogTime(16*p.ElectionTimeout, 60*p.ElectionTimeout)
	p.Load.Transfers, p.Load.Reads = s.LogUniform(1000, 100_000), 500_000
	p.Load.Think, p.Load.Clients = s.LogTime(sim.In(time.Millisecond), p.ElectionTimeout/8), 4+s.IntN(8)
	p.Network.Delay = sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(sim.In(200*time.Microsecond), p.ElectionTimeout/10), Max: 2 * p.ElectionTimeout}
	p.Network.Replay, p.Network.ReplayMax, p.Network.FIFO = s.LogUniform(1000, 300_000), 4*p.ElectionTimeout, s.Coin()
	p.Network.Bandwidth, p.Network.Capacity, p.Network.Loss = 0, 0, min(p.Network.Loss, 50_000)
	p.Node.DiskDelay = sim.Delay{Shape: sim.Exponential, Mean: s.LogTime(sim.In(100*time.Microsecond), p.ElectionTimeout/20), Max: p.ElectionTimeout / 2}
	for i := range p.Faults {
		p.Faults[i].Every, p.Faults[i].For = s.LogTime(p.ElectionTimeout/2, 8*p.ElectionTimeout), s.LogTime(p.ElectionTimeout/20, 3*p.ElectionTimeout)
	}
}

// askForLeases asks the leader for the leases of the run, and sometimes for others, or for none.
func (c *cluster) askForLeases() {
	l := &c.profile.Leases
	c.queue.Push(c.now()+1+c.leases.Exponential(c.profile.ElectionTimeout/2), event{kind: evLease})
	at := c.leader()
	if c.phase != safetyPhase || at < 0 || c.nodes[at].core == nil {
		return
	}
	n, d := c.nodes[at], time.Duration(l.Duration)
	has := n.status.Config.LeaseDuration
	switch turns := c.leases.Chance(l.Turns); {
	case has > 0 && !turns:
		return
	case has > 0:
		d = sim.Pick(c.leases, 0, d/2, d)
	}
	c.faulted("%s is asked for leases of %v", n.name(), d)
	n.asksFor(&changing{Change: raft.Change{LeaseDuration: &d}}, 0, func(error) {})
}

// retime starts a member with another election timeout than before. What it may have promised does not depend on that.
func (n *node) retime() {
	if p := &n.c.profile; p.Leases.Duration > 0 && p.Node.Unequal > 1 {
		n.faster = 1 + sim.Time(n.random.IntN(p.Node.Unequal))
	}
}

// believes reports whether a reader on the member would now read by its lease, if the process ran.
func (n *node) believes() bool {
	return n.core != nil && n.lease != (raft.LeaderLease{}) && n.now().Mono < n.lease.Until
}

// readByLease serves a read by the lease of the member. It returns false if the member has none: its core must be asked.
func (n *node) readByLease(t raft.RequestID) bool {
	if n.frozen || !n.believes() {
		return false
	}
	r := &n.c.work.requests[t]
	n.c.stats.LeaseReads++
	r.state, r.index = answeredWell, n.lease.Commit
	n.c.check.checkRead(n, r, r.index)
	n.accepted = append(n.accepted, acceptance{raft.EntryID{Index: r.index}, t})
	n.later(1, event{kind: evLeased})
	return true
}

// answerLeased answers the reads by lease that wait for nothing.
func (n *node) answerLeased(life uint32) {
	if n.life == life && n.core != nil {
		n.c.work.appliedOn(n)
		n.c.work.release(n)
	}
}
