package raft

import (
	"fmt"
	"slices"
)

// This file takes a member out of service if its store must no longer be used, and keeps a member from voting if its store may be
// in that state (suspicion). A mark in the store holds the reason; no restart clears it. As soon as the core has the mark,
// before it is durable, the member neither votes nor acknowledges, applies nothing more, and serves neither reads nor writes.

// marked reports whether this store has a mark, durable or not.
func (c *Core) marked() bool { return c.disk.mark != nil }

// mark adopts a mark. It drops all messages of this step, and refuses the reads and transfers that the step
// has confirmed: even such a read could return a state that the rest of the cluster does not share.
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

// takeBackAnswers turns this step's confirmations of reads and transfers into refusals. No answer has left the
// core yet.
func (c *Core) takeBackAnswers() {
	for i := range c.step.out.Answers {
		switch a := &c.step.out.Answers[i]; a.Kind {
		case AnswerReadSafe, AnswerTransferred:
			*a = Answer{RequestID: a.RequestID, Kind: AnswerRefused, Refusal: RefusedNotLeader}
		}
	}
}

// onEventOfMarked refuses requests and handles the events of this member's own disk and FSM. It ignores
// messages of peers, with the exception in onMessageToMarked.
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

// onMessageToMarked repeats the report of lost entries on each heartbeat of the leader to which it was sent, because the first
// report may have been lost.
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

// onLostLog marks the store if an append of this term's leader shows that this member has lost entries that it
// acknowledged in this very term. Acknowledged entries are durable, and only a leader of a newer term may
// have them truncated, which would have raised the term. So this store is an older image of the disk, or the
// disk loses what it has synced; a vote may be lost like the entries. The word of a leader that the configuration does not
// name is no reason for a mark, but for a suspicion.
//
// answer is the answer to that append: it repeats what the append says about this member.
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
// It returns that entry and the entry of the leader's log that proves it: one at the same index, or one at a
// higher index with a lower term, since terms never fall along a log. For the same reason an entry at a lower index with a
// higher term proves that the base is missing.
//
// Entries that only a DurableFSM reports as committed do not count. The FSM may remember an entry that was committed in a term
// that this member has forgotten in a crash. An earlier leader that is still running may never have heard of it (Figure 8).
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

// contradicted marks the store of a member that has a committed entry which the leader of a newer term lacks.
// The rest of the cluster has lost acknowledged entries, and this store may be the last that holds them: the
// member must not serve a history that the others do not share, nor adapt its log to theirs.
//
// It ignores a leader that contradicts itself, because the entry is of the leader's own term or because the
// leader has already proved that it has the entry. That is a different fault, and the message is refused.
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

// suspicion records that a leader which the configuration does not name has shown that this member lacks entries which it has
// acknowledged. One message of a stranger must not end a member, so the store is not marked. But the leader may belong to a
// newer configuration. Then this member's acknowledgement may be all that prevents the election of a candidate without
// committed entries. So the member neither votes nor campaigns until the suspicion ends. It is kept in memory only.
type suspicion struct {
	mark   Mark           // what the store gets once the configuration names that leader
	report AppendConflict // the answer to that leader
}

// suspect begins a suspicion. A report of a later term takes the place of an earlier one, since it can only end later.
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

// suspected reports whether a leader has shown that this member's disk may be an older image. Such a member neither votes
// nor campaigns.
func (c *Core) suspected() bool { return c.follower.suspicion != nil }

// suspects reports whether the leader of the present term is the one that has shown it.
func (c *Core) suspects() bool { return c.suspected() && c.follower.suspicion.mark.Term == c.hard.Term }

// settleSuspicion marks the store once the configuration names the leader that has shown the loss.
//
// The suspicion ends without a mark once the log holds an entry of a later term. The leader of that term was elected without
// this member's vote, so it had every committed entry (Leader Completeness), and by the Log Matching Property this log holds
// all of them now:
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

// doubtSuspicion ends a suspicion if a member that the configuration names leads the same term. A term has one leader, so the
// unknown one is none:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
//
// This does not hold if this member's own vote has elected the second leader: on an older image, it may have voted twice.
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

// suspectedPeer returns the leader that has shown the loss; zero if there is none.
func (c *Core) suspectedPeer() Peer {
	if !c.suspected() {
		return Peer{}
	}
	return c.follower.suspicion.mark.By
}
