package raft

import "slices"

// majority returns how many of n voters are a quorum: any two of them share a member (§5.2).
func majority(n int) int { return n/2 + 1 }

// quorumValue returns the largest value that a majority of the voters has reached; each voter has
// one value, and values is reordered. Without voters nobody has reached anything.
func quorumValue[T Index | Time](values []T) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)-majority(len(values))]
}

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
