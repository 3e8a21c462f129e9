package raft

import "slices"

// followerReads holds the reads that a follower or a candidate forwards to the leader.
type followerReads struct {
	waiting  []RequestID // for the next request
	asked    []RequestID // of the request that has been sent
	request  RPCID
	askedAt  Time
	resendAt Time
	pause    Time // before the next repetition; doubles each time
	deadline Time // of the request
}

// leaderReads holds the reads that a leader has not confirmed yet.
type leaderReads struct {
	next    []read  // for the next round
	now     []read  // of the present round
	changes int     // answers to changes in next and now, which have a separate limit
	round   RPCID   // of now
	id      EntryID // at commitIndex when it began
}

// read is one read of a local caller or of a follower. It may also be a change of the members whose answer only says what the
// configuration is.
type read struct {
	requestID RequestID
	from      Peer // zero: local
	id        RPCID
	change    *Answer // of a change; else nil
}

// holds reports whether this request of a follower is already waiting.
func (r *leaderReads) holds(from Peer, id RPCID) bool {
	same := func(waiting read) bool { return waiting.from == from && waiting.id == id }
	return slices.ContainsFunc(r.next, same) || slices.ContainsFunc(r.now, same)
}

// requestRead begins a linearizable read:
//
//	"The leader needs to make sure it hasn't been superseded by a newer leader of which it is unaware.
//	It issues a new round of heartbeats and waits for their acknowledgments from a majority of the
//	cluster." (dissertation §6.4)
func (c *Core) requestRead(t RequestID) {
	switch {
	case c.step.closing || c.leader == nil && c.termLeader.peer == Peer{}:
		c.refuseRequest(t)
	case c.readsWaiting() >= c.cfg.ProposalsMax:
		c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedOverloaded})
	case c.leader != nil:
		c.leader.reads.next = append(c.leader.reads.next, read{requestID: t})
	default:
		c.follower.reads.waiting = append(c.follower.reads.waiting, t)
		c.askLeader()
	}
}

func (c *Core) readsWaiting() int {
	if c.leader != nil {
		return len(c.leader.reads.next) + len(c.leader.reads.now) - c.leader.reads.changes
	}
	return len(c.follower.reads.waiting) + len(c.follower.reads.asked)
}

// advanceReads answers the reads whose round a quorum has confirmed. It then begins the next round for all reads that wait. A
// leader that has not committed an entry of its own term does not know yet which entries are committed. So its reads wait.
func (c *Core) advanceReads() {
	r := &c.leader.reads
	if len(r.now) > 0 && c.confirmed(r.round) {
		for _, read := range r.now {
			c.answerRead(read, r.id)
		}
		r.now = r.now[:0]
	}
	if len(r.now) > 0 || len(r.next) == 0 || !c.committedOwn() {
		return
	}
	r.now, r.next = r.next, r.now
	r.id = c.log.id(c.log.commit)
	c.beginRound()
	r.round = c.leader.round
	if c.confirmed(r.round) { // a quorum of one
		c.advanceReads()
	}
}

func (c *Core) answerRead(r read, id EntryID) {
	switch {
	case r.change != nil:
		c.leader.reads.changes--
		c.answer(*r.change)
	case r.from == Peer{}:
		c.answer(Answer{RequestID: r.requestID, Kind: AnswerReadSafe, ID: id})
	default:
		c.send(r.from, ReadReply{ID: r.id, OK: true, Index: id.Index})
	}
}

// onReadRequest serves a follower's read like a local one.
func (c *Core) onReadRequest(from Peer, r ReadRequest) {
	switch {
	case c.leader == nil || c.step.closing || !c.leader.serves(from):
		c.send(from, ReadReply{ID: r.ID, Refusal: RefusedNotLeader})
	case c.leader.reads.holds(from, r.ID): // repeated: the first one will be answered
	case c.readsWaiting() >= c.cfg.ProposalsMax:
		c.send(from, ReadReply{ID: r.ID, Refusal: RefusedOverloaded})
	default:
		c.leader.reads.next = append(c.leader.reads.next, read{from: from, id: r.ID})
	}
}

// refuseReadsOf refuses the reads of a follower that turns out to be stale, or that was removed. A stale member may restart
// from an older image and use the ids of its earlier requests again. Then it could take an answer to an earlier request for
// an answer to a later one.
func (c *Core) refuseReadsOf(l *leader, from Peer) {
	r := &l.reads
	refused := func(waiting read) bool {
		if waiting.from != from {
			return false
		}
		c.send(from, ReadReply{ID: waiting.id, Refusal: RefusedNotLeader})
		return true
	}
	r.now, r.next = slices.DeleteFunc(r.now, refused), slices.DeleteFunc(r.next, refused)
}

// askLeader sends one request for all reads that wait here, unless an earlier request is unanswered.
func (c *Core) askLeader() {
	f := &c.follower.reads
	if len(f.asked) > 0 || len(f.waiting) == 0 {
		return
	}
	f.asked, f.waiting = f.waiting, f.asked[:0]
	f.request = c.nextID()
	f.askedAt, f.pause = c.now.Mono, Time(c.cfg.HeartbeatInterval)
	f.deadline = c.now.Mono + 2*c.electionTimeout()
	c.sendReadRequest()
}

func (c *Core) sendReadRequest() {
	f := &c.follower.reads
	f.resendAt = c.now.Mono + f.pause
	f.pause = min(2*f.pause, 2*c.electionTimeout())
	c.send(c.termLeader.peer, ReadRequest{ID: f.request})
}

func (c *Core) onReadReply(from Peer, r ReadReply) {
	f := &c.follower.reads
	if len(f.asked) == 0 || f.request != r.ID || from != c.termLeader.peer {
		return
	}
	for _, t := range f.asked {
		switch {
		case r.OK:
			c.answer(Answer{RequestID: t, Kind: AnswerReadSafe, ID: EntryID{Index: r.Index}})
		case r.Refusal == RefusedNotLeader: // it no longer leads, and this member knows no other leader
			c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedNotLeader})
		default: // it has too many reads waiting: the caller may try again
			c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedOverloaded, Leader: from.ID})
		}
	}
	f.asked = f.asked[:0]
	c.askLeader()
}

// refuseForwarded refuses the reads that wait for the leader's answer.
func (c *Core) refuseForwarded() {
	f := &c.follower.reads
	for _, t := range f.asked {
		c.refuseRequest(t)
	}
	for _, t := range f.waiting {
		c.refuseRequest(t)
	}
	f.asked, f.waiting = f.asked[:0], f.waiting[:0]
}

// onReadDeadlines repeats a read request that may be lost. It refuses reads that have waited too long.
func (c *Core) onReadDeadlines() {
	f := &c.follower.reads
	if len(f.asked) > 0 && c.now.Mono >= f.deadline && c.mayBeAnswered() {
		f.deadline = c.now.Mono + Time(c.cfg.HeartbeatInterval)
	}
	if len(f.asked) > 0 && c.now.Mono >= f.deadline {
		for _, t := range f.asked {
			c.answer(Answer{RequestID: t, Kind: AnswerRefused, Refusal: RefusedTimedOut, Leader: c.termLeader.peer.ID})
		}
		f.asked = f.asked[:0]
		c.askLeader()
	}
	if len(f.asked) > 0 && c.now.Mono >= f.resendAt {
		c.sendReadRequest()
	}
}

// readTimeoutsMax is the number of election timeouts for which a follower waits for a read's answer from a leader that it
// hears.
const readTimeoutsMax = 16

// mayBeAnswered reports whether the leader may still answer the read request. It may if this member hears the leader, because
// the leader may only be far away or waiting for a disk.
func (c *Core) mayBeAnswered() bool {
	return c.hearsLeader() && c.now.Mono-c.follower.reads.askedAt < readTimeoutsMax*c.electionTimeout()
}

func (f *followerReads) wakeAt() Time {
	if len(f.asked) > 0 {
		return min(f.deadline, f.resendAt)
	}
	return 1<<63 - 1
}
