package zoo

// elections: which members may lead, and which votes they may give (paper §5.1, §5.2, §5.4.1).
var elections = []Mutant{
	mutant("E01", "one vote a term", "a member votes for any candidate whose log is good enough", "N2, G1",
		value("election.go", `vote != Peer{} && vote != candidate`, `false`)).must(),
	mutant("E02", "a vote is durable before it is given", "the reply leaves before the write", "N6",
		before("output.go", releaseAnchor, `if r, ok := o.message.Body.(VoteReply); ok && r.Granted { durable = true }`)).seen("classic").must(),
	mutant("E03", "term and vote are one write", "a crash between them leaves the new term with the old vote", "N2, N6",
		instead("output.go", `w.Hard, c.step.hard = &hard, hard`, `
			torn := hard
			if (torn.Vote == Peer{}) { torn.Vote = c.disk.hard.Vote }
			w.Hard, c.step.hard = &torn, hard`)).arranged().seen("hashicorp/raft persistVote writes two keys").must(),
	mutant("E04", "a vote is forgotten only with its term", "it is cleared when a leader is heard in the term", "N2, G1",
		before("append.go", `c.termLeader.elected = leader`, `c.hard.Vote = Peer{}`)).seen("camunda #5356").must(),
	mutant("E21", "a member that has heard the leader of a term votes for nobody else in it", "it votes for another candidate, if its disk forgot its vote",
		"N16",
		value("election.go", `why == Granted && c.otherLeads(from)`, `false`)).arranged().profiles("elections", "alone").or("TestElection"),
	mutant("E05", "a candidate's own vote is durable before it asks", "the request leaves before the write", "N6",
		before("output.go", releaseAnchor, `if _, ok := o.message.Body.(VoteRequest); ok { durable = true }`)).must(),
	mutant("E06", "logs are compared by the last term first", "by the last index first", "N16, G3",
		value("log.go", upToDateAnchor, `theirs.Index > ours.Index || theirs.Index == ours.Index && theirs.Term >= ours.Term`)).arranged().seen("student code").must(),
	mutant("E07", "a candidate's log is compared with the end of the voter's log", "it is compared with the voter's last committed entry", "N16, G3",
		value("election.go", `!upToDate(last, c.log.Last)`, `!upToDate(last, c.log.id(c.log.commit))`)).arranged().must(),
	mutant("E08", "an equal log is good enough", "a candidate's log must be longer than the voter's", "L1",
		value("election.go", `!upToDate(last, c.log.Last)`, `!upToDate(last, c.log.Last) || last == c.log.Last`)).arranged().must(),
	mutant("E09", "a vote counts in its own term", "replies of an earlier term count", "G8, G1",
		before("raft.go", staleAnchor, `if r, ok := m.Body.(VoteReply); ok { c.onVoteReply(m.From, r); return }`)).profiles("elections", "swarm").or("TestElection"),
	mutant("E10", "one member, one vote", "replies are counted, not members", "G8, G1",
		value("election.go", `slices.Contains(b.granted, from)`, `false`),
		before("quorum.go", `return c.config().hasQuorum(`, `if len(peers) >= majority(len(c.config().Voters())) { return true }`)).must(),
	mutant("E11", "a candidate or leader votes for nobody else in its term", "it votes for others", "N2, G1",
		before("election.go", voteDeniedAnchor, `if c.leader != nil || c.candidate != nil { why = c.grants(c.hard.Term, Peer{}, from, r.Last) }`)).
		seen("daos-stack/raft #70").must(),
	mutant("E12", "only voters count", "learners are asked, and their votes count", "G8",
		before("election.go", askVotesAnchor, `for _, m := range c.config().Members {
				if m.Kind == Learner { c.promiseVote(m.Peer(), VoteRequest{Last: c.log.Last, Transfer: transfer}) } }`),
		value("quorum.go", `m.Kind != Voter`, `false`),
		before("election.go", askPreVotesAnchor, `for _, m := range c.config().Members {
				if m.Kind == Learner { c.send(m.Peer(), PreVoteRequest{ID: c.candidate.round, Last: c.log.Last}) } }`),
		value("quorum.go", `granted >= majority(voters)`, `granted >= majority(len(c.Voters()))`)).arranged().seen("hashicorp/raft GH-398").must(),
	mutant("E13", "a quorum is more than half", "half of an even number is enough", "G5, G8",
		value("quorum.go", `n/2 + 1`, `(n + 1) / 2`)).seen("raft-java #21").must(),
	mutant("E14", "election timeouts are drawn anew each time", "they are all equal", "N15, L1",
		value("preference.go", `Time(c.rng.Int64N(int64(c.wait())+1))`, `c.wait()/2`)).arranged().must(),
	mutant("E15", "only a granted vote or a leader restarts the election timer", "any vote request does", "N15, L6",
		before("election.go", `assert(c.hard.Term > 0, "nobody votes in term 0")`, `c.resetElectionDeadline()`),
		before("election.go", preVoteAnchor, `c.resetElectionDeadline()`)).arranged().seen("well-known lab error").must(),
	mutant("E16", "a newer term in a reply is adopted", "it is ignored", "L1, L11",
		before("raft.go", newerTermAnchor, `if m.Term > c.hard.Term {
			switch m.Body.(type) { case VoteReply, PreVoteReply, AppendReply, AppendConflict, HeartbeatReply: return } }`)).arranged().profiles("swarm").must(),
	mutant("E17", "an append of an earlier term is refused", "it is accepted", "N17, G2",
		before("raft.go", staleAnchor, `
			if r, ok := m.Body.(AppendRequest); ok && c.leader == nil && c.log.has(r.Prev) {
				c.termLeader.proved = 0
				c.adopt(r.Entries)
				c.promiseLog(m.From, AppendReply{Match: r.Last.Index}, r.Last.Index)
				return
			}`)).arranged().profiles("elections", "swarm").must(),
	mutant("E18", "a candidate yields to the leader of its term", "it stays a candidate", "L1",
		before("append.go", hearAppendAnchor, `if c.candidate != nil { return }`),
		before("heartbeat.go", hearBeatAnchor, `if c.candidate != nil { return }`)).arranged().profiles("swarm").must(),
	mutant("E19", "the term survives a restart", "the term of the last entry is taken for it", "N1",
		before("raft.go", `c.step.hard = stored.Hard`,
			`c.hard = HardState{Term: min(c.log.Last.Term, stored.Hard.Term)}; stored.Hard = c.hard; c.disk.hard = c.hard`)).seen("camunda #19290; WRaft (SandTable)").must(),
	mutant("E20", "a leader that steps down does not lead again in that term", "it campaigns again without a new term", "G1, N8",
		before("leader.go", `c.trace(TraceEvent{Kind: TraceQuorumLost})`, `
			c.becomeFollower(c.hard.Term, Peer{})
			c.termLeader.elected = Peer{}
			c.setRole(Peer{}, &candidate{}, nil)
			c.follower.attempts.ballot = &ballot{began: c.now.Mono, asked: c.now.Mono, granted: []Peer{c.self}}
			for _, m := range c.config().Voters() {
				if m.ID != c.self.ID { c.promiseVote(m.Peer(), VoteRequest{Last: c.log.Last}) }
			}
			return`)).seen("xraft #33 (SandTable)").must(),
}

// Anchors that are long, or that more than one mutant uses.
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
	mutant("V01", "a pre-vote changes nothing", "it raises the term of the voter", "N12, L5",
		before("election.go", preVoteAnchor, `if m.Term+1 > c.hard.Term && c.leader == nil { c.becomeFollower(m.Term+1, Peer{}) }`)).arranged().must(),
	mutant("V02", "pre-votes do not count as votes", "they do", "G8, G1",
		instead("raft.go", `c.setRole(Peer{}, &candidate{}, nil)`, `
			granted := []Peer(nil)
			if c.candidate != nil { granted = c.candidate.granted }
			c.setRole(Peer{}, &candidate{granted: granted}, nil)`),
		value("election.go", `&ballot{began: c.now.Mono, transfer: transfer}`, `&ballot{began: c.now.Mono, transfer: transfer, granted: c.candidate.granted}`)).must(),
	mutant("V03", "a pre-vote request of an old term is answered with the new one", "it is dropped silently", "L1",
		before("election.go", preVoteAnchor, `if m.Term < c.hard.Term { return }`)).
		arranged().seen("etcd #8243, #8501; canonical/raft #279; openraft #1796").profiles("swarm").must(),
	mutant("V04", "a leader must hear a quorum within each timeout", "a member that was heard once counts forever", "N13, L6",
		before("heartbeat.go", `return p.heard + c.window(p)`, `if (p.beats.echoed != RPCID{}) { p.heard = c.now.Mono }`)).arranged().must(),
	mutant("V05", "a leader that hears no quorum steps down", "it stays leader", "N13, L6",
		value("leader.go", `c.now.Mono >= c.quorumUntil()`, `false`)).arranged().seen("Howard & Abraham 2020; openraft #2080").must(),
	mutant("V06", "stickiness ends one election timeout after the leader was last heard", "it never ends", "N14, L1",
		value("election.go", `c.now.Mono-c.follower.heard < c.electionTimeout()`, `true`)).arranged().seen("hashicorp/raft #605, #606; openraft #2080").must(),
	mutant("V07", "a member that hears a leader ignores vote requests", "it does not ignore them", "N12, L5",
		value("election.go", `asks && !r.Transfer`, `false`)).arranged().profiles("elections", "swarm").must(),
	mutant("V08", "the grants of a pre-vote round count only in that round", "they count in later rounds, too", "N12, L5",
		value("election.go", `c.candidate.round != r.ID`, `false`)).arranged().must(),
}
