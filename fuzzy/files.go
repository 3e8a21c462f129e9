package fuzzy

import (
	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// drawFiles draws what may happen to snapshots. Its stream is its own, as that of drawRare.
func drawFiles(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<16)
	old := s.IntN(p.Voters + p.Learners + 1)
	if s.IntN(8) == 0 && p.Snapshots.On && !p.Node.Durable {
		p.Snapshots.Old = old
	}
}

// protocol returns the version that the member speaks. The last members may be of a release that knows no snapshots.
func (n *node) protocol() uint16 {
	if n.upgraded || n.index < n.c.profile.Voters+n.c.profile.Learners-n.c.profile.Snapshots.Old {
		return 2
	}
	return 1
}

// ofSnapshot reports whether only protocol 2 has the message.
func ofSnapshot(b raft.Body) bool {
	_, offer := b.(raft.InstallSnapshot)
	return offer || isStream(b)
}
