package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// What running members are given: other limits (raft.LimitsChanged), and the list of initial members (raft.InitialGiven).

// drawGiven draws runs in which members are given limits or lists while they run. It uses its own stream.
func drawGiven(seed Seed, p *Profile) {
	s, timeout := sim.NewStream(seed.Number, sim.Profile<<12), p.ElectionTimeout
	retunes, late := s.IntN(4) == 0, s.IntN(3) == 0
	rate := FaultRate{Retune, s.LogTime(timeout, 10*timeout), s.LogTime(timeout/4, 16*timeout)}
	switch p.Name {
	case "swarm", "snapshots", "durable", "members", "elections", "history":
		if retunes {
			p.Faults = append(p.Faults, rate)
		}
	case "bootstrap":
		if late {
			p.Node.LateLists = sim.Pick(s, 300_000, 800_000)
		}
	}
}

// retune changes the limits of a member for some time.
func (m *nemesis) retune(c *cluster, n *node) {
	limits, usual := drawLimits(m.random), &c.profile.Limits
	limits.SnapshotEntries, limits.SnapshotLogBytes = vary(m.random, usual.SnapshotEntries), vary(m.random, usual.SnapshotLogBytes)
	limits.SnapshotTailBytes, limits.SnapshotHoldBytes = vary(m.random, usual.SnapshotTailBytes), vary(m.random, usual.SnapshotHoldBytes)
	n.post(raft.LimitsChanged{Limits: limits})
}

// healLimits puts the limits of the member's configuration in force again.
func (n *node) healLimits() {
	if n.c.profile.injects(Retune) {
		n.post(raft.LimitsChanged{Limits: n.usual})
	}
}

// takeGiven notes the limits and the list of a step's events. before is the status before the step.
func (n *node) takeGiven(before *raft.CoreStatus, events []raft.Event) {
	n.retuned, n.lowest, n.highest = false, n.limits, n.limits
	for _, e := range events {
		switch e := e.(type) {
		case raft.LimitsChanged:
			n.retuned, n.limits = true, e.Limits
			n.lowest, n.highest = eachLimit(n.lowest, n.limits, lower), eachLimit(n.highest, n.limits, higher)
		case raft.InitialGiven:
			if before.Uninitialized && len(n.given.Members) == 0 {
				n.given = e.Initial
			}
		}
	}
}

// bounds returns the lowest and the highest limits that were in force in the last step.
func (n *node) bounds() (lowest, highest raft.Limits) {
	if !n.retuned {
		return n.limits, n.limits
	}
	return n.lowest, n.highest
}

func lower(a, b int) int  { return min(a, b) }
func higher(a, b int) int { return max(a, b) }

// eachLimit combines two values of each limit.
func eachLimit(a, b raft.Limits, of func(a, b int) int) raft.Limits {
	return raft.Limits{
		CommandBytesMax: of(a.CommandBytesMax, b.CommandBytesMax), ProposalsMax: of(a.ProposalsMax, b.ProposalsMax),
		ProposalBytesMax: of(a.ProposalBytesMax, b.ProposalBytesMax), UnappliedMax: of(a.UnappliedMax, b.UnappliedMax),
		AppendBytesMax: of(a.AppendBytesMax, b.AppendBytesMax), InflightMax: of(a.InflightMax, b.InflightMax),
		InflightBytesMax: of(a.InflightBytesMax, b.InflightBytesMax), SnapshotEntries: of(a.SnapshotEntries, b.SnapshotEntries),
		SnapshotLogBytes: of(a.SnapshotLogBytes, b.SnapshotLogBytes), SnapshotTailBytes: of(a.SnapshotTailBytes, b.SnapshotTailBytes),
		SnapshotHoldBytes: of(a.SnapshotHoldBytes, b.SnapshotHoldBytes),
	}
}

// withhold decides whether a process starts without its list of initial members, which it is given later.
func (n *node) withhold() {
	chance := n.c.profile.Node.LateLists
	if n.awaited = (raft.Configuration{}); chance == 0 {
		return
	}
	if n.lists == nil {
		n.lists = sim.NewStream(n.c.seed.Number, sim.HandshakeConcern<<16+sim.Concern(n.index))
	}
	wait := n.lists.Exponential(2 * n.c.profile.ElectionTimeout)
	if late := n.lists.Chance(chance); late && len(n.given.Members) > 0 && n.c.phase == safetyPhase {
		n.awaited, n.given = n.given, raft.Configuration{}
		n.later(wait, event{kind: evGiven})
	}
}

// giveList gives the process the list that it was started without.
func (n *node) giveList() {
	if len(n.awaited.Members) == 0 || n.core == nil {
		return
	}
	n.c.stats.Given++
	n.c.faulted("%s is given its list", n.name())
	n.post(raft.InitialGiven{Initial: n.awaited})
	n.awaited = raft.Configuration{}
}
