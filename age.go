package raft

// This file proves how old the state of a member is, so that any member can serve reads of bounded staleness without asking
// anyone. The proof is the leader's half of a linearizable read, for a time of the past:
//
//	"the leader ... saves its current commit index in a local variable readIndex. ... It issues a new round of heartbeats and
//	waits for their acknowledgments from a majority of the cluster. ... no leader could have existed at a time greater than
//	when it sent the heartbeats." (dissertation §6.4)
//
// A follower puts its own time into its answers to heartbeats. The leader begins a round after it has received that time, and
// saves the commit index at the beginning of the round. Once a quorum has confirmed the round, no other leader had committed
// anything more when the round began, which was after the follower's time. So the leader returns that time with that commit
// index. Only the follower's own clock is read, and only to measure how long ago that time is.

// Moment is a time on one member's monotonic clock, in one of its starts. Only that member can compare it with another time,
// and only during the same start. At is 0 if there is none.
type Moment struct {
	StartCount uint64
	At         Time
}

// after reports whether m is later than other, which is a time of the same member.
func (m Moment) after(other Moment) bool {
	return m.StartCount > other.StartCount || m.StartCount == other.StartCount && m.At > other.At
}

// Freshness says how old a state is: one in which every entry up to Index is applied contains everything that any member had
// committed by Since. Zero proves nothing.
type Freshness struct {
	Since Moment // of the member whose state it is
	Index Index
}

// ageRound is the heartbeat round with which a leader proves the age of states. One is under way at a time.
type ageRound struct {
	round  RPCID // zero: none is under way
	began  Time
	commit Index // commitIndex when it began
}

// moment returns the present time, for the leader to return; zero if the leader's release does not know it.
func (c *Core) moment(leader Peer) Moment {
	if !c.provesAges(leader) {
		return Moment{}
	}
	return Moment{c.ids.StartCount, c.now.Mono}
}

// provesAges reports whether a peer's release knows ages of states.
func (c *Core) provesAges(p Peer) bool { return c.spokenBy(p).protocol >= ProtocolSessions }

// heardMoment records the latest time that a follower has sent. A time of its earlier start may come late.
func (p *progress) heardMoment(m Moment) {
	if m.after(p.moment) {
		p.moment = m
	}
}

// beginAgeRound makes the round of heartbeats that has just begun prove the times that followers have sent before. A leader
// that has not committed an entry of its own term does not know yet which entries are committed, and proves nothing.
func (c *Core) beginAgeRound() {
	l := c.leader
	if l.ages.round != (RPCID{}) || !c.committedOwn() {
		return
	}
	l.ages = ageRound{l.round, c.now.Mono, c.log.commit}
	for i := range l.peers {
		l.peers[i].proving = l.peers[i].moment
	}
}

// advanceAges returns its time to each follower once a quorum has confirmed the round. The leader's own time is the beginning
// of the round. The answer leaves at once, as a heartbeat that wants no reply: with the next heartbeat, ages would be longer
// by a heartbeat interval.
func (c *Core) advanceAges() {
	l := c.leader
	if l.ages.round == (RPCID{}) || !c.confirmed(l.ages.round) {
		return
	}
	c.proveAge(Freshness{Moment{c.ids.StartCount, l.ages.began}, l.ages.commit})
	for i := range l.peers {
		if p := &l.peers[i]; p.proving.At > 0 && c.provesAges(p.peer) {
			commit := min(c.log.commit, p.match)
			p.sentCommit = max(p.sentCommit, commit)
			c.send(p.peer, Heartbeat{Commit: commit, Fresh: Freshness{p.proving, l.ages.commit}})
		}
	}
	l.ages.round = RPCID{}
}

// onFreshness takes what a leader has proved about this member's state. It may come late, because what was true stays true,
// but the times of an earlier start mean nothing to this one.
func (c *Core) onFreshness(m Message, f Freshness) {
	switch {
	case f.Since.At == 0 || f.Since.StartCount != c.ids.StartCount:
	case f.Since.At > c.now.Mono:
		c.refuse(m, "it returns a time that has not come yet")
	default:
		c.proveAge(f)
	}
}

// proveAge reports the latest time that was proved in this step.
func (c *Core) proveAge(f Freshness) {
	assert(f.Since.At <= c.now.Mono, "no state is younger than now")
	if f.Since.after(c.step.out.Fresh.Since) {
		c.step.out.Fresh = f
	}
}
