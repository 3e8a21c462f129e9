package raft

// onStalledDisk keeps a leader from leading on with a disk that stands still. Heartbeats need no disk, so
// nobody else would campaign; its followers would commit, and its clients wait for ever.
//
//	"A leader whose disk has ended no write for DiskStallMax while one was waiting transfers its leadership if a
//	quorum without it may be ahead: who is heard and has persisted beyond its mark, and who is not
//	heard, unless it has lost what it acknowledged. If all who are heard stall, it stays and refuses
//	proposals. A disk that is slow, but ends its writes, has not stalled." (docs/divergence.md)
//
// Whoever it transfers its leadership to has persisted what this disk has not, so transfers among slow disks are at most
// as many as entries. One that does not win ends with its deadline, and the next step begins another.
func (c *Core) onStalledDisk() {
	l := c.leader
	stalled := c.diskStalled()
	if stalled && !l.stalled {
		c.trace(TraceEvent{Kind: TraceDiskStalled, Index: c.disk.persisted})
	}
	l.stalled = stalled
	if !stalled || l.transfer != nil || c.step.closing || !c.mayBeOutrun() {
		return
	}
	p := c.transferTarget("") // the one that is furthest ahead
	assert(p != nil, "a leader that hears a quorum has somebody to transfer leadership to")
	assert(p.match > c.disk.persisted, "a stalled leader transfers its leadership to one that is ahead")
	c.trace(TraceEvent{Kind: TraceTransfer, Peer: p.peer.ID})
	c.beginTransfer(&transfer{stall: true, to: p.peer.ID})
}

// diskStalled reports whether the disk has been at one write for too long. A leader refuses proposals then.
func (c *Core) diskStalled() bool {
	return len(c.disk.pending) > 0 && c.now.Mono >= c.stallsAt()
}

// stallsAt is when the disk will have been at the oldest pending write, of which there is one, for too
// long: for DiskStallMax, or for three times what its slowest recent write took, if that is longer. A
// stall that ended does not lengthen the next one beyond 64 election timeouts.
func (c *Core) stallsAt() Time {
	slow := min(3*c.disk.took.max(), c.electionTimeout()<<doublingsMax)
	return c.disk.busySince() + max(Time(c.cfg.DiskStallMax), slow)
}

// mayBeOutrun reports whether a quorum of the voters, without this one, may hold durably more of the log
// than it does. A voter that has not been heard for a while may: its link to this leader may be cut, and not
// those to the others, who deny it pre-votes for as long as they hear this leader. A leader that hears a
// quorum misses too few to be a quorum without one that is heard and ahead. Who has lost what it acknowledged
// holds nothing that counts, and ends.
func (c *Core) mayBeOutrun() bool {
	ahead := c.leader.voterValues(0, func(p *progress) Index {
		if p.state != stale && c.silent(p) {
			return c.log.Last.Index
		}
		return p.match
	})
	return quorumValue(ahead) > c.disk.persisted
}
