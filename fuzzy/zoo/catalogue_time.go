package zoo

// slowness: the waits of a member, and how the member measures these waits, when everything takes as long as an election.
var slowness = []Mutant{
	mutant("S01", "a voter's wait begins when its vote is durable", "it begins with the request", "N25",
		instead("attempts.go", "c.campaignAgain()\n\ta.boundUntil = c.follower.deadline", `a.boundUntil = c.follower.deadline`)).arranged().profiles(slowly...).must(),
	mutant("S02", "a leader waits for twice the longest recent round trip", "for twice the latest one", "N37",
		value("heartbeat.go", `min(2*p.beats.roundTrip.max(), c.electionTimeout()<<doublingsMax)`,
			`min(2*p.beats.roundTrip.last[(p.beats.roundTrip.next+len(p.beats.roundTrip.last)-1)%len(p.beats.roundTrip.last)], c.electionTimeout()<<doublingsMax)`)).arranged().profiles(slowly...).must(),
	mutant("S03", "a SteppedDown of an earlier term has no effect", "followers leave the present leader", "N25",
		before("raft.go", staleAnchor, `
			if _, ok := m.Body.(SteppedDown); ok && c.leader == nil && (c.termLeader.peer != Peer{}) {
				c.becomeFollower(c.hard.Term, Peer{})
				c.follower.deadline = c.now.Mono
				return
			}`)).profiles(slowly...),
	mutant("S04", "a leader that has stepped down is not heard again", "its late messages count as those of a leader", "N36",
		instead("append.go", "if c.termLeader.resigned {\n\t\treturn\n\t}", `_ = c`)).arranged().profiles(slowly...).must(),
	mutant("S05", "a leader waits for a transfer as long as the target's disk needs", "it waits for one election timeout", "L13",
		instead("transfer.go", `t.deadline = c.now.Mono + c.outcomeTime(c.leader, t.to)`, `t.deadline = c.now.Mono + c.electionTimeout()`)).
		profiles("slow").or("TestStall_OneTransferAtATime"),
	mutant("S20", "a new leader takes the time of its election for that of an acknowledgement", "it knows of no acknowledgement", "L13",
		instead("membership.go", `p.acks.add(roundTrip)`, `_ = c`)).arranged().profiles("slow").or("TestTransfer_OfANewLeader"),
	mutant("S06", "a leader that has asked another member to campaign does not step down meanwhile", "it steps down when it hears no quorum", "N37",
		value("heartbeat.go", `t != nil && t.sent`, `false`)).arranged().profiles(slowly...),
	mutant("S07", "a write that waits behind others has not stalled", "its wait counts", "N30",
		value("output.go", `max(d.pending[0].issued, d.endedAt)`, `d.pending[0].issued`)).arranged().profiles("slow").or("TestStall_TheQueue"),
	mutant("S08", "only the reply to the measured heartbeat yields a round trip", "if that reply is lost, the next reply does", "N13",
		value("progress.go", `round == h.pinged`, `!round.Less(h.pinged)`)).profiles(slowly...),
	mutant("S19", "the measurement of a heartbeat whose answer is lost ends", "no round trip is measured any more", "N13",
		value("progress.go", `!round.Less(h.pinged)`, `round == h.pinged`)).profiles(slowly...).or("TestHeartbeats"),
	mutant("S09", "a bootstrapper allows slow disks twice the time with each probe", "it always allows the same time", "L1",
		value("bootstrap.go", `min(f.redone, doublingsMax)`, `0`)).arranged().profiles("bootstrap").or("TestBootstrap_IsRedoneWhen").must(),
	mutant("S10", "a read waits for a leader that is heard up to a limit", "it waits as long as the leader is heard", "N38",
		value("read.go", `c.now.Mono-c.follower.reads.askedAt < readTimeoutsMax*c.electionTimeout()`, `true`)).profiles("alone").or("TestRead_IsRefusedWhen").must(),
	mutant("S11", "a stranger's vote request raises the term only if it would be granted", "it does whatever the stranger's log", "N12",
		value("message.go", `c.grants(m.Term, Peer{}, m.From, body.Last) == Granted`, `true`)).profiles("alone").or("TestTerm_WhatAStranger").must(),
	mutant("S12", "of an even number of clocks, the lower of the middle two counts", "the upper one counts", "S3",
		value("clock.go", `shown[(len(shown)-1)/2]`, `shown[len(shown)/2]`)).profiles("alone", "swarm"),
	mutant("S13", "a member whose vote is being written grants no pre-vote", "it grants one", "N35",
		value("attempts.go", `!c.voteDurable()`, `false`)).arranged().profiles(slowly...).must(),
	mutant("S14", "a member whose vote is being written does not campaign", "it campaigns against that vote", "N35",
		value("election.go", `c.mayCampaign() && c.voteDurable()`, `c.mayCampaign()`)).arranged().profiles(slowly...).must(),
	mutant("S15", "a leader does not mistake its own sleep for silence of its followers", "it steps down", "N37",
		instead("attempts.go", `p.heard = min(p.heard+by, c.now.Mono)`, `_ = p`)).arranged().profiles(slowly...).must(),
	mutant("S16", "a sleep restarts a follower's timer once, until it hears a leader", "each sleep does", "N15",
		value("attempts.go", `!c.follower.gracePeriodUsed`, `true`)).profiles("slow").or("TestAttempts_AFollowerThatSlept").must(),
	mutant("S17", "late replies are measured, too", "only those in time are", "L1, L11",
		value("raft.go", `c.follower.attempts.sinceTerm(m.Term)`, `Time(0)`),
		value("election.go", `c.follower.attempts.sinceRound(r.ID)`, `func() Time {
				if c.candidate == nil || c.candidate.round != r.ID { return 0 }
				return c.follower.attempts.sinceRound(r.ID)
			}()`)).profiles(slowly...),
	mutant("S18", "the delay of an acknowledgement is measured from the first sending of its append", "from the latest repetition", "tests",
		value("progress.go", `max(p.probe.askedAt, p.backAt)`, `p.probe.sentAt`)).
		profiles(append([]string{"history"}, slowly...)...).or("TestTransfer_WaitsForASlowDiskOfTheTarget"),
}
