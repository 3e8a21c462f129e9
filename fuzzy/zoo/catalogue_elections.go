package zoo

// elections: who may lead, and who may vote for whom (paper §5.1, §5.2, §5.4.1).
var elections = []Mutant{
	{
		ID: "E01", Rule: "one vote a term", Bug: "grant whenever the log is good enough",
		Edits:  []Edit{value("election.go", `vote != Peer{} && vote != candidate`, `false`)},
		Expect: "N2, G1", MustKill: true,
	},
	{
		ID: "E02", Rule: "a vote is durable before it is given", Bug: "the reply leaves before the write",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if r, ok := o.message.Body.(VoteReply); ok && r.Granted { durable = true }`)},
		Expect: "N6", Seen: "classic", MustKill: true,
	},
	{
		ID: "E03", Before: true, Rule: "term and vote are one write", Bug: "a crash between them leaves the new term with the old vote",
		Edits: []Edit{instead("output.go", `w.Hard, c.step.hard = &hard, hard`, `
			torn := hard
			if (torn.Vote == Peer{}) { torn.Vote = c.disk.hard.Vote }
			w.Hard, c.step.hard = &torn, hard`)},
		Expect: "N2, N6", Seen: "hashicorp/raft persistVote writes two keys", MustKill: true,
	},
	{
		ID: "E04", Rule: "a vote is forgotten only with its term", Bug: "it is cleared when a leader is heard in the term",
		Edits:  []Edit{before("append.go", `c.termLeader.elected = leader`, `c.hard.Vote = Peer{}`)},
		Expect: "N2, G1", Seen: "camunda #5356", MustKill: true,
	},
	{
		ID: "E21", Before: true, Rule: "who has heard the leader of a term votes for nobody else in it", Bug: "for another, if its disk forgot its vote",
		Edits:  []Edit{value("election.go", `why == Granted && c.otherLeads(from)`, `false`)},
		Expect: "N16", Profiles: []string{"elections", "network"},
		Test: &Test{".", "TestElection"},
	},
	{
		ID: "E05", Rule: "a candidate's own vote is durable before it asks", Bug: "the request leaves before the write",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if _, ok := o.message.Body.(VoteRequest); ok { durable = true }`)},
		Expect: "N6", MustKill: true,
	},
	{
		ID: "E06", Before: true, Rule: "logs are compared by the last term first", Bug: "by the last index first",
		Edits: []Edit{value("log.go", upToDateAnchor,
			`theirs.Index > ours.Index || theirs.Index == ours.Index && theirs.Term >= ours.Term`)},
		Expect: "N16, G3", Seen: "student code", MustKill: true,
	},
	{
		ID: "E07", Before: true, Rule: "a candidate's log is compared with the end of ours", Bug: "with the last committed entry",
		Edits:  []Edit{value("election.go", `!upToDate(last, c.log.Last)`, `!upToDate(last, c.log.id(c.log.commit))`)},
		Expect: "N16, G3", MustKill: true,
	},
	{
		ID: "E08", Before: true, Rule: "an equal log is good enough", Bug: "a candidate's log must be longer than ours",
		Edits: []Edit{value("election.go", `!upToDate(last, c.log.Last)`,
			`!upToDate(last, c.log.Last) || last == c.log.Last`)},
		Expect: "L1", MustKill: true,
	},
	{
		ID: "E09", Rule: "a vote counts in its own term", Bug: "replies of an earlier term count",
		Edits: []Edit{before("raft.go", staleAnchor,
			`if r, ok := m.Body.(VoteReply); ok { c.onVoteReply(m.From, r); return }`)},
		Expect:   "G8, G1",
		Profiles: []string{"elections", "swarm"},
		Test:     &Test{".", "TestElection"},
	},
	{
		ID: "E10", Rule: "one member, one vote", Bug: "replies are counted, not members",
		Edits: []Edit{
			value("election.go", `slices.Contains(b.granted, from)`, `false`),
			before("quorum.go", `return c.config().hasQuorum(`, `if len(peers) >= majority(len(c.config().Voters())) { return true }`),
		},
		Expect: "G8, G1", MustKill: true,
	},
	{
		ID: "E11", Rule: "a candidate or leader votes for nobody else in its term", Bug: "it does",
		Edits: []Edit{before("election.go", voteDeniedAnchor,
			`if c.leader != nil || c.candidate != nil { why = c.grants(c.hard.Term, Peer{}, from, r.Last) }`)},
		Expect: "N2, G1", Seen: "daos-stack/raft #70", MustKill: true,
	},
	{
		ID: "E12", Before: true, Rule: "only voters count", Bug: "learners are asked, and their votes count",
		Edits: []Edit{
			before("election.go", askVotesAnchor, `for _, m := range c.config().Members {
				if m.Kind == Learner { c.promiseVote(m.Peer(), VoteRequest{Last: c.log.Last, Transfer: transfer}) } }`),
			value("quorum.go", `m.Kind != Voter`, `false`),
			before("election.go", askPreVotesAnchor, `for _, m := range c.config().Members {
				if m.Kind == Learner { c.send(m.Peer(), PreVoteRequest{ID: c.candidate.round, Last: c.log.Last}) } }`),
			value("quorum.go", `granted >= majority(voters)`, `granted >= majority(len(c.Voters()))`),
		},
		Expect: "G8", Seen: "hashicorp/raft GH-398",
		MustKill: true,
	},
	{
		ID: "E13", Rule: "a quorum is more than half", Bug: "half of an even number is enough",
		Edits:  []Edit{value("quorum.go", `n/2 + 1`, `(n + 1) / 2`)},
		Expect: "G5, G8", Seen: "raft-java #21", MustKill: true,
	},
	{
		ID: "E14", Before: true, Rule: "election timeouts are drawn anew each time", Bug: "they are all equal",
		Edits:  []Edit{value("election.go", `Time(c.rng.Int64N(int64(c.wait())+1))`, `c.wait()/2`)},
		Expect: "N15, L1", MustKill: true,
	},
	{
		ID: "E15", Before: true, Rule: "only a granted vote or a leader restarts the election timer", Bug: "any vote request does",
		Edits: []Edit{
			before("election.go", `assert(c.hard.Term > 0, "nobody votes in term 0")`, `c.resetElectionDeadline()`),
			before("election.go", preVoteAnchor, `c.resetElectionDeadline()`),
		},
		Expect: "N15, L6", Seen: "well-known lab error", MustKill: true,
	},
	{
		ID: "E16", Before: true, Rule: "a newer term in a reply is adopted", Bug: "it is ignored",
		Edits: []Edit{before("raft.go", newerTermAnchor, `if m.Term > c.hard.Term {
			switch m.Body.(type) { case VoteReply, PreVoteReply, AppendReply, AppendConflict, HeartbeatReply: return } }`)},
		Expect: "L1, L11", MustKill: true,
		Profiles: []string{"swarm"},
	},
	{
		ID: "E17", Before: true, Rule: "an append of an earlier term is refused", Bug: "it is accepted",
		Edits: []Edit{before("raft.go", staleAnchor, `
			if r, ok := m.Body.(AppendRequest); ok && c.leader == nil && c.log.has(r.Prev) {
				c.termLeader.proved = 0
				c.adopt(r.Entries)
				c.promiseLog(m.From, AppendReply{Match: r.Last.Index}, r.Last.Index)
				return
			}`)},
		Expect: "N17, G2", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "E18", Before: true, Rule: "a candidate yields to the leader of its term", Bug: "it stays a candidate",
		Edits: []Edit{
			before("append.go", hearAppendAnchor, `if c.candidate != nil { return }`),
			before("heartbeat.go", hearBeatAnchor, `if c.candidate != nil { return }`),
		},
		Expect: "L1", MustKill: true,
		Profiles: []string{"swarm"},
	},
	{
		ID: "E19", Rule: "the term outlives a restart", Bug: "the term of the last entry is taken for it",
		Edits: []Edit{before("raft.go", `c.step.hard = stored.Hard`,
			`c.hard = HardState{Term: min(c.log.Last.Term, stored.Hard.Term)}; stored.Hard = c.hard; c.disk.hard = c.hard`)},
		Expect: "N1", Seen: "camunda #19290; WRaft (SandTable)", MustKill: true,
	},
	{
		ID: "E20", Rule: "a leader that steps down does not lead again in that term", Bug: "it campaigns again without a new term",
		Edits: []Edit{before("leader.go", `c.trace(TraceEvent{Kind: TraceQuorumLost})`, `
			c.becomeFollower(c.hard.Term, Peer{})
			c.termLeader.elected = Peer{}
			c.setRole(Peer{}, &candidate{}, nil)
			c.follower.attempts.ballot = &ballot{began: c.now.Mono, asked: c.now.Mono, granted: []Peer{c.self}}
			for _, m := range c.config().Voters() {
				if m.ID != c.self.ID { c.promiseVote(m.Peer(), VoteRequest{Last: c.log.Last}) }
			}
			return`)},
		Expect: "G1, N8", Seen: "xraft #33 (SandTable)", MustKill: true,
	},
}

// Anchors that more than one mutant uses, or that are long.
const (
	releaseAnchor     = "switch {\n\t\tcase o.message.Term < c.hard.Term:"
	upToDateAnchor    = `theirs.Term > ours.Term || theirs.Term == ours.Term && theirs.Index >= ours.Index`
	staleAnchor       = "switch body := m.Body.(type) {\n\tcase VoteReply:\n\t\tc.onAnswer("
	voteDeniedAnchor  = "if why != Granted {\n\t\tc.trace(TraceEvent{Kind: TraceVoteDenied,"
	askVotesAnchor    = "for _, p := range c.otherVoters() {\n\t\tc.promiseVote("
	askPreVotesAnchor = "for _, p := range c.otherVoters() {\n\t\tc.send("
	preVoteAnchor     = `why := c.grants(m.Term+1, Peer{}, m.From, r.Last)`
	newerTermAnchor   = "if m.Term > c.hard.Term {\n\t\tc.trace("
	hearAppendAnchor  = `if why := c.malformed(m, r); why != "" {`
	hearBeatAnchor    = "if c.otherLeads(m.From) {\n\t\tc.refuse("
)

// preVotes: pre-vote, check-quorum, stickiness (dissertation §4.2.3, §6.2, §9.6).
var preVotes = []Mutant{
	{
		ID: "V01", Before: true, Rule: "a pre-vote changes nothing", Bug: "it raises the term of the voter",
		Edits: []Edit{before("election.go", preVoteAnchor,
			`if m.Term+1 > c.hard.Term && c.leader == nil { c.becomeFollower(m.Term+1, Peer{}) }`)},
		Expect: "N12, L5", MustKill: true,
	},
	{
		ID: "V02", Rule: "pre-votes do not count as votes", Bug: "they do",
		Edits: []Edit{instead("raft.go", `c.setRole(Peer{}, &candidate{}, nil)`, `
			granted := []Peer(nil)
			if c.candidate != nil { granted = c.candidate.granted }
			c.setRole(Peer{}, &candidate{granted: granted}, nil)`),
			value("election.go", `&ballot{began: c.now.Mono}`, `&ballot{began: c.now.Mono, granted: c.candidate.granted}`)},
		Expect: "G8, G1", MustKill: true,
	},
	{
		ID: "V03", Before: true, Rule: "a pre-vote request of an old term is answered with the new one", Bug: "it is dropped silently",
		Edits:  []Edit{before("election.go", preVoteAnchor, `if m.Term < c.hard.Term { return }`)},
		Expect: "L1", Seen: "etcd #8243, #8501; canonical/raft #279; openraft #1796", MustKill: true,
		Profiles: []string{"swarm"},
	},
	{
		ID: "V04", Before: true, Rule: "a leader must hear a quorum within each timeout", Bug: "a member that was heard once counts forever",
		Edits: []Edit{before("heartbeat.go", `return p.heard + c.window(p)`,
			`if (p.beats.echoed != RPCID{}) { p.heard = c.now.Mono }`)},
		Expect: "N13, L6", MustKill: true,
	},
	{
		ID: "V05", Before: true, Rule: "a leader that hears no quorum steps down", Bug: "it stays leader",
		Edits:  []Edit{value("leader.go", `c.now.Mono >= c.quorumUntil()`, `false`)},
		Expect: "N13, L6", Seen: "Howard & Abraham 2020; openraft #2080", MustKill: true,
	},
	{
		ID: "V06", Before: true, Rule: "stickiness ends an election timeout after the leader was heard", Bug: "it never ends",
		Edits:  []Edit{value("election.go", `c.now.Mono-c.follower.heard < c.electionTimeout()`, `true`)},
		Expect: "N14, L1", Seen: "hashicorp/raft #605, #606; openraft #2080", MustKill: true,
	},
	{
		ID: "V07", Before: true, Rule: "a member that hears a leader ignores vote requests", Bug: "it does not ignore them",
		Edits:  []Edit{value("election.go", `asks && !r.Transfer && c.hearsLeader()`, `false`)},
		Expect: "N12, L5", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "V08", Before: true, Rule: "the grants of a pre-vote round count only in that round", Bug: "they count in later rounds, too",
		Edits:  []Edit{value("election.go", `c.candidate.round != r.ID`, `false`)},
		Expect: "N12, L5", MustKill: true,
	},
}
