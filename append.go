package raft

import "errors"

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
	c.termLeader.proved = max(c.termLeader.proved, r.Last.Index)
	c.followCommit(r.Commit)
	c.promiseLog(m.From, AppendReply{Match: r.Last.Index}, r.Last.Index)
}

// rejectAppend answers an append whose consistency check has failed. At or below the base there is nothing to answer:
// what the append contradicts is committed here.
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
// Entries that the log already has are left alone, so that an old or duplicated append never shortens the
// log. adopt changes nothing, and says why, if the append would replace an entry that is committed, or that this term's
// leader itself has proved to match, and if no correct leader would have appended one of its configurations.
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
// Here the last new entry is the last one that any append of this term's leader has proved to match.
func (c *Core) followCommit(leaderCommit Index) {
	c.commitTo(min(leaderCommit, c.termLeader.proved))
}

// malformed says what is wrong with an append that no correct leader would send; "" if nothing is.
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

// ofLaterRelease returns the first entry that only a later release can read. This member then ignores the
// whole append: it can neither store nor apply an entry that it cannot read. It keeps following the leader,
// which did nothing wrong.
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
		}
		if ofLaterVersion(err) {
			return e, true
		}
	}
	return Entry{}, false
}

// malformedKind checks that entry 1, and no other entry, bootstraps the cluster that the message names, and that a
// configuration is one. It says what is wrong; "" if nothing is.
func (c *Core) malformedKind(m Message, e Entry) string {
	switch {
	case e.Index == 1:
		return c.malformedBootstrap(m, e)
	case e.Kind == EntryBootstrap:
		return "a cluster is bootstrapped by entry 1 alone"
	case e.Kind == EntryConfiguration:
		if _, err := DecodeConfiguration(e.Data); err != nil && !ofLaterVersion(err) {
			return err.Error()
		}
	}
	return ""
}

func (c *Core) malformedBootstrap(m Message, e Entry) string {
	f, err := DecodeBootstrap(e.Data)
	if !e.Kind.known() || ofLaterVersion(err) {
		return "" // see ofLaterRelease
	}
	var earlier *EarlierVersionError
	if errors.As(err, &earlier) {
		return "its entry 1 is of an earlier release, and this one cannot read it"
	}
	if e.Kind != EntryBootstrap || err != nil || f.Cluster != m.Cluster {
		return "its entry 1 does not bootstrap the cluster that it names"
	}
	return ""
}
