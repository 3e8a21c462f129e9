package raft

import "slices"

// onStalledDisk makes a leader with a stalled disk transfer its leadership. Heartbeats do not need the disk, so no other
// member would campaign. The followers would commit, but the leader could not apply, and its clients would wait forever.
//
//	"A leader whose disk has ended no write for DiskStallMax while one was waiting transfers its leadership if a
//	quorum without it may be ahead: the members that it hears and that have persisted more, at least one, those
//	that it does not hear, unless they have lost what they acknowledged, and those that need a snapshot. If the
//	disks of all members that it hears are stalled, it stays leader and refuses proposals. A disk that is slow,
//	but finishes its writes, has not stalled." (docs/divergence.md)
//
// If the disk holds the whole log, no other member can be ahead of it. If such a disk stalls, the leader appends a no-op. If
// the others persist the no-op, they can continue without this disk. The limits on proposals do not apply to a no-op. After
// that, the leader does not step down until the others have had an election timeout to persist the no-op.
//
// Suppose that such a quorum needs both a member that the leader does not hear and a member that needs a snapshot, and that
// no member that it hears is ahead. Then the leader steps down. Only the unheard member can be elected, and only that member
// can send the other one a snapshot.
//
// The target has persisted entries that this disk has not persisted, so slow disks cause at most one successful transfer per
// entry. If the target does not win, the transfer ends at its deadline, and the next step begins another one.
func (c *Core) onStalledDisk() {
	l := c.leader
	stalled := c.diskStalled()
	if stalled && !l.stalled {
		c.trace(TraceEvent{Kind: TraceDiskStalled, Index: c.disk.persisted})
	}
	l.stalled = stalled
	if !stalled || l.transfer != nil || c.step.closing {
		return
	}
	if c.diskHoldsLog() {
		if slices.ContainsFunc(l.peers, func(p progress) bool { return p.votes != 0 }) {
			c.appendOwn(Entry{Kind: EntryNoop})
			l.staysUntil = c.now.Mono + c.electionTimeout()
		}
		return
	}
	if !c.mayBeOutrun() {
		return
	}
	p := c.ownTarget(func(p *progress) bool { return p.match > c.disk.persisted })
	if p == nil { // no disk that is heard is known to work
		if c.now.Mono >= l.staysUntil && slices.ContainsFunc(l.peers, func(p progress) bool { return p.votes != 0 && c.unheard(&p) }) {
			c.stepDown() // an unheard voter may be elected, and bring a snapshot to a member that needs one
		}
		return
	}
	c.trace(TraceEvent{Kind: TraceTransfer, Peer: p.peer.ID})
	c.beginTransfer(&transfer{own: true, to: p.peer})
}

// onHangingFSM makes a leader whose FSM hangs transfer its leadership. Otherwise it would continue to commit, but none of its
// clients would get an answer.
//
//	"A leader whose FSM has been applying one batch for ApplyStallMax transfers its leadership to a voter that it hears,
//	that nothing hinders, that holds the whole log and has applied this batch. Without one it steps down, at most once
//	in 64 election timeouts, if there is a voter that it does not hear; otherwise it stays leader and refuses
//	proposals." (docs/divergence.md)
//
// The target has already applied the entry at which this FSM hangs. So an entry at which the FSMs of all members hang causes
// no transfer. Any other entry causes at most one successful transfer for each member.
//
// If no voter that the leader hears is fit, it steps down in favour of a voter that it does not hear. Perhaps only the link
// between the two is cut, and the voters that hear this leader deny that voter their votes. If this leader is elected again,
// it steps down again 64 election timeouts later, because that voter may have been down before.
//
// A target that holds the whole log gets its TimeoutNow at once, because the log does not grow meanwhile. If the target does
// not win, the leader pauses before the next attempt. During the pause, it handles requests and changes of the members.
func (c *Core) onHangingFSM() {
	l, b := c.leader, &c.log.batch
	if l == nil { // the disk has made it step down
		return
	}
	hangs := c.fsmHangs()
	if hangs && !l.fsmHung {
		c.trace(TraceEvent{Kind: TraceFSMHangs, Index: b.last})
	}
	l.fsmHung = hangs
	if !hangs || l.transfer != nil || c.step.closing || l.votes == 0 || c.now.Mono < l.hangRetryAt {
		return
	}
	fit := func(p *progress) bool { return p.applied >= b.last && p.hindered == 0 && p.match == c.log.Last.Index }
	if p := c.ownTarget(fit); p != nil {
		c.trace(TraceEvent{Kind: TraceTransfer, Peer: p.peer.ID})
		c.beginTransfer(&transfer{own: true, to: p.peer})
		l.hangRetryAt = c.now.Mono + 2*c.outcomeTime(l, p.peer)
		return
	}
	unheard := slices.ContainsFunc(l.peers, func(p progress) bool { return p.votes != 0 && c.unheard(&p) })
	if unheard && c.now.Mono >= max(b.yieldsAt, b.hangsAt(Time(c.cfg.ApplyStallMax))+hangPatience*c.electionTimeout()) {
		b.yieldsAt = c.now.Mono + c.electionTimeout()<<doublingsMax
		c.stepDown()
	}
}

// hangPatience is the number of election timeouts for which a leader whose FSM hangs waits for a fit voter among those that
// it hears. After that, it steps down in favour of a voter that it does not hear.
const hangPatience = 4

// ownTarget returns the fit voter with the longest log, or nil if there is none. It is for a leader that transfers its
// leadership because it cannot do its work. It prefers voters with a priority that nothing hinders, but a standby may lead if
// no other voter is fit. The same holds for a leaving voter, while the voters change.
func (c *Core) ownTarget(fit func(*progress) bool) *progress {
	if p := c.targetAmong(IncomingHalf, func(p *progress) bool { return fit(p) && c.effectivePriority(p) > 0 }); p != nil {
		return p
	}
	if p := c.targetAmong(IncomingHalf, fit); p != nil {
		return p
	}
	return c.targetAmong(IncomingHalf|OutgoingHalf, fit)
}

// diskStalled reports whether the oldest pending write has taken too long. A leader with a stalled disk
// refuses proposals.
func (c *Core) diskStalled() bool {
	return !c.disk.idle() && c.now.Mono >= c.stallsAt()
}

// diskHoldsLog reports whether the whole log is durable here. If the disk stalls in that state, it is writing the record of a
// snapshot or the hard state (tryDisk).
func (c *Core) diskHoldsLog() bool { return c.disk.persisted == c.log.Last.Index }

// tryDisk makes a leader write its hard state again if some entries are not committed or not applied and its disk has been
// idle for DiskStallMax. Those entries may be waiting for that disk. For example, a follower may need a snapshot that cannot
// be read from it, or the FSM may hang because of it. New proposals would show that the disk hangs, but they may be over a
// limit.
func (c *Core) tryDisk() {
	if c.disk.idle() && c.step.out.Write.Log == nil && c.now.Mono >= c.triesDiskAt() {
		c.leader.triesDisk = true
	}
}

// triesDiskAt returns the time at which the leader tries its disk, unless the disk gets other work before.
func (c *Core) triesDiskAt() Time {
	if c.log.applied >= c.log.Last.Index {
		return c.now.Mono + idleMax
	}
	return c.disk.endedAt + Time(c.cfg.DiskStallMax)
}

// stallsAt returns the time from which the oldest pending write counts as too slow. That is after DiskStallMax or, if that is
// longer, after three times the duration of the slowest recent write, up to 64 election timeouts. There must be a pending
// write.
func (c *Core) stallsAt() Time {
	slow := min(3*c.disk.took.max(), c.electionTimeout()<<doublingsMax)
	return c.disk.busySince() + max(Time(c.cfg.DiskStallMax), slow)
}

// mayBeOutrun reports whether a quorum of the other voters may have persisted more of the log than this leader, or may do so
// under another leader. A silent voter may be ahead. Perhaps only its link to this leader is cut, and the other voters deny
// it pre-votes as long as they hear this leader. A voter that needs a snapshot may get ahead, too, because the stalled disk
// may be unable to read the snapshot. A stale member does not count.
func (c *Core) mayBeOutrun() bool {
	ahead := func(p *progress) Index {
		if p.state == snapshot || c.unheard(p) {
			return c.log.Last.Index
		}
		return p.match
	}
	return quorumValue(c.leader, &c.leader.indexes, 0, ahead) > c.disk.persisted
}

// unheard reports whether a member is silent but may still work.
func (c *Core) unheard(p *progress) bool { return p.state != stale && c.silent(p) }
