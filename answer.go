package raft

// Answer answers a request. Every request gets one.
type Answer struct {
	RequestID RequestID
	Kind      AnswerKind
	ID        EntryID     // AnswerAccepted; AnswerReadSafe: the index alone; AnswerSnapshot
	Refusal   RefusalKind // AnswerRefused, AnswerGivenUp
	Leader    NodeID      // the member to ask instead, if known; AnswerTransferred: the new leader
	Err       error       // values and remedy, of RefusedTooLarge and of a change that is refused or given up; else nil
}

// AnswerKind is the outcome of a request. An accepted proposal is applied here, or gets a second answer: AnswerNotApplied or
// AnswerUnknown. An accepted change of the members always gets a second answer: one of these two, AnswerChanged or
// AnswerGivenUp.
type AnswerKind uint8

const (
	AnswerAccepted    AnswerKind = 1 // the proposal is in the leader's log at ID; a change begins with that entry
	AnswerRefused     AnswerKind = 2 // a proposal is never applied, or a read or a transfer failed: see Refusal, Leader
	AnswerNotApplied  AnswerKind = 3 // another entry is committed at the index of the accepted one, which is never applied
	AnswerUnknown     AnswerKind = 4 // leadership ended first: it may be applied; the next leader continues a change; the target of a transfer may lead
	AnswerReadSafe    AnswerKind = 5 // a read is linearizable once ID.Index is applied here
	AnswerTransferred AnswerKind = 6 // the transfer has succeeded: Leader leads now
	AnswerSnapshot    AnswerKind = 7 // a snapshot of ID is durable, and covers what was applied at the request
	AnswerChanged     AnswerKind = 8 // the members are as asked, by the committed entry ID; if they were before, by ID.Index
	AnswerGivenUp     AnswerKind = 9 // the change was given up by the committed entry ID: see Refusal, Err
)

// RefusalKind says why a request was refused.
type RefusalKind uint8

// The reasons of AnswerRefused.
const (
	RefusedNotLeader      RefusalKind = 1  // this member does not lead; Answer.Leader does, if known
	RefusedTransferring   RefusalKind = 2  // this leader is transferring its leadership to Answer.Leader
	RefusedOverloaded     RefusalKind = 3  // a limit of CoreConfig is reached: try again later
	RefusedClosing        RefusalKind = 4  // the node is closing
	RefusedNoTarget       RefusalKind = 5  // no other voter can take over, or the one named cannot
	RefusedTimedOut       RefusalKind = 6  // the transfer or the read did not end in time
	RefusedTooLarge       RefusalKind = 7  // the proposal is larger than CommandBytesMax, or than what a member takes; Err is a *TooLargeError
	RefusedStalled        RefusalKind = 8  // the leader's disk is stalled, and nobody could take over yet
	RefusedSnapshotFailed RefusalKind = 9  // the snapshot was not taken; the trace says why
	RefusedUnsupported    RefusalKind = 10 // CoreConfig.Snapshots is off
	RefusedFSMHangs       RefusalKind = 23 // the leader's FSM hangs, and nobody could take over yet
)

// The reasons why a change of the members is refused.
const (
	RefusedConfigIndex    RefusalKind = 11 // the configuration in force is not the one that the caller knows
	RefusedChanging       RefusalKind = 12 // another change is running
	RefusedUnknownMember  RefusalKind = 13 // there is no such member
	RefusedMemberExists   RefusalKind = 14 // the member is there already, or its id with another incarnation: see Change.Replace
	RefusedLastVoter      RefusalKind = 15 // no voter would be left
	RefusedAddressInUse   RefusalKind = 16 // another member has the address
	RefusedQuorumLoss     RefusalKind = 17 // the new voters that are heard are no majority of them: see Change.Despite
	RefusedEarlierRelease RefusalKind = 18 // a member runs a release that cannot read the new configuration
	RefusedWasRemoved     RefusalKind = 19 // this incarnation was removed: empty its store, so that it gets another one
	RefusedNotElectable   RefusalKind = 24 // no voter would be electable, at the end or on the way: all would have PriorityNever
	RefusedAppVersion     RefusalKind = 25 // a member runs a program below Configuration.AppVersionMin: see Answer.Err
	RefusedLeaseTooLong   RefusalKind = 26 // the leases would be longer than the timeouts allow: see Answer.Err
	RefusedMalformed      RefusalKind = 20 // it is malformed, edits one member twice, or would make too many members: see Answer.Err
)

// The reasons for giving up a change of the members that has begun. RefusedQuorumLoss is one, too.
const (
	RefusedNotCaughtUp RefusalKind = 21 // a member that is to vote has made no progress for Change.Patience
	RefusedCanceled    RefusalKind = 22 // a later change has canceled it
)

// answer adds an answer to this step's Output.
func (c *Core) answer(a Answer) { c.step.out.Answers = append(c.step.out.Answers, a) }

func (c *Core) growAnswers(n int) {
	if c.step.out.Answers == nil {
		c.step.out.Answers = make([]Answer, 0, n)
	}
}

// refuseRequest refuses a request and names the member to ask instead, if it is known.
func (c *Core) refuseRequest(t RequestID) {
	a := Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedNotLeader, Leader: c.termLeader.peer.ID}
	switch {
	case c.step.closing:
		a.Refusal = RefusedClosing
	case c.leader != nil && c.leader.transfer != nil:
		a.Refusal, a.Leader = RefusedTransferring, c.leader.transfer.to.ID
	}
	c.answer(a)
}

// endLeadership ends the requests of a leader that steps down. It refuses the local reads and a change that has not begun. It
// leaves the pending proposals, and a change that has begun, to settle, which runs at the end of the step. If a transfer is
// running, this member waits for its outcome.
func (c *Core) endLeadership(l *leader) {
	for _, reads := range [][]read{l.reads.now, l.reads.next} {
		for _, r := range reads {
			if (r.from == Peer{}) {
				c.answer(Answer{RequestID: r.requestID, Kind: AnswerRefused, Refusal: RefusedNotLeader})
			}
		}
	}
	if e := l.change.asked; e != nil {
		c.answer(Answer{RequestID: e.RequestID, Kind: AnswerRefused, Refusal: RefusedNotLeader})
	}
	c.endOffers(l)
	c.step.lost = append(c.step.lost, l.pending...)
	c.step.lostChanges = append(c.step.lostChanges, l.change.accepted...)
	if l.transfer != nil {
		c.awaitTransferOutcome(l, l.transfer)
	}
}

// settle answers the pending proposals of a leader that stepped down or was closed in this step. Truncating an entry here
// does not decide its outcome, because another member may still hold the entry, win the next election and commit it. This
// member may do the same if it crashes before the truncation is durable. The outcome is known once another entry is committed
// at the same index, unless a leader has contradicted what is committed here. The applier answers the proposals that are
// being applied.
func (c *Core) settle() {
	for _, o := range c.step.lost {
		switch {
		case c.log.has(o.id) && o.id.Index <= c.log.applying:
		case c.overwritten(o.id):
			c.answer(Answer{RequestID: o.requestID, Kind: AnswerNotApplied, ID: o.id})
		default:
			c.answer(Answer{RequestID: o.requestID, Kind: AnswerUnknown, ID: o.id})
		}
	}
	c.step.lost = c.step.lost[:0]
	for _, a := range c.step.lostChanges {
		kind := AnswerUnknown
		if c.overwritten(a.first) {
			kind = AnswerNotApplied
		}
		c.answer(Answer{RequestID: a.requestID, Kind: kind, ID: a.first})
	}
	c.step.lostChanges = nil
}

// overwritten reports whether another entry is committed at the index of an entry that this member has appended.
func (c *Core) overwritten(id EntryID) bool {
	return !c.log.has(id) && id.Index <= c.log.commit && !c.marked()
}

// close answers every open request. All later requests are refused.
func (c *Core) close() {
	c.step.closing = true
	c.refuseForwarded()
	c.hard.Leading = false // if no member takes over first, the end of this leadership is no loss
	if l := c.leader; l != nil {
		c.step.lost = append(c.step.lost, l.pending...)
		l.pending, l.bytes = nil, 0
		if e := l.change.asked; e != nil {
			c.refuseRequest(e.RequestID)
		}
		c.step.lostChanges = append(c.step.lostChanges, l.change.accepted...)
		l.change.asked, l.change.accepted = nil, nil
		for _, r := range append(l.reads.now, l.reads.next...) {
			if (r.from == Peer{}) {
				c.refuseRequest(r.requestID)
			}
		}
		l.reads = leaderReads{}
		c.cancelTransfer(RefusedClosing)
	}
	c.cancelTransferOutcome(RefusedClosing)
	c.refuseSnapshotRequests(RefusedClosing)
}
