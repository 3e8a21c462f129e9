package raft

import (
	"slices"
)

// This file holds the configuration in force, a leader's list of the members that the configuration names, and how new
// members catch up. Only the log remembers the configuration. So a truncation restores the configuration before, and a
// restarted member uses the newest configuration that it has stored.

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

// mayBeNeeded reports whether this member has a vote, or will get one, in some configuration that may be in force in the
// cluster. Those are the newest configuration that it knows to be committed, and all later ones in its log:
//
//	"a server that is not part of its own latest configuration should still start new elections, as it might still be
//	needed until the C_new entry is committed" (dissertation §4.2.2)
//
// For example, the members that C_new removes may be the only ones that hold C_new. Their logs are then longer than those of
// all members with a vote, so they would not elect any of those members. But a removed member can lead. It needs the votes of
// the new voters, and its own vote does not count.
//
// The same holds for a future voter. Suppose a later leader did not know C_old,new, sent entries to the learner, and is gone.
// The learner may then have a longer log than a member that has C_old,new and needs the learner's vote.
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

// mayName reports whether the configuration in force names the peer. It also returns true if a configuration to which the
// cluster may roll back names the peer.
func (c *Core) mayName(p Peer) bool {
	names := func(r ConfigRun) bool { return r.Config.includes(p) }
	return c.names(p) || slices.ContainsFunc(c.log.configsFrom(c.log.commit), names)
}

// adoptConfig puts the configuration of a newly appended entry in force:
//
//	"Once a given server adds the new configuration entry to its log, it uses that configuration for all future
//	decisions" (§6)
func (c *Core) adoptConfig(e Entry) {
	needed := e.Kind == EntryBootstrap || c.config().needs(c.self) // nobody campaigns before entry 1
	err := c.log.adoptConfig(e)
	assert(err == nil, "a configuration was checked before its entry is appended")
	if e.Kind != EntryBootstrap {
		c.trace(TraceEvent{Kind: TraceConfigAppended, ID: e.ID()})
	}
	c.configChanged(needed)
}

// configChanged reports the configuration that has come into force. needed says whether the previous configuration needed
// this member. A member that is not needed lets its election timeout run out. When it is needed again, it draws a new
// timeout, so that it does not campaign at once.
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

// endCampaign makes this member a follower if it asks for pre-votes but has just learned that it is no longer needed. For
// example, it may have stopped following a leader that stepped down, and then receive a late append of that leader.
func (c *Core) endCampaign() {
	if c.candidate != nil && !c.mayBeNeeded() {
		c.becomeFollower(c.hard.Term, Peer{})
	}
}

// configCommitted notes that a configuration is committed. It reports the configuration in force again. The reason is that a
// caller acts on parts of the configuration, such as removals, only once they are committed.
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

// Removed returns the committed entry that removed this member; 0: none, or the member has joined again. A loop reads it
// after each Step. If it stays nonzero for an election timeout, the last messages have left, and the loop ends the member.
// Removed allocates nothing.
func (c *Core) Removed() Index {
	removal, removed := c.log.configAt(c.log.commit).Config.removal(c.self)
	if !removed || c.joinsAgain(removal) {
		return 0
	}
	return removal.Index
}

// joinsAgain reports whether this member was added again after its removal. For example, a member that had received nothing
// may be added again once the leader has forgotten the removal. That member first learns of its old removal. It knows that it
// has joined again if the configuration in force names it. It also knows if this term's leader has shown it entries after the
// removal, because removed members get no such entries.
func (c *Core) joinsAgain(removal Removal) bool {
	return c.names(c.self) || c.termLeader.proved > removal.Index
}

// wasRemoved reports whether a peer asks for a vote although its removal is committed. The peer cannot know that yet. It
// could not win, because it would need the votes of members in later configurations.
func (c *Core) wasRemoved(m Message) bool {
	if m.Body.class() != ofCandidate {
		return false
	}
	_, removed := c.log.configAt(c.log.commit).Config.removal(m.From)
	return removed
}

// departTimeouts is the number of election timeouts for which a leader serves a member whose removal is committed.
const departTimeouts = 10

// newProgress is a leader's initial knowledge of a member: "for each server, nextIndex to leader last log index + 1,
// matchIndex to 0" (Figure 2). roundTrip is an estimate of how long an answer takes. It is also the first
// estimate of how long an acknowledgement takes, because a vote waits for a disk, too.
func (c *Core) newProgress(peer Peer, roundTrip Time) progress {
	p := progress{peer: peer, next: c.log.Last.Index + 1, heard: c.now.Mono, matchedAt: c.now.Mono}
	p.joins.movedAt = c.now.Mono
	p.beats.roundTrip.add(roundTrip)
	p.acks.add(roundTrip)
	return p
}

// follow adapts the leader's list of members to a configuration that has come into force. The leader keeps what it knows of a
// member, even if the member's vote changes. If an incarnation replaces another one with the same id, the leader begins anew
// with it. roundTrip is the estimate for members that join.
func (c *Core) follow(l *leader, run ConfigRun, roundTrip Time) {
	assert(l.transfer == nil, "the members do not change during a transfer")
	config := run.Config
	l.votes = config.VotesIn(c.self)
	for i := range l.peers {
		p := &l.peers[i]
		if p.votes = config.VotesIn(p.peer); p.votes != 0 {
			p.joins.endRounds()
		}
		switch {
		case config.includes(p.peer):
			p.departs = 0
		case p.departs == 0:
			c.depart(l, p, run.Index)
		}
	}
	for _, m := range config.Members {
		if peer := m.Peer(); peer != c.self && l.peer(peer) == nil {
			p := c.newProgress(peer, roundTrip)
			p.votes = config.VotesIn(peer)
			l.peers = append(l.peers, p)
		}
	}
	l.learners = 0
	for i := range l.peers {
		if l.peers[i].learns() {
			l.learners++
		}
	}
	slices.SortFunc(l.peers, func(a, b progress) int { return a.peer.compare(b.peer) })
	l.succession.keepVotersOf(config)
	l.change.begins(config, l.votes, c.now.Mono)
}

// slowestRoundTrip returns the longest recent round trip to any member.
func (l *leader) slowestRoundTrip() (slowest Time) {
	for i := range l.peers {
		slowest = max(slowest, l.peers[i].beats.roundTrip.max())
	}
	return slowest
}

// depart handles a member that the entry at the given index has removed. The leader serves this member until the member knows
// of its removal, so that it ends instead of campaigning. The leader sends it no entry after the removal and no snapshot, and
// keeps no entries for it.
func (c *Core) depart(l *leader, p *progress, by Index) {
	c.endOffer(p)
	c.refuseReadsOf(l, p.peer)
	p.departs, p.departsUntil, p.removalRound = by, 0, RPCID{}
	p.next = min(p.next, by+1)
}

// learns reports whether the follower is a member without a vote.
func (p *progress) learns() bool { return p.votes == 0 && p.departs == 0 }

// lastFor returns the last entry that the follower should receive.
func (p *progress) lastFor(log *log) Index {
	if p.departs > 0 {
		return min(p.departs, log.Last.Index)
	}
	return log.Last.Index
}

// dropDeparted ends the service of removed members. It drops a member that knows that its removal is committed, or that has
// had enough time to learn it.
func (c *Core) dropDeparted() {
	l := c.leader
	l.peers = slices.DeleteFunc(l.peers, func(p progress) bool {
		return p.departs > 0 && (p.knowsItsRemoval() || p.departsUntil > 0 && c.now.Mono >= p.departsUntil)
	})
	for i := range l.peers {
		if p := &l.peers[i]; p.departs > 0 && p.departsUntil == 0 && p.departs <= c.log.commit {
			p.departsUntil = c.now.Mono + departTimeouts*c.electionTimeout()
		}
	}
}

// knowsItsRemoval reports whether the member has answered a heartbeat that announced its committed removal.
func (p *progress) knowsItsRemoval() bool {
	return p.removalRound != RPCID{} && !p.beats.echoed.Less(p.removalRound)
}

// catchUp records how a member without a vote catches up, in rounds:
//
//	"The algorithm divides replication of entries to the new server into rounds. Each round replicates all the log
//	entries present in the leader's log at the start of the round to the new server's log." (dissertation §4.2.1)
type catchUp struct {
	round   int   // of the present round; the first is 1
	target  Index // the last entry of the log when it began
	since   Time  // when it began
	running bool  // not every entry up to target is acknowledged
	prompt  bool  // the previous round took at most roundMax
	bytes   int64 // the most that it had of its present snapshot, or of an earlier one whose stream failed
	movedAt Time  // when it last made progress; initially, when the leader began with it
	from    Index // match when entries were last sent to it anew: in this round
	fromAt  Time  // when that was
}

// endRounds forgets how prompt a member was before it got its vote. If it loses the vote, it may have lagged meanwhile, so it
// catches up anew before it gets another one.
func (r *catchUp) endRounds() { r.running, r.prompt = false, false }

// advanceRounds continues the rounds of all members without a vote.
func (c *Core) advanceRounds() {
	if c.leader.learners == 0 {
		return
	}
	for i := range c.leader.peers {
		if p := &c.leader.peers[i]; p.learns() {
			c.advanceRound(p)
		}
	}
}

// advanceRound ends a member's round if the member holds the round's entries, and begins the next one. While the member holds
// the whole log, a round takes no time.
func (c *Core) advanceRound(p *progress) {
	r, last := &p.joins, c.log.Last.Index
	if r.running && p.match >= r.target {
		r.running, r.prompt = false, p.state == replicate && c.now.Mono-r.since <= c.roundMax(p)
	}
	switch {
	case r.running:
	case p.match < last:
		r.round, r.target, r.since, r.running = r.round+1, last, c.now.Mono, true
		p.measure(c.now.Mono)
	default:
		r.prompt = p.state == replicate
	}
}

// measure begins to measure anew how fast the member acknowledges entries.
func (p *progress) measure(now Time) { p.joins.from, p.joins.fromAt = p.match, now }

// roundMax returns how long a round may take before a member becomes a voter:
//
//	"If the last round lasts less than an election timeout, then the leader adds the new server to the cluster, under the
//	assumption that there are not enough unreplicated entries to create a significant availability gap."
//	(dissertation §4.2.1)
//
// If disks are slow, the limit is twice the slowest recent acknowledgement, if that is longer.
func (c *Core) roundMax(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.acks.max(), c.electionTimeout()<<doublingsMax))
}

// caughtUp reports whether a member without a vote could get one now. It is no longer true once the present round takes too
// long, or once the member is silent or has lost what it acknowledged.
func (c *Core) caughtUp(p *progress) bool {
	r := &p.joins
	return p.state == replicate && c.heardLately(p) && r.prompt && (!r.running || c.now.Mono-r.since <= c.roundMax(p))
}

func (c *Core) catchUpStatus(p *progress) CatchUpRound {
	if r := &p.joins; p.learns() {
		return CatchUpRound{r.round, r.target, r.since, c.caughtUp(p), r.from, r.fromAt, r.movedAt}
	}
	return CatchUpRound{}
}
