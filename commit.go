package raft

// advanceCommit is the commit rule:
//
//	"If there exists an N such that N > commitIndex, a majority of matchIndex[i] ≥ N, and
//	log[N].term == currentTerm: set commitIndex = N (§5.3, §5.4)." (Figure 2)
//
// It counts only entries of the present term. An entry of an earlier term, though on a majority, can still be
// overwritten by a leader whose last entry is of a later term (Figure 8). It is committed together with the first
// entry of the present term behind it.
//
// The leader counts itself only up to what is durable here.
func (c *Core) advanceCommit() {
	n := quorumValue(c.leader, &c.leader.indexes, c.disk.persisted, func(p *progress) Index { return p.match })
	if n > c.log.commit && c.log.term(n) == c.hard.Term {
		c.commitTo(n)
	}
}

// committedOwn reports whether an entry of the present term is committed. Only then does its leader know what
// is committed (dissertation §6.4).
func (c *Core) committedOwn() bool { return c.log.term(c.log.commit) == c.hard.Term }

// commitTo raises commitIndex. It never falls.
func (c *Core) commitTo(i Index) {
	c.log.told = max(c.log.told, min(i, c.log.Last.Index))
	if i <= c.log.commit {
		return
	}
	assert(i <= c.log.Last.Index, "only entries in the log are committed")
	if newest := c.log.configAt(i); newest.Index > c.log.commit {
		c.configCommitted(newest)
	}
	c.log.commit = i
	c.endCampaign()
	if c.follower.attempts.any() && c.committedOwn() {
		c.calm()
	}
}
