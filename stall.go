package raft

// onStalledDisk keeps a leader from leading on with a disk that stands still. Heartbeats need no disk, so
// nobody else would campaign; its followers would commit, and its clients wait for ever.
//
//	"A leader whose write has been pending for DiskStallMax while a quorum without it persisted beyond
//	its own mark hands over; if all stall, it stays and refuses proposals." (docs/divergence.md)
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
	l.transfer = &transfer{stall: true, to: to, deadline: c.now.Mono + c.electionTimeout()}
}

// diskStalled reports whether a write has been pending for DiskStallMax. A leader refuses proposals then.
func (c *Core) diskStalled() bool {
	return len(c.disk.pending) > 0 && c.now.Mono >= c.stallsAt()
}

// stallsAt is when the oldest pending write, of which there is one, will have been pending for too long.
func (c *Core) stallsAt() Time { return c.disk.pending[0].issued + Time(c.cfg.DiskStallMax) }

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
