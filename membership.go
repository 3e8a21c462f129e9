package raft

import "slices"

// This file says which configuration a member uses. Nothing but the log remembers it, so a truncation restores the one
// before, and a restarted member uses the newest that it has stored.

// config returns the configuration in force, committed or not:
//
//	"a server always uses the latest configuration in its log, regardless of whether the entry is committed" (§6)
//
// A member without an entry uses node.Config.Initial.
func (c *Core) config() Configuration {
	if c.log.Last.Index == 0 {
		return c.cfg.Initial
	}
	return c.log.config().Config
}

// otherVoters returns the other members that have a vote in the configuration in force, sorted.
func (c *Core) otherVoters() []Peer {
	config := c.config()
	var others []Peer
	for _, m := range config.Members {
		if p := m.Peer(); p != c.self && config.VotesIn(p) != 0 {
			others = append(others, p)
		}
	}
	return others
}

// mayBeNeeded reports whether this member has a vote, or had one in the newest configuration that it knows to be committed
// or in one behind that, or is to get one by what such a configuration says:
//
//	"a server that is not part of its own latest configuration should still start new elections, as it might still be
//	needed until the C_new entry is committed" (dissertation §4.2.2)
//
// For example, the members that C_new removes may be the only ones that hold it. Then their logs are longer than those of
// all members that have a vote, whom they would not elect. One of them can lead: it needs the votes of the new voters, and
// its own does not count.
//
// The same holds for a learner that is to become a voter. A member that has C_old,new needs its vote, and the learner may
// have a longer log from a later leader that did not know of C_old,new, and is gone.
func (c *Core) mayBeNeeded() bool {
	if c.config().needs(c.self) {
		return true
	}
	for n := len(c.log.Configs); n >= c.log.configsUpTo(c.log.commit); n-- {
		if c.log.configRun(n).Config.needs(c.self) {
			return true
		}
	}
	return false
}

// mayName reports whether the configuration in force names the peer, or one does to which it may be rolled back.
func (c *Core) mayName(p Peer) bool {
	names := func(r ConfigRun) bool { return r.Config.includes(p) }
	return c.names(p) || slices.ContainsFunc(c.log.configsFrom(c.log.commit), names)
}

// adoptConfig puts the configuration of an entry in force that has just been appended:
//
//	"Once a given server adds the new configuration entry to its log, it uses that configuration for all future
//	decisions" (§6)
func (c *Core) adoptConfig(e Entry) {
	needed := e.Kind == EntryBootstrap || c.config().needs(c.self) // nobody campaigns before entry 1
	err := c.log.adoptConfig(e)
	assert(err == nil, "a configuration was checked before its entry is appended")
	if e.Kind == EntryConfiguration {
		c.trace(TraceEvent{Kind: TraceConfigAppended, ID: e.ID()})
	}
	c.configChanged(needed)
}

// configChanged puts the configuration that is in force from now on into the output; needed says whether the one
// before needed this member. A member that is not needed lets its election timeout run out. Once it is, it draws a new one,
// so that it does not campaign at once.
func (c *Core) configChanged(needed bool) {
	assert(c.follower.attempts.ballot == nil, "the configuration does not change while votes are counted")
	config := c.config()
	c.step.out.Config = &config
	c.clocks = slices.DeleteFunc(c.clocks, func(r clockReading) bool { return config.VotesIn(r.peer) == 0 })
	if c.leader != nil {
		c.follow(c.leader, c.log.config(), c.leader.slowestRoundTrip())
	}
	if !needed && config.needs(c.self) {
		c.resetElectionDeadline()
	}
	c.endCampaign()
}

// endCampaign makes a follower of a member that asks for pre-votes and may be needed no longer, by what it has just
// learned. It may learn that from a leader that it does not follow any more: from a late append of one that has stepped
// down.
func (c *Core) endCampaign() {
	if c.candidate != nil && !c.mayBeNeeded() {
		c.becomeFollower(c.hard.Term, Peer{})
	}
}

// configCommitted notes that a configuration is committed. It puts the one in force into the output
// again, because a caller acts on some of what a configuration says, such as removals, only once it is committed.
func (c *Core) configCommitted(run ConfigRun) {
	if run.Index > 1 { // every cluster begins with that of entry 1
		c.trace(TraceEvent{Kind: TraceConfigCommitted, Index: run.Index})
	}
	if r, ok := run.Config.removal(c.self); ok && r.Index > c.log.commit {
		c.trace(TraceEvent{Kind: TraceRemoved, Index: r.Index})
	}
	config := c.config()
	c.step.out.Config = &config
}

// Removed returns the index of the entry that has removed this member from its cluster, once that is known to be
// committed; 0: none, or one behind which it has joined again. A loop reads it after each Step, and ends the member about an
// election timeout later, so that what the member still has to say leaves, unless it is 0 again by then. It allocates nothing.
func (c *Core) Removed() Index {
	removal, removed := c.log.configAt(c.log.commit).Config.removal(c.self)
	if !removed || c.joinsAgain(removal) {
		return 0
	}
	return removal.Index
}

// joinsAgain reports whether this member was added again after its removal: one that had received nothing may be, once the
// leader has forgotten the removal. It learns of the removal first. The configuration in force names it, or this term's
// leader has shown it entries behind the removal, which those that are removed do not get.
func (c *Core) joinsAgain(removal Removal) bool {
	return c.names(c.self) || c.termLeader.proved > removal.Index
}

// wasRemoved reports whether a peer asks for a vote although its removal is committed. It cannot know that yet, and would
// never be elected: only members of later configurations could elect it.
func (c *Core) wasRemoved(m Message) bool {
	if m.Body.class() != ofCandidate {
		return false
	}
	_, removed := c.log.configAt(c.log.commit).Config.removal(m.From)
	return removed
}
