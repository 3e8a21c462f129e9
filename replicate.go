package raft

// leader is the state of a leader (Figure 2, "Volatile state on leaders").
type leader struct {
	peers       []progress // every other member, sorted by id
	heartbeatAt Time
	beatAt      Time      // when a heartbeat last fell due
	round       RequestID // the last heartbeat round begun
	outstanding []outstanding
	bytes       int // of the outstanding proposals
	reads       leaderReads
	transfer    *transfer
	stalled     bool    // its disk, as far as it has noticed
	indexes     []Index // scratch of voterValues
	times       []Time
}

// outstanding is a proposal that was accepted and not yet handed out to be applied.
type outstanding struct {
	ticket Ticket
	id     EntryID
	bytes  int
}

// newLeader initialises "for each server, nextIndex to leader last log index + 1, matchIndex to 0"
// (Figure 2).
//
// roundTrip is how long the election took, from when the votes were asked for: the first measure of how
// long an answer takes.
func (c *Core) newLeader(roundTrip Time) *leader {
	l := &leader{beatAt: c.now.Mono}
	for _, m := range c.config().Members {
		if m.ID == c.self.ID {
			continue
		}
		p := progress{peer: m.Peer(), voter: m.Kind == Voter, next: c.log.Last.Index + 1, heard: c.now.Mono}
		p.roundTrip.add(roundTrip)
		l.peers = append(l.peers, p)
	}
	return l
}

func (l *leader) peer(p Peer) *progress {
	for i := range l.peers {
		if l.peers[i].peer == p {
			return &l.peers[i]
		}
	}
	return nil
}

// isStale reports whether a follower has lost what it acknowledged: it could never apply what a read needs.
func (l *leader) isStale(peer Peer) bool {
	p := l.peer(peer)
	return p != nil && p.state == stale
}

func (l *leader) peerByID(id NodeID) *progress {
	for i := range l.peers {
		if l.peers[i].peer.ID == id {
			return &l.peers[i]
		}
	}
	return nil
}

// voterValues collects one value of each voter, the leader's own included. The result is valid until
// the next call.
func (l *leader) voterValues(own Index, of func(*progress) Index) []Index {
	l.indexes = append(l.indexes[:0], own)
	for i := range l.peers {
		if l.peers[i].voter {
			l.indexes = append(l.indexes, of(&l.peers[i]))
		}
	}
	return l.indexes
}

// propose appends what clients want in the log:
//
//	"If command received from client: append entry to local log, respond after entry applied to
//	state machine (§5.3)." (Figure 2, Leaders)
func (c *Core) propose(proposals []Proposal) {
	if c.leader == nil || c.step.closing || c.leader.transfer != nil {
		for _, p := range proposals {
			c.refuseTicket(p.Ticket)
		}
		return
	}
	l := c.leader
	entries, now := make([]Entry, 0, len(proposals)), c.stampNow()
	c.growAnswers(len(proposals))
	for _, p := range proposals {
		assert(p.Kind == EntryCommand || p.Kind == EntryNoop, "only commands and no-ops are proposed")
		if refusal := c.overLimit(p, len(entries)); refusal != 0 {
			c.answer(Answer{Ticket: p.Ticket, Kind: AnswerRefused, Refusal: refusal})
			continue
		}
		e := c.placed(Entry{Kind: p.Kind, Time: now, Data: p.Data, record: p.record}, len(entries))
		entries = append(entries, e)
		l.outstanding = append(l.outstanding, outstanding{p.Ticket, e.ID(), len(p.Data)})
		l.bytes += len(p.Data)
		c.answer(Answer{Ticket: p.Ticket, Kind: AnswerAccepted, ID: e.ID()})
	}
	if len(entries) > 0 {
		c.appendEntries(entries)
	}
}

// overLimit says which limit a proposal meets, if ahead others of this step come before it.
func (c *Core) overLimit(p Proposal, ahead int) RefusalKind {
	l := c.leader
	switch {
	case len(p.Data) > c.cfg.CommandBytesMax:
		return RefusedTooLarge
	case c.diskStalled():
		return RefusedStalled
	case len(l.outstanding) >= c.cfg.ProposalsMax,
		l.bytes >= c.cfg.ProposalBytesMax, // whatever its size, or small ones would starve the large
		c.log.Last.Index+Index(ahead)-c.log.applied >= Index(c.cfg.UnappliedMax):
		return RefusedOverloaded
	}
	return 0
}

// appendOwn appends one entry of the leader's own.
func (c *Core) appendOwn(e Entry) {
	e.Time = c.stampNow()
	c.appendEntries([]Entry{c.placed(e, 0)})
}

// placed gives an entry its place, ahead entries beyond the log's end.
func (c *Core) placed(e Entry, ahead int) Entry {
	e.Index, e.Term = c.log.Last.Index+1+Index(ahead), c.hard.Term
	return e
}

// lead is what a leader does at the end of each step: count, and send what there is to send.
func (c *Core) lead() {
	c.advanceCommit()
	c.advanceReads()
	c.advanceTransfer()
	for i := range c.leader.peers {
		p := &c.leader.peers[i]
		c.replicate(p)
		c.pushCommit(p)
	}
}

// replicate sends a follower the entries that it lacks:
//
//	"If last log index ≥ nextIndex for a follower: send AppendEntries RPC with log entries starting
//	at nextIndex." (Figure 2, Leaders)
func (c *Core) replicate(p *progress) {
	switch p.state {
	case stale:
		c.sendStaleRefusal(p)
		return
	case probe:
		if !p.probing {
			c.sendProbe(p)
		}
		return
	}
	for p.next <= c.log.Last.Index && len(p.flights) < c.cfg.InflightMax &&
		(len(p.flights) == 0 || p.flightBytes < c.cfg.InflightBytesMax) {
		last, bytes := c.log.cut(p.next-1, c.cfg.AppendBytesMax)
		c.sendAppend(p, last)
		p.sentAppend(last, bytes, c.now.Mono)
	}
}

func (c *Core) sendProbe(p *progress) {
	last := p.next - 1
	if !p.repeated && last < c.log.Last.Index {
		last, _ = c.log.cut(last, c.cfg.AppendBytesMax)
	}
	c.sendAppend(p, last)
	p.sentProbe(c.now.Mono)
}

// sendStaleRefusal shows a follower that has lost what it acknowledged the last entry of that, again with
// the heartbeats' pace: by it the follower knows that its store is an older image (see onLostLog).
func (c *Core) sendStaleRefusal(p *progress) {
	if p.probing && c.now.Mono-p.probedAt < Time(c.cfg.HeartbeatInterval) {
		return
	}
	p.probing, p.probedAt = true, c.now.Mono
	last := c.log.id(p.lost)
	c.send(p.peer, AppendRequest{Prev: last, Last: last, Acknowledged: p.lost, Generation: c.log.generation})
}

func (c *Core) sendAppend(p *progress, last Index) {
	c.send(p.peer, AppendRequest{
		Prev: c.log.id(p.next - 1), Last: c.log.id(last),
		Commit: c.log.commit, Acknowledged: p.match, Generation: c.log.generation,
	})
	p.sentCommit = max(p.sentCommit, min(c.log.commit, last))
}

// pushCommit tells a follower a new commit index at once, if no append has carried it.
func (c *Core) pushCommit(p *progress) {
	commit := min(c.log.commit, p.match)
	if commit <= p.sentCommit {
		return
	}
	p.sentCommit = commit
	c.send(p.peer, Heartbeat{Commit: commit})
}

// onAppendReply:
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
	p.acknowledged(r.Match, c.now.Mono)
}

// onAppendConflict:
//
//	"If AppendEntries fails because of log inconsistency: decrement nextIndex and retry (§5.3)."
//	(Figure 2, Leaders)
//
// The leader, too, skips a term in one step: it looks for the last entry of its own whose term is at
// most the hint's.
//
// The answer echoes what its sender had acknowledged in this term before it was asked. An agreement that
// ends below that proves that it holds less than it has acknowledged: what is acknowledged is durable, and
// only a leader of a newer term may have it cut. An earlier answer that comes late echoes less.
func (c *Core) onAppendConflict(m Message, r AppendConflict) {
	p := c.heardFrom(m.From)
	if p == nil {
		return
	}
	if r.Prev > c.log.Last.Index || r.Prev == 0 || r.Hint.Index > r.Prev || r.Acknowledged > min(p.match, r.Prev) {
		c.refuse(m, "it rejects what was not asked")
		return
	}
	agreed := c.log.lastWithTermAtMost(r.Hint.Index, r.Hint.Term)
	if r.Prev == r.Acknowledged || agreed.Index < r.Acknowledged {
		c.note(Note{Kind: NoteStaleMember, Peer: m.From.ID, Index: p.match, Hint: r.Hint})
		p.becomeStale()
		c.onTransferTargetStale(p.peer.ID)
		return
	}
	if p.conflicted(r.Prev, agreed.Index) {
		c.note(Note{Kind: NoteProbeBack, Peer: m.From.ID, Index: p.next, Hint: r.Hint})
	}
}

// heardFrom returns a follower's progress and takes note that it was heard in this term. What a stale one
// says does not count: for it there is none.
func (c *Core) heardFrom(from Peer) *progress {
	if c.leader == nil {
		return nil
	}
	p := c.leader.peer(from)
	if p == nil || p.state == stale {
		return nil
	}
	if c.now.Mono-p.heard >= c.window(p) {
		p.backAt = c.now.Mono
	}
	p.heard = c.now.Mono
	return p
}

// beginRound sends a heartbeat to everyone, for a quorum to confirm that this member leads.
func (c *Core) beginRound() {
	c.leader.round = c.nextID()
	for i := range c.leader.peers {
		c.sendHeartbeat(&c.leader.peers[i])
	}
}

func (c *Core) sendHeartbeat(p *progress) {
	commit := min(c.log.commit, p.match)
	p.sentCommit = max(p.sentCommit, commit)
	if !p.round.Less(p.beatRound) {
		p.beatRound, p.beatMatch = c.leader.round, p.match
	}
	p.ping(c.leader.round, c.now.Mono)
	c.send(p.peer, Heartbeat{Round: c.leader.round, Commit: commit})
}

// heartbeat repeats during idle periods to prevent election timeouts (§5.2). It is left out for a
// follower that has answered an append which was sent after the last one fell due; nothing else
// counts. Such an answer also shows that the round trip is no longer than that.
func (c *Core) heartbeat() {
	l := c.leader
	since := c.now.Mono - l.beatAt
	l.round, l.beatAt = c.nextID(), c.now.Mono
	for i := range l.peers {
		p := &l.peers[i]
		busy := p.state == stream && p.match > p.tickLast && !l.reads.waiting()
		p.tickLast = max(p.tickLast, p.next-1)
		if busy {
			p.roundTrip.add(min(since, p.roundTrip.max()))
			continue
		}
		c.sendHeartbeat(p)
	}
}

func (c *Core) onHeartbeatReply(m Message, r HeartbeatReply) {
	p := c.heardFrom(m.From)
	if p == nil {
		return
	}
	c.hearClock(m.From.ID, r.Wall)
	if r.Match > c.log.Last.Index || c.leader.round.Less(r.Round) {
		c.refuse(m, "it answers what was not asked")
		return
	}
	p.pong(r.Round, c.now.Mono)
	if p.round.Less(r.Round) {
		p.round = r.Round
	}
	if r.Match > p.match {
		p.acknowledged(r.Match, c.now.Mono)
	}
	if !r.Round.Less(p.beatRound) {
		p.forgot(r.Match)
	}
	p.roused(c.now.Mono, max(Time(c.cfg.HeartbeatInterval), 2*p.roundTrip.max()), c.silence(p))
	c.onTransferDisobeyed(p.peer, r.Round)
}

// onLeaderDeadlines does what is due on a leader.
func (c *Core) onLeaderDeadlines() {
	l := c.leader
	if c.now.Mono >= c.quorumUntil() {
		c.note(Note{Kind: NoteQuorumLost})
		for i := range l.peers {
			c.send(l.peers[i].peer, SteppedDown{})
		}
		c.becomeFollower(c.hard.Term, "")
		return
	}
	if c.now.Mono >= l.heartbeatAt {
		interval := Time(c.cfg.HeartbeatInterval)
		l.heartbeatAt = max(l.heartbeatAt+interval, c.now.Mono+interval/2)
		c.heartbeat()
	}
	c.onTransferDeadline()
	c.onStalledDisk()
}

// quorumUntil is check-quorum: when the leader steps down, unless a quorum is heard before.
//
//	"a leader steps down if an election timeout elapses without a successful round of heartbeats to
//	a majority of its cluster" (dissertation §6.2)
//
// A leader that has told another to campaign waits for what comes of it.
func (c *Core) quorumUntil() Time {
	l := c.leader
	l.times = append(l.times[:0], c.now.Mono+idleMax)
	for i := range l.peers {
		if l.peers[i].voter {
			l.times = append(l.times, l.peers[i].heard+c.window(&l.peers[i]))
		}
	}
	until := quorumValue(l.times)
	if t := l.transfer; t != nil && t.sent {
		until = max(until, t.deadline)
	}
	return until
}

// window is how long a member that was heard counts as being there: an election timeout, but at least
// twice the round trip to it, and no more than 64 timeouts.
func (c *Core) window(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.roundTrip.max(), c.electionTimeout()<<doublingsMax))
}

// silenceTimeoutsMax bounds, in election timeouts, how long a lost append may wait for its repetition because
// the follower's disk was slow before.
const silenceTimeoutsMax = 8

// silence is how long a follower may answer heartbeats and acknowledge no append before it is asked about the
// last one again: twice as long as its disk took lately.
func (c *Core) silence(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.acks.max(), silenceTimeoutsMax*c.electionTimeout()))
}

func (l *leader) wakeAt(c *Core) Time {
	at := min(l.heartbeatAt, c.quorumUntil())
	if l.transfer != nil {
		at = min(at, l.transfer.wakeAt(Time(c.cfg.HeartbeatInterval)))
	}
	if len(c.disk.pending) > 0 && !c.diskStalled() {
		at = min(at, c.stallsAt())
	}
	return at
}

// onPeerUp, onPeerLost and onSendDropped take what the transport tells: nothing depends on it, but a
// lost append need not be waited for.
func (c *Core) onPeerUp(e PeerUp) {
	c.onFounderPeerUp(e)
	c.linkReturned()
	c.rouse(Peer{e.ID, e.Incarnation})
}

func (c *Core) onPeerLost(e PeerLost) {
	c.note(Note{Kind: NotePeerLost, Peer: e.ID})
	if c.leader == nil {
		return
	}
	c.onTransferTargetLost(e.ID)
	if p := c.leader.peerByID(e.ID); p != nil && p.state == stream {
		p.becomeProbe(p.match + 1)
		p.sentProbe(c.now.Mono) // it is gone: heartbeats will tell when it is back
	}
}

func (c *Core) rouse(peer Peer) {
	if c.leader == nil {
		return
	}
	if p := c.leader.peer(peer); p != nil && p.state != stale {
		next := p.next
		if p.state == stream {
			next = p.match + 1
		}
		p.becomeProbe(next)
	}
}

func (c *Core) onSendDropped(e SendDropped) {
	if c.leader == nil {
		return
	}
	p := c.leader.peerByID(e.To)
	if p == nil || p.state == stale || e.Span.After < p.match || p.state == probe && e.Span.After != p.next-1 {
		return // it names a span of an earlier course
	}
	p.becomeProbe(min(p.next, e.Span.After+1))
	p.sentProbe(c.now.Mono) // not before a heartbeat is answered: the way may still be blocked
	p.repeated = true
}

// handedOut drops the proposals up to i: the applier answers them.
func (l *leader) handedOut(i Index) {
	n := 0
	for n < len(l.outstanding) && l.outstanding[n].id.Index <= i {
		l.bytes -= l.outstanding[n].bytes
		n++
	}
	l.outstanding = append(l.outstanding[:0], l.outstanding[n:]...)
}
