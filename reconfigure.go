package raft

import (
	"fmt"
	"slices"
)

// This file is a leader's part of a change of the members. The configuration in force says what is left to do, so any leader
// can finish a change that another leader has begun. A leader itself only knows which callers wait for an answer, and how far
// the joining members have caught up.

// changing is what a leader knows about a change besides the configuration in force.
type changing struct {
	asked    *ChangeRequested // to decide at the end of this step or, in a new term, after its first commit; nil: none
	accepted []acceptedChange // to answer once the change has ended
	despite  []NodeID         // voters that may be silent, because the caller has named them
	since    Time             // when the configuration in force came into force here
	// readyAt is the time at which all members had caught up but the leader heard too few of the new voters. It is 0 if they
	// had not all caught up, or if the leader has heard enough since.
	readyAt Time
	// unfinished reports that the configuration in force is not the last step. Either another configuration must follow, or
	// this leader has no vote in it and must step down.
	unfinished   bool
	raised       Index // the configuration in which this leader last raised AppVersionMin; 0: none
	transferring bool  // this leader has lost its vote, and has begun to transfer its leadership
}

// acceptedChange is a request for a change whose first entry has been appended.
type acceptedChange struct {
	requestID RequestID
	first     EntryID
	gaveUp    RefusalKind // why the change was given up; 0: it was not
	err       error       // the same, for the caller
}

// begins handles a configuration that has come into force on this leader, in which it votes in these halves.
func (ch *changing) begins(config Configuration, votes Halves, now Time) {
	ch.since, ch.readyAt = now, 0
	ch.unfinished = config.Joint() || config.Changing() || votes == 0
}

// requestChange keeps a request until this leader may decide it.
func (c *Core) requestChange(e ChangeRequested) {
	switch l := c.leader; {
	case l == nil || c.step.closing || l.transfer != nil || c.isOtherTerm(e.Term):
		c.refuseRequest(e.RequestID)
	case l.change.asked != nil:
		c.refuseChange(&e, refusal{kind: RefusedChanging})
	default:
		l.change.asked = &e
	}
}

// advanceMembers does what is due about the members. It does nothing before this leader has committed an entry of its own
// term. An earlier leader may have appended configurations, and this leader does not know yet whether they are committed. If
// this leader appended another configuration now, a majority of it and a majority of an earlier one might not share a member.
func (c *Core) advanceMembers() {
	ch := &c.leader.change
	mayRaise := c.cfg.AppVersion > c.log.config().Config.AppVersionMin
	if !ch.unfinished && ch.asked == nil && len(ch.accepted) == 0 && !mayRaise || !c.committedOwn() {
		return
	}
	c.answerChange()
	if c.leaveOffice() {
		return
	}
	c.decideChange()
	if c.mayChange() {
		c.nextConfig()
	}
}

// mayChange reports whether the leader may append a configuration now. The configuration in force must be committed, so that
// at most one is uncommitted. No transfer may be running, because its target must get the whole log. The disk of this leader
// must not block.
func (c *Core) mayChange() bool {
	return c.log.config().Index <= c.log.commit && c.leader.transfer == nil && !c.step.closing && !c.diskBlocks()
}

// diskBlocks reports whether the disk has stalled and lacks a part of the log. In that case another member should lead.
func (c *Core) diskBlocks() bool { return c.diskStalled() && !c.diskHoldsLog() }

// nextConfig appends the configuration that follows the one in force, if that is not the last step of its change:
//
//	"Once C_old,new has been committed, neither C_old nor C_new can make decisions without approval of the other, and the
//	Leader Completeness Property ensures that only servers with the C_old,new log entry can be elected as leader. It is now
//	safe for the leader to create a log entry describing C_new and replicate it to the cluster." (§6)
func (c *Core) nextConfig() {
	switch config := c.log.config().Config; {
	case config.Joint():
		c.appendConfig(config.leave(c.log.Last.Index + 1))
	case config.Changing():
		c.advanceChange(config)
	case c.cfg.AppVersion > config.AppVersionMin:
		c.raiseAppVersion(config)
	}
}

// appendConfig appends a configuration, which is in force from then on. If it has fewer voters, more entries may be committed
// at once.
func (c *Core) appendConfig(next Configuration) EntryID {
	c.appendOwn(Entry{Kind: EntryConfiguration, Data: next.Encode()})
	c.advanceCommit()
	return c.log.Last
}

// decideChange accepts or refuses the request that waits.
func (c *Core) decideChange() {
	ch, run := &c.leader.change, c.log.config()
	e := ch.asked
	if e == nil || e.Change.Cancel && run.Config.Changing() && run.Index > c.log.commit {
		return // what is to be canceled must be committed first
	}
	if run.Index == ch.raised && run.Index > c.log.commit {
		return // nobody has asked for that configuration, so nobody is refused because of it
	}
	next, why := c.judgeChange(e, run)
	if why.kind == RefusedQuorumLoss && c.now.Mono-c.leader.since < c.electionTimeout() {
		return // the members may not have had time to answer this leader
	}
	ch.asked = nil
	switch {
	case c.leader.transfer != nil:
		c.refuseRequest(e.RequestID)
	case why.kind != 0:
		c.refuseChange(e, why)
	case next.Equal(run.Config):
		c.answerConfirmed(Answer{RequestID: e.RequestID, Kind: AnswerChanged, ID: EntryID{Index: run.Index}})
	default:
		c.beginChange(e, next)
	}
}

// answerConfirmed gives an answer that says what the configuration is, for example that it is as asked or that it lacks the
// member. If another leader has replaced this one without its knowledge, this leader may have an earlier configuration in
// force. So the answer waits like a read (requestRead).
func (c *Core) answerConfirmed(a Answer) {
	reads := &c.leader.reads
	if reads.changes >= c.cfg.ProposalsMax {
		c.answer(Answer{RequestID: a.RequestID, Kind: AnswerRefused, Refusal: RefusedOverloaded})
		return
	}
	reads.next, reads.changes = append(reads.next, read{requestID: a.RequestID, change: &a}), reads.changes+1
}

// judgeChange returns the configuration with which a change begins. If it refuses the change, it returns the reason.
func (c *Core) judgeChange(e *ChangeRequested, run ConfigRun) (Configuration, refusal) {
	cancels := e.Change.Cancel && run.Config.Changing()
	switch {
	case c.diskBlocks():
		return run.Config, refusal{kind: RefusedStalled}
	case run.Index > c.log.commit, !cancels && (run.Config.Joint() || run.Config.Changing()):
		return run.Config, refusal{kind: RefusedChanging, concerns: run.Config.awaited()}
	case e.IfIndex != 0 && e.IfIndex != run.Index:
		return run.Config, refusal{kind: RefusedConfigIndex}
	}
	at := c.log.Last.Index + 1
	next, why := run.Config.plan(e.Change, at, func(Peer) bool { return true })
	if why.kind != 0 || cancels || next.Equal(run.Config) {
		return next, why
	}
	if why := c.membersOnOlderProtocol(next); why.kind != 0 { // which is also why they may not count as live
		return run.Config, why
	}
	if why := c.promotesOutdated(next); why.kind != 0 {
		return run.Config, why
	}
	if why := c.leaseRefused(e.Change); why.kind != 0 {
		return run.Config, why
	}
	return run.Config.plan(e.Change, at, c.isLive)
}

// membersOnOlderProtocol refuses a configuration if members that stay in it speak a protocol that cannot carry it. Their
// releases could read neither the entry of that configuration nor any entry after it. If the leader knows nothing about a
// member, that member does not count. It may have lost its disk, and the change may be meant to replace it.
func (c *Core) membersOnOlderProtocol(next Configuration) (why refusal) {
	needs := next.Protocol()
	lowest := needs
	for _, m := range next.Members {
		if speaks := c.spokenBy(m.Peer()).protocol; m.Kind != Leaving && m.Next != NextRemoved && speaks < needs {
			lowest = min(lowest, speaks)
			why = refusal{kind: RefusedEarlierRelease, concerns: append(why.concerns, m.ID), protocol: lowest, needs: needs}
		}
	}
	return why
}

// beginChange appends the first configuration of a change. If the request cancels a change, it appends the configuration that
// ends that change.
func (c *Core) beginChange(e *ChangeRequested, next Configuration) {
	ch := &c.leader.change
	if e.Change.Cancel {
		canceled := fmt.Errorf("%w: it was canceled", ErrChangeGivenUp)
		ch.giveUp(RefusedCanceled, canceled)
		c.trace(TraceEvent{Kind: TraceChangeGivenUp, Text: canceled.Error()})
	} else {
		ch.despite = e.Change.Despite
	}
	first := c.appendConfig(next)
	ch.accepted = append(ch.accepted, acceptedChange{requestID: e.RequestID, first: first})
	c.answer(Answer{RequestID: e.RequestID, Kind: AnswerAccepted, ID: first})
}

// takePatiences is the number of times Patience for which a change waits for snapshots that are being taken.
const takePatiences = 10

// advanceChange continues a change that waits for members to catch up. Once all of them have caught up, and the leader hears
// a majority of the new voters, their roles change:
//
//	"Once the new servers have caught up with the rest of the cluster, the reconfiguration can proceed as described
//	above." (§6)
//
// In the step in which a member becomes a voter, it must have caught up and the leader must hear it.
func (c *Core) advanceChange(config Configuration) {
	ch := &c.leader.change
	waits := false
	for _, m := range config.Members {
		p := c.leader.peer(m.Peer())
		if m.Next != NextVoter || p == nil || c.caughtUp(p) {
			continue
		}
		waits = true
		mayTake := c.now.Mono-ch.since < takePatiences*Time(config.Patience)
		if c.waitsForTurn(p) || mayTake && c.waitsForTake(p) {
			p.joins.movedAt = c.now.Mono
		}
		if idle := c.now.Mono - max(p.joins.movedAt, ch.since); idle >= Time(config.Patience) {
			c.giveUpChange(config, RefusedNotCaughtUp, &CatchUpError{m.ID, p.match, c.log.Last.Index, config.Patience})
			return
		}
	}
	if waits && ch.readyAt == 0 {
		return
	}
	at := c.log.Last.Index + 1
	silent := config.missing(at, func(p Peer) bool {
		m, _ := config.Peer(p)
		return c.isLive(p) || slices.Contains(ch.despite, p.ID) || waits && m.Next == NextVoter
	})
	switch {
	case len(silent) == 0 && waits:
		ch.readyAt = 0
	case len(silent) == 0:
		c.appendConfig(config.enter(at))
	case waits: // a member that falls behind again and again does not prolong the wait for the others
	case ch.readyAt == 0:
		ch.readyAt = c.now.Mono
	case c.now.Mono-ch.readyAt >= Time(config.Patience):
		lost := &QuorumLossError{Silent: silent, Voters: peerIDs(config.enter(at).voterPeers())}
		c.giveUpChange(config, RefusedQuorumLoss, fmt.Errorf("%w: %w", ErrChangeGivenUp, lost))
	}
}

// giveUpChange ends a change that cannot be completed. The members that have joined stay learners.
func (c *Core) giveUpChange(config Configuration, why RefusalKind, err error) {
	c.trace(TraceEvent{Kind: TraceChangeGivenUp, Text: err.Error()})
	c.leader.change.giveUp(why, err)
	c.appendConfig(config.giveUp())
}

// giveUp notes the reason for the callers that wait.
func (ch *changing) giveUp(why RefusalKind, err error) {
	for i := range ch.accepted {
		ch.accepted[i].gaveUp, ch.accepted[i].err = why, err
	}
}

// isLive reports whether a member would count towards a quorum of new voters. A voter counts if the leader hears it. A future
// voter counts if it has caught up. A member that cannot read the configuration does not count, because it acknowledges no
// entry after it.
func (c *Core) isLive(peer Peer) bool {
	if peer == c.self {
		return true
	}
	p := c.leader.peer(peer)
	switch {
	case p == nil || p.state == stale || c.spokenBy(peer).protocol < max(c.config().Protocol(), ProtocolMembership):
		return false
	case p.votes == 0:
		return c.caughtUp(p)
	}
	return c.heardLately(p)
}

// answerChange answers the callers once the last configuration of the change is committed.
func (c *Core) answerChange() {
	ch, run := &c.leader.change, c.log.config()
	if len(ch.accepted) == 0 || run.Index > c.log.commit || run.Config.Joint() || run.Config.Changing() {
		return
	}
	id := c.log.id(run.Index)
	for _, a := range ch.accepted {
		if a.gaveUp != 0 {
			c.answer(Answer{RequestID: a.requestID, Kind: AnswerGivenUp, ID: id, Refusal: a.gaveUp, Err: a.err})
		} else {
			c.answer(Answer{RequestID: a.requestID, Kind: AnswerChanged, ID: id})
		}
	}
	ch.accepted, ch.despite = nil, nil
}

// leaveOffice ends the leadership of a member that no longer has a vote. It reports whether it has done so:
//
//	"In this case, the leader steps down (returns to follower state) once it has committed the C_new log entry." (§6)
//
// Before it steps down, it transfers its leadership, so that the others need not wait for an election timeout.
func (c *Core) leaveOffice() bool {
	l := c.leader
	if l.votes != 0 || l.transfer != nil || c.log.config().Index > c.log.commit {
		return false
	}
	if p := c.transferTarget(""); p != nil && !l.change.transferring && !c.step.closing {
		l.change.transferring = true
		c.trace(TraceEvent{Kind: TraceVotelessTransfer, Peer: p.peer.ID})
		c.beginTransfer(&transfer{own: true, to: p.peer})
		return false
	}
	c.stepDown()
	return true
}

// changeStatus says what a change waits for; nil if there is none.
func (c *Core) changeStatus() *ChangeProgress {
	l, run := c.leader, c.log.config()
	s := &ChangeProgress{Since: l.change.since}
	switch {
	case run.Config.Joint():
		s.Stage = ChangeJoint
	case run.Config.Changing():
		s.Stage = ChangeCatchesUp
		for _, m := range run.Config.Members {
			if p := l.peer(m.Peer()); m.Next == NextVoter && p != nil && !c.caughtUp(p) {
				s.Waiting = append(s.Waiting, m.ID)
			}
		}
	case run.Index > c.log.commit && run.Index > 1:
		s.Stage = ChangeCommits
	case l.votes == 0:
		s.Stage = ChangeTransfers
	default:
		return nil
	}
	return s
}

// peerIDs returns the ids of peers.
func peerIDs(peers []Peer) []NodeID {
	ids := make([]NodeID, 0, len(peers))
	for _, p := range peers {
		ids = append(ids, p.ID)
	}
	return ids
}
