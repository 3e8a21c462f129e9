package zoo

// preferences: who campaigns when. These mutants are hunted with the profile preference.
var preferences = []Mutant{
	preferred("W30", "news ends when the leader is heard again", "it lasts until the term ends", "N12, N25, N26",
		instead("append.go", `c.follower.heard, c.termLeader.gone = c.now.Mono, false`, `c.follower.heard = c.now.Mono`)).or("TestNews"),
	preferred("W31", "news counts only of the leader that the member follows", "it counts of any member", "N25, N26",
		value("preference.go", `c.termLeader.peer != of`, `false`)).or("TestNews"),
	preferred("W32", "news lifts stickiness", "a member with news still refuses votes and pre-votes", "N26, S2",
		value("election.go", `!c.termLeader.gone`, `true`)).or("TestNews"),
	preferred("W33", "each successor waits for those before it", "all have the rank of the first one", "N25",
		instead("preference.go", `return i, true`, `return 0, true`)).or("TestSuccessors"),
	preferred("W34", "a list of successors counts only in the term that sent it", "it counts in later terms", "N25",
		instead("raft.go", `c.termLeader = termLeader{}`, `c.termLeader = termLeader{successors: c.termLeader.successors}`)).or("TestSuccessors"),
	preferred("W35", "a voter that does not answer is no successor", "it is named all the same", "G17",
		value("preference.go", `p.heard >= lastRound`, `true`)).or("TestSuccessors"),
	preferred("W36", "a voter that something hinders is no successor", "it is named all the same", "tests",
		value("preference.go", `p.hindered != 0`, `false`)).or("TestSuccessors"),
	preferred("W37", "a pre-vote that was denied because the leader was heard is granted when the news comes", "it stays denied", "S2",
		value("preference.go", `d != nil && c.now.Mono-d.at <= c.span()`, `false`)).arranged(),
	preferred("W38", "a voter that lacks nothing is a successor, although its connection broke", "it is none until it acknowledges an append", "S2",
		value("preference.go", `p.state != replicate && p.match < c.log.Last.Index`, `p.state != replicate`)).arranged().or("TestSuccessors"),
}

// preferred returns a mutant that is hunted with the profile preference.
func preferred(id, rule, bug, expect string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).profiles("preference")
}
