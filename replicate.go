package raft

// replicate sends a follower the entries that it lacks:
//
//	"If last log index ≥ nextIndex for a follower: send AppendEntries RPC with log entries starting
//	at nextIndex." (Figure 2, Leaders)
func (c *Core) replicate(p *progress) {
	switch p.state {
	case stale:
		c.sendStaleRefusal(p)
		return
	case snapshot:
		c.offerSnapshot(p)
		return
	case probe:
		if !p.probe.out {
			c.sendProbe(p)
		}
		return
	}
	for end := p.lastFor(&c.log); p.next <= end && p.flow.hasRoom(&c.cfg.Limits); {
		last, bytes := c.log.cut(p.next-1, c.cfg.AppendBytesMax)
		last = min(last, end)
		c.sendAppend(p, last)
		p.sentAppend(last, bytes, c.now.Mono)
	}
}

func (c *Core) sendProbe(p *progress) {
	last, end := p.next-1, p.lastFor(&c.log)
	if last > end {
		return // it was removed, and what it lacks is compacted
	}
	if !p.probe.bare && last < end {
		last, _ = c.log.cut(last, c.cfg.AppendBytesMax)
		last = min(last, end)
	}
	c.sendAppend(p, last)
	p.sentProbe(c.now.Mono)
}

// sendStaleRefusal sends a stale follower an append without entries, once per heartbeat interval. The append begins at the
// last entry that the follower acknowledged. It shows the follower that its store is an older image (see onLostLog).
func (c *Core) sendStaleRefusal(p *progress) {
	if p.probe.out && !p.probe.overdue(c.now.Mono, Time(c.cfg.HeartbeatInterval)) {
		return
	}
	p.probe.sent(c.now.Mono)
	c.send(p.peer, AppendRequest{Prev: p.lost, Last: p.lost, Acknowledged: p.lostMatch, Generation: c.log.generation})
}

func (c *Core) sendAppend(p *progress, last Index) {
	c.send(p.peer, AppendRequest{
		Prev: c.log.id(p.next - 1), Last: c.log.id(last),
		Commit: c.log.commit, Acknowledged: p.match, Generation: c.log.generation, Promise: c.asksForLease(),
	})
	p.sentCommit = max(p.sentCommit, min(c.log.commit, last))
}

// pushCommit sends a follower a new commit index at once, unless an append has carried it.
func (c *Core) pushCommit(p *progress) {
	commit := min(c.log.commit, p.match)
	if commit <= p.sentCommit {
		return
	}
	p.sentCommit = commit
	c.send(p.peer, Heartbeat{Commit: commit})
}

// onAppendReply counts an acknowledgement:
//
//	"If successful: update nextIndex and matchIndex for follower (§5.3)." (Figure 2, Leaders)
func (c *Core) onAppendReply(m Message, r AppendReply) {
	p := c.heardFrom(m.From)
	if p == nil {
		return
	}
	if r.Match > c.log.Last.Index {
		c.refuse(m, "it acknowledges entries that do not exist")
		return
	}
	if why := c.onPromise(p, r.Promise); why != "" {
		c.refuse(m, why)
		return
	}
	p.heardMoment(r.Moment)
	p.acknowledged(r.Match, c.now.Mono)
}

// onAppendConflict steps back to where the follower's log may agree:
//
//	"If AppendEntries fails because of log inconsistency: decrement nextIndex and retry (§5.3)."
//	(Figure 2, Leaders)
//
// Like the follower, the leader skips whole terms: it looks for the last entry of its own log whose term is at most the
// hint's.
//
// The answer repeats how much the follower had acknowledged in this term when the leader sent the request. If the logs agree
// only below that, the follower has lost what it acknowledged. The reason is that acknowledged entries are durable, and only
// a leader of a newer term may have them truncated. A late answer to an earlier request repeats a lower index, so it does not
// mislead the leader.
func (c *Core) onAppendConflict(m Message, r AppendConflict) {
	p := c.heardFrom(m.From)
	if p == nil {
		return
	}
	if r.Prev > c.log.Last.Index || r.Prev == 0 || r.Hint.Index > r.Prev || r.Acknowledged > min(p.match, r.Prev) {
		c.refuse(m, "it rejects what was not asked")
		return
	}
	base := c.log.Base.ID.Index
	agreed := r.Hint.Index // at or below the base nothing shows that the logs differ
	if agreed > base {
		agreed = c.log.lastWithTermAtMost(r.Hint.Index, r.Hint.Term).Index
	}
	if r.Prev == r.Acknowledged || agreed < r.Acknowledged || c.replaced(p, r) {
		c.trace(TraceEvent{Kind: TraceStaleMember, Peer: m.From.ID, Index: p.match, Hint: r.Hint})
		c.endOffer(p)
		p.becomeStale(c.acknowledgedEntry(p))
		c.refuseReadsOf(c.leader, p.peer)
		c.onTransferTargetStale(p.peer)
		return
	}
	if p.conflicted(r.Prev, agreed, base) {
		c.trace(TraceEvent{Kind: TraceProbeBack, Peer: m.From.ID, Index: p.next, Hint: r.Hint})
	}
}

// replaced reports whether a conflict shows an older entry at the index of the last entry that the follower acknowledged. The
// leader may have compacted the acknowledged entry, but it knows that entry's term.
func (c *Core) replaced(p *progress, r AppendConflict) bool {
	acknowledged := c.acknowledgedEntry(p)
	return r.Acknowledged == acknowledged.Index && r.Hint.Index >= acknowledged.Index && r.Hint.Term < acknowledged.Term
}

// silenceTimeoutsMax bounds, in election timeouts, how long the leader waits before it repeats a lost append to a follower
// whose disk was slow.
const silenceTimeoutsMax = 8

// silence returns how long the leader waits for an acknowledgement of the last append before it repeats that append. It
// applies to a follower that answers heartbeats. It is an election timeout, or twice the follower's slowest recent
// acknowledgement if that is longer.
func (c *Core) silence(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.acks.max(), silenceTimeoutsMax*c.electionTimeout()))
}

// onPeerUp and onPeerLost handle the transport's reports. Safety depends neither on these reports nor on SendDropped. They
// only make a leader repeat lost appends sooner, and a follower campaign sooner.
func (c *Core) onPeerUp(e PeerUp) {
	c.onBootstrapperPeerUp(e)
	c.onPeerSpeaks(e)
	c.linkReturned()
	c.retransmit(Peer{e.ID, e.Incarnation})
}

func (c *Core) onPeerLost(e PeerLost) {
	c.trace(TraceEvent{Kind: TracePeerLost, Peer: e.Peer.ID})
	if e.Refused {
		c.onNews(e.Peer)
	}
	if c.leader == nil {
		return
	}
	c.onTransferTargetLost(e.Peer)
	p := c.leader.peer(e.Peer)
	if p == nil {
		return
	}
	p.versioned = false // another program may answer next
	if p.state == replicate {
		p.becomeProbe(p.match+1, c.log.Base.ID.Index)
		p.sentProbe(c.now.Mono) // sends nothing now: an answered heartbeat shows when the peer is back
	}
}

func (c *Core) retransmit(peer Peer) {
	if c.leader == nil {
		return
	}
	p := c.leader.peer(peer)
	if p != nil && p.state == snapshot && !c.carriesAgain(p) {
		p.snap.offer.repeat()
	} else if p != nil && p.state != stale {
		next := p.next
		if p.state != probe {
			next = p.match + 1
		}
		p.becomeProbe(next, c.log.Base.ID.Index)
	}
}

// carriesAgain reports whether an append to the follower can now carry the entry for which the follower waits for a snapshot.
func (c *Core) carriesAgain(p *progress) bool {
	limit := c.spokenBy(p.peer).appendBytesMax
	return p.oversized.id.Index > c.log.Base.ID.Index && (limit == 0 || limit >= p.oversized.bytes)
}

// onSendDropped repeats a dropped append. If an entry is too large for a follower, no append can deliver it, and the follower
// needs a snapshot that covers the entry. The event names the entry with its term, because the event may be older than this
// leadership.
func (c *Core) onSendDropped(e SendDropped) {
	if c.leader == nil {
		return
	}
	p := c.leader.peer(e.To)
	if p == nil || p.state == stale || p.state == snapshot || e.Span.After < p.match || p.state == probe && e.Span.After != p.next-1 {
		return // the span was sent before the progress changed
	}
	if i := e.Oversized.Index; i > max(c.log.Base.ID.Index, p.match) && i == e.Span.After+1 && c.log.has(e.Oversized) {
		c.trace(TraceEvent{Kind: TraceOversized, Peer: e.To.ID, ID: e.Oversized})
		p.becomeSnapshot(i, c.log.Base.ID.Index)
		p.oversized = oversized{e.Oversized, e.OversizedBytes}
		return
	}
	p.becomeProbe(min(p.next, e.Span.After+1), c.log.Base.ID.Index)
	p.sentProbe(c.now.Mono) // sends nothing before a heartbeat is answered: the queue may still be full
	p.probe.bare = true
}
