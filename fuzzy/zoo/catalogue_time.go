package zoo

// slowness: how long a member waits, for whom, and how it measures that, where everything takes as long as elections.
var slowness = []Mutant{
	{
		ID: "S01", Before: true, Rule: "a voter's wait begins when its vote is durable", Bug: "it begins with the request",
		Edits: []Edit{instead("attempts.go", "c.resetElectionDeadline()\n\ta.boundUntil = c.follower.deadline",
			`a.boundUntil = c.follower.deadline`)},
		Expect: "N25", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S02", Before: true, Rule: "a leader waits for twice the longest recent round trip", Bug: "for twice the latest one",
		Edits: []Edit{value("heartbeat.go", `min(2*p.beats.roundTrip.max(), c.electionTimeout()<<doublingsMax)`,
			`min(2*p.beats.roundTrip.last[(p.beats.roundTrip.next+len(p.beats.roundTrip.last)-1)%len(p.beats.roundTrip.last)], c.electionTimeout()<<doublingsMax)`)},
		Expect: "N37", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S03", Rule: "a SteppedDown of an earlier term does not matter", Bug: "followers leave the present leader",
		Edits: []Edit{before("raft.go", staleAnchor, `
			if _, ok := m.Body.(SteppedDown); ok && c.leader == nil && (c.termLeader.peer != Peer{}) {
				c.becomeFollower(c.hard.Term, Peer{})
				c.follower.deadline = c.now.Mono
				return
			}`)},
		Expect: "N25", Profiles: slowly,
	},
	{
		ID: "S04", Before: true, Rule: "a leader that has stepped down is not heard again", Bug: "its late messages count as those of a leader",
		Edits:  []Edit{instead("append.go", "if c.termLeader.resigned {\n\t\treturn\n\t}", `_ = c`)},
		Expect: "N36", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S05", Rule: "a leader waits for a transfer as long as the target's disk takes", Bug: "it waits for an election timeout",
		Edits: []Edit{instead("transfer.go", `t.deadline = c.now.Mono + c.outcomeTime(c.leader, t.to)`,
			`t.deadline = c.now.Mono + c.electionTimeout()`)},
		Expect: "L13", Profiles: []string{"slow"},
		Test: &Test{".", "TestStall_OneTransferAtATime"},
	},
	{
		ID: "S06", Before: true, Rule: "a leader that has told another to campaign does not step down meanwhile", Bug: "it does when it hears no quorum",
		Edits:  []Edit{value("heartbeat.go", `t != nil && t.sent`, `false`)},
		Expect: "N37", Profiles: slowly,
	},
	{
		ID: "S07", Before: true, Rule: "a write that waits behind others is not stalled", Bug: "its wait counts",
		Edits:  []Edit{value("output.go", `max(d.pending[0].issued, d.endedAt)`, `d.pending[0].issued`)},
		Expect: "N30", Profiles: []string{"slow"},
		Test: &Test{".", "TestStall_TheQueue"},
	},
	{
		ID: "S08", Rule: "only the reply to the measured heartbeat gives a round trip", Bug: "if that one is lost, the next reply does",
		Edits:  []Edit{value("progress.go", `round == h.pinged`, `!round.Less(h.pinged)`)},
		Expect: "N13", Profiles: slowly,
	},
	{
		ID: "S19", Rule: "a heartbeat whose answer is lost ends its measuring", Bug: "no round trip is measured any more",
		Edits:  []Edit{value("progress.go", `!round.Less(h.pinged)`, `round == h.pinged`)},
		Expect: "N13", Profiles: slowly,
		Test: &Test{".", "TestHeartbeats"},
	},
	{
		ID: "S09", Before: true, Rule: "a bootstrapper gives slow disks twice the time with each probe", Bug: "always the same",
		Edits:  []Edit{value("bootstrap.go", `min(f.redone, doublingsMax)`, `0`)},
		Expect: "L1", MustKill: true, Profiles: []string{"bootstrap"},
		Test: &Test{".", "TestBootstrap_IsRedoneWhen"},
	},
	{
		ID: "S10", Rule: "a read waits for a leader that is heard within a bound", Bug: "for as long as it is heard",
		Edits:  []Edit{value("read.go", `c.now.Mono-c.follower.reads.askedAt < readTimeoutsMax*c.electionTimeout()`, `true`)},
		Expect: "N38", MustKill: true, Profiles: []string{"network"},
		Test: &Test{".", "TestRead_IsRefusedWhen"},
	},
	{
		ID: "S11", Rule: "a stranger's vote request raises the term if it would be granted", Bug: "whatever its log",
		Edits:  []Edit{value("message.go", `c.grants(m.Term, Peer{}, m.From, body.Last) == Granted`, `true`)},
		Expect: "N12", MustKill: true, Profiles: []string{"network"},
		Test: &Test{".", "TestTerm_WhatAStranger"},
	},
	{
		ID: "S12", Rule: "of an even number of clocks the lower one in the middle counts", Bug: "the upper one",
		Edits:  []Edit{value("clock.go", `shown[(len(shown)-1)/2]`, `shown[len(shown)/2]`)},
		Expect: "S3", Profiles: []string{"clock", "swarm"},
	},
	{
		ID: "S13", Before: true, Rule: "a member whose vote is being written grants no pre-vote", Bug: "it grants one",
		Edits:  []Edit{value("attempts.go", `c.disk.hard != c.hard`, `false`)},
		Expect: "N35", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S14", Before: true, Rule: "a member whose vote is being written does not campaign", Bug: "it campaigns against that vote",
		Edits:  []Edit{value("election.go", `c.mayCampaign() && c.disk.hard == c.hard`, `c.mayCampaign()`)},
		Expect: "N35", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S15", Before: true, Rule: "a leader does not take its own sleep for its followers' silence", Bug: "it steps down",
		Edits:  []Edit{instead("attempts.go", `p.heard = min(p.heard+by, c.now.Mono)`, `_ = p`)},
		Expect: "N37", MustKill: true, Profiles: slowly,
	},
	{
		ID: "S16", Rule: "a sleep restarts a follower's timer once, until it hears a leader", Bug: "each sleep does",
		Edits:  []Edit{value("attempts.go", `!c.follower.graced`, `true`)},
		Expect: "N15", MustKill: true, Profiles: []string{"slow"},
		Test: &Test{".", "TestAttempts_AFollowerThatSlept"},
	},
	{
		ID: "S17", Rule: "late replies are measured, too", Bug: "only those in time are",
		Edits: []Edit{
			value("raft.go", `c.follower.attempts.sinceTerm(m.Term)`, `Time(0)`),
			value("election.go", `c.follower.attempts.sinceRound(r.ID)`, `func() Time {
				if c.candidate == nil || c.candidate.round != r.ID { return 0 }
				return c.follower.attempts.sinceRound(r.ID)
			}()`),
		},
		Expect: "L1, L11", Profiles: slowly,
	},
	{
		ID: "S18", Rule: "an acknowledgement is measured from the first time its append left", Bug: "from the latest repetition",
		Edits:  []Edit{value("progress.go", `max(p.probe.askedAt, p.backAt)`, `p.probe.sentAt`)},
		Expect: "tests", Profiles: append([]string{"history", "busy"}, slowly...),
		Test: &Test{".", "TestTransfer_WaitsForASlowDiskOfTheTarget"},
	},
}
