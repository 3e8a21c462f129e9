package zoo

// quiet: mutants that the next entry would repair.
var quiet = []Mutant{
	member("L01", "a leader leaves a joint configuration once it is committed", "it waits for an entry after it", "L21",
		value("reconfigure.go", `c.mayChange()`, `c.mayChange() && (!c.log.config().Config.Joint() || c.log.Last.Index > c.log.config().Index)`)),
	mutant("L02", "heartbeats repeat the commit index", "they omit one that was sent before", "L21",
		value("heartbeat.go", `min(c.log.commit, p.match)`, `func() Index {
			if i := min(c.log.commit, p.match); i > p.sentCommit {
				return i
			}
			return 0
		}()`)).arranged(),
	member("L03", "a removed member is served until it has answered a heartbeat that announced its removal",
		"it is dropped once it holds its removal and that is committed", "L21",
		value("membership.go", `p.knowsItsRemoval()`, `p.departs <= c.log.commit && p.match >= p.departs`)),
	member("L04", "a removed member is served for ten election timeouts", "it is served for a quarter of one", "L21",
		value("membership.go", `departTimeouts*c.electionTimeout()`, `c.electionTimeout()/4`)),
	member("L05", "a member that has caught up becomes a voter in an idle cluster", "it does only while entries are on their way to it", "L21",
		value("reconfigure.go", `m.Next != NextVoter || p == nil || c.caughtUp(p)`, `m.Next != NextVoter || p == nil || p.joins.running && c.caughtUp(p)`)),
}
