package raft

import (
	"fmt"
	"slices"
)

// This file takes a member out of service if its store must no longer be used. If the store may be in that state, the file
// keeps the member from voting (suspicion). A mark in the store holds the reason, and no restart clears it. From the moment
// the core has the mark, even before the mark is durable, the member is out of service. It does not vote, acknowledge or
// apply anything more, and serves neither reads nor writes.

// marked reports whether this store has a mark, durable or not.
func (c *Core) marked() bool { return c.disk.mark != nil }

// mark adopts a mark. It drops all messages of this step. It also refuses the reads that the step has confirmed, because even
// such a read could return a state that the rest of the cluster does not share.
func (c *Core) mark(m Mark) {
	c.trace(TraceEvent{Kind: TraceMarked, Peer: m.By.ID, Text: m.Detail})
	c.takeBackSnapshots()
	c.becomeFollower(c.hard.Term, Peer{})
	c.cancelTransferOutcome(RefusedNotLeader)
	clear(c.step.sends)
	c.step.sends = c.step.sends[:0]
	c.takeBackAnswers()
	c.disk.mark = &m
	c.step.out.Write.Mark = &m
}

// takeBackAnswers turns this step's confirmations of reads into refusals, and those of transfers into unknown outcomes. No
// answer has left the core yet.
func (c *Core) takeBackAnswers() {
	for i := range c.step.out.Answers {
		switch a := &c.step.out.Answers[i]; a.Kind {
		case AnswerReadSafe:
			*a = Answer{RequestID: a.RequestID, Kind: AnswerRefused, Refusal: RefusedNotLeader}
		case AnswerTransferred:
			*a = Answer{RequestID: a.RequestID, Kind: AnswerUnknown}
		}
	}
}

// onEventOfMarked refuses requests and handles the events of this member's own disk and FSM. It ignores messages of peers,
// except those that onMessageToMarked answers.
func (c *Core) onEventOfMarked(e Event) {
	switch e := e.(type) {
	case Received:
		c.onMessageToMarked(e.Message)
	case Persisted:
		c.disk.acknowledge(e.Seq, c.now.Mono)
	case Applied:
		c.onApplied(e.ID)
	case Proposed:
		for _, p := range e.Proposals {
			c.refuseRequest(p.RequestID)
		}
	case ReadRequested:
		c.refuseRequest(e.RequestID)
	case TransferRequested:
		c.refuseRequest(e.RequestID)
	case ChangeRequested:
		c.refuseRequest(e.RequestID)
	case SnapshotRequested:
		c.refuseRequest(e.RequestID)
	case Closing:
		c.close()
	}
}

// onMessageToMarked repeats the report of lost entries to the leader that got it first. It does so on each heartbeat of that
// leader, because the first report may have been lost.
func (c *Core) onMessageToMarked(m Message) {
	if why := c.misaddressed(m); why != "" {
		c.refuse(m, why)
		return
	}
	_, beats := m.Body.(Heartbeat)
	reported := m.From == c.disk.mark.By && m.Term == c.disk.mark.Term && m.Term == c.hard.Term
	if beats && c.disk.mark.Kind == MarkStaleImage && reported {
		c.send(m.From, c.disk.lossReport)
	}
}

// onLostLog marks the store if an append of this term's leader shows that this member has lost entries that it acknowledged
// in this very term. Acknowledged entries are durable. Only a leader of a newer term may have them truncated, and that would
// have raised this member's term. So this store is an older image of the disk, or the disk loses what it has synced. In both
// cases a vote may be lost, too. If the configuration does not name the leader, onLostLog begins a suspicion instead of a
// mark.
//
// answer is the answer to that append. It repeats what the append says about this member.
func (c *Core) onLostLog(leader Peer, answer AppendConflict) {
	acknowledged := answer.Acknowledged
	if acknowledged == 0 || answer.Prev != acknowledged && c.log.Last.Index >= acknowledged {
		return
	}
	m := Mark{
		Kind: MarkStaleImage, By: leader, Term: c.hard.Term,
		Detail: fmt.Sprintf("in term %d it has acknowledged the log up to %d, and what the store holds of that ends at %v",
			c.hard.Term, acknowledged, answer.Hint),
	}
	if !c.mayName(leader) {
		c.suspect(m, answer)
		return
	}
	c.mark(m)
	c.disk.lossReport = answer
}

// contradiction looks for a committed entry of this log that the sender of an append does not have:
//
//	"Leader Completeness: if a log entry is committed in a given term, then that entry will be present
//	in the logs of the leaders for all higher-numbered terms." (Figure 3)
//
// It returns that entry, and the entry of the leader's log that proves the lack. The proof is a different entry at the same
// index, or an entry at a higher index with a lower term, because terms never fall along a log. For the same reason, an entry
// at a lower index than the base but with a higher term proves that the leader lacks the base.
//
// If only a DurableFSM reports an entry as committed, the entry does not count. The FSM may remember an entry that was
// committed in a term which this member has forgotten in a crash. An earlier leader that is still running may never have
// heard of that entry (Figure 8).
func (c *Core) contradiction(r AppendRequest) (ours, theirs EntryID, found bool) {
	commit := c.log.id(c.log.provenCommit)
	if r.Prev.Index > commit.Index {
		return commit, r.Prev, r.Prev.Term < commit.Term
	}
	if !c.log.has(r.Prev) {
		return c.log.known(r.Prev.Index), r.Prev, true
	}
	for _, e := range r.Entries {
		if e.Index > commit.Index {
			break
		}
		if !c.log.has(e.ID()) {
			return c.log.known(e.Index), e.ID(), true
		}
	}
	return EntryID{}, EntryID{}, false
}

// contradicted marks the store if this member has a committed entry that the leader of a newer term lacks. The rest of the
// cluster has lost acknowledged entries, and this store may be the last that holds them. So the member must neither serve a
// history that the others do not share, nor adapt its log to theirs.
//
// It ignores a leader that contradicts itself. A leader does so if the entry is of the leader's own term, or if the leader
// has already proved that it has the entry. That is a different fault, and this member refuses the message.
func (c *Core) contradicted(leader Peer, r AppendRequest) bool {
	ours, theirs, found := c.contradiction(r)
	if !found || ours.Term >= c.hard.Term || min(ours.Index, theirs.Index) <= c.termLeader.proved || !c.mayName(leader) {
		return false
	}
	c.mark(Mark{
		Kind: MarkContradicted, By: leader, Term: c.hard.Term, Ours: ours, Theirs: theirs,
		Detail: fmt.Sprintf("entry %v is committed here, and the leader's log has %v", ours, theirs),
	})
	return true
}

// suspicion records a report of lost entries by a leader that the configuration does not name. The report says that this
// member lacks entries which it acknowledged. One message of a stranger must not end a member, so the store is not marked.
// But the leader may belong to a newer configuration. Then this member's acknowledgement may be all that prevents the
// election of a candidate without committed entries. So the member neither votes nor campaigns until the suspicion ends. The
// suspicion is kept in memory only.
type suspicion struct {
	mark   Mark           // what the store gets once the configuration names that leader
	report AppendConflict // the answer to that leader
}

// suspect begins a suspicion. A report of a later term replaces a report of an earlier term, because its suspicion can only
// end later.
func (c *Core) suspect(m Mark, report AppendConflict) {
	if c.follower.suspicion != nil && c.follower.suspicion.mark.Term == m.Term {
		return
	}
	c.follower.suspicion = &suspicion{m, report}
	c.step.sends = slices.DeleteFunc(c.step.sends, func(o outgoing) bool { return o.vote }) // of this step: it has not left
	c.trace(TraceEvent{Kind: TraceSuspected, Peer: m.By.ID, Text: m.Detail})
	if c.candidate != nil { // for pre-votes, since that leader has stepped down
		c.becomeFollower(c.hard.Term, Peer{})
	}
}

// suspected reports whether a leader has shown that this member's disk may be an older image. A suspected member neither
// votes nor campaigns.
func (c *Core) suspected() bool { return c.follower.suspicion != nil }

// suspects reports whether the suspicion comes from the leader of the present term.
func (c *Core) suspects() bool { return c.suspected() && c.follower.suspicion.mark.Term == c.hard.Term }

// settleSuspicion marks the store once the configuration names the leader that has shown the loss.
//
// The suspicion ends without a mark once the log holds an entry of a later term. The leader of that term was elected without
// this member's vote, so it had every committed entry (Leader Completeness). By the Log Matching Property, this log now holds
// all of them, too:
//
//	"if two logs contain an entry with the same index and term, then the logs are identical in all entries up
//	through the given index." (Figure 3)
func (c *Core) settleSuspicion() {
	if !c.suspected() || c.marked() {
		return
	}
	s := c.follower.suspicion
	switch {
	case c.mayName(s.mark.By):
		c.mark(s.mark)
		c.disk.lossReport = s.report
	case c.log.Last.Term > s.mark.Term:
		c.endSuspicion()
	}
}

// doubtSuspicion ends a suspicion if a member that the configuration names leads the same term. A term has only one leader,
// so the unknown sender is not a leader:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
//
// The suspicion stays if this member itself voted for the second leader. On an older image, this member may have voted twice
// in the term.
func (c *Core) doubtSuspicion(m Message) {
	claims := m.Body.class() == ofLeader && c.names(m.From) && m.From != c.hard.Vote
	if c.suspects() && claims && m.From != c.follower.suspicion.mark.By {
		c.endSuspicion()
	}
}

func (c *Core) endSuspicion() {
	c.trace(TraceEvent{Kind: TraceTrusted, Peer: c.follower.suspicion.mark.By.ID})
	c.follower.suspicion = nil
	c.resetElectionDeadline()
}

// suspectedPeer returns the leader that has shown the loss. It returns zero if there is no suspicion.
func (c *Core) suspectedPeer() Peer {
	if !c.suspected() {
		return Peer{}
	}
	return c.follower.suspicion.mark.By
}
