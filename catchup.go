package raft

// catchUp is what a leader knows of how a member without a vote catches up, in rounds:
//
//	"The algorithm divides replication of entries to the new server into rounds. Each round replicates all the log
//	entries present in the leader's log at the start of the round to the new server's log." (dissertation §4.2.1)
type catchUp struct {
	round   int   // of the present round; the first is 1
	target  Index // the last entry of the log when it began
	since   Time  // when it began
	running bool  // not every entry up to target is acknowledged
	prompt  bool  // the round before took no longer than it may before a member becomes a voter
	bytes   int64 // the most that it had of the snapshot that it is sent, or of one whose stream has failed before
	movedAt Time  // when it last made progress; at first when the leader began with it
	from    Index // match when it was last sent entries anew: at the beginning of the round, or later
	fromAt  Time  // when that was
}

// advanceRounds goes on with the rounds of all members without a vote.
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

// advanceRound ends the round of a member that holds the round's entries, and begins the next one. While the member holds
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
// With slow disks it may be longer, as every acknowledgement is: twice the slowest recent one.
func (c *Core) roundMax(p *progress) Time {
	return max(c.electionTimeout(), min(2*p.acks.max(), c.electionTimeout()<<doublingsMax))
}

// caughtUp reports whether a member without a vote could have one now. It holds no longer once the present round takes
// too long, or the member is silent, or has lost what it acknowledged.
func (c *Core) caughtUp(p *progress) bool {
	r := &p.joins
	return p.state == replicate && c.heardLately(p) && r.prompt && (!r.running || c.now.Mono-r.since <= c.roundMax(p))
}

func (c *Core) catchUpStatus(p *progress) CatchUp {
	if r := &p.joins; p.learns() {
		return CatchUp{r.round, r.target, r.since, c.caughtUp(p), r.from, r.fromAt, r.movedAt}
	}
	return CatchUp{}
}
