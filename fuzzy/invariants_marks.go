package fuzzy

import (
	"errors"
	"slices"

	"github.com/coxswain/raft"
)

// The invariants of disks that were replaced by older images.
//
//	N22  A store is marked, or a member taken for stale or suspected, only if a disk has lost entries that it had synced.
//	N23  A leader that learns of a lost acknowledgement takes that member for stale, no longer counts it, and serves it no reads. Its appends say no less than what the member had acknowledged.
//	N24  A member that marks its store serves no request from that step on, and never starts again.
//	N40  A member marks its store when an append of its leader shows that the member's log lacks entries that the member acknowledged in this term.
//	N41  A member marks its store when an append of a newer term's leader contradicts entries that the member knows to be committed. (Figure 3, Leader Completeness)
//	N74  A leader that a member does not know may show the member that its log lacks entries that it acknowledged. Then the member neither votes nor campaigns until its log holds an entry of a later term, or a known member leads the same term. If the member's configuration comes to name the unknown leader before then, the member marks its store.
//
// A scenario may also forge the messages that an older image would cause.

// checkMarks checks the marks of a step, and the members that are taken for stale.
func (k *checker) checkMarks(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	if n.doomed {
		k.checkSilent(n, out)
	} else {
		k.checkSuspicion(n, before, events, out)
	}
	if !n.doomed && out.Write.Mark == nil {
		k.checkNoMarkDue(n, before, events)
	}
	if m := out.Write.Mark; m != nil {
		n.doomed = true
		k.checkSilent(n, out)
		due := n.disk.forgot() || k.c.forged || m.Kind == raft.MarkContradicted && k.c.contradicts()
		k.c.holds(due, "N22", "%s marks its store (%v), but no disk has lost anything that justifies it", n, m.Err())
	}
	k.checkSentToPeers(n, before, out)
	for i := range n.seen.peers {
		if w := &n.seen.peers[i]; w.lost {
			p := progressOn(&n.status, w.peer)
			if p != nil && p.State != "stale" {
				k.broken("N23", "%s was told that %s has lost an acknowledgement, but treats it as %s", n, k.c.title(peerOf(p)), p.State)
			}
		}
	}
	for i := range n.status.Peers {
		if p := &n.status.Peers[i]; p.State == "stale" && !k.c.at(peerOf(p)).disk.forgot() {
			k.broken("N22", "%s takes %s for stale, but its disk has lost nothing", n, k.c.title(peerOf(p)))
		}
	}
}

// contradicts reports whether a disk has lost entries that may have been committed. After such a loss, the logs of other
// members may differ from the committed log.
func (c *cluster) contradicts() bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.disk.lossy || c.lostCommitted(n) })
}

// checkSentToPeers checks that a leader serves no reads of members that it takes for stale, and tells each member in appends
// what that member has acknowledged.
func (k *checker) checkSentToPeers(n *node, before *raft.CoreStatus, out *raft.Output) {
	for i := range before.Peers {
		p := &before.Peers[i]
		for j := range out.Send {
			if out.Send[j].To != peerOf(p) {
				continue
			}
			switch b := out.Send[j].Body.(type) {
			case raft.ReadReply:
				if b.OK && p.State == "stale" {
					k.broken("N23", "%s takes %s for stale, but serves it a read", n, k.c.title(peerOf(p)))
				}
			case raft.AppendRequest:
				if had := n.seen.of(peerOf(p)).matched; b.Acknowledged < had {
					k.broken("N23", "%s tells %s that it has acknowledged %d, which was %d", n, k.c.title(peerOf(p)), b.Acknowledged, had)
				}
			}
		}
	}
	for i := range n.status.Peers {
		if p := &n.status.Peers[i]; p.State != "stale" {
			n.seen.of(peerOf(p)).matched = p.Match
		}
	}
}

// checkNoMarkDue checks that nothing in a step requires a mark.
func (k *checker) checkNoMarkDue(n *node, before *raft.CoreStatus, events []raft.Event) {
	s := &n.status
	for _, e := range events {
		r, ok := e.(raft.Received)
		if !ok || r.Message.Term != s.Term || r.Message.To != n.peer() || s.Role == raft.Leader || !n.mayName(r.Message.From, s.Commit) {
			continue
		}
		a, ok := r.Message.Body.(raft.AppendRequest)
		if !ok || r.Message.Cluster != s.Cluster {
			continue
		}
		if a.Acknowledged > 0 && a.Prev.Index == a.Acknowledged && max(before.Last.Index, s.Last.Index) < a.Prev.Index {
			k.broken("N40", "%s has acknowledged its log up to %d in term %d, but holds it only up to %v, and does not end", n, a.Prev.Index, s.Term, s.Last)
		}
		if ours, found := parts(n.log, s.Base, &a, n.provenCommit(before.Commit)); found && ours.Term < s.Term {
			k.broken("N41", "%s knows %v to be committed, is shown another log in term %d, but does not end", n, ours, s.Term)
		}
	}
}

// provenCommit returns the index up to which a leader has reported entries as committed to a member, whose commit index is given.
// At its start, the member has that from its disk. If a DurableFSM reports more, that proves nothing about another leader: the
// member may have forgotten the term in which the entries were committed (Figure 8).
func (n *node) provenCommit(commit raft.Index) raft.Index {
	if commit > n.seen.resumed {
		return commit // it has risen since the start, or was on the disk
	}
	return min(commit, max(n.disk.commit, n.status.Base.Index))
}

// checkSuspicion checks a member after a leader that it does not know has shown that the member may run on an older image of
// its disk.
func (k *checker) checkSuspicion(n *node, before *raft.CoreStatus, events []raft.Event, out *raft.Output) {
	s, w := &n.status, &n.seen.stranger
	if w.by != (raft.Peer{}) && rivals(n, events) {
		*w = strangerWitness{}
	}
	if w.by != (raft.Peer{}) {
		k.checkNoVote(n, out)
		if n.mayName(w.by, s.Commit) && out.Write.Mark == nil {
			k.broken("N74", "%s knows %s now, which has shown it a loss in term %d, but does not mark its store", n, k.c.title(w.by), w.term)
		}
		if s.Last.Term > w.term {
			*w = strangerWitness{}
		} else if s.Suspected == (raft.Peer{}) && out.Write.Mark == nil {
			k.broken("N74", "%s no longer suspects a loss, which %s has shown in term %d", n, k.c.title(w.by), w.term)
		}
	}
	for _, e := range events {
		if r, ok := e.(raft.Received); ok && k.showsLoss(n, before, &r.Message) {
			*w = strangerWitness{r.Message.From, r.Message.Term}
		}
	}
	k.c.holds(s.Suspected == (raft.Peer{}) || n.disk.forgot() || k.c.forged, "N22",
		"%s has stopped voting because of %v, but its disk has lost nothing", n.id, s.Suspected)
}

// showsLoss reports whether a message is an append that shows a loss. Its sender is a leader that is not a member here. The
// append shows that this node lacks entries that it acknowledged in the present term.
func (k *checker) showsLoss(n *node, before *raft.CoreStatus, m *raft.Message) bool {
	a, ok := m.Body.(raft.AppendRequest)
	s := &n.status
	if !ok || m.Term != s.Term || m.To != n.peer() || m.Cluster != s.Cluster || n.mayName(m.From, before.Commit) || includes(&before.Config, m.From) {
		return false
	}
	return a.Acknowledged > 0 && a.Prev.Index == a.Acknowledged && max(before.Last.Index, s.Last.Index) < a.Prev.Index
}

// rivals reports whether a known member claims to lead the term in which a stranger has shown a loss, and leads it without
// this node's present vote. Then this node may have voted twice in that term.
func rivals(n *node, events []raft.Event) bool {
	return slices.ContainsFunc(events, func(e raft.Event) bool {
		r, ok := e.(raft.Received)
		if !ok || r.Message.Term != n.seen.stranger.term || !includes(n.config(), r.Message.From) || r.Message.From == n.hard.Vote {
			return false
		}
		switch r.Message.Body.(type) {
		case raft.AppendRequest, raft.Heartbeat, raft.InstallSnapshot, raft.TimeoutNow, raft.SteppedDown:
			return true
		}
		return false
	})
}

// checkNoVote checks that a step neither gives a vote nor requests one.
func (k *checker) checkNoVote(n *node, out *raft.Output) {
	for _, m := range slices.Concat(out.Send, out.Write.Then) {
		votes := false
		switch b := m.Body.(type) {
		case raft.VoteReply:
			votes = b.Granted
		case raft.PreVoteReply:
			votes = b.Granted
		case raft.VoteRequest, raft.PreVoteRequest:
			votes = true
		}
		if votes {
			k.broken("N74", "%s was shown by %s in term %d what it has lost, but sends %s a %s",
				n, k.c.title(n.seen.stranger.by), n.seen.stranger.term, k.c.title(m.To), typeName(m.Body))
		}
	}
}

// parts returns the first committed entry that an append contradicts, as far as the member can tell. It looks at entries up
// to the commit index. About the entries below the base, a member knows only that their terms are not higher than the base's
// term. So parts returns the base for them. The slots below the base do not count, because they hold the member's former
// knowledge.
func parts(log []slot, base raft.EntryID, a *raft.AppendRequest, commit raft.Index) (ours raft.EntryID, found bool) {
	contradicts := func(theirs raft.EntryID) bool {
		switch i := theirs.Index; {
		case i == 0 || i > commit:
			return false
		case i < base.Index:
			ours = base
			return theirs.Term > base.Term
		case i == base.Index:
			ours = base
		default:
			ours = log[i-1].entry.ID()
		}
		return theirs != ours
	}
	if contradicts(a.Prev) {
		return ours, true
	}
	for i := range a.Entries {
		if contradicts(a.Entries[i].ID()) {
			return ours, true
		}
	}
	return raft.EntryID{}, false
}

// lossRules are the rules that cannot hold after a lying disk has lost acknowledged writes. All other rules still hold. In
// particular, every member that can notice the loss must notice it.
var lossRules = slices.Concat([]string{"G3", "G4", "G5", "G10", "G11", "G13", "G18", "G23", "H2", "H3", "H4", "N5", "N8"}, baseRules)

// baseRules are those loss rules that are about the beginning of a log. A breach of one of them ends the run, because the
// simulation fills the compacted part of a log with the committed entries.
var baseRules = []string{"G9", "N47", "N61"}

// finalRules are those loss rules after whose breach no check makes sense. With two leaders in one term (G1), the ids of
// entries mean nothing.
var finalRules = append([]string{"G1"}, baseRules...)

// excused reports whether a lying disk explains a failure.
func (c *cluster) excused(class Class, rule string) bool {
	if rule == "G1" && !slices.ContainsFunc(c.nodes, c.lostConfiguration) {
		return false
	}
	return class == Safety && (rule == "G1" || slices.Contains(lossRules, rule)) && c.lostToDisks()
}

// lostConfiguration reports whether a node's disk has lied about a committed entry that changes the members. After such a
// lie, the node's vote may count for a majority of the former members. A majority of the present members may elect another
// leader of the same term.
func (c *cluster) lostConfiguration(n *node) bool {
	for _, lie := range n.disk.lies {
		for l := lie.config; l != nil && l.index >= max(lie.index, 2); l = l.before { // with entry 1, a disk has lost its cluster
			if id := (raft.EntryID{Term: l.term, Index: l.index}); l.index <= c.check.committed() && c.check.canonical[l.index-1].id == id {
				return true
			}
		}
	}
	return false
}

// lostToDisks reports whether a lying disk has lost an entry that a member knows to be committed. Other losses do no harm.
func (c *cluster) lostToDisks() bool {
	if !c.lost && !c.forged && c.scene == nil && slices.ContainsFunc(c.nodes, c.lostCommitted) {
		c.lost = true
		c.stats.Beyond++
		c.stats.Excuse = "a disk has lost what it had synced, including acknowledged writes"
		c.record(Record{Kind: "fault", Text: c.stats.Excuse})
	}
	return c.lost
}

// lostCommitted reports whether a node's disk has lied about an entry that some member knows to be committed.
func (c *cluster) lostCommitted(n *node) bool {
	for _, l := range n.disk.lies {
		if l.index <= c.check.committed() && c.check.canonical[l.index-1].hash == l.hash {
			return true
		}
		for _, other := range c.nodes {
			if h, there := at(other.log, l.index); there && h == l.hash && other.status.Commit >= l.index {
				return true
			}
		}
	}
	return false
}

// checkSilent checks that a marked member gives no definite answers and applies nothing. It may send only the reply that
// reports the loss to the leader.
func (k *checker) checkSilent(n *node, out *raft.Output) {
	for i := range out.Answers {
		switch out.Answers[i].Kind {
		case raft.AnswerReadSafe, raft.AnswerTransferred, raft.AnswerNotApplied:
			k.broken("N24", "%s is marked, but answers request %d", n, out.Answers[i].RequestID)
		}
	}
	var said []raft.Message
	for _, m := range slices.Concat(out.Send, out.Write.Then) {
		if r, conflict := m.Body.(raft.AppendConflict); !conflict || r.Prev == 0 {
			said = append(said, m)
		}
	}
	k.c.holds(out.Apply.Index == 0 && len(said) == 0, "N24", "%s is marked, but applies up to %v and says %v", n, out.Apply, said)
}

// endMarked ends a process whose store is marked, and tries to start it again.
func (n *node) endMarked() {
	n.c.stats.Marked++
	n.c.faulted("%s ends permanently: %v", n.name(), n.disk.mark.Err())
	n.crash()
	stored, err := n.disk.load()
	if err == nil {
		cfg := n.coreConfig()
		cfg.ID, cfg.Initial, cfg.NewCluster = n.id, n.given, raft.ClusterID{1}
		_, _, err = raft.NewCore(cfg, stored, raft.Now{Mono: 1})
	}
	var stale *raft.StaleImageError
	var contradicted *raft.ContradictedError
	refused := errors.As(err, &stale) || errors.As(err, &contradicted)
	n.c.holds(refused, "N24", "%s starts on a marked store: %v", n, err)
}
