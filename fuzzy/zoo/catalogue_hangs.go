package zoo

// hangs: state machines that hang, and members with different election timeouts.
var hangs = []Mutant{
	mutant("H01", "a leader whose FSM hangs transfers its leadership", "it leads on", "L12",
		value("stall.go", `!hangs || l.transfer != nil || c.step.closing || l.votes == 0 || c.now.Mono < l.hangRetryAt`, `true`)).arranged().profiles("hangs").must(),
	mutant("H13", "or steps down once for a voter that it does not hear", "it stays", "L12",
		value("stall.go", `unheard && !b.yielded && c.now.Mono >= b.hangsAt(Time(c.cfg.ApplyStallMax))+hangPatience*c.electionTimeout()`, `false`)).
		arranged().profiles("hangs").or("TestHangingFSM_StepsDownOnceForWhoIsNotHeard"),
	mutant("H02", "to a voter that is beyond its batch", "to anyone", "N85",
		value("stall.go", `p.applied >= b.last && p.hindered == 0 && p.match == c.log.Last.Index`, `p.hindered == 0 && p.match == c.log.Last.Index`)).
		arranged().profiles("hangs").must(),
	mutant("H03", "a leader whose FSM hangs refuses proposals", "it accepts them", "N84",
		instead("leader.go", `return RefusedFSMHangs`, `return 0`)).arranged().profiles("hangs").must(),
	mutant("H04", "each batch has the limit for itself", "the first one's beginning counts", "N84",
		instead("commit.go", `b.last, b.since = a.ID.Index, min(since, c.now.Mono)`, `if b.last = a.ID.Index; b.since == 0 { b.since = since }`)).arranged().profiles("hangs"),
	mutant("H05", "an FSM that has ended its batch does not hang", "any later one must be beyond it", "N84",
		value("commit.go", `b.last > to`, `b.last >= to`)).arranged().profiles("hangs"),
	mutant("H06", "a member whose FSM hangs campaigns later", "it does not", "N86",
		value("election.go", `c.follower.deadline + hangDelayWaits*c.wait()`, `c.follower.deadline`)).arranged().profiles("hangs").must(),
	mutant("H07", "but soon if it had to deny a candidate for its log", "it waits nevertheless", "tests",
		value("election.go", `c.fsmHangs() && !c.follower.needed`, `c.fsmHangs()`)).profiles("hangs").or("TestHangingFSM_CampaignsLater"),
	mutant("H08", "only the reply to the latest heartbeat says what is applied", "the highest that was ever heard counts", "tests",
		instead("heartbeat.go", `p.applied, p.hindered = r.Applied, r.Hindered`, `p.applied, p.hindered = max(p.applied, r.Applied), r.Hindered`)).
		profiles("hangs").or("TestHangingFSM_ARestartedMemberAppliesAgain"),
	mutant("H09", "a member says that its FSM hangs", "it does not", "tests",
		value("heartbeat.go", `c.fsmHangs()`, `false`)).profiles("hangs").or("TestHangingFSM_CampaignsLater"),
	mutant("H10", "nobody gives room to a candidate whose FSM hangs", "all do", "tests",
		value("election.go", `!r.FSMHangs || c.fsmHangs()`, `true`)).profiles("hangs").or("TestHangingFSM_IsGivenNoRoom"),
	mutant("H11", "TimeoutNow counts for a pre-candidate, too", "only for a follower", "L13",
		value("election.go", `c.termLeader.elected != from || !c.mayCampaign()`, `c.termLeader.peer != from || !c.mayCampaign()`)).arranged().profiles("unequal").must(),
	mutant("H12", "a pre-candidate remembers that its leader has stepped down", "it does not", "tests",
		value("election.go", `c.termLeader.elected != from || c.termLeader.resigned`, `c.termLeader.elected != from || c.termLeader.peer != from`)).
		profiles("unequal").or("TestTransfer_ReachesAPreCandidate"),
}
