package zoo

// waits: a slow cluster that is not dead. The profile slow hunts them.
var waits = []Mutant{
	{
		ID: "G01", Before: true, Rule: "the election wait grows with slow attempts", Bug: "it does not grow",
		Edits:  []Edit{value("attempts.go", `a.doublings < doublingsMax && c.wait() < took`, `false`)},
		Expect: "L1, L11, N31", Profiles: slowly, MustKill: true,
	},
	{
		ID: "G02", Before: true, Rule: "the election wait is reset by the first commit of a term", Bug: "it stays long",
		Edits: []Edit{value("attempts.go", `attempts{ballot: ballot, boundUntil: until}`,
			`attempts{ballot: ballot, boundUntil: until, doublings: c.follower.attempts.doublings}`)},
		Expect: "N31", Profiles: slowly, MustKill: true,
	},
	{
		ID: "G03", Before: true, Rule: "silence alone does not lengthen the election wait", Bug: "each attempt doubles it",
		Edits: []Edit{before("election.go", `c.traceSlowness()`,
			`c.follower.attempts.doublings = min(c.follower.attempts.doublings+1, doublingsMax)`)},
		Expect: "N31, N15", MustKill: true,
	},
	{
		ID: "G04", Before: true, Rule: "a grant no longer counts once its term had a leader", Bug: "it still counts",
		Edits: []Edit{
			before("raft.go", `c.termLeader.elected = c.self`, `c.follower.attempts.ballot = &ballot{granted: []Peer{c.self}}`),
			before("leader.go", `c.trace(TraceEvent{Kind: TraceQuorumLost})`, `defer func() { c.termLeader.elected = Peer{} }()`),
			value("election.go", `b != nil && c.disk.hard == c.hard && c.hasQuorum(b.granted)`, `b != nil && c.leader == nil && c.disk.hard == c.hard && c.hasQuorum(b.granted)`),
		},
		Expect: "G1, invariant", Profiles: slowly,
	},
	{
		ID: "G05", Before: true, Rule: "a grant of the present term counts, however late", Bug: "only while its candidate waits for it",
		Edits: []Edit{before("raft.go", `c.setRole(Peer{}, &candidate{pre: true, round: c.nextID()}, nil)`,
			`c.follower.attempts.ballot = nil`)},
		Expect: "L1, L11", Profiles: slowly,
		Test: &Test{".", "TestElection|TestAttempt|TestSlow"},
	},
	{
		ID: "G06", Before: true, Rule: "a voter gives its candidate time to win", Bug: "it supports another one at once",
		Edits:  []Edit{before("attempts.go", "switch {\n\tcase c.hard.Vote == Peer{} || c.leader != nil:", `if asker != c.self { return false }`)},
		Expect: "L1, L11", Profiles: slowly,
		Test: &Test{".", "TestElection|TestAttempt|TestSlow"},
	},
	{
		ID: "G07", Before: true, Rule: "a vote of a term that was won binds nobody", Bug: "it does once it is durable",
		Edits:  []Edit{value("attempts.go", `c.hard.Vote == (Peer{}) || c.termLeader.elected != (Peer{})`, `c.hard.Vote == (Peer{}) || c.leader != nil`)},
		Expect: "N63", Profiles: slowly,
		Test: &Test{".", "TestAttempts_AVote"},
	},
}

// slowly are the profiles in which waits matter.
var slowly = []string{"slow", "elections"}
