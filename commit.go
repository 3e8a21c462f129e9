package raft

// This file decides which entries are committed, and which of them the FSM applies.

// advanceCommit is the commit rule:
//
//	"If there exists an N such that N > commitIndex, a majority of matchIndex[i] ≥ N, and
//	log[N].term == currentTerm: set commitIndex = N (§5.3, §5.4)." (Figure 2)
//
// It counts only entries of the present term. Even if a majority holds an entry of an earlier term, a leader whose last entry
// is of a later term can still overwrite it (Figure 8). The entry is committed together with the first entry of the present
// term after it.
//
// The leader counts itself only up to the last entry that is durable here.
func (c *Core) advanceCommit() {
	n := quorumValue(c.leader, &c.leader.indexes, c.disk.persisted, func(p *progress) Index { return p.match })
	if n > c.log.commit && c.log.term(n) == c.hard.Term {
		c.commitTo(n)
	}
}

// committedOwn reports whether an entry of the present term is committed. Before that, the leader of the term does not know
// which entries are committed (dissertation §6.4).
func (c *Core) committedOwn() bool { return c.log.term(c.log.commit) == c.hard.Term }

// commitTo raises commitIndex. It never falls.
func (c *Core) commitTo(i Index) {
	c.log.provenCommit = max(c.log.provenCommit, min(i, c.log.Last.Index))
	if i <= c.log.commit {
		return
	}
	assert(i <= c.log.Last.Index, "only entries in the log are committed")
	if newest := c.log.configAt(i); newest.Index > c.log.commit {
		c.configCommitted(newest)
	}
	c.log.commit = i
	c.endCampaign()
	if c.follower.attempts.any() && c.committedOwn() {
		c.resetBackoff()
	}
}

// issueApply lets the FSM apply what is committed and durable here:
//
//	"If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine
//	(§5.3)." (Figure 2)
func (c *Core) issueApply() {
	safe := min(c.log.commit, c.disk.persisted)
	if safe <= c.log.applying || c.marked() || c.outdated() || c.restoresFirst() {
		return
	}
	c.log.applying = safe
	c.step.out.Apply = c.log.id(safe)
	if c.leader != nil {
		c.leader.dropApplying(safe)
	}
}

func (c *Core) onApplied(id EntryID) {
	assert(id.Index <= c.log.applying, "nothing is applied that was not being applied")
	c.log.applied = max(c.log.applied, id.Index)
	c.log.batch.applied(id.Index, c.now.Mono, Time(c.cfg.ApplyStallMax))
	c.onRestored()
}

// batch is the batch that the FSM is applying.
type batch struct {
	last   Index // 0: it applies none
	since  Time
	wokeAt Time   // when the process last woke much too late
	slept  Time   // by how much
	took   recent // the batches before
	// yieldsAt is the time from which a leader that has stepped down because of this batch may do so again; 0: it has not.
	yieldsAt Time
}

func (c *Core) onApplying(a Applying) {
	if a.ID.Index <= c.log.applied {
		return // it has ended since
	}
	assert(a.ID.Index <= c.log.applying, "nothing is being applied that was not handed to the FSM")
	b, since := &c.log.batch, a.Since
	if b.last != a.ID.Index {
		b.yieldsAt = 0
	}
	if since < b.wokeAt {
		since += b.slept // woke did not know the batch yet
	}
	b.last, b.since = a.ID.Index, min(since, c.now.Mono)
}

// applied ends the batch if the FSM has applied all of it. If the loop never reported the batch with Applying, the batch was
// quick. If the batch hung, applied records only the time before it counted as hanging, because the rest does not measure how
// slow the FSM may be.
func (b *batch) applied(to Index, now, stallMax Time) {
	var took Time
	switch {
	case b.last > to:
		return
	case b.last > 0:
		took, b.last = min(now, b.hangsAt(stallMax))-b.since, 0
	}
	b.took.add(took)
}

// woke subtracts from the batch's time the time in which the process did not run.
func (b *batch) woke(now, slept Time) {
	b.wokeAt, b.slept = now, slept
	b.since = min(b.since+slept, now)
}

// hangsAt returns the time from which the FSM counts as hanging. That is ApplyStallMax after it was given the batch, or three
// times the duration of the slowest recent batch if that is longer. There must be a batch.
func (b *batch) hangsAt(stallMax Time) Time { return b.since + max(stallMax, 3*b.took.max()) }

// fsmHangs reports whether the batch that the FSM is applying has taken too long.
func (c *Core) fsmHangs() bool {
	b := &c.log.batch
	return b.last > 0 && c.now.Mono >= b.hangsAt(Time(c.cfg.ApplyStallMax))
}
