package raft

import "errors"

// This file holds what a follower keeps, and how it receives the entries of its leader.

// follower is the state of a member that does not lead, whether it campaigns or not.
type follower struct {
	deadline Time // of the election timeout
	// deferUntil bounds how far other members' elections may delay the deadline. It is 0 if no election has delayed the
	// present deadline.
	deferUntil Time
	// needed reports that this member has denied a candidate because of the candidate's log, since the present deadline was
	// drawn. Perhaps only this member can win the election.
	needed          bool
	heard           Time     // when a message of a leader last came; 0: never since the start
	promisedUntil   Time     // until then, this member helps to elect no leader: it has promised a lease, or may have before its start
	vacancy         vacancy  // of the leader's office, as this member knows it
	gracePeriodUsed bool     // the process woke late and restarted the timer; no leader has been heard since
	attempts        attempts // to be elected
	backoffUntil    Time     // until then, this member counts as one without priority; 0: no loss of its leadership is known
	span            Time     // how long an election takes at most, as the last leader has said; 0: not known
	reads           followerReads
	// transferOutcome is the transfer that was running when this member last stepped down. It is nil if there was none, or
	// once the outcome is known.
	transferOutcome *transfer
	offer           *offer  // the snapshot that this member asked for last; nil: none
	hearing         hearing // of a cluster, while this member was uninitialized
	// suspicion is not nil while a leader that the configuration does not name has shown a loss. It is nil at all other
	// times.
	suspicion *suspicion
}

// termLeader is what this member knows about the leader of the present term. It is the only place that records
// whom the member follows.
type termLeader struct {
	// peer is the member that this member follows. It is this member itself if this member leads, and zero if it follows
	// nobody. Until this member has heard that leader, it may know the leader from another member's refusal of a pre-vote.
	peer Peer
	// elected is the leader that this member heard in this term, or this member itself if it won. No other member can lead
	// the term. The field stays until the term ends, even if this member no longer follows that leader.
	elected  Peer
	told     Peer  // the candidate that the leader of an earlier term has told to campaign; zero: none is known
	resigned bool  // elected has said that it stepped down: late messages of it do not show a live leader
	proved   Index // elected has proved that the logs match up to here
	gone     bool  // the news is that the process of peer has ended
	// successors are the members that shall campaign first, second and so on once peer is lost. It has named them.
	successors []Peer
	denied     *deniedPreVote // the last one; nil: none in this term
}

// isHeard reports whether this member follows a leader and has received a message from that leader itself.
func (t *termLeader) isHeard() bool { return t.peer != Peer{} && t.peer == t.elected }

// hear records that a message of this term's leader has come.
//
//	"If AppendEntries RPC received from new leader: convert to follower." (Figure 2, Candidates)
func (c *Core) hear(leader Peer) {
	assert(!c.otherLeads(leader), "two leaders of one term never hear each other")
	c.termLeader.elected = leader
	if c.termLeader.resigned {
		return
	}
	c.endBallot(false)
	if c.termLeader.peer != leader || c.candidate != nil {
		c.becomeFollower(c.hard.Term, leader)
		c.compact() // what it has held for others while it led, which may fill its disk
	}
	c.follower.heard, c.termLeader.gone = c.now.Mono, false
	c.follower.vacancy = vacancy{CauseSilence, leader.ID, c.now.Mono}
	c.follower.gracePeriodUsed = false
	if c.follower.attempts.any() && c.committedOwn() {
		c.resetBackoff() // in an idle cluster no new commit would do it
	}
	c.resetElectionDeadline()
}

// otherLeads reports whether a member other than p is known to lead the present term:
//
//	"Election Safety: at most one leader can be elected in a given term." (Figure 3)
func (c *Core) otherLeads(p Peer) bool {
	return c.leader != nil || c.termLeader.elected != Peer{} && c.termLeader.elected != p
}

// onAppendRequest handles entries from this term's leader (Figure 2, AppendEntries).
func (c *Core) onAppendRequest(m Message, r AppendRequest) {
	if why := c.malformed(m, r); why != "" {
		c.refuse(m, why)
		return
	}
	c.hear(m.From)
	if c.contradicted(m.From, r) {
		return
	}
	if later, ok := ofLaterRelease(r.Entries); ok {
		c.trace(TraceEvent{Kind: TraceLaterVersion, Peer: m.From.ID, ID: later.ID()})
		return
	}
	if !c.log.has(r.Prev) {
		c.rejectAppend(m, r)
		return
	}
	if why := c.adopt(r.Entries); why != "" {
		c.refuse(m, why)
		return
	}
	assert(c.log.has(r.Last), "an accepted append is in the log")
	c.joinCluster(m.Cluster)
	c.termLeader.proved = max(c.termLeader.proved, r.Last.Index)
	c.followCommit(r.Commit)
	c.promiseLog(m.From, AppendReply{Match: r.Last.Index, Moment: c.moment(m.From), Promise: c.promise(r.Promise)}, r.Last.Index)
}

// joinCluster notes the cluster of the leader from which this member has just got its first entries, if the cluster was recovered
// and so has another id than in entry 1. The note is durable with those entries. From then on this member refuses the members of the
// former cluster, although it may not hold the entry of the recovery yet.
func (c *Core) joinCluster(of ClusterID) {
	if own := c.cluster(); own != of && own != (ClusterID{}) {
		assert(c.hard.Cluster == ClusterID{}, "a member that belongs to a cluster hears no leader of another one")
		c.hard.Cluster = of
	}
}

// rejectAppend answers an append whose consistency check has failed. If the append begins at or below the base, rejectAppend
// sends no answer, because the append contradicts entries that are committed here.
func (c *Core) rejectAppend(m Message, r AppendRequest) {
	if r.Prev.Index <= c.log.Base.ID.Index {
		c.refuse(m, "it contradicts what is committed and compacted here")
		return
	}
	hint := c.log.lastWithTermAtMost(r.Prev.Index, r.Prev.Term)
	c.trace(TraceEvent{Kind: TraceConflict, Peer: m.From.ID, ID: r.Prev, Hint: hint})
	conflict := AppendConflict{Prev: r.Prev.Index, Hint: hint, Acknowledged: r.Acknowledged}
	c.onLostLog(m.From, conflict)
	c.send(m.From, conflict)
}

// adopt brings the log in line with the leader's:
//
//	"3. If an existing entry conflicts with a new one (same index but different terms), delete the
//	existing entry and all that follow it (§5.3).
//	4. Append any new entries not already in the log." (Figure 2, AppendEntries)
//
// It leaves entries that the log already has alone, so that an old or duplicated append never shortens the log. If the append
// is impossible, adopt changes nothing and returns the reason. An append is impossible if it would replace a committed entry,
// or an entry that this term's leader has proved to match. It is also impossible if it contains a configuration that no
// correct leader would append.
func (c *Core) adopt(entries []Entry) (why string) {
	for i, e := range entries {
		if c.log.has(e.ID()) {
			continue
		}
		if e.Index <= max(c.log.commit, c.termLeader.proved) {
			return "it contradicts a committed entry, or one that its sender has proved"
		}
		if err := c.log.accepts(entries[i:]); err != nil {
			return err.Error()
		}
		if e.Index <= c.log.Last.Index {
			c.truncate(e.Index - 1)
		}
		c.appendEntries(entries[i:])
		break
	}
	return ""
}

// followCommit is the last rule of AppendEntries:
//
//	"5. If leaderCommit > commitIndex, set commitIndex = min(leaderCommit, index of last new entry)."
//	(Figure 2)
//
// Here "last new entry" is the last entry that any append of this term's leader has proved to match.
func (c *Core) followCommit(leaderCommit Index) {
	c.commitTo(min(leaderCommit, c.termLeader.proved))
}

// malformed returns what is wrong with an append that no correct leader would send. It returns "" if nothing is wrong.
func (c *Core) malformed(m Message, r AppendRequest) string {
	if c.otherLeads(m.From) {
		return "another member leads this term"
	}
	if r.Last.Index < r.Prev.Index || r.Last.Index-r.Prev.Index != Index(len(r.Entries)) {
		return "its entries do not fill its span"
	}
	if r.Last.Index >= 1<<63 || r.Prev.Term > m.Term || r.Prev.Index == 0 && r.Prev.Term != 0 {
		return "its span is impossible"
	}
	if r.Acknowledged > r.Prev.Index {
		return "it begins below what it says was acknowledged"
	}
	before := r.Prev
	for _, e := range r.Entries {
		if e.Index != before.Index+1 || e.Term < before.Term || e.Term > m.Term {
			return "its entries are out of order"
		}
		if why := c.malformedKind(m, e); why != "" {
			return why
		}
		before = e.ID()
	}
	if before != r.Last {
		return "its last entry is not the one it names"
	}
	return ""
}

// ofLaterRelease returns the first entry that only a later release can read. This member then ignores the whole append,
// because it can neither store nor apply an entry that it cannot read. It keeps following the leader, because the leader did
// nothing wrong.
func ofLaterRelease(entries []Entry) (Entry, bool) {
	for _, e := range entries {
		if !e.Kind.known() {
			return e, true
		}
		var err error
		switch e.Kind {
		case EntryBootstrap:
			_, err = DecodeBootstrap(e.Data)
		case EntryConfiguration:
			_, err = DecodeConfiguration(e.Data)
		case EntryRecovery:
			_, err = DecodeRecovery(e.Data)
		}
		if ofLaterVersion(err) {
			return e, true
		}
	}
	return Entry{}, false
}

// malformedKind checks that entry 1, and no other entry, bootstraps the cluster. It also checks that the data of a configuration
// entry is a valid configuration. It returns what is wrong, or "" if nothing is.
func (c *Core) malformedKind(m Message, e Entry) string {
	switch {
	case e.Index == 1:
		return c.malformedBootstrap(e)
	case e.Kind == EntryBootstrap:
		return "a cluster is bootstrapped by entry 1 alone"
	case e.Kind == EntryConfiguration:
		if _, err := DecodeConfiguration(e.Data); err != nil && !ofLaterVersion(err) {
			return err.Error()
		}
	case e.Kind == EntryRecovery:
		if _, err := DecodeRecovery(e.Data); err != nil && !ofLaterVersion(err) {
			return err.Error()
		}
	}
	return ""
}

func (c *Core) malformedBootstrap(e Entry) string {
	_, err := DecodeBootstrap(e.Data)
	if !e.Kind.known() || ofLaterVersion(err) {
		return "" // see ofLaterRelease
	}
	var earlier *EarlierVersionError
	if errors.As(err, &earlier) {
		return "its entry 1 is of an earlier release, and this one cannot read it"
	}
	if e.Kind != EntryBootstrap || err != nil {
		return "its entry 1 bootstraps no cluster"
	}
	return ""
}
