package zoo

// counters: what a leader counts, and which requests it refuses.
var counters = []Mutant{
	mutant("K01", "an entry that is being applied no longer counts as pending", "its bytes still count", "N32, L10",
		instead("leader.go", `l.bytes -= l.pending[n].bytes`, `_ = n`)).arranged().must(),
	mutant("K02", "a probe has nothing in flight", "the bytes of the replication before it still count", "N34, L10",
		instead("progress.go", `p.flow.forget()`, `p.flow.inflight = p.flow.inflight[:0]`)).arranged().must(),
	mutant("K03", "an answered append is no longer in flight", "its bytes still count", "N34, L10",
		instead("progress.go", `f.bytes -= f.inflight[n].bytes`, `_ = n`)).arranged().must(),
	mutant("K04", "the bytes in flight are bounded", "only the number of messages is bounded", "N10",
		value("progress.go", `len(f.inflight) == 0 || f.bytes < limits.InflightBytesMax`, `true`)).arranged().profiles("swarm"),
	mutant("K05", "the number of unapplied entries is bounded", "it is unbounded", "N33",
		value("leader.go", `c.log.Last.Index+Index(ahead)-max(c.log.applied, c.log.Base.ID.Index) >= Index(c.cfg.UnappliedMax)`, `false`)).arranged().profiles("swarm"),
	mutant("K06", "the entries of the present step count as unapplied", "they do not count", "N33",
		value("leader.go", `c.overLimit(len(entries))`, `c.overLimit(0)`)).arranged().profiles("swarm"),
	mutant("K07", "the size of a command is limited", "it is not", "N33",
		value("leader.go", `len(p.Data) > largest.Limit`, `largest.Member != "" && len(p.Data) > largest.Limit`)).arranged().profiles("swarm"),
	mutant("K08", "nothing is refused before its limit is reached", "the last place is never used", "N33",
		value("leader.go", `len(l.pending) >= c.cfg.ProposalsMax`, `len(l.pending)+1 >= c.cfg.ProposalsMax`)).arranged().profiles("swarm"),
	mutant("K10", "limits that change count from the event on", "those of the start stay in force", "N33, N10",
		instead("coreconfig.go", limitsAnchor, `c.compact()`)).arranged().profiles("swarm").or("TestLimitsChanged"),
	mutant("K11", "lower limits of the log shorten it at once", "they wait for the next snapshot or heartbeat", "tests",
		instead("coreconfig.go", limitsAnchor, `c.cfg.Limits = l`)).arranged().profiles("snapshots").or("TestLimitsChanged"),
	mutant("K09", "entry times never fall along the log", "they are copied from the leader's wall clock", "N29",
		value("clock.go", `max(min(c.now.Wall, latest), c.log.LastTime)`, `min(c.now.Wall, latest)`)).arranged().profiles("alone", "swarm"),
}

// early: actions that come too early, or after a request to stop.
var early = []Mutant{
	mutant("W01", "a member that hears a leader restarts its timer", "it campaigns after one round trip", "N25",
		before("append.go", `c.follower.gracePeriodUsed = false`, `defer func() { c.follower.deadline -= c.electionTimeout() * 2 / 3 }()`)).arranged().must(),
	mutant("W02", "a pre-vote is denied to an older log", "it is granted", "N26",
		before("election.go", `reply := PreVoteReply{ID: r.ID, Granted: why == Granted}`, `if why == DeniedOldLog { why = Granted }`)).arranged().must(),
	mutant("W03", "a member that hears a leader grants no pre-vote", "it grants one", "N26",
		instead("election.go", `why, reply.Granted = guarded, false`, ``)).arranged().must(),
	mutant("W04", "a vote answers a request", "it is sent again with every write", "N16",
		before("output.go", `c.onBootstrapPersisted()`,
			`if c.leader == nil && c.hard.Vote != (Peer{}) && c.hard.Vote != c.self { c.promiseVote(c.hard.Vote, VoteReply{Granted: true}) }`)).arranged().must(),
	mutant("W05", "members with one seed draw different timeouts", "they draw the same", "N27",
		value("raft.go", `uint64(stored.Incarnation)^stored.StartCount`, `uint64(7)`)).arranged().profiles("alone", "swarm"),
	mutant("W06", "a member that is told to close accepts no more requests", "it accepts proposals", "N28",
		value("leader.go", `c.leader == nil || c.step.closing || c.leader.transfer != nil`, `c.leader == nil || c.leader.transfer != nil`)).arranged().profiles("alone", "swarm"),
	mutant("W07", "a member that is told to close answers its reads", "a leader forgets its own reads", "N28",
		before("answer.go", `for _, r := range append(l.reads.now, l.reads.next...) {`, `l.reads = leaderReads{}`)).arranged().profiles("alone", "swarm"),
	mutant("W08", "a transfer to a named target succeeds only if that one leads", "it succeeds if any member leads", "G15",
		value("transfer.go", `c.termLeader.peer == c.self || t.named && c.termLeader.peer != t.to`, `c.termLeader.peer == c.self`)).arranged().profiles("elections", "swarm"),
	mutant("W09", "a transfer that nothing prevents succeeds", "TimeoutNow is never sent", "L13",
		instead("transfer.go", `c.send(p.peer, TimeoutNow{Named: t.named})`, `_ = p`)).arranged().must(),
}

const limitsAnchor = "c.cfg.Limits = l\n\tc.compact()"
