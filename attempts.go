package raft

import "slices"

// A cluster must elect a leader even if disk writes, round trips, steps or pauses of the process take longer than the
// election timeout. Three rules ensure that:
//
//   - A member's wait doubles while its own attempts take longer than the wait. Silence alone does not
//     lengthen the wait. The first commit of a term resets it, and so does a link that returns.
//   - Votes of the present term count whenever they arrive; see ballot.
//   - A member that has voted gives its candidate time to win; see boundByVote.

// attempts records how this member's attempts to be elected went since a leader last committed an entry of its own term.
type attempts struct {
	made      int // pre-votes begun
	doublings int // how often the wait has doubled, from the election timeout
	asked     [askedMax]question
	next      int     // the index in asked of the next question
	ballot    *ballot // non-nil while votes for this member in the present term count
	// boundUntil is the time until which this member's vote of the present term binds it; 0 if the vote does not bind it.
	boundUntil Time
	// The longest time of each kind, for CoreStatus.Election.
	write, answer, pause Time
	slownessTraced       bool // a trace event has reported that one of them exceeds the election timeout
}

// doublingsMax bounds the wait to 64 election timeouts. Each deadline is drawn at random between one and two waits from now.
const doublingsMax = 6

// askedMax is how many questions a member remembers, to measure how long each answer took. A member asks at most once in two
// spans. If the answer takes the longest wait, the member still remembers its question.
const askedMax = (1 << doublingsMax) * spanMin / 2

// question is one sent request for pre-votes (with round) or for votes (with term).
type question struct {
	round RPCID
	term  Term
	at    Time
}

// wait returns how long this member waits, at least, for a leader or for answers.
func (c *Core) wait() Time { return c.electionTimeout() << c.follower.attempts.doublings }

// remember records a question that leaves now.
func (a *attempts) remember(q question) {
	a.asked[a.next] = q
	a.next = (a.next + 1) % askedMax
}

// sinceRound returns the time at which this member asked for a round of pre-votes. It returns 0 if this member never asked,
// or no longer remembers.
func (a *attempts) sinceRound(round RPCID) Time {
	if i := slices.IndexFunc(a.asked[:], func(q question) bool { return q.round == round }); i >= 0 {
		return a.asked[i].at
	}
	return 0
}

// sinceTerm returns the time at which this member asked for the votes of a term. It returns 0 if this member never asked, or
// no longer remembers.
func (a *attempts) sinceTerm(term Term) Time {
	if i := slices.IndexFunc(a.asked[:], func(q question) bool { return q.term == term }); i >= 0 && term > 0 {
		return a.asked[i].at
	}
	return 0
}

// onAnswer measures how long a member took to answer a question that this member asked at the given time. It ignores the
// answer if the time is 0.
func (c *Core) onAnswer(from Peer, at Time) {
	if at == 0 || !c.names(from) {
		return
	}
	took := c.now.Mono - at
	c.follower.attempts.answer = max(c.follower.attempts.answer, took)
	c.raiseWait(took)
}

// raiseWait raises the wait to at least the time that this member's latest attempt took.
func (c *Core) raiseWait(took Time) {
	a := &c.follower.attempts
	if c.leader != nil || took <= c.wait() || a.doublings == doublingsMax {
		return // at the longest wait, each later answer would only delay the next attempt
	}
	for a.doublings < doublingsMax && c.wait() < took {
		a.doublings++
	}
	if (c.termLeader.peer == Peer{}) {
		c.resetElectionDeadline() // the running attempt gets the longer wait, too
	}
}

// onPromptVote resets a long wait. If this member's own vote became durable and a quorum answered within one election
// timeout, the cause of the slowness is gone. Without this rule, one pause of a few seconds and then a split vote would leave
// the cluster without a leader for several times as long.
func (c *Core) onPromptVote(from Peer) {
	a, b := &c.follower.attempts, c.follower.attempts.ballot
	if b == nil || c.leader != nil || c.now.Mono-b.began > c.electionTimeout() || slices.Contains(b.prompt, from) {
		return
	}
	b.prompt = append(b.prompt, from)
	if a.doublings == 0 || !c.hasQuorum(b.prompt) {
		return
	}
	a.doublings = 0
	a.asked, a.next = [askedMax]question{}, 0 // later answers to earlier questions no longer matter
	c.resetElectionDeadline()
	a.boundUntil = min(a.boundUntil, c.follower.deadline)
}

// any reports whether resetBackoff would change anything.
func (a *attempts) any() bool { return a.made+a.doublings > 0 || a.asked[0].at > 0 }

// resetBackoff resets the wait and the records of attempts, because an entry of the present term is committed.
func (c *Core) resetBackoff() {
	ballot, until, grown := c.follower.attempts.ballot, c.follower.attempts.boundUntil, c.follower.attempts.doublings > 0
	c.follower.attempts = attempts{ballot: ballot, boundUntil: until}
	if grown && c.leader == nil {
		c.resetElectionDeadline()
	}
}

// linkReturned resets the wait when a connection is up again. Perhaps answers to earlier attempts were late only because the
// connection was down. Late answers that still arrive say nothing about the next attempt.
func (c *Core) linkReturned() {
	a, deadline := &c.follower.attempts, c.follower.deadline
	a.asked, a.next = [askedMax]question{}, 0
	if a.doublings > 0 && c.leader == nil {
		a.doublings = 0
		c.resetElectionDeadline()
		c.follower.deadline = min(c.follower.deadline, deadline)
	}
}

// boundByVote reports whether this member must deny a pre-vote because it has voted in this term. That vote may not be
// durable yet. Or it was sent to another candidate so recently that it may still decide the election.
func (c *Core) boundByVote(asker Peer) bool {
	switch {
	case c.hard.Vote == Peer{} || c.leader != nil:
		return false
	case !c.voteDurable():
		return true // the vote has not left yet, so even its candidate does better to wait for it
	}
	return asker != c.hard.Vote && c.now.Mono < c.follower.attempts.boundUntil
}

// onVoteDurable restarts two waits once a vote is durable. The first is how long the vote binds this member. The second, if
// this member voted for itself, is how long it waits for answers to its vote requests, which it sends now. If this member
// knows that the term has had a leader, the vote can elect no other member. Such a vote binds nobody, and no wait starts.
func (c *Core) onVoteDurable() {
	if c.hard.Vote == (Peer{}) || c.termLeader.elected != (Peer{}) {
		return
	}
	a := &c.follower.attempts
	own := a.ballot != nil && a.ballot.grant(c.self)
	if b := a.ballot; own {
		took := c.now.Mono - b.began
		b.asked = c.now.Mono
		a.write = max(a.write, took)
		a.remember(question{term: c.hard.Term, at: c.now.Mono})
		c.raiseWait(took)
	}
	c.campaignAgain()
	a.boundUntil = c.follower.deadline
	if own {
		c.onPromptVote(c.self)
	}
	c.countVotes()
}

// wokeLate handles a process that slept through its deadline. Messages of the leader or of the followers may be waiting to be
// handled. A leader does not count the time asleep as silence of its followers, nor as time without progress. A follower
// restarts its election timeout, but does so only once until it hears a leader again.
func (c *Core) wokeLate(by Time) {
	if by > c.electionTimeout()/2 {
		c.log.batch.woke(c.now.Mono, by)
	}
	if l := c.leader; l != nil {
		long := by > c.electionTimeout()/2 // what is less would add up
		for i := range l.peers {
			p := &l.peers[i]
			p.heard = min(p.heard+by, c.now.Mono)
			if long {
				p.joins.movedAt = min(p.joins.movedAt+by, c.now.Mono)
			}
		}
		if long && l.change.readyAt > 0 {
			l.change.readyAt = min(l.change.readyAt+by, c.now.Mono)
		}
		return
	}
	if by <= c.electionTimeout()/2 {
		return
	}
	c.follower.attempts.pause = max(c.follower.attempts.pause, by)
	if !c.follower.gracePeriodUsed {
		c.follower.gracePeriodUsed = true
		c.resetElectionDeadline()
	}
}

// traceSlowness reports, from the third attempt on, what takes longer than the election timeout. It reports this only once.
func (c *Core) traceSlowness() {
	a := &c.follower.attempts
	if a.slownessTraced || a.made <= 2 {
		return
	}
	if what, took := a.status(0).Slowest(); took > c.electionTimeout() {
		a.slownessTraced = true
		c.trace(TraceEvent{Kind: TraceSlowElection, Text: what, Took: took})
	}
}

func (a *attempts) status(wait Time) ElectionStatus {
	return ElectionStatus{Attempts: a.made, Wait: wait, Write: a.write, Answer: a.answer, Pause: a.pause}
}
