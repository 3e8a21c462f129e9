package raft

import "slices"

// majority returns how many of n voters are a quorum: any two of them share a member (§5.2). Whatever needs a quorum
// asks hasQuorum (elections) or quorumValue (leaders): nothing else counts voters.
func majority(n int) int { return n/2 + 1 }

// hasQuorum reports whether the peers are a quorum of the configuration in force.
func (c *Core) hasQuorum(peers []Peer) bool {
	return c.config().hasQuorum(func(p Peer) bool { return slices.Contains(peers, p) })
}

// hasQuorum reports whether the peers for which in returns true, as the incarnations that the configuration names, are
// a quorum of it:
//
//	"Agreement (for elections and entry commitment) requires separate majorities from both the old and new
//	configurations." (§6)
func (c Configuration) hasQuorum(in func(Peer) bool) bool {
	voters, granted := 0, 0
	for _, m := range c.Members {
		if m.Kind != Voter {
			continue
		}
		voters++
		if in(m.Peer()) {
			granted++
		}
	}
	agreed := 0
	for _, p := range c.Outgoing {
		if in(p) {
			agreed++
		}
	}
	return granted >= majority(voters) && (!c.Joint() || agreed >= majority(len(c.Outgoing)))
}

// quorumValue returns the largest value that a quorum has reached: own is the leader's value, and of returns a peer's.
// values is memory that it reuses. The leader counts itself only in the halves in which it votes. While it removes
// itself from the cluster, there is none at the end:
//
//	"it replicates log entries but does not count itself in majorities." (§6)
func quorumValue[T Index | Time](l *leader, values *[]T, own T, of func(*progress) T) T {
	value, voters := halfValue(l, IncomingHalf, values, own, of)
	assert(voters > 0, "every configuration has a voter in its incoming half")
	if outgoing, voters := halfValue(l, OutgoingHalf, values, own, of); voters > 0 {
		value = min(value, outgoing)
	}
	return value
}

// halfValue returns the largest value that a majority of one half has reached, and how many voters that half has.
func halfValue[T Index | Time](l *leader, half Halves, values *[]T, own T, of func(*progress) T) (value T, voters int) {
	reached := (*values)[:0]
	if l.votes&half != 0 {
		reached = append(reached, own)
	}
	for i := range l.peers {
		if p := &l.peers[i]; p.votes&half != 0 {
			reached = append(reached, of(p))
		}
	}
	*values = reached
	if len(reached) == 0 {
		return 0, 0
	}
	slices.Sort(reached)
	return reached[len(reached)-majority(len(reached))], len(reached)
}
