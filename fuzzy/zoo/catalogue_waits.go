package zoo

// waits: a slow cluster that is not dead. The profile slow hunts them.
var waits = []Mutant{
	{
		ID: "G01", Before: true, Rule: "the wait grows with own attempts that take longer", Bug: "it does not",
		Edits:  []Edit{value("attempts.go", `a.doublings < doublingsMax && c.wait() < took`, `false`)},
		Expect: "L1, L11, N31", Profiles: slowly, MustKill: true,
	},
	{
		ID: "G02", Before: true, Rule: "the wait falls back with the first commit of a term", Bug: "it stays as long",
		Edits: []Edit{value("attempts.go", `attempts{ballot: ballot, boundUntil: until}`,
			`attempts{ballot: ballot, boundUntil: until, doublings: c.follower.attempts.doublings}`)},
		Expect: "N31", Profiles: slowly, MustKill: true,
	},
	{
		ID: "G03", Before: true, Rule: "silence alone does not lengthen the wait", Bug: "it doubles with each attempt",
		Edits: []Edit{before("election.go", `c.traceSlowness()`,
			`c.follower.attempts.doublings = min(c.follower.attempts.doublings+1, doublingsMax)`)},
		Expect: "N31, N15", MustKill: true,
	},
	{
		ID: "G04", Before: true, Rule: "a grant counts no more once its term has been led", Bug: "it does",
		Edits: []Edit{
			before("raft.go", `c.termLeader.elected = c.self`, `c.follower.attempts.ballot = &ballot{granted: []Peer{c.self}}`),
			before("leader.go", `c.trace(TraceEvent{Kind: TraceQuorumLost})`, `defer func() { c.termLeader.elected = Peer{} }()`),
			value("election.go", `b != nil && c.disk.hard == c.hard && c.hasQuorum(b.granted)`, `b != nil && c.leader == nil && c.disk.hard == c.hard && c.hasQuorum(b.granted)`),
		},
		Expect: "G1, invariant", Profiles: slowly,
	},
	{
		ID: "G05", Before: true, Rule: "a grant of the present term counts, however late", Bug: "only while its candidate waits for it",
		Edits: []Edit{before("raft.go", `c.setRole("", &candidate{pre: true, round: c.nextID()}, nil)`,
			`c.follower.attempts.ballot = nil`)},
		Expect: "L1, L11", Profiles: slowly,
		Test: &Test{".", "TestElection|TestAttempt|TestSlow"},
	},
	{
		ID: "G06", Before: true, Rule: "who has voted gives that vote time to elect", Bug: "it helps another at once",
		Edits:  []Edit{before("attempts.go", "switch {\n\tcase c.hard.Vote == Peer{} || c.leader != nil:", `if asker != c.self { return false }`)},
		Expect: "L1, L11", Profiles: slowly,
		Test: &Test{".", "TestElection|TestAttempt|TestSlow"},
	},
}

// slowly are the profiles in which waits matter.
var slowly = []string{"slow", "elections"}
