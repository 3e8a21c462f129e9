package zoo

// hangs: state machines that hang, and members with different election timeouts.
var hangs = []Mutant{
	mutant("H01", "a leader whose FSM hangs transfers its leadership", "it keeps leading", "L12",
		value("stall.go", `!hangs || l.transfer != nil || c.step.closing || l.votes == 0 || c.now.Mono < l.hangRetryAt`, `true`)).arranged().profiles("hangs").must(),
	mutant("H13", "a leader whose FSM hangs steps down if only a voter that it does not hear can take over", "it stays leader", "L12",
		value("stall.go", `unheard && c.now.Mono >= max(b.yieldsAt, b.hangsAt(Time(c.cfg.ApplyStallMax))+hangPatience*c.electionTimeout())`, `false`)).
		arranged().profiles("hangs").or("TestHangingFSM_StepsDownNowAndThenForWhoIsNotHeard"),
	mutant("H15", "a leader whose FSM hangs steps down again later for a voter that it does not hear", "it does so once in a batch", "L12",
		instead("stall.go", `b.yieldsAt = c.now.Mono + c.electionTimeout()<<doublingsMax`, `b.yieldsAt = c.now.Mono + 1<<60`)).
		arranged().profiles("hangs").or("TestHangingFSM_StepsDownNowAndThenForWhoIsNotHeard"),
	mutant("H14", "a leader that has stepped down because its FSM hangs campaigns late", "it campaigns soon if it denies a candidate because of its log", "N86",
		value("election.go", `c.fsmHangs() && c.log.batch.yieldsAt > 0`, `false`)).arranged().profiles("hangs").or("TestHangingFSM_LetsWhoIsNotHeardCampaignFirst").must(),
	mutant("H02", "a leader whose FSM hangs transfers only to a voter that has applied more than its own hanging batch", "it transfers to any voter",
		"N85",
		value("stall.go", `p.applied >= b.last && p.hindered == 0 && p.match == c.log.Last.Index`, `p.hindered == 0 && p.match == c.log.Last.Index`)).
		arranged().profiles("hangs").must(),
	mutant("H03", "a leader whose FSM hangs refuses proposals", "it accepts them", "N84",
		instead("leader.go", `return RefusedFSMHangs`, `return 0`)).arranged().profiles("hangs").must(),
	mutant("H04", "the time limit applies to each batch separately", "it begins with the first batch", "N84",
		instead("commit.go", `b.last, b.since = a.ID.Index, min(since, c.now.Mono)`, `if b.last = a.ID.Index; b.since == 0 { b.since = since }`)).arranged().profiles("hangs"),
	mutant("H05", "an FSM that has ended its batch does not hang", "it does until a later entry is applied", "N84",
		value("commit.go", `b.last > to`, `b.last >= to`)).arranged().profiles("hangs"),
	mutant("H06", "a member whose FSM hangs campaigns later", "it does not", "N86",
		value("election.go", `c.follower.deadline+hangDelayWaits*c.wait()`, `c.follower.deadline`)).arranged().profiles("hangs").must(),
	mutant("H07", "a member whose FSM hangs campaigns soon if it had to deny a candidate because of its log", "it waits nevertheless", "tests",
		value("election.go", `c.standsBack() && !c.follower.needed`, `c.standsBack()`)).profiles("hangs").or("TestHangingFSM_CampaignsLater"),
	mutant("H08", "only the reply to the latest heartbeat counts as the applied index of a member", "the highest that was ever reported counts", "tests",
		instead("heartbeat.go", `p.applied, p.hindered, p.backoff, p.appVersion = r.Applied, r.Hindered, r.Backoff, r.AppVersion`, `p.applied, p.hindered, p.backoff, p.appVersion = max(p.applied, r.Applied), r.Hindered, r.Backoff, r.AppVersion`)).
		profiles("hangs").or("TestHangingFSM_ARestartedMemberAppliesAgain"),
	mutant("H09", "a member reports that its FSM hangs", "it does not", "tests",
		value("heartbeat.go", `c.fsmHangs()`, `false`)).profiles("hangs").or("TestHangingFSM_CampaignsLater"),
	mutant("H10", "no voter defers its campaign for a candidate whose FSM hangs", "all voters do", "tests",
		value("election.go", `!r.FSMHangs || c.fsmHangs()`, `true`)).profiles("hangs").or("TestHangingFSM_IsGivenNoRoom"),
	mutant("H11", "a pre-candidate, too, obeys TimeoutNow", "only a follower does", "L13",
		value("election.go", `c.termLeader.elected != from || !c.mayCampaign()`, `c.termLeader.peer != from || !c.mayCampaign()`)).arranged().profiles("unequal").must(),
	mutant("H12", "a pre-candidate remembers that its leader has stepped down", "it forgets that", "tests",
		value("election.go", `c.termLeader.elected != from || c.termLeader.resigned`, `c.termLeader.elected != from || c.termLeader.peer != from`)).
		profiles("unequal").or("TestTransfer_ReachesAPreCandidate"),
}
