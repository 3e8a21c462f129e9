package raft

import "slices"

// This file keeps a leader's list of the other members in line with the configuration in force.

// departTimeouts is for how many election timeouts a leader serves a member whose removal is committed.
const departTimeouts = 10

// newProgress is what a leader knows of a member at first: "for each server, nextIndex to leader last log index + 1,
// matchIndex to 0" (Figure 2). roundTrip is an estimate of how long an answer takes.
func (c *Core) newProgress(peer Peer, roundTrip Time) progress {
	p := progress{peer: peer, next: c.log.Last.Index + 1, heard: c.now.Mono, matchedAt: c.now.Mono}
	p.joins.movedAt = c.now.Mono
	p.beats.roundTrip.add(roundTrip)
	return p
}

// follow makes the list that of a configuration that has come into force. What is known of a member stays, whatever it
// votes in now. It belongs to one incarnation: a member that takes another one's place under the same id begins anew.
// roundTrip is the estimate for the members that join.
func (c *Core) follow(l *leader, run ConfigRun, roundTrip Time) {
	assert(l.transfer == nil, "the members do not change during a transfer")
	config := run.Config
	l.votes = config.VotesIn(c.self)
	for i := range l.peers {
		p := &l.peers[i]
		p.votes = config.VotesIn(p.peer)
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
	l.change.begins(config, l.votes, c.now.Mono)
}

// slowestRoundTrip returns the longest recent round trip to any member.
func (l *leader) slowestRoundTrip() (slowest Time) {
	for i := range l.peers {
		slowest = max(slowest, l.peers[i].beats.roundTrip.max())
	}
	return slowest
}

// depart handles a member that the entry at the given index has removed. It is served until it knows, so that it can end
// instead of campaigning. It gets no entry behind that one and no snapshot, and nothing is kept for it.
func (c *Core) depart(l *leader, p *progress, by Index) {
	c.endOffer(p)
	c.refuseReadsOf(l, p.peer)
	p.departs, p.departsUntil, p.told = by, 0, RPCID{}
	p.next = min(p.next, by+1)
}

// learns reports whether the follower is a member without a vote.
func (p *progress) learns() bool { return p.votes == 0 && p.departs == 0 }

// lastFor returns the last entry that the follower is to have.
func (p *progress) lastFor(log *log) Index {
	if p.departs > 0 {
		return min(p.departs, log.Last.Index)
	}
	return log.Last.Index
}

// dropDeparted ends the service of removed members that know that their removal is committed, and of those that have had
// time enough to learn it.
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

// knowsItsRemoval reports whether the member has answered a heartbeat that told it that its removal is committed.
func (p *progress) knowsItsRemoval() bool { return p.told != RPCID{} && !p.beats.echoed.Less(p.told) }
