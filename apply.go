package raft

// handOut lets the FSM apply what is committed and durable here:
//
//	"If commitIndex > lastApplied: increment lastApplied, apply log[lastApplied] to state machine
//	(§5.3)." (Figure 2)
func (c *Core) handOut() {
	safe := min(c.log.commit, c.disk.persisted)
	if safe <= c.log.handed || c.marked() {
		return
	}
	c.log.handed = safe
	c.step.out.Apply = c.log.id(safe)
	if c.leader != nil {
		c.leader.handedOut(safe)
	}
}

func (c *Core) onApplied(id EntryID) {
	assert(id.Index <= c.log.handed, "nothing is applied that was not handed out")
	c.log.applied = max(c.log.applied, id.Index)
}
