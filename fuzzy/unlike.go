package fuzzy

import (
	"cmp"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// drawUnlike draws members whose settings differ, and state machines that hang, in some runs of other profiles. It uses its
// own stream, so that the other runs do not change.
func drawUnlike(seed Seed, p *Profile) {
	s, n, timeout := sim.NewStream(seed.Number, sim.Profile<<48), &p.Node, p.ElectionTimeout
	unequal, unlike, hangs, old := s.IntN(6) == 0, s.IntN(4) == 0, s.IntN(6) == 0, s.IntN(8) == 0
	most, stall := sim.Pick(s, 2, 4, 8), s.LogTime(timeout/4, 4*timeout)
	hang := FaultRate{Hang, s.LogTime(timeout, 10*timeout), s.LogTime(timeout/4, 16*timeout)}
	second, millisecond := sim.In(time.Second), sim.In(time.Millisecond)
	reads := s.IntN(4) == 0
	herd := FaultRate{Herd, s.LogTime(second/5, 3*second), s.LogTime(10*millisecond, second)}
	switch p.Name {
	case "swarm", "slow", "members", "snapshots", "elections":
		if n.Unlike = unlike; unequal {
			n.Unequal = most
			for 2*p.World.Trip >= waitsMax*p.shortestTimeout() { // such a leader does not wait long enough for an answer
				n.Unequal--
			}
		}
	case "durable", "segments", "images", "alone":
	default:
		return
	}
	if hangs && n.ApplyStallMax == 0 {
		n.ApplyStallMax, p.Faults = stall, append(p.Faults, hang)
	}
	if p.Name == "segments" || p.Name == "alone" {
		return
	}
	if reads {
		p.Faults = append(p.Faults, herd)
	}
	if old && p.Members.on() && !p.Snapshots.On {
		p.Snapshots.Old = 1 + s.IntN(p.Voters+p.Learners)
	}
}

// tuning is what the configuration of a member sets.
type tuning struct {
	faster                      sim.Time    // the profile's election timeout divided by the member's
	limits, usual               raft.Limits // in force, and of its configuration
	lowest, highest             raft.Limits // in force in the last step
	retuned                     bool        // they have changed in it
	preferences                 raft.Preferences
	diskStallMax, applyStallMax sim.Time
}

// differ sets the limits and times of a member.
func (n *node) differ() {
	p := &n.c.profile
	n.limits, n.faster = p.Limits, 1
	n.diskStallMax, n.applyStallMax = p.Node.diskStallMax(), cmp.Or(p.Node.ApplyStallMax, sim.In(10*time.Second))
	if most := p.Node.Unequal; most > 1 {
		n.faster += sim.Time(sim.NewStream(n.c.seed.Number, sim.NodeConcern<<8+sim.Concern(n.index)).IntN(most))
	}
	n.preferences = n.c.preferences(n.index)
	s := sim.NewStream(n.c.seed.Number, sim.NodeConcern<<16+sim.Concern(n.index))
	if !p.Node.Unlike || s.IntN(4) == 0 {
		return
	}
	n.diskStallMax, n.applyStallMax = vary(s, n.diskStallMax), vary(s, n.applyStallMax)
	if p.World.quiet() { // otherwise sending one entry at a time would take forever
		n.limits = drawLimits(s)
	}
	n.limits.SnapshotEntries, n.limits.SnapshotLogBytes = vary(s, p.Limits.SnapshotEntries), vary(s, p.Limits.SnapshotLogBytes)
	n.limits.SnapshotTailBytes, n.limits.SnapshotHoldBytes = vary(s, p.Limits.SnapshotTailBytes), vary(s, p.Limits.SnapshotHoldBytes)
}

// How many preferences members have.
const (
	noPreferences   = iota // all are switched off: scenarios and cases are about an election timeout that is drawn
	allPreferences         // none is switched off
	somePreferences        // some are switched off, by all members
	ownPreferences         // each member switches off others
)

// drawPreferences draws whether members have preferences about who leads next. It uses its own stream.
func drawPreferences(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<44)
	p.Node.Preferences = sim.Pick(s, allPreferences, allPreferences, allPreferences, somePreferences, somePreferences, ownPreferences)
}

// preferences returns what a member switches off.
func (c *cluster) preferences(member int) raft.Preferences {
	drawn := sim.NodeConcern << 24
	switch c.profile.Node.Preferences {
	case noPreferences:
		return raft.Preferences{NoNews: true, NoSuccessors: true, NoPriorities: true}
	case allPreferences:
		return raft.Preferences{}
	case ownPreferences:
		drawn += sim.Concern(member)
	}
	s := sim.NewStream(c.seed.Number, drawn)
	return raft.Preferences{NoNews: s.Coin(), NoSuccessors: s.Coin(), NoPriorities: s.Coin()}
}

// vary draws a value of up to three times another one, or zero if that is zero.
func vary[T int | sim.Time](s *sim.Stream, value T) T {
	return max(value/2, min(value, 1)) + T(s.IntN(int(value)/2*5+1))
}

// shortestTimeout returns the shortest election timeout that a member may have. Operations in a healthy cluster take a small
// part of this time.
func (p *Profile) shortestTimeout() sim.Time {
	return p.ElectionTimeout / sim.Time(max(1, p.Node.Unequal))
}

// shapeUnequal gives each member its own election timeout. The longest timeouts are many times the shortest.
func shapeUnequal(s *sim.Stream, p *Profile) {
	only(Crash, Pause, Partition, Usurp, Close)(s, p)
	p.Voters, p.Learners, p.World, p.Limits = sim.Pick(s, 2, 3, 3, 3, 4, 5), s.IntN(3)/2, World{}, generousLimits()
	p.ElectionTimeout, p.Node.Unequal = 8*p.ElectionTimeout, sim.Pick(s, 2, 4, 8)
	p.Network.Delay.Mean, p.Network.Delay.Max = min(p.Network.Delay.Mean, sim.In(2*time.Millisecond)), sim.In(20*time.Millisecond)
	p.Node.DiskDelay.Mean, p.Node.DiskDelay.Max = min(p.Node.DiskDelay.Mean, sim.In(2*time.Millisecond)), sim.In(20*time.Millisecond)
	p.Node.StepDelay.Mean = min(p.Node.StepDelay.Mean, sim.In(time.Millisecond))
	p.Node.DiskStallMax = 2 * p.ElectionTimeout
	p.FaultsFrom, p.Length = 4*p.ElectionTimeout, s.LogTime(8*p.ElectionTimeout, 24*p.ElectionTimeout)
	p.Load.Transfers = s.LogUniform(1000, 50_000)
	for i := range p.Faults {
		p.Faults[i].Every *= 4
	}
}
