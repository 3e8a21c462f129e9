package zoo

// waits: a cluster that is slow but not dead. These mutants are hunted with the profile slow.
var waits = []Mutant{
	mutant("G01", "the election wait grows with slow attempts", "it does not grow", "L1, L11, N31",
		value("attempts.go", `a.doublings < doublingsMax && c.wait() < took`, `false`)).arranged().profiles(slowly...).must(),
	mutant("G02", "the election wait is reset by the first commit of a term", "it stays long", "N31",
		value("attempts.go", `attempts{ballot: ballot, boundUntil: until}`,
			`attempts{ballot: ballot, boundUntil: until, doublings: c.follower.attempts.doublings}`)).arranged().profiles(slowly...).must(),
	mutant("G03", "silence alone does not lengthen the election wait", "each attempt doubles it", "N31, N15",
		before("election.go", `c.traceSlowness()`, `c.follower.attempts.doublings = min(c.follower.attempts.doublings+1, doublingsMax)`)).arranged().must(),
	mutant("G04", "a grant no longer counts once its term had a leader", "it still counts", "G1, invariant",
		before("raft.go", `c.termLeader.elected = c.self`, `c.follower.attempts.ballot = &ballot{granted: []Peer{c.self}}`),
		before("leader.go", `c.trace(TraceEvent{Kind: TraceQuorumLost})`, `defer func() { c.termLeader.elected = Peer{} }()`),
		value("election.go", `b != nil && c.voteDurable() && c.hasQuorum(b.granted)`, `b != nil && c.leader == nil && c.voteDurable() && c.hasQuorum(b.granted)`)).
		arranged().profiles(slowly...),
	mutant("G05", "a grant of the present term counts, however late", "it counts only while its candidate waits for it", "L1, L11",
		before("raft.go", `c.setRole(Peer{}, &candidate{pre: true, round: c.nextID()}, nil)`, `c.follower.attempts.ballot = nil`)).
		arranged().profiles(slowly...).or("TestElection|TestAttempt|TestSlow"),
	mutant("G06", "a voter gives its candidate time to win", "it supports another candidate at once", "L1, L11",
		before("attempts.go", "switch {\n\tcase c.hard.Vote == Peer{} || c.leader != nil:", `if asker != c.self { return false }`)).
		arranged().profiles(slowly...).or("TestElection|TestAttempt|TestSlow"),
	mutant("G07", "a vote in a term that was won no longer binds its voter", "it does once it is durable", "N63",
		value("attempts.go", `c.hard.Vote == (Peer{}) || c.termLeader.elected != (Peer{})`, `c.hard.Vote == (Peer{}) || c.leader != nil`)).
		arranged().profiles(slowly...).or("TestAttempts_AVote"),
}

// slowly are the profiles in which waits matter.
var slowly = []string{"slow", "elections"}
