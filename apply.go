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
	c.onRestored()
}
