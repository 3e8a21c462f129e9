package raft

// issueApply lets the FSM apply what is committed and durable here:
//
//	"If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine
//	(§5.3)." (Figure 2)
func (c *Core) issueApply() {
	safe := min(c.log.commit, c.disk.persisted)
	if safe <= c.log.applying || c.marked() || c.restoresFirst() {
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
	c.log.batch.applied(id.Index, c.now.Mono)
	c.onRestored()
}

// batch is the batch that the FSM is applying.
type batch struct {
	last  Index // 0: it applies none
	since Time
	took  recent // the batches before
}

func (c *Core) onApplying(a Applying) {
	if a.ID.Index <= c.log.applied {
		return // it has ended since
	}
	assert(a.ID.Index <= c.log.applying, "nothing is being applied that was not handed to the FSM")
	c.log.batch.last, c.log.batch.since = a.ID.Index, min(a.Since, c.now.Mono)
}

// applied ends the batch if what is applied covers it. One that was never reported was quick.
func (b *batch) applied(to Index, now Time) {
	var took Time
	if b.last > 0 && b.last <= to {
		took, b.last = now-b.since, 0
	}
	b.took.add(took)
}

// hangsAt returns when the FSM will hang: ApplyStallMax after it was given the batch or, if that is longer, after three
// times what the slowest recent batch took. There must be a batch.
func (b *batch) hangsAt(stallMax Time) Time { return b.since + max(stallMax, 3*b.took.max()) }

// fsmHangs reports whether the batch that the FSM is applying has taken too long.
func (c *Core) fsmHangs() bool {
	b := &c.log.batch
	return b.last > 0 && c.now.Mono >= b.hangsAt(Time(c.cfg.ApplyStallMax))
}
