package raft

import "slices"

// Slow is not dead: a cluster whose disks, round trips, steps or pauses take longer than the election
// timeout must still elect. Three rules see to it; the rest of election.go does not know of them.
//
//   - A member's wait doubles while its own attempts take longer than it. Silence alone does not
//     lengthen it, and the first commit of a term, or a link that returns, ends it.
//   - Votes of the present term count whenever they come; see ballot.
//   - Who has voted gives that vote the time to elect somebody; see boundByVote.

// attempts is what a member has seen of its own attempts to be elected since a term last committed.
type attempts struct {
	made      int // pre-votes begun
	doublings int // of the election timeout: how far the wait has grown
	asked     [askedMax]question
	next      int     // the place in asked of the next question
	ballot    *ballot // non-nil while votes for this member in the present term count
	// boundUntil is how long the vote of the present term binds its giver; 0: not.
	boundUntil Time
	// The longest of each kind, for whoever asks why there is no leader yet.
	write, answer, pause Time
	told                 bool // noted that one of them is above the timeout
}

// doublingsMax bounds the wait: 64 election timeouts, from which up to twice as much is drawn.
const doublingsMax = 6

// askedMax is how many questions are remembered, to tell how old an answer is: more than a member asks
// within ten timeouts.
const askedMax = 32

// question is one request for pre-votes (round) or for votes (term) that has left.
type question struct {
	round RPCID
	term  Term
	at    Time
}

// wait is the least time that this member waits for a leader, or for an answer, at present.
func (c *Core) wait() Time { return c.electionTimeout() << c.follower.attempts.doublings }

// remember notes that a question leaves now.
func (a *attempts) remember(q question) {
	a.asked[a.next] = q
	a.next = (a.next + 1) % askedMax
}

// sinceRound returns when a round of pre-votes was asked for; 0 if it was not, or it is forgotten.
func (a *attempts) sinceRound(round RPCID) Time {
	if i := slices.IndexFunc(a.asked[:], func(q question) bool { return q.round == round }); i >= 0 {
		return a.asked[i].at
	}
	return 0
}

// sinceTerm returns when the votes of a term were asked for; 0 if they were not, or it is forgotten.
func (a *attempts) sinceTerm(term Term) Time {
	if i := slices.IndexFunc(a.asked[:], func(q question) bool { return q.term == term }); i >= 0 && term > 0 {
		return a.asked[i].at
	}
	return 0
}

// onAnswer measures a voter's answer to a question of this member, early or late.
func (c *Core) onAnswer(from Peer, at Time) {
	m, _ := c.config().Member(from.ID)
	if at == 0 || m.Peer() != from {
		return
	}
	took := c.now.Mono - at
	c.follower.attempts.answer = max(c.follower.attempts.answer, took)
	c.outgrow(took)
}

// outgrow makes the wait at least as long as an own attempt has just taken.
func (c *Core) outgrow(took Time) {
	a := &c.follower.attempts
	if c.leader != nil || took <= c.wait() || a.doublings == doublingsMax {
		return // at the longest wait each answer that is later still would only put the attempt off
	}
	for a.doublings < doublingsMax && c.wait() < took {
		a.doublings++
	}
	if c.termLeader.id == "" {
		c.resetElectionDeadline() // the attempt under way gets the longer wait, too
	}
}

// onPromptVote shortens a long wait: an own vote that was soon durable, and answers to its requests that a
// quorum gave at once, show that what was slow is so no more. Without it one hold-up of a few seconds, and
// a vote that is split right after it, would leave the cluster without a leader for several times as long.
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
	a.asked, a.next = [askedMax]question{}, 0 // what comes yet says only what was
	c.resetElectionDeadline()
	a.boundUntil = min(a.boundUntil, c.follower.deadline)
}

// any reports whether there is anything to forget.
func (a *attempts) any() bool { return a.made+a.doublings > 0 || a.asked[0].at > 0 }

// calm ends what slow attempts have brought about: a term has committed.
func (c *Core) calm() {
	ballot, until, grown := c.follower.attempts.ballot, c.follower.attempts.boundUntil, c.follower.attempts.doublings > 0
	c.follower.attempts = attempts{ballot: ballot, boundUntil: until}
	if grown && c.leader == nil {
		c.resetElectionDeadline()
	}
}

// linkReturned lets an attempt begin soon: the link that now stands again may be the reason why answers to
// earlier attempts were late, and late answers that are still to come say nothing about the next attempt.
func (c *Core) linkReturned() {
	a, deadline := &c.follower.attempts, c.follower.deadline
	a.asked, a.next = [askedMax]question{}, 0
	if a.doublings > 0 && c.leader == nil {
		a.doublings = 0
		c.resetElectionDeadline()
		c.follower.deadline = min(c.follower.deadline, deadline)
	}
}

// boundByVote reports whether a pre-vote for another than the one who has the vote of this term must
// be denied: that vote is on its way to the disk, or has left so lately that it may still elect.
func (c *Core) boundByVote(asker Peer) bool {
	switch {
	case c.hard.Vote == Peer{} || c.leader != nil:
		return false
	case c.disk.hard != c.hard:
		return true // nobody has it yet, so its candidate, too, does better to wait for it
	}
	return asker != c.hard.Vote && c.now.Mono < c.follower.attempts.boundUntil
}

// onVoteDurable lets every wait that follows a vote begin: the giver's, and, if it is its own, the
// candidate's, whose requests leave now.
func (c *Core) onVoteDurable() {
	if c.leader != nil || c.hard.Vote == (Peer{}) {
		return
	}
	a := &c.follower.attempts
	own := a.ballot != nil && a.ballot.grant(c.self)
	if b := a.ballot; own {
		took := c.now.Mono - b.began
		b.asked = c.now.Mono
		a.write = max(a.write, took)
		a.remember(question{term: c.hard.Term, at: c.now.Mono})
		c.outgrow(took)
	}
	c.resetElectionDeadline()
	a.boundUntil = c.follower.deadline
	if own {
		c.onPromptVote(c.self)
	}
	c.countVotes()
}

// wokeLate takes into account that the process slept through its own deadline: messages may wait behind
// it, of the leader here, or of the followers. A leader does not count that time as their silence; a
// follower restarts its timer, at most once until it hears the leader.
func (c *Core) wokeLate(by Time) {
	if c.leader != nil {
		for i := range c.leader.peers {
			p := &c.leader.peers[i]
			p.heard = min(p.heard+by, c.now.Mono)
		}
		return
	}
	if by <= c.electionTimeout()/2 {
		return
	}
	c.follower.attempts.pause = max(c.follower.attempts.pause, by)
	if !c.follower.graced {
		c.follower.graced = true
		c.resetElectionDeadline()
	}
}

// traceSlowness notes, at the third attempt and only once, what takes longer than the election timeout.
func (c *Core) traceSlowness() {
	a := &c.follower.attempts
	if a.told || a.made <= 2 {
		return
	}
	if what, took := a.status(0).Slowest(); took > c.electionTimeout() {
		a.told = true
		c.trace(TraceEvent{Kind: TraceSlowElection, Text: what, Took: took})
	}
}

func (a *attempts) status(wait Time) ElectionStatus {
	return ElectionStatus{Attempts: a.made, Wait: wait, Write: a.write, Answer: a.answer, Pause: a.pause}
}
