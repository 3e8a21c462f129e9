package fuzzy

import "github.com/coxswain/raft"

// The invariants of one member.
//
//	N1   The term never decreases, in memory, on disk, and across restart. (Figure 2, State)
//	N2   In each term a member votes for at most one candidate, durably, across all restarts. (Figure 2, RequestVote)
//	N3   While a process lives, neither its commit index nor its applied index falls. (Figure 2, State)
//	N4   The log has no gaps, its terms never fall, and applied ≤ commit ≤ last. (§5.3)
//	N5   An applied entry was committed and is durable. Entries are applied completely and in order. (§5.3)
//	N6   The promises of a message are durable when the message leaves. (Figure 2: "before responding to RPCs")
//	N8   A leader never overwrites or deletes entries of its log; no member truncates an entry that was committed in its own or an earlier term. (Figure 3)
//	N10  Pending requests and in-flight appends stay within their limits.
//	N61  A log begins after an entry that is committed. This entry is in a durable snapshot or a durable state of the log's member. (§7)
//	N29  Entry times never fall along the log, whatever the wall clocks do.
//	N11  A request gets only the answers that the contract allows.

func (k *checker) checkTerm(n *node, before *raft.CoreStatus) {
	if n.status.Term < before.Term {
		k.broken("N1", "%s: the term fell from %d to %d", n, before.Term, n.status.Term)
	}
	if n.status.Term != n.hard.Term {
		k.broken("N1", "%s: in term %d, but the last write says %d", n, n.status.Term, n.hard.Term)
	}
}

// checkHardState checks a term and vote that are about to become durable.
func (k *checker) checkHardState(n *node, h raft.HardState) {
	if h.Term < n.disk.hard.Term {
		k.broken("N1", "%s: the durable term fell from %d to %d", n, n.disk.hard.Term, h.Term)
	}
	if h.Vote == (raft.Peer{}) {
		return
	}
	key := voteKey{n.disk.incarnation, n.disk.epoch, h.Term}
	was, voted := k.votes[key]
	if voted && was != h.Vote {
		k.broken("N2", "%s votes for %v and %v in term %d", n, was, h.Vote, h.Term)
	}
	k.votes[key] = h.Vote
}

func (k *checker) checkProgress(n *node, before *raft.CoreStatus) {
	if n.status.Commit < before.Commit {
		k.broken("N3", "%s: the commit index fell from %d to %d", n, before.Commit, n.status.Commit)
	}
	if n.status.Applied < before.Applied {
		k.broken("N3", "%s: the applied index fell from %d to %d", n, before.Applied, n.status.Applied)
	}
}

func (k *checker) checkLogShape(n *node) {
	s := &n.status
	var last raft.EntryID
	if len(n.log) > 0 {
		last = n.log[len(n.log)-1].entry.ID()
	}
	if s.Last != last {
		k.broken("N4", "%s: its log ends at %v, but its writes end at %v", n, s.Last, last)
	}
	if s.Applied > s.Commit || s.Commit > s.Last.Index || s.Last.Term > s.Term {
		k.broken("N4", "%s: applied %d, commit %d, last %v, term %d", n, s.Applied, s.Commit, s.Last, s.Term)
	}
	if s.Base.Index < n.disk.base.ID.Index {
		k.broken("N61", "%s: its log begins after %v, but the one on its disk after %v", n, s.Base, n.disk.base.ID)
	}
	if s.Term > 0 && s.Last.Index == 0 && !k.joinsLater(n) {
		k.broken("N7", "%s is in term %d, but belongs to no cluster", n, s.Term)
	}
}

// acceptsWrite reports whether a store accepts the write. The write must continue after the base or an entry of the log,
// replace the log from its beginning, or make it begin after a snapshot.
func acceptsWrite(log []slot, base raft.Index, snapshot raft.EntryID, l *raft.LogWrite) bool {
	if l.Reset {
		return l.After == snapshot && snapshot.Index > base
	}
	if l.After.Index < base {
		return false
	}
	if l.After.Index == 0 {
		return l.After.Term == 0
	}
	return int(l.After.Index) <= len(log) && log[l.After.Index-1].entry.ID() == l.After
}

// checkLogWrite checks a change of the log before it is made.
func (k *checker) checkLogWrite(n *node, l *raft.LogWrite) {
	if !acceptsWrite(n.log, n.base.Index, n.installing, l) {
		k.broken("N4", "%s: a write begins after %v, which is not in its log", n, l.After)
	}
	before := l.After
	for i := range l.Entries {
		e := &l.Entries[i]
		if e.Index != before.Index+1 || e.Term < before.Term {
			k.broken("N4", "%s: entry %v follows %v", n, e.ID(), before)
		}
		before = e.ID()
	}
	if int(l.After.Index) < len(n.log) {
		if n.leads() {
			k.broken("N8", "%s leads term %d and truncates its log to %v", n, n.status.Term, l.After)
		}
		if l.After.Index == 0 && n.disk.hard.Term > 0 {
			k.broken("N8", "%s replaces entry 1 in term %d", n, n.status.Term)
		}
		k.checkKeepsCommitted(n, n.log, l, n.hard.Term, "N8")
	}
	k.checkEntryTimes(n, l)
}

// checkEntryTimes checks the times of the entries of a write.
func (k *checker) checkEntryTimes(n *node, l *raft.LogWrite) {
	stamp := int64(0)
	if i := l.After.Index; i > 0 && int(i) <= len(n.log) {
		stamp = n.log[i-1].entry.Time
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		if e.Time < stamp {
			k.broken("N29", "%s: entry %v has time %d, and the one before it %d", n, e.ID(), e.Time, stamp)
		}
		stamp = e.Time
	}
}

// checkKeepsCommitted checks that a write drops no committed entry. term is the member's term before the write. If the member
// has not reached the term in which an entry was committed, the member was not counted for that entry. So a leader of an
// earlier term may still truncate the member's log.
func (k *checker) checkKeepsCommitted(n *node, log []slot, l *raft.LogWrite, term raft.Term, rule string) {
	i, rest := int(l.After.Index), l.Entries
	for i < len(log) && len(rest) > 0 && log[i].entry.ID() == rest[0].ID() {
		i, rest = i+1, rest[1:]
	}
	if i >= len(log) || i >= len(k.canonical) || log[i].hash != k.canonical[i].hash {
		return
	}
	k.c.holds(term < k.canonical[i].by, rule, "%s drops %v, which is committed", n, log[i].entry.ID())
}

// checkApplied checks the entries that an applier has applied, before the simulation records them as applied.
func (k *checker) checkApplied(n *node, to raft.EntryID) {
	hash, there := at(n.log, to.Index)
	if !there || n.log[to.Index-1].entry.ID() != to {
		k.broken("N5", "%s is to apply %v, which is not in its log", n, to)
	}
	if to.Index > k.committed() {
		k.broken("N5", "%s applies %v, but only %d is committed", n, to, k.committed())
	}
	if k.c.failure == nil && to.Index <= k.committed() {
		if hash != k.canonical[to.Index-1].hash {
			k.broken("N5", "%s applies %v after a different log than the committed one", n, to)
		}
	}
	durable, there := at(n.disk.log, to.Index)
	if !there || durable != hash {
		k.broken("N5", "%s applies %v before it is durable", n, to)
	}
}

// checkPersisted checks that each entry that a member counts as durable is durable.
func (k *checker) checkPersisted(n *node) {
	memory, _ := at(n.log, n.status.Persisted)
	durable, there := at(n.disk.log, n.status.Persisted)
	if !there || memory != durable {
		k.broken("N6", "%s counts its log up to %d as durable, which it is not", n, n.status.Persisted)
	}
}

// checkLeaving compares a message with the disk when the message leaves. A write that raises the term is never merged with an
// earlier write, so the durable term equals the message's term.
func (k *checker) checkLeaving(n *node, m *raft.Message) {
	hard := n.disk.hard
	if m.Term != hard.Term {
		k.broken("N6", "%s sends %T in term %d, but its durable term is %d", n, m.Body, m.Term, hard.Term)
	}
	if m.From != n.peer() {
		k.broken("G14", "%s sends %T as %v", n, m.Body, m.From)
	}
	switch b := m.Body.(type) {
	case raft.VoteRequest:
		if hard.Vote != m.From {
			k.broken("N6", "%s requests votes in term %d before its own is durable", n, m.Term)
		}
	case raft.VoteReply:
		if b.Granted && hard.Vote != m.To {
			k.broken("N6", "%s grants %s a vote that is not durable", n, k.c.title(m.To))
		}
	case raft.AppendReply:
		k.checkAcknowledgedLog(n, m, b.Match)
	case raft.HeartbeatReply:
		k.checkAcknowledgedLog(n, m, b.Match)
	case raft.BootstrapReply:
		if len(n.disk.log) == 0 {
			k.broken("N6", "%s acknowledges a bootstrap that is not durable", n)
		}
	case raft.AppendRequest:
		k.checkSentByLeader(n, m, b.Commit)
	case raft.Heartbeat:
		k.checkSentByLeader(n, m, b.Commit)
	case raft.TimeoutNow, raft.InstallSnapshot:
		k.checkSentByLeader(n, m, 0)
	}
}

// checkAcknowledgedLog checks that a member's log is durable up to match, and equal to the leader's log up to there.
func (k *checker) checkAcknowledgedLog(n *node, m *raft.Message, match raft.Index) {
	durable, there := at(n.disk.log, match)
	if !there {
		k.broken("N6", "%s acknowledges %d in term %d, but its durable log ends at %d", n, match, m.Term, len(n.disk.log))
	}
	leader := k.c.at(m.To)
	if there && leader.leads() && leader.status.Term == m.Term {
		theirs, longer := at(leader.log, match)
		if (!longer || theirs != durable) && !(longer && k.compacted(n, m.Term, leader.log[match-1].entry.ID())) {
			k.broken("N6", "%s acknowledges %d to %s, but their logs differ", n, match, leader)
		}
	}
}

// compacted reports whether compaction excuses a wrong acknowledgement: a member acknowledges an entry of another log. It
// does so because it has compacted its own log, and a disk has lost committed entries. Below its base the member relies on
// Leader Completeness for entries with a term that is possible there. Such an acknowledgement commits nothing. A leader
// counts only entries of its own term, and that term is impossible below the base.
func (k *checker) compacted(n *node, term raft.Term, theirs raft.EntryID) bool {
	possible := theirs.Index < n.base.Index && theirs.Term <= n.base.Term && n.base.Term < term
	return possible && k.c.lostToDisks()
}

// answerState is the progress of a request.
type answerState uint8

const (
	unanswered answerState = iota
	acceptedOnly
	answeredWell
	answeredNo
	answeredUnknown
)

// checkAnswer checks that an answer is legal for its request.
func (k *checker) checkAnswer(n *node, r *request, a raft.Answer) {
	if r.node != n || r.life != n.life {
		k.broken("N11", "%s answers request %d of another member", n, a.RequestID)
	}
	legal := false
	was := r.state
	takes := r.kind == writeRequest || r.kind == changeRequest
	switch a.Kind {
	case raft.AnswerAccepted:
		legal, r.state = takes && was == unanswered, acceptedOnly
	case raft.AnswerRefused:
		legal, r.state = was == unanswered, answeredNo
		k.recordNeverApplied(r, a)
	case raft.AnswerNotApplied:
		legal, r.state = takes && was == acceptedOnly && !r.applied, answeredNo
		k.recordNeverApplied(r, a)
	case raft.AnswerUnknown:
		legal, r.state = takes && was == acceptedOnly || r.kind == transferRequest && was == unanswered, answeredUnknown
	case raft.AnswerReadSafe:
		legal, r.state = r.kind == readRequest && was == unanswered, answeredWell
		k.checkRead(n, r, a.ID.Index)
	case raft.AnswerTransferred:
		legal, r.state = r.kind == transferRequest && was == unanswered, answeredWell
		k.checkTransferAnswer(n, r, a)
	case raft.AnswerSnapshot:
		legal, r.state = r.kind == snapshotRequest && was == unanswered, answeredWell
		k.checkSnapshotAnswer(n, r, a)
	case raft.AnswerChanged:
		legal, r.state = r.kind == changeRequest && (was == unanswered || was == acceptedOnly), answeredWell
	case raft.AnswerGivenUp:
		legal, r.state = r.kind == changeRequest && was == acceptedOnly, answeredNo
	}
	if r.kind == changeRequest {
		k.checkChangeAnswer(n, r, a)
	}
	if !legal {
		k.broken("N11", "%s answers request %d with %d after state %d", n, a.RequestID, a.Kind, was)
	}
}
