package raft

import (
	"cmp"
	"slices"
)

// This file decides who campaigns when, so that a new leader is elected soon, by one election, and is the one that the owner of
// the cluster wants. It never decides who may win: the majority, the one durable vote of a term and the check of the logs
// stay as they are.
//
// The leader sends a list of its successors with its heartbeats, and how long an election takes. A follower that loses the
// leader waits for its rank in that list, times that long: the first successor is elected before the next one would begin.
// A follower usually learns that the leader is gone from an election timeout. It learns it at once from the news that the
// leader's process has ended.

// successorsMax bounds the list of successors. The first one is elected unless it has failed, too.
const successorsMax = 8

// spanMin is the least time that an election is assumed to take, in fractions of an election timeout.
const spanMin = 15

// succession is what a leader tells its followers about the next election.
type succession struct {
	list   []Peer // who campaigns first, second and so on
	span   Time   // how long an election takes at most; 0: not known
	differ int    // for how many rounds a leader would have sent others
}

// updateSuccession is called once per round of heartbeats. The successors must have answered since the last one. A change
// counts once it has lasted for two rounds, so that one late answer changes nothing.
func (c *Core) updateSuccession(lastRound Time) {
	if c.cfg.Preferences.NoSuccessors {
		return
	}
	s, list, span := &c.leader.succession, c.successors(lastRound), c.electionSpan()
	if slices.Equal(list, s.list) && span <= s.span+s.span/4 && span >= s.span-s.span/4 {
		s.differ = 0
		return
	}
	if s.differ++; s.differ > 1 || len(s.list) == 0 {
		*s = succession{list: list, span: span}
	}
}

// keepVotersOf drops the successors that a new configuration gives no vote. The next round may be too late for them.
func (s *succession) keepVotersOf(config Configuration) {
	voters := slices.DeleteFunc(slices.Clone(s.list), func(p Peer) bool { return config.VotesIn(p)&IncomingHalf == 0 })
	if len(voters) < len(s.list) {
		s.list = voters
	}
}

// successors returns the voters that could take over, in this order: by priority, then by id.
func (c *Core) successors(lastRound Time) []Peer {
	var able []*progress
	for i := range c.leader.peers {
		if p := &c.leader.peers[i]; p.votes&IncomingHalf != 0 && p.heard >= lastRound && c.effectivePriority(p) > 0 {
			able = append(able, p)
		}
	}
	slices.SortStableFunc(able, func(a, b *progress) int { return cmp.Compare(c.priority(b.peer), c.priority(a.peer)) })
	var list []Peer
	for _, p := range able[:min(len(able), successorsMax)] {
		list = append(list, p.peer)
	}
	return list
}

// electionSpan returns how long an election takes: the way to the slowest voter and back, and two durable votes. A vote takes
// as long as a usual write of this disk. If other disks are slower, the attempts of the members show it.
func (c *Core) electionSpan() Time {
	span := Time(0)
	for i := range c.leader.peers {
		if p := &c.leader.peers[i]; p.votes != 0 && !c.silent(p) {
			span = max(span, p.beats.roundTrip.median())
		}
	}
	return max(c.electionTimeout()/spanMin, min(span+2*c.disk.took.median(), c.electionTimeout()<<doublingsMax))
}

// onSuccession keeps what the leader of the present term says about the next election. A list that no correct leader sends
// is refused. A list that names a stranger has no effect, but is not refused: while the members change, the configuration of
// the receiver may be older or newer than the list.
func (c *Core) onSuccession(m Message, h Heartbeat) {
	if c.cfg.Preferences.NoSuccessors || h.Span == 0 {
		return
	}
	if why := c.malformedSuccession(m.From, h); why != "" {
		c.refuse(m, why)
		return
	}
	if slices.ContainsFunc(h.Successors, func(p Peer) bool { return !c.names(p) }) {
		return
	}
	c.termLeader.successors = h.Successors
	c.follower.span = h.Span
}

func (c *Core) malformedSuccession(leader Peer, h Heartbeat) string {
	if len(h.Successors) > successorsMax || h.Span < 0 {
		return "its succession is over the limits"
	}
	for i, p := range h.Successors {
		switch {
		case p == leader:
			return "it names its sender as its own successor"
		case slices.Contains(h.Successors[:i], p):
			return "it names a successor twice"
		}
	}
	return ""
}

// rank returns this member's place among the successors. Other voters come after those in the list, ordered by id. It returns
// false if the leader of this term has sent no list.
func (c *Core) rank() (int, bool) {
	list := c.termLeader.successors
	if i := slices.Index(list, c.self); i >= 0 {
		return i, true
	}
	rank := len(list)
	for _, p := range c.otherVoters() {
		if p.compare(c.self) < 0 && p != c.termLeader.elected && !slices.Contains(list, p) {
			rank++
		}
	}
	return rank, len(list) > 0
}

// span returns how long this member expects an election to take, at most its own longest wait. Its own attempts may have shown that it takes longer than
// the last leader said.
func (c *Core) span() Time {
	a := &c.follower.attempts
	if a.doublings > 0 {
		return c.wait()
	}
	return min(max(c.follower.span, c.electionTimeout()/spanMin, a.write+a.answer), c.wait())
}

// resetElectionDeadline begins a new wait for the leader. Behind a leader that has named its successors, the wait is the
// election timeout, and longer for each successor before this member. Otherwise it is drawn between one and two times the
// wait, which is the election timeout, or longer if attempts were slow.
//
//	"Raft uses randomized election timeouts to ensure that split votes are rare and that they are
//	resolved quickly." (§5.2)
func (c *Core) resetElectionDeadline() {
	delay := c.wait() + Time(c.rng.Int64N(int64(c.wait())+1))
	if rank, ok := c.rank(); ok && c.termLeader.isHeard() {
		delay = c.wait() + Time(rank)*c.span()
	}
	c.campaignIn(delay)
}

// campaignAgain begins the wait after this member has campaigned or voted. An election is over within its span, so the wait
// need not be as long as an election timeout. It is one if the span is not known, or not much shorter.
func (c *Core) campaignAgain() {
	span := c.span()
	if c.follower.span == 0 || 4*span >= c.wait() {
		c.resetElectionDeadline()
		return
	}
	c.campaignIn(2*span + Time(c.rng.Int64N(int64(4*span)+1)))
}

// campaignSoon shortens the wait of a follower that knows that its leader has ended.
func (c *Core) campaignSoon() {
	var delay Time
	if rank, ok := c.rank(); ok {
		delay = Time(rank) * c.span()
	} else {
		delay = Time(c.rng.Int64N(int64(c.span())*int64(1+len(c.otherVoters())) + 1))
	}
	c.follower.deadline = min(c.follower.deadline, max(c.now.Mono, c.follower.promisedUntil)+delay)
}

func (c *Core) campaignIn(delay Time) {
	c.follower.deadline = c.now.Mono + delay
	c.follower.deferUntil = 0
	c.follower.needed = false
}

// onNews handles the news that the process of the leader has ended. This member then neither waits for an election timeout nor
// refuses a vote because it has heard the leader. The news does not raise a term, and it counts only here: if this member
// alone has lost the leader, the other voters still refuse their votes. The news ends when this member hears the leader again
// in the same term: such a message has come on a connection that was opened after the news (see PeerLost). Messages of other
// members do not end it, although some of them carry that term, too.
func (c *Core) onNews(of Peer) {
	if c.cfg.Preferences.NoNews || c.leader != nil || !c.termLeader.isHeard() || c.termLeader.peer != of || c.termLeader.gone {
		return
	}
	c.trace(TraceEvent{Kind: TraceNews, Peer: of.ID})
	c.termLeader.gone = true
	c.follower.vacancy = vacancy{CauseNews, of.ID, c.now.Mono}
	c.campaignSoon()
	if d := c.termLeader.denied; d != nil && c.now.Mono-d.at <= c.span() {
		c.onPreVoteRequest(d.message, d.message.Body.(PreVoteRequest)) // the candidate has had the news a moment earlier
	}
}

// deniedPreVote is a request for a pre-vote that this member has denied because it heard the leader.
type deniedPreVote struct {
	message Message
	at      Time
}

// takeoverAfter is how long a leader leads, at least, before it transfers its leadership to a member with a higher priority.
const takeoverAfter = 10 * Time(1e9)

// priority returns the priority of a member as a number: 0 for a standby.
func (c *Core) priority(p Peer) int {
	m, _ := c.config().Peer(p)
	if c.cfg.Preferences.NoPriorities {
		m.Priority = 0
	}
	return m.Priority.Number()
}

// standby reports whether a member leads only if nobody else can.
func (c *Core) standby(p Peer) bool { return c.priority(p) == 0 }

// effectivePriority is the priority of a member that could take over now. It is 0 for a member that something hinders, that
// lacks entries for longer than an election timeout, or that has lost its leadership lately. It is also 0 until the member
// has reported, in answer to a heartbeat, that this is not so.
func (c *Core) effectivePriority(p *progress) int {
	late := p.lags() > 0 && c.now.Mono-p.lags() >= c.electionTimeout()
	behind := p.state != replicate && p.match < c.log.Last.Index
	if late || behind || p.beats.echoed == (RPCID{}) || p.hindered != 0 || p.backoff > 0 {
		return 0
	}
	return c.priority(p.peer)
}

// onTakeover makes a leader transfer its leadership to the voter with the highest priority, if that is above its own. It first
// leads for a while, so that leaders do not change too often. A standby leads only as a caretaker: it transfers its leadership
// as soon as it has committed an entry and another voter can take over. A transfer to a member that the caller has named rules
// out any takeover in that term.
func (c *Core) onTakeover() {
	l := c.leader
	if l == nil || l.transfer != nil || l.stays || l.votes == 0 || c.step.closing || !c.isSettled() {
		return
	}
	most, best := c.priority(c.self), (*progress)(nil)
	if most > 0 && c.now.Mono < l.since+takeoverAfter || l.triedAt > 0 && c.now.Mono < l.triedAt+takeoverAfter {
		return
	}
	for i := range l.peers {
		p := &l.peers[i]
		if able := c.effectivePriority(p); able > most && p.votes&IncomingHalf != 0 && c.heardLately(p) {
			most, best = able, p
		}
	}
	if best == nil {
		return
	}
	l.triedAt = c.now.Mono
	c.trace(TraceEvent{Kind: TraceTakeover, Peer: best.peer.ID})
	c.beginTransfer(&transfer{own: true, planned: true, to: best.peer})
}

// isSettled reports whether an entry of this term and the configuration in force are committed, and no change of the members is
// running, so that the outcome of none becomes unknown.
func (c *Core) isSettled() bool {
	run := c.log.config()
	return c.committedOwn() && run.Index <= c.log.commit && !run.Config.Joint() && !run.Config.Changing()
}

// A member that has lost its leadership against its will counts as one without priority for a while, so that a favourite that
// fails again and again does not take over again and again. The losses are durable, and a crash of a leader is one: therefore
// a leader writes that it leads. All this happens only in a cluster with priorities. It does not depend on Preferences, because
// another leader may go by the priorities.
const (
	backoffMin = 10 * Time(1e9)  // after the first loss; each further one doubles it
	backoffMax = 600 * Time(1e9) // and the time after which the losses are forgotten, once the back-off has ended
	lossesMax  = 7
)

// startOffice is called when the process starts.
func (c *Core) startOffice() {
	if c.hard.Leading {
		c.hard.Leading = false
		c.countLoss()
	}
	if c.hard.Losses > 0 {
		c.follower.backoffUntil = c.now.Mono + backoffAfter(c.hard.Losses) // how much of it was over is not known
	}
}

// takeOffice makes a leader write that it leads. If it has just become a standby, an earlier transfer by name no longer
// matters.
func (c *Core) takeOffice() {
	l := c.leader
	if l == nil {
		return
	}
	c.hard.Leading = c.config().prioritized() && !c.step.closing
	standby := c.standby(c.self)
	l.stays = l.stays && (l.standby || !standby)
	l.standby = standby
}

// endOffice is called when a leadership ends. It was lost unless a planned transfer or the end of this process ended it. Only
// a leader that cannot do its work begins a transfer that is not planned.
func (c *Core) endOffice(l *leader) {
	given := l.transfer != nil && l.transfer.sent && l.transfer.planned
	if l.votes != 0 && !given && !c.step.closing {
		c.countLoss()
	}
	c.hard.Leading = false
}

// endBallot is called when the votes for this member in the present term no longer count. If it has not won, although its
// leader had asked it to campaign, that is a loss, too.
func (c *Core) endBallot(won bool) {
	b := c.follower.attempts.ballot
	c.follower.attempts.ballot, c.follower.attempts.boundUntil = nil, 0
	if b != nil && b.transfer && !won {
		c.countLoss()
	}
}

// countLoss counts a leadership that this member has lost against its will, or has not won although it was asked to campaign.
func (c *Core) countLoss() {
	if !c.config().prioritized() {
		return
	}
	c.hard.Losses = min(c.hard.Losses+1, lossesMax)
	c.follower.backoffUntil = c.now.Mono + backoffAfter(c.hard.Losses)
	c.trace(TraceEvent{Kind: TraceBackoff, Took: c.backoff()})
}

func backoffAfter(losses uint8) Time { return min(backoffMin<<(losses-1), backoffMax) }

// backoff returns for how long this member still counts as one without priority.
func (c *Core) backoff() Time { return max(0, c.follower.backoffUntil-c.now.Mono) }

// forgiveLosses forgets the losses long after the last one.
func (c *Core) forgiveLosses() {
	if c.hard.Losses > 0 && c.now.Mono >= c.follower.backoffUntil+backoffMax {
		c.hard.Losses, c.follower.backoffUntil = 0, 0
	}
}
