package fuzzy

import (
	"slices"
	"time"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// drawPriorities makes admins change priorities in some runs, and lets some members run a release without priorities. It uses
// its own stream, so that the other runs do not change.
func drawPriorities(seed Seed, p *Profile) {
	s, m := sim.NewStream(seed.Number, sim.MembersConcern<<16), &p.Members
	rare, chance, some, earlier := s.IntN(4) == 0, s.LogUniform(100_000, 700_000), s.IntN(2) == 0, 1+s.IntN(p.Voters)
	switch p.Name {
	case "members", "swarm":
		if rare && m.on() {
			m.Priorities = chance
		}
	}
	if some && m.Priorities > 0 {
		m.Earlier = earlier
	}
}

// drawnPriority returns a priority. It often is that of a standby, and rarely out of range.
func drawnPriority(s *sim.Stream) raft.Priority {
	if s.IntN(32) == 0 {
		return sim.Pick(s, raft.PriorityMax+1, raft.PriorityNever-1)
	}
	return sim.Pick(s, raft.PriorityNever, raft.PriorityNever, 0, 1, 2, raft.Priority(1+s.IntN(int(raft.PriorityMax))))
}

// prefer adds priorities to a change, or replaces the change by one of priorities alone.
func (a *admins) prefer(shown *node, ch *raft.Change) {
	s, m := a.preferring, &a.c.profile.Members
	if !s.Chance(m.Priorities) || ch.Cancel {
		return
	}
	for i := range ch.Add {
		ch.Add[i].Priority = drawnPriority(s)
	}
	for i := range ch.Replace {
		ch.Replace[i].New.Priority = drawnPriority(s) // nobody reads it
	}
	members := shown.status.Config.Members
	switch s.IntN(8) {
	case 0, 1, 2, 3:
		*ch = raft.Change{}
	case 4: // nobody may lead until a new voter has caught up
		ch.Update = standbys(members)
		return
	}
	for range 1 + s.IntN(2) {
		u := raft.Update{Peer: raft.Peer{ID: members[s.IntN(len(members))].ID}}
		if !slices.ContainsFunc(ch.Update, func(o raft.Update) bool { return o.Peer.ID == u.Peer.ID }) {
			p := drawnPriority(s)
			u.Priority = &p
			ch.Update = append(ch.Update, u)
		}
	}
}

// standbys makes all voters standbys.
func standbys(members []raft.Member) (all []raft.Update) {
	never := raft.PriorityNever
	for _, m := range members {
		if m.Kind == raft.Voter {
			all = append(all, raft.Update{Peer: m.Peer(), Priority: &never})
		}
	}
	return all
}

// preferInitially gives initial voters priorities in some runs. One of them may lead.
func preferInitially(seed Seed, p *Profile, members []raft.Member) {
	s := sim.NewStream(seed.Number, sim.MembersConcern<<24)
	if m := &p.Members; m.Priorities == 0 || m.Earlier > 0 || p.Snapshots.Old > 0 || m.Gone > 0 || s.Coin() {
		return
	}
	leads, alone := s.IntN(p.Voters), s.IntN(4) == 0 && p.Name == "preference"
	for i := range members[:p.Voters] {
		drawn := drawnPriority(s)
		if alone {
			drawn = raft.PriorityNever
		}
		if inRange(drawn) && i != leads {
			members[i].Priority = drawn
		}
	}
}

// crashFavorite crashes the voter with the highest priority.
func (m *nemesis) crashFavorite(c *cluster) {
	length := 1 + m.random.Exponential(m.rate.For)
	if n := c.favorite(); n != nil && n.core != nil {
		c.faulted("%s, the favorite, crashes for %v", n.name(), time.Duration(length).Round(time.Millisecond))
		n.crash()
		n.restartIn(length)
	}
}

// favorite returns the voter with the highest priority.
func (c *cluster) favorite() (first *node) {
	most, newest := -1, c.newestCommitted()
	if newest == nil {
		return nil
	}
	for _, m := range newest.Members {
		if n := c.at(m.Peer()); m.Kind == raft.Voter && n != nil && m.Priority.Number() > most {
			first, most = n, m.Priority.Number()
		}
	}
	return first
}

// drawFavorites gives the members of some runs of the profile preference priorities, which change. Some of these runs are so
// long that members take over. It uses its own stream.
func drawFavorites(seed Seed, p *Profile) {
	s, timeout := sim.NewStream(seed.Number, sim.Profile<<36), p.ElectionTimeout
	if p.Name != "preference" || s.IntN(3) == 0 {
		return
	}
	p.Members = Members{Spares: s.IntN(2), Admins: 1, Think: s.LogTime(timeout*10, 100*timeout), Patience: s.LogTime(2*timeout, 20*timeout), Priorities: sim.Million}
	p.Faults = append(p.Faults, FaultRate{Favorite, s.LogTime(10*timeout, 100*timeout), s.LogTime(timeout/10, 10*timeout)})
	if s.IntN(3) > 0 {
		return
	}
	p.Length = s.LogTime(sim.In(30*time.Second), sim.In(90*time.Second))
	p.Load.Clients, p.Load.Burst, p.Load.Think = min(p.Load.Clients, 2), 1, max(p.Load.Think, sim.In(100*time.Millisecond))
	p.Load.History, p.Members.Think = false, s.LogTime(100*timeout, 400*timeout)
	for i := range p.Faults {
		p.Faults[i].Every = max(p.Faults[i].Every*10, sim.In(10*time.Second))
	}
}
