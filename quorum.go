package raft

import "slices"

// majority returns how many of n voters are a quorum: any two of them share a member (§5.2). Whatever needs a quorum
// asks hasQuorum (elections) or quorumValue (leaders): nothing else counts voters.
func majority(n int) int { return n/2 + 1 }

// hasQuorum reports whether a majority of the voters, as the incarnations that the configuration
// names, is among the peers.
func (c *Core) hasQuorum(peers []Peer) bool {
	voters, granted := 0, 0
	for _, m := range c.config().Members {
		if m.Kind != Voter {
			continue
		}
		voters++
		if slices.Contains(peers, m.Peer()) {
			granted++
		}
	}
	return granted >= majority(voters)
}

// quorumValue returns the largest value that a majority of the voters has reached: own is the leader's value, and of
// returns a peer's. values is memory that it reuses.
func quorumValue[T Index | Time](l *leader, values *[]T, own T, of func(*progress) T) T {
	reached := append((*values)[:0], own)
	for i := range l.peers {
		if p := &l.peers[i]; p.voter {
			reached = append(reached, of(p))
		}
	}
	*values = reached
	slices.Sort(reached)
	return reached[len(reached)-majority(len(reached))]
}
