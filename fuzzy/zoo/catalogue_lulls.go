package zoo

// quiet: mutants that the next entry, or the next request, would repair.
var quiet = []Mutant{
	member("L01", "a leader leaves a joint configuration once it is committed", "it waits for an entry after it", "L21, L15",
		value("reconfigure.go", `c.mayChange()`, `c.mayChange() && (!c.log.config().Config.Joint() || c.log.Last.Index > c.log.config().Index)`)),
	mutant("L02", "heartbeats repeat a commit index that was lost", "they repeat only what the follower was sent before", "L21, L2",
		value("heartbeat.go", `min(c.log.commit, p.match)`, `min(c.log.commit, p.match, p.sentCommit)`)),
	member("L03", "a removed member is served until it has answered a heartbeat that announced its removal", "it is dropped once it holds its removal and that is committed", "L21",
		value("membership.go", `p.knowsItsRemoval()`, `p.departs <= c.log.commit && p.match >= p.departs`)),
	member("L04", "a leader whose transfer has failed continues the change of the members", "it forgets the change", "L21, L15",
		before("transfer.go", `t.catchUp = c.now.Mono + c.electionTimeout() + 4*c.slowestAck(c.leader, t.to)`, `c.leader.change.unfinished = false`)),
	member("L05", "a member that has caught up becomes a voter in an idle cluster", "it does only while entries are on their way to it", "L21",
		value("reconfigure.go", `m.Next != NextVoter || p == nil || c.caughtUp(p)`, `m.Next != NextVoter || p == nil || p.joins.running && c.caughtUp(p)`)),
	mutant("L06", "reads that came while an earlier one was asked for are asked for next", "they wait for a further read", "L21, L9",
		before("read.go", "f.asked = f.asked[:0]\n\tc.askLeader()\n}", `if true { f.asked = f.asked[:0]; return }`)),
	member("L07", "a leader answers an admin when the change has ended", "it answers when the next change is asked for", "L21, L9",
		value("reconfigure.go", `!ch.unfinished && ch.asked == nil && len(ch.accepted) == 0`, `!ch.unfinished && ch.asked == nil`)),
}
