package fuzzy

import (
	"sort"

	"github.com/coxswain/raft"
)

// The invariants of the cluster. G12 is reserved for leases.
//
//	G1   At most one leader can be elected in a given term. (Figure 3, Election Safety)
//	G2   Logs that hold an entry with the same index and term are identical up to it. (Figure 3, Log Matching)
//	G3   A leader's log holds every entry committed in earlier terms. (Figure 3, Leader Completeness)
//	G4   No two members commit different entries at an index. (Figure 3, State Machine Safety)
//	G5   When an entry is first committed, a quorum holds it durably. No disk drops an entry that was committed in the term of the disk's member or in an earlier term. (§5.3)
//	G6   If a leader's commit index rises, the entry at the new index is of the leader's own term. (§5.4.2)
//	G8   A leader has the durable votes of a quorum of its configuration. (§5.2)
//	G10  An acknowledged write is committed at the position that its answer names, and stays committed.
//	G11  Every committed command was proposed by a client, and is committed only once.
//	G13  A read sees everything that was committed before it was requested. (dissertation §6.4)
//	G14  A message names its true sender, and claims no more than the sender knows.
//	G15  A transfer is answered as successful only if a later term is led by the named target or, if the request named none or is urgent, by any other member.
//	G17  If a leader may choose the target of a transfer, it chooses among the voters that it heard recently: one with an effective priority above 0 if there is one, and otherwise one that is no standby. Of these, it chooses one with the longest log. Only a leader that cannot do its work chooses a standby. (dissertation §3.10)
//	G18  At equal applied indexes all state machines have the same state.
//	G16  A member has a term only once all members hold entry 1 durably, and no two clusters have the same id.

// checkElection checks a member that has become leader.
func (k *checker) checkElection(n *node, before *raft.CoreStatus) {
	s := &n.status
	if s.Role != raft.Leader || before.Role == raft.Leader && before.Term == s.Term {
		return
	}
	voted := n.agreed(func(p raft.Peer) bool { return k.hasVoted(p, s.Term, n.peer()) })
	k.c.holds(voted.reached(), "G8", "%s leads term %d with the durable votes of %v", n, s.Term, voted)
	was, led := k.leaders[s.Term] // read after G8 is checked: an excused G1 ends the run
	k.c.holds(!led, "G1", "%s is elected in term %d, which %s leads or led", n, s.Term, k.c.title(was))
	k.checkFormerTerms(s.Term)
	k.leaders[s.Term] = n.peer()
	k.elections++
	k.checkCompleteness(n)
}

// hasVoted reports whether a voter has voted for a candidate, either with its present disk or with a former image of that
// disk.
func (k *checker) hasVoted(p raft.Peer, term raft.Term, candidate raft.Peer) bool {
	for epoch := range k.c.at(p).disk.epoch + 1 {
		if k.votes[voteKey{p.Incarnation, epoch, term}] == candidate {
			return true
		}
	}
	return false
}

// checkCompleteness checks a leader's log. Delayed votes may elect a leader late, after leaders of newer terms have committed
// entries. The late leader need not have those entries.
func (k *checker) checkCompleteness(n *node) {
	earlier := sort.Search(len(k.canonical), func(i int) bool { return k.canonical[i].by >= n.status.Term })
	if earlier == 0 {
		return
	}
	last := k.canonical[earlier-1]
	hash, there := at(n.log, last.id.Index)
	k.c.holds(there && hash == last.hash, "G3", "%s leads term %d without %v, which is committed", n, n.status.Term, last.id)
}

// checkSentByLeader checks a message that only a leader may send.
func (k *checker) checkSentByLeader(n *node, m *raft.Message, commit raft.Index) {
	leader, led := k.leaders[m.Term]
	if !led || leader != n.peer() {
		k.broken("G1", "%s sends %T in term %d, which it does not lead", n, m.Body, m.Term)
	}
	k.checkReceiver(n, m)
	if commit > n.status.Commit {
		k.broken("G14", "%s sends commit %d, but its own is %d", n, commit, n.status.Commit)
	}
}

// checkAppended checks the entries that were appended to a log, at constant cost per entry.
func (k *checker) checkAppended(n *node, l *raft.LogWrite) {
	for i := int(l.After.Index); i < len(n.log); i++ {
		if i == 0 {
			k.checkClusterID(n)
			continue // before the first term, a bootstrap may be repeated with another entry 1
		}
		s := &n.log[i]
		if s.config != n.log[i-1].config {
			k.checkConfigAppended(n, s.config)
		}
		for len(k.seen) <= i {
			k.seen = append(k.seen, seenEntry{})
		}
		first := &k.seen[i]
		switch {
		case first.hash == 0:
			*first = seenEntry{s.entry.Term, s.hash}
		case first.term == s.entry.Term:
			k.checkLogMatching(n, s, first.hash)
		default:
			id := s.entry.ID()
			if hash, known := k.others[id]; known {
				k.checkLogMatching(n, s, hash)
			} else {
				k.others[id] = s.hash
			}
		}
	}
}

// checkClusterID checks that a cluster id belongs to only one entry 1.
func (k *checker) checkClusterID(n *node) {
	was, known := k.bootstraps[n.status.Cluster]
	k.c.holds(!known || was == n.log[0].hash, "G16", "%s takes a second bootstrap of cluster %x", n, n.status.Cluster)
	k.bootstraps[n.status.Cluster] = n.log[0].hash
}

// checkHeldByAll checks, when a member gets its first term, that all members named by entry 1 hold it.
func (k *checker) checkHeldByAll(n *node) {
	first, there := at(n.log, 1)
	if !there {
		return // N7 fails
	}
	bootstrap, _ := raft.DecodeBootstrap(n.log[0].entry.Data) // cannot fail: a core refuses an entry 1 that does not decode
	for _, m := range bootstrap.Configuration.Members {
		k.c.holds(k.c.at(m.Peer()).disk.held(m.Incarnation, 1, first), "G16", "%s is in term %d, but %s does not hold entry 1 of its cluster",
			n, n.status.Term, k.c.title(m.Peer()))
	}
}

func (k *checker) checkLogMatching(n *node, s *slot, hash uint64) {
	if s.hash != hash {
		k.broken("G2", "%s holds %v after a different log than another member", n, s.entry.ID())
	}
}

// checkDurableLog checks a change of a durable log before the change is made. checkKeepsCommitted explains term.
func (k *checker) checkDurableLog(n *node, l *raft.LogWrite, term raft.Term) {
	if !acceptsWrite(n.disk.log, n.disk.base.ID.Index, n.disk.snapshot.ID, l) {
		k.broken("N4", "%s: the disk is to continue after %v, which it does not hold", n, l.After)
	}
	k.checkKeepsCommitted(n, n.disk.log, l, term, "G5")
}

// checkCommit checks a commit index that has risen.
func (k *checker) checkCommit(n *node, before *raft.CoreStatus) {
	s := &n.status
	if s.Commit <= before.Commit {
		return
	}
	hash, there := at(n.log, s.Commit)
	if !there {
		k.c.fail(Safety, "N4", "%s commits %d, but its log ends at %v", n, s.Commit, s.Last)
		return
	}
	leads := s.Role == raft.Leader || before.Role == raft.Leader && before.Term == s.Term // the leader may have stepped down in the step
	if term := n.log[s.Commit-1].entry.Term; leads && term != s.Term {
		k.broken("G6", "%s leads term %d but commits up to an entry of term %d", n, s.Term, term)
	}
	if s.Commit > k.committed() {
		if !leads {
			k.broken("G4", "%s is a follower and commits %d, which no leader has", n, s.Commit)
		}
		k.extend(n, s.Commit)
		k.checkHeldByQuorum(n, hash)
	}
	if k.c.failure == nil && hash != k.canonical[s.Commit-1].hash {
		k.broken("G4", "%s commits %v after a different log than others did", n, n.log[s.Commit-1].entry.ID())
	}
}

// extend adds newly committed entries to the canonical log.
func (k *checker) extend(n *node, to raft.Index) {
	if from := k.committed(); from > 0 {
		hash, _ := at(n.log, from)
		if hash != k.canonical[from-1].hash {
			k.broken("G4", "%s commits %d after a different log than the committed one", n, to)
		}
	}
	if from := len(k.canonical); from > 0 {
		by := k.canonical[from-1].by
		if n.status.Term < by {
			k.broken("G3", "%s leads term %d and commits %d, beyond what term %d has", n, n.status.Term, to, by)
		}
	}
	for i := k.committed(); i < to; i++ {
		s := &n.log[i]
		result := k.machine.take(s)
		k.canonical = append(k.canonical, committedEntry{s.entry.ID(), s.hash, n.status.Term, k.machine.digest(), *s, k.c.now(), result})
		k.checkSessionEntry(s.entry, result)
		if isCommand(s.entry) {
			k.checkCommand(n, s.entry)
		}
	}
	k.c.stats.Commits = len(k.canonical)
	for _, other := range k.c.nodes {
		if other.core != nil && other.status.Role == raft.Leader && other.status.Term > n.status.Term {
			k.checkCompleteness(other)
		}
	}
}

// checkCommand checks and records a committed command.
func (k *checker) checkCommand(n *node, e *raft.Entry) {
	writes := k.c.work.writes
	serial := commandOf(e).serial
	if serial == 0 || serial >= uint64(len(writes)) {
		k.c.fail(Safety, "G11", "%s commits %v, which nobody proposed", n, e.ID())
		return
	}
	a := &writes[serial]
	if a.index > 0 {
		k.broken("G11", "%s commits write %d at %d; it is also committed at %d", n, serial, e.Index, a.index)
	}
	if a.never {
		k.broken("H4", "write %d is committed at %v; its client was told that it never would be", serial, e.ID())
	}
	a.index = e.Index
}

// checkState checks the state of a member's machine after it has applied entries.
func (k *checker) checkState(n *node) {
	if n.applied == 0 || n.applied > k.committed() { // checkApplied has reported this
		return
	}
	if l := n.machine.ledger; l != nil && l.err != nil {
		k.broken("G24", "%s: its state machine fails: %v", n, l.err)
	}
	if n.machine.digest() != k.canonical[n.applied-1].state {
		k.broken("G18", "%s has a state at index %d that differs from the one after the committed entries", n, n.applied)
	}
}

// checkHeldByQuorum checks a new commit. A wiped disk counts with its former contents, because its former incarnation never
// votes again.
func (k *checker) checkHeldByQuorum(n *node, hash uint64) {
	holds := func(p raft.Peer) bool { return k.c.at(p).disk.held(p.Incarnation, n.status.Commit, hash) }
	copies := quorum(n.config(), holds)
	if now := configured(n.log); now.index > n.status.Commit && now.before == n.configBefore && !copies.reached() {
		copies = quorum(&now.before.Configuration, holds) // the step has appended the next configuration after the commit
	}
	if !copies.reached() {
		k.broken("G5", "%s commits %d in term %d, which only %v hold durably", n, n.status.Commit, n.status.Term, copies)
	}
}

// checkAcknowledgement checks a write that is acknowledged to its client.
func (k *checker) checkAcknowledgement(r *request, id raft.EntryID) {
	a := &k.c.work.writes[r.serial]
	if a.index != id.Index {
		k.broken("G10", "write %d is acknowledged at %v, but committed at %d", r.serial, id, a.index)
	}
	if r.state != acceptedOnly {
		k.broken("N11", "write %d is applied after its answer %d", r.serial, r.state)
	}
	r.state = answeredWell
	a.acked = true
	k.c.host.acknowledged(r, id)
}

func (k *checker) checkRead(n *node, r *request, i raft.Index) {
	if i < r.floor {
		k.broken("G13", "%s serves a read at %d; %d was committed before the read was requested", n, i, r.floor)
	}
	if i > k.committed() {
		k.broken("G13", "%s serves a read at %d, but only %d is committed", n, i, k.committed())
	}
}

func (k *checker) checkTransferAnswer(n *node, r *request, a raft.Answer) {
	led := false
	for term := r.term + 1; term <= n.status.Term; term++ {
		leader, ok := k.leaders[term]
		led = led || ok && leader.ID == a.Leader && leader != n.peer()
	}
	k.c.holds(led, "G15", "%s transferred its leadership in term %d to %q, which did not become leader", n, r.term, a.Leader)
	k.c.holds(r.to == "" || r.urgent || r.to == a.Leader, "G15", "%s was to transfer leadership to %s, but reports a transfer to %q", n, r.to, a.Leader)
}
