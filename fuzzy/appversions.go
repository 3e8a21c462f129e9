package fuzzy

import (
	"errors"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// Versions of the application: members start with newer programs, and sometimes go back to an earlier one.

// drawVersions gives the programs of some runs versions. It uses its own stream.
func drawVersions(seed Seed, p *Profile) {
	s := sim.NewStream(seed.Number, sim.Profile<<20)
	some, chance := s.IntN(4) == 0, s.LogUniform(300_000, 900_000)
	switch p.Name {
	case "members", "swarm", "snapshots", "durable":
		if some {
			p.Node.Versions = chance
		}
	}
}

// upgrade draws the version of the program with which a process starts. An earlier release of the library announces none.
func (n *node) upgrade() {
	chance := n.c.profile.Node.Versions
	switch {
	case chance == 0 || n.protocol() < raft.ProtocolAppVersions:
		n.version = 0
	case n.version == 0:
		n.version = 1
	case n.c.phase == safetyPhase && n.versions.Chance(chance):
		n.version = sim.Pick(n.versions, n.version+1, n.version+1, n.version+2, max(2, n.version)-1, 1)
	}
}

// isOutdated checks the start of a process. If its program is too old, it reports so, and a newer program starts later.
func (k *checker) isOutdated(n *node, err error) bool {
	needs := uint64(0)
	if l := configured(n.disk.log); l != nil {
		needs = l.AppVersionMin
	}
	var outdated *raft.AppVersionError
	if refused := errors.As(err, &outdated); refused != (needs > n.version) || refused && outdated.Min != needs {
		k.broken("N100", "%s starts version %d of its program, and its log needs %d: %v", n, n.version, needs, err)
	}
	if outdated != nil {
		n.replaceProgram(needs)
	}
	return outdated != nil
}

// replaceProgram starts a program of at least the version later.
func (n *node) replaceProgram(version uint64) {
	n.c.faulted("the program of %s, version %d, is replaced by version %d", n.name(), n.version, version)
	n.c.stats.Outdated++
	n.version = version
	n.restartIn(n.versions.Exponential(n.c.profile.ElectionTimeout))
}

// endIfOutdated ends a process whose program is too old.
func (n *node) endIfOutdated() {
	if n.core == nil {
		return
	}
	if outdated := n.core.Outdated(); outdated != nil {
		n.crash()
		n.replaceProgram(outdated.Min)
	}
}
