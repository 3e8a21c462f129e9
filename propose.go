package raft

// pendingProposal is a proposal that was accepted and is not being applied yet.
type pendingProposal struct {
	requestID RequestID
	id        EntryID
	bytes     int
}

// propose appends proposals to the leader's log:
//
//	"If command received from client: append entry to local log, respond after entry applied to
//	state machine (§5.3)." (Figure 2, Leaders)
func (c *Core) propose(proposals []Proposal) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil {
		for _, p := range proposals {
			c.refuseRequest(p.RequestID)
		}
		return
	}
	l := c.leader
	entries, now, largest := make([]Entry, 0, len(proposals)), c.stampNow(), c.largestCommand()
	c.growAnswers(len(proposals))
	for _, p := range proposals {
		assert(p.Kind == EntryCommand || p.Kind == EntryNoop, "only commands and no-ops are proposed")
		if len(p.Data) > largest.Limit {
			why := &TooLargeError{Bytes: len(p.Data), Limit: largest.Limit, Member: largest.Member}
			c.answer(Answer{RequestID: p.RequestID, Kind: AnswerRefused, Refusal: RefusedTooLarge, Err: why})
			continue
		}
		if refusal := c.overLimit(len(entries)); refusal != 0 {
			c.answer(Answer{RequestID: p.RequestID, Kind: AnswerRefused, Refusal: refusal})
			continue
		}
		e := c.placed(Entry{Kind: p.Kind, Time: now, Data: p.Data, record: p.record}, len(entries))
		entries = append(entries, e)
		l.pending = append(l.pending, pendingProposal{p.RequestID, e.ID(), len(p.Data)})
		l.bytes += len(p.Data)
		c.answer(Answer{RequestID: p.RequestID, Kind: AnswerAccepted, ID: e.ID()})
	}
	if len(entries) > 0 {
		c.appendEntries(entries)
	}
}

// largestCommand returns the limit of a command, and whose limit it is: that of this member, or of one of the
// configuration that is known to take no larger append. A larger entry would keep that member from all later ones.
func (c *Core) largestCommand() TooLargeError {
	limit := TooLargeError{Limit: c.cfg.CommandBytesMax}
	for _, m := range c.snaps.spoken {
		if most := max(m.appendBytesMax-RecordOverheadBytes, 0); m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer) {
			limit = TooLargeError{Limit: most, Member: m.peer.ID}
		}
	}
	return limit
}

// overLimit returns why a proposal must be refused now, 0 if it need not be. ahead is the number of proposals of this step
// that come before it.
func (c *Core) overLimit(ahead int) RefusalKind {
	l := c.leader
	switch {
	case c.diskStalled():
		return RefusedStalled
	case c.fsmHangs():
		return RefusedFSMHangs
	case len(l.pending) >= c.cfg.ProposalsMax,
		l.bytes >= c.cfg.ProposalBytesMax, // whatever its size, so that small proposals do not starve large ones
		c.log.Last.Index+Index(ahead)-max(c.log.applied, c.log.Base.ID.Index) >= Index(c.cfg.UnappliedMax):
		return RefusedOverloaded
	}
	return 0
}

// appendOwn appends one entry that no client has proposed.
func (c *Core) appendOwn(e Entry) {
	e.Time = c.stampNow()
	c.appendEntries([]Entry{c.placed(e, 0)})
}

// placed returns the entry with its index, ahead entries beyond the log's end, and the present term.
func (c *Core) placed(e Entry, ahead int) Entry {
	e.Index, e.Term = c.log.Last.Index+1+Index(ahead), c.hard.Term
	return e
}

// dropApplying drops the pending proposals up to i, which the applier will answer.
func (l *leader) dropApplying(i Index) {
	n := 0
	for n < len(l.pending) && l.pending[n].id.Index <= i {
		l.bytes -= l.pending[n].bytes
		n++
	}
	l.pending = append(l.pending[:0], l.pending[n:]...)
}
