package fuzzy

import (
	"github.com/coxswain/raft/internal/sim"
)

// World is the slowness of the healed quorum in the second phase, in which nothing fails. In the zero World, called quiet,
// messages and writes take almost no time.
type World struct {
	Disk    sim.Time // a write takes half of it to all of it
	Trip    sim.Time // time of a message, one way; it may take up to tripJitter of an election timeout less
	Step    sim.Time // longest time from an event to its step
	Pause   sim.Time // a process sometimes pauses for half of it to all of it
	Loss    int      // chance that a message is lost
	Clients bool     // the clients continue until the quorum has served
}

// These are the maximum values in a drawn world. Times are in tenths of an election timeout, and the loss is in millionths of
// the messages.
const (
	worldDiskTenths  = 100
	worldTripTenths  = 50
	worldStepTenths  = 100
	worldPauseTenths = 100
	worldLossMax     = 20_000
	tripJitter       = 8
)

// quiet reports whether nothing in the world takes time.
func (w *World) quiet() bool {
	return w.Disk == 0 && w.Trip == 0 && w.Step == 0 && w.Pause == 0 && w.Loss == 0
}

// steady reports whether a working leader has no reason to lose its followers. If the steps of followers take longer than
// their timers, the followers mistake their own slowness for the leader's silence. They may campaign, and then another leader
// is elected.
func (p *Profile) steady() bool {
	w := &p.World
	return w.Pause == 0 && w.Loss == 0 && w.Step <= p.shortestTimeout()/2
}

// unit returns the longest time of one wait and one exchange in the world. It adds up an election timeout, a message and its
// reply, their steps, a write that waits for another write, and a pause. All bounds of the second phase are in units.
func (p *Profile) unit() sim.Time {
	w := &p.World
	return p.ElectionTimeout + 2*(w.Disk+w.Trip+w.Step) + w.Pause
}

// drawWorld draws a world in which one dimension is slow, or all are slow, or none is (the quiet world).
func drawWorld(s *sim.Stream, timeout sim.Time) World {
	tenth := timeout / 10
	amount := func(tenths sim.Time) sim.Time { return s.LogTime(tenth/2, tenths*tenth) }
	all := World{
		Disk: amount(worldDiskTenths), Trip: amount(worldTripTenths), Step: amount(worldStepTenths),
		Pause: amount(worldPauseTenths), Loss: s.LogUniform(100, worldLossMax), Clients: s.Coin(),
	}
	switch s.IntN(10) {
	case 0, 1, 2:
		return World{}
	case 3, 4:
		return World{Disk: all.Disk, Clients: all.Clients}
	case 5:
		return World{Trip: all.Trip, Clients: all.Clients}
	case 6:
		return World{Step: all.Step, Clients: all.Clients}
	case 7:
		return World{Pause: all.Pause, Clients: all.Clients}
	case 8:
		return World{Loss: all.Loss, Clients: all.Clients}
	}
	return all
}

// shapeSlow makes the whole run as slow as its second phase, with some faults of messages, processes and links.
func shapeSlow(s *sim.Stream, p *Profile) {
	for p.World.quiet() {
		p.World = drawWorld(s, p.ElectionTimeout)
	}
	w := &p.World
	only(Crash, Pause, Partition, Usurp)(s, p)
	unit := p.unit()
	p.Voters, p.Limits, p.Load.History = sim.Pick(s, 2, 3, 3, 3, 4, 5), generousLimits(), false
	p.FaultsFrom, p.Length = 8*unit, s.LogTime(20*unit, 80*unit)
	for i := range p.Faults {
		p.Faults[i].Every, p.Faults[i].For = s.LogTime(4*unit, 20*unit), s.LogTime(unit/4, 4*unit)
	}
	p.Network.Delay = w.delay(p.ElectionTimeout)
	p.Network.Bandwidth, p.Network.Loss, p.Network.BurstBegin = 0, w.Loss, 0
	p.Node.DiskDelay = w.writes(p.ElectionTimeout)
	p.Node.StepDelay = sim.Delay{Mean: w.Step / 2}
	p.Load.Think, p.Load.Patience = max(p.Load.Think, unit/8), max(p.Load.Patience, 4*unit)
}

// writes returns the distribution of the time that a write takes.
func (w *World) writes(timeout sim.Time) sim.Delay {
	if w.Disk == 0 {
		return sim.Delay{Shape: sim.Uniform, Mean: timeout / 300}
	}
	return sim.Delay{Shape: sim.Uniform, Min: w.Disk / 2, Mean: w.Disk / 4}
}

// delay returns the distribution of the time that a message takes.
func (w *World) delay(timeout sim.Time) sim.Delay {
	if w.Trip == 0 {
		return sim.Delay{Shape: sim.Uniform, Mean: timeout / 150}
	}
	return sim.Delay{Shape: sim.Uniform, Min: max(w.Trip/2, w.Trip-timeout/tripJitter), Mean: w.Trip / 2}
}

// network returns the faults of messages between healed members.
func (w *World) network(timeout sim.Time) sim.NetworkFaults {
	return sim.NetworkFaults{Delay: w.delay(timeout), Loss: w.Loss, FIFO: true}
}

// pauseUnits is the mean interval between pauses.
const pauseUnits = 10

// pause sometimes freezes a process of the core. It does so until the quiet begins.
func (l *liveness) pause() {
	w, c := &l.c.profile.World, l.c
	if w.Pause == 0 || l.stage > converging || !l.random.Chance(int(sim.Million*(c.profile.ElectionTimeout/2)/(pauseUnits*c.profile.unit()))) {
		return
	}
	members := l.members()
	if len(members) == 0 {
		return
	}
	n := members[l.random.IntN(len(members))]
	if n.frozen || n.forever {
		return
	}
	l.pauses++
	length := l.random.Between(w.Pause/2, w.Pause)
	c.faulted("pause of %s for %v", n.name(), length)
	n.freeze(false)
	n.later(length, event{kind: evResume})
}
