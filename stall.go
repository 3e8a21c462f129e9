package raft

// onStalledDisk keeps a leader from leading on with a disk that stands still. Heartbeats need no disk, so
// nobody else would campaign; its followers would commit, and its clients wait for ever.
//
//	"A leader whose disk has ended no write for DiskStallMax while one was waiting, and whose quorum
//	without it persisted beyond its own mark, hands over; if all stall, it stays and refuses
//	proposals. A disk that is slow, but ends its writes, has not stalled." (docs/divergence.md)
//
// A quorum ahead has committed what this disk has not written, so hand-overs among slow disks are at most
// as many as commits. One that does not win ends with its deadline, and the next step begins another.
func (c *Core) onStalledDisk() {
	l := c.leader
	stalled := c.diskStalled()
	if stalled && !l.stalled {
		c.note(Note{Kind: NoteDiskStalled, Index: c.disk.persisted})
	}
	l.stalled = stalled
	if !stalled || l.transfer != nil || c.step.closing || !c.outrun() {
		return
	}
	to := c.transferTarget("").peer.ID // the one that is furthest ahead
	c.note(Note{Kind: NoteTransfer, Peer: to})
	c.beginTransfer(&transfer{stall: true, to: to})
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

// outrun reports whether a quorum of the voters, without this one, holds durably more of the log than it
// does. Only who was heard lately counts: the others would not vote either.
func (c *Core) outrun() bool {
	ahead := c.leader.voterValues(0, func(p *progress) Index {
		if !c.heardLately(p) {
			return 0
		}
		return p.match
	})
	return quorumValue(ahead) > c.disk.persisted
}
