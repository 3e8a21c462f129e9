package zoo

// counters: what a leader counts, and what it refuses.
var counters = []Mutant{
	{
		ID: "K01", Before: true, Rule: "an entry that is being applied no longer counts as pending", Bug: "its bytes still count",
		Edits:  []Edit{instead("leader.go", `l.bytes -= l.pending[n].bytes`, `_ = n`)},
		Expect: "N32, L10", MustKill: true,
	},
	{
		ID: "K02", Before: true, Rule: "a probe has nothing in flight", Bug: "the bytes of the replication before it stay",
		Edits:  []Edit{instead("progress.go", `p.flow.forget()`, `p.flow.inflight = p.flow.inflight[:0]`)},
		Expect: "N34, L10", MustKill: true,
	},
	{
		ID: "K03", Before: true, Rule: "an answered append is no longer in flight", Bug: "its bytes still count",
		Edits:  []Edit{instead("progress.go", `f.bytes -= f.inflight[n].bytes`, `_ = n`)},
		Expect: "N34, L10", MustKill: true,
	},
	{
		ID: "K04", Before: true, Rule: "the bytes in flight are bounded", Bug: "only the number of messages is bounded",
		Edits:  []Edit{value("progress.go", `len(f.inflight) == 0 || f.bytes < limits.InflightBytesMax`, `true`)},
		Expect: "N10", Profiles: []string{"swarm"},
	},
	{
		ID: "K05", Before: true, Rule: "the number of unapplied entries is bounded", Bug: "it is unbounded",
		Edits: []Edit{value("leader.go",
			`c.log.Last.Index+Index(ahead)-max(c.log.applied, c.log.Base.ID.Index) >= Index(c.cfg.UnappliedMax)`, `false`)},
		Expect: "N33", Profiles: []string{"swarm"},
	},
	{
		ID: "K06", Before: true, Rule: "the entries of this step count as unapplied", Bug: "they do not count",
		Edits:  []Edit{value("leader.go", `c.overLimit(len(entries))`, `c.overLimit(0)`)},
		Expect: "N33", Profiles: []string{"swarm"},
	},
	{
		ID: "K07", Before: true, Rule: "a command has a largest size", Bug: "it has none",
		Edits:  []Edit{value("leader.go", `len(p.Data) > largest.Limit`, `largest.Member != "" && len(p.Data) > largest.Limit`)},
		Expect: "N33", Profiles: []string{"swarm"},
	},
	{
		ID: "K08", Before: true, Rule: "nothing is refused for a limit that is not reached", Bug: "the last place is never used",
		Edits:  []Edit{value("leader.go", `len(l.pending) >= c.cfg.ProposalsMax`, `len(l.pending)+1 >= c.cfg.ProposalsMax`)},
		Expect: "N33", Profiles: []string{"swarm"},
	},
	{
		ID: "K09", Before: true, Rule: "entry times never fall along the log", Bug: "they are copied from the leader's wall clock",
		Edits:  []Edit{value("clock.go", `max(min(c.now.Wall, latest), c.log.LastTime)`, `min(c.now.Wall, latest)`)},
		Expect: "N29", Profiles: []string{"clock", "swarm"},
	},
}

// early: what comes before its time, or after it was told to stop.
var early = []Mutant{
	{
		ID: "W01", Before: true, Rule: "a member that hears a leader restarts its timer", Bug: "it campaigns after one round trip",
		Edits:  []Edit{before("append.go", `c.follower.graced = false`, `defer func() { c.follower.deadline -= c.electionTimeout() * 2 / 3 }()`)},
		Expect: "N25", MustKill: true,
	},
	{
		ID: "W02", Before: true, Rule: "a pre-vote is denied to an older log", Bug: "it is granted",
		Edits: []Edit{before("election.go", `reply := PreVoteReply{ID: r.ID, Granted: why == Granted}`,
			`if why == DeniedOldLog { why = Granted }`)},
		Expect: "N26", MustKill: true,
	},
	{
		ID: "W03", Before: true, Rule: "a member that hears a leader grants no pre-vote", Bug: "it grants one",
		Edits: []Edit{instead("election.go", `why, reply.Granted, reply.Leader = DeniedHearsLeader, false, c.termLeader.peer.ID`,
			`reply.Leader = c.termLeader.peer.ID`)},
		Expect: "N26", MustKill: true,
	},
	{
		ID: "W04", Before: true, Rule: "a vote answers a request", Bug: "it is sent again with every write",
		Edits: []Edit{before("output.go", `c.onBootstrapPersisted()`,
			`if c.leader == nil && c.hard.Vote != (Peer{}) && c.hard.Vote != c.self { c.promiseVote(c.hard.Vote, VoteReply{Granted: true}) }`)},
		Expect: "N16", MustKill: true,
	},
	{
		ID: "W05", Before: true, Rule: "members with one seed draw different timeouts", Bug: "they draw the same",
		Edits:  []Edit{value("raft.go", `uint64(stored.Incarnation)^stored.StartCount`, `uint64(7)`)},
		Expect: "N27", Profiles: []string{"crash", "swarm"},
	},
	{
		ID: "W06", Before: true, Rule: "a member that is told to close accepts no more requests", Bug: "it accepts proposals",
		Edits: []Edit{value("leader.go", `c.leader == nil || c.step.closing || c.leader.transfer != nil`,
			`c.leader == nil || c.leader.transfer != nil`)},
		Expect: "N28", Profiles: []string{"crash", "swarm"},
	},
	{
		ID: "W07", Before: true, Rule: "a member that is told to close answers its reads", Bug: "a leader forgets its own",
		Edits:  []Edit{before("answer.go", `for _, r := range append(l.reads.now, l.reads.next...) {`, `l.reads = leaderReads{}`)},
		Expect: "N28", Profiles: []string{"crash", "swarm"},
	},
	{
		ID: "W08", Before: true, Rule: "a transfer to a named target succeeds only if that one leads", Bug: "it succeeds whoever leads",
		Edits: []Edit{value("transfer.go", `c.termLeader.peer == c.self || h.named && c.termLeader.peer != h.to`,
			`c.termLeader.peer == c.self`)},
		Expect: "G15", Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "W09", Before: true, Rule: "a transfer that nothing prevents succeeds", Bug: "TimeoutNow is never sent",
		Edits:  []Edit{instead("transfer.go", `c.send(p.peer, TimeoutNow{})`, `_ = p`)},
		Expect: "L13", MustKill: true,
	},
}
