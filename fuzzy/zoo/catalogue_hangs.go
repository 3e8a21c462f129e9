package zoo

// hangs: state machines that hang, and members with different election timeouts.
var hangs = []Mutant{
	{
		ID: "H01", Before: true, Rule: "a leader whose FSM hangs hands over", Bug: "it leads on",
		Edits:  []Edit{value("stall.go", `!hangs || l.transfer != nil || c.step.closing || l.votes == 0 || c.now.Mono < l.hangRetryAt`, `true`)},
		Expect: "L12", MustKill: true, Profiles: []string{"hangs"},
	},
	{
		ID: "H13", Before: true, Rule: "or steps down once for a voter that it does not hear", Bug: "it stays",
		Edits:  []Edit{value("stall.go", `unheard && !b.yielded && c.now.Mono >= b.hangsAt(Time(c.cfg.ApplyStallMax))+hangPatience*c.electionTimeout()`, `false`)},
		Expect: "L12", Profiles: []string{"hangs"},
		Test: &Test{".", "TestHangingFSM_StepsDownOnceForWhoIsNotHeard"},
	},
	{
		ID: "H02", Before: true, Rule: "to a voter that is beyond its batch", Bug: "to anyone",
		Edits:  []Edit{value("stall.go", `p.applied >= b.last && p.hindered == 0 && p.match == c.log.Last.Index`, `p.hindered == 0 && p.match == c.log.Last.Index`)},
		Expect: "N85", MustKill: true, Profiles: []string{"hangs"},
	},
	{
		ID: "H03", Before: true, Rule: "a leader whose FSM hangs refuses proposals", Bug: "it accepts them",
		Edits:  []Edit{instead("leader.go", `return RefusedFSMHangs`, `return 0`)},
		Expect: "N84", MustKill: true, Profiles: []string{"hangs"},
	},
	{
		ID: "H04", Before: true, Rule: "each batch has the limit for itself", Bug: "the first one's beginning counts",
		Edits: []Edit{instead("commit.go", `b.last, b.since = a.ID.Index, min(since, c.now.Mono)`,
			`if b.last = a.ID.Index; b.since == 0 { b.since = since }`)},
		Expect: "N84", Profiles: []string{"hangs"},
	},
	{
		ID: "H05", Before: true, Rule: "an FSM that has ended its batch does not hang", Bug: "any later one must be beyond it",
		Edits:  []Edit{value("commit.go", `b.last > to`, `b.last >= to`)},
		Expect: "N84", Profiles: []string{"hangs"},
	},
	{
		ID: "H06", Before: true, Rule: "a member whose FSM hangs campaigns later", Bug: "it does not",
		Edits:  []Edit{value("election.go", `c.follower.deadline + hangDelayWaits*c.wait()`, `c.follower.deadline`)},
		Expect: "N86", MustKill: true, Profiles: []string{"hangs"},
	},
	{
		ID: "H07", Rule: "but soon if it had to deny a candidate for its log", Bug: "it waits nevertheless",
		Edits:  []Edit{value("election.go", `c.fsmHangs() && !c.follower.needed`, `c.fsmHangs()`)},
		Expect: "tests", Profiles: []string{"hangs"},
		Test: &Test{".", "TestHangingFSM_CampaignsLater"},
	},
	{
		ID: "H08", Rule: "only the reply to the latest heartbeat says what is applied", Bug: "the highest that was ever heard counts",
		Edits: []Edit{instead("heartbeat.go", `p.applied, p.hindered = r.Applied, r.Hindered`,
			`p.applied, p.hindered = max(p.applied, r.Applied), r.Hindered`)},
		Expect: "tests", Profiles: []string{"hangs"},
		Test: &Test{".", "TestHangingFSM_ARestartedMemberAppliesAgain"},
	},
	{
		ID: "H09", Rule: "a member says that its FSM hangs", Bug: "it does not",
		Edits:  []Edit{value("heartbeat.go", `c.fsmHangs()`, `false`)},
		Expect: "tests", Profiles: []string{"hangs"},
		Test: &Test{".", "TestHangingFSM_CampaignsLater"},
	},
	{
		ID: "H10", Rule: "nobody gives room to a candidate whose FSM hangs", Bug: "all do",
		Edits:  []Edit{value("election.go", `!r.FSMHangs || c.fsmHangs()`, `true`)},
		Expect: "tests", Profiles: []string{"hangs"},
		Test: &Test{".", "TestHangingFSM_IsGivenNoRoom"},
	},
	{
		ID: "H11", Before: true, Rule: "TimeoutNow counts for a pre-candidate, too", Bug: "only for a follower",
		Edits:  []Edit{value("election.go", `c.termLeader.elected != from || !c.mayCampaign()`, `c.termLeader.peer != from || !c.mayCampaign()`)},
		Expect: "L13", MustKill: true, Profiles: []string{"unequal"},
	},
	{
		ID: "H12", Rule: "a pre-candidate remembers that its leader has stepped down", Bug: "it does not",
		Edits:  []Edit{value("election.go", `c.termLeader.elected != from || c.termLeader.resigned`, `c.termLeader.elected != from || c.termLeader.peer != from`)},
		Expect: "tests", Profiles: []string{"unequal"},
		Test: &Test{".", "TestTransfer_ReachesAPreCandidate"},
	},
}
