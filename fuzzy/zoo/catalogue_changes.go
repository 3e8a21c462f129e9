package zoo

// memberChanges: how a leader changes the members, and what it does for who joins and who leaves.
var memberChanges = []Mutant{
	newer("M08", "a joint configuration is left once it is committed", "it is left at once", "G19, N9",
		value("reconfigure.go", `c.log.config().Index <= c.log.commit`, `(c.log.config().Index <= c.log.commit || c.log.config().Config.Joint())`)).must(),
	newer("M13", "a member that was removed disturbs nobody", "it campaigns without a pre-vote, and is heard although there is a leader", "L5, N",
		before("election.go", `c.becomePreCandidate()`, `c.campaign(false); return`),
		value("raft.go", `m.Term > c.hard.Term && c.disturbs(m)`, `false`),
		value("raft.go", `c.wasRemoved(m)`, `false`)),
	newer("M14", "who is to vote joins as a learner", "it counts at once, with an empty log", "N67",
		value("change.go", `len(next.awaited()) == 0`, `true`),
		value("quorum.go", `m.Kind == Voter && before.VotesIn(m.Peer()) == 0`, `false`)).must(),
	newer("M17", "a new leader takes over the configuration of the old one that is not committed", "it counts by the committed one", "G5, G7",
		value("leader.go", `c.log.configsFrom(c.log.commit)`, `[]ConfigRun{c.log.configAt(c.log.commit)}`)).must(),
	newer("R20", "what fewer voters suffice for is committed once they do", "it waits for another message", "N",
		instead("reconfigure.go", `c.advanceCommit()`, ``)).or("Joint_FewerVotersMayCommitMore"),
	newer("D18", "a configuration is in force again after a restart, committed or not", "only if it is known to be committed", "N9",
		before("raft.go", `if config := c.config(); len(config.Members) > 0 {`, `c.log.Configs = c.log.Configs[:max(c.log.configsUpTo(1), c.log.configsUpTo(c.log.commit))]`)).must(),
	newer("M28", "who takes the place of a learner is a learner", "it is to vote", "tests",
		instead("change.go", `r.New.Kind = old.Kind`, ``)),
	newer("M35", "the patience with a member counts from the change at the earliest", "from when it last made progress, long ago", "L15",
		value("reconfigure.go", `max(p.joins.movedAt, ch.since)`, `p.joins.movedAt`)).or("CatchUp_IsGivenUp"),
	newer("M43", "a second change is refused while one waits to be decided", "it takes its place", "L9",
		value("reconfigure.go", `l.change.asked != nil`, `false`)),
	newer("M48", "members that leave have no vote in the new half", "they have one", "G8",
		value("quorum.go", `m.Kind != Voter`, `m.Kind == Learner`)).must(),
	newer("M59", "a member that is removed is no member once the joint configuration is left", "it stays as a learner", "G7",
		before("quorum.go", `if m.Kind == Leaving {`, `if m.Kind == Leaving { m.Kind = Learner }`)).must(),
	newer("M60", "of too many removals the oldest are forgotten", "the newest are", "N9",
		value("quorum.go", `removed[max(0, len(removed)-RemovedMax):]`, `removed[:min(len(removed), RemovedMax)]`)).or("Removed_OnlyTheLatest"),
	newer("M61", "a learner is ready in an idle cluster, however long it took to get there", "its last round must have been short", "L15",
		instead("membership.go", `r.prompt = p.state == replicate`, ``)).or("CatchUp_IsGivenUp"),
	newer("M62", "a leader without a vote hands over once", "again and again", "N66",
		value("reconfigure.go", `!l.change.handsOver`, `true`)).or("Section6_ALeaderRemovesItself"),
	newer("M64", "who acts on a configuration learns when it is committed", "only when it comes into force", "L18",
		before("membership.go", `if r, ok := run.Config.removal(c.self); ok && r.Index > c.log.commit {`,
			`was := c.step.out.Config; defer func() { c.step.out.Config = was }()`)).must(),
	newer("M110", "of who was removed only its candidacy is ignored", "all that it sends is, although it may lead until it has handed over", "L4, N65",
		value("membership.go", `m.Body.class() != ofCandidate`, `false`)).must(),
	newer("M111", "a new leader serves those whose removal it does not know to be committed", "it knows only the newest configuration", "L18",
		value("leader.go", `c.log.configsFrom(c.log.commit)`, `[]ConfigRun{c.log.config()}`)).or("Leader_ANewOneServes"),
	member("M112", "who was removed knows it once a heartbeat has said that it is committed", "once any heartbeat was answered", "L18",
		value("heartbeat.go", `p.departs > 0 && commit >= p.departs && p.told == (RPCID{})`, `p.departs > 0 && p.told == (RPCID{})`)).or("RemovedLearnerThatOnlyAnswers"),
	newer("M113", "voters have an election timeout after a change to be heard", "they must have been heard before", "L15",
		before("heartbeat.go", `return max(until, c.leader.change.since+c.electionTimeout())`, `if true { return until }`)).or("DespiteTheSilent"),
	newer("M114", "the first append to a member that joins is repeated", "it is sent once", "L15",
		value("heartbeat.go", `c.mayBeUninitialized(p) && p.probe.overdue(c.now.Mono, c.electionTimeout())`, `false`)).or("CatchUp_TheFirstAppend"),
	{
		ID: "M115", Rule: "a member that has lost what it acknowledged is not heard", Bug: "it may count towards the quorum of a change",
		Edits: []Edit{value("reconfigure.go", `p.state == stale`, `false`)}, Expect: "N68", Profiles: []string{"members"},
		Alive: "what is known of such a member is emptied with its state, and nothing is added, so that it is not heard anyway",
	},
	member("M116", "a member of an earlier release can be removed", "it blocks its own removal", "tests",
		value("reconfigure.go", `m.Next != NextRemoved && speaks < ProtocolMembership`, `speaks < ProtocolMembership`)).or("Change_AnEarlierRelease"),
	newer("M117", "no configuration is appended by a leader whose disk is in the way", "one is", "N",
		value("reconfigure.go", `!c.diskBlocks()`, `true`)).or("Joint_NotWhileTheDisk"),
	newer("M118", "nothing of a new voter's state makes it silent before it has caught up", "it counts as silent, so nobody can join a single member", "N69",
		value("change.go", `m.Next == NextVoter || slices.Contains(despite, p.ID)`, `slices.Contains(despite, p.ID)`)).or("Plan_NewVotersMustBeHeard"),
	newer("M119", "a round of catching up that takes too long is noticed while it runs", "only when it ends", "N67",
		value("membership.go", `(!r.running || c.now.Mono-r.since <= c.roundMax(p))`, `true`)).or("CatchUp_ARoundThatTakesTooLong"),
	newer("M120", "a learner has caught up once it holds what the log held when the round began", "once it holds all but the last entry", "N67",
		value("membership.go", `p.match >= r.target`, `p.match+1 >= r.target`)).or("CatchUp_AMemberThatLagsWaits"),
	newer("M121", "the transfer of a leader that leaves answers nobody", "it answers a request that nobody made", "L9",
		value("transfer.go", `!t.own`, `true`)),
	newer("M122", "who was removed cannot read through the leader", "it may wait for an entry that it never gets", "L9",
		value("leader.go", `p != nil && p.state != stale && p.departs == 0`, `p != nil && p.state != stale`)),
	newer("M123", "only voters' clocks stamp entries", "those of members that were removed do, too", "N",
		instead("membership.go", `c.clocks = slices.DeleteFunc(c.clocks, func(r clockReading) bool { return config.VotesIn(r.peer) == 0 })`, ``)).or("Churn_StaysSafe"),
	newer("M124", "a change without effect appends nothing", "it raises the feature level", "N69",
		value("change.go", `d.Equal(c) || d.why.kind != 0`, `d.why.kind != 0`)),
	newer("M125", "an incarnation that was removed never returns", "a configuration brings it back", "G7",
		before("change.go", `if r, removed := d.before.removal(m.Peer()); removed {`,
			`d.Removed = slices.DeleteFunc(slices.Clone(d.Removed), func(r Removal) bool { return r.Peer == m.Peer() })
			d.before.Removed = d.Removed`)),
	newer("M126", "the votes of both halves count by incarnation", "an id is enough", "G8",
		value("quorum.go", `slices.Contains(peers, p)`, `slices.ContainsFunc(peers, func(o Peer) bool { return o.ID == p.ID })`)),
	newer("M127", "the callers of a change are told if its leader steps down", "they wait for ever", "L9",
		before("answer.go", `c.endOffers(l)`, `l.change.accepted = nil`)),
	newer("M183", "that the members are as asked is confirmed first", "a leader that is deposed says it at once", "L9, N69",
		instead("reconfigure.go", `c.answerConfirmed(Answer{RequestID: e.RequestID, Kind: AnswerChanged, ID: EntryID{Index: run.Index}})`,
			`c.answer(Answer{RequestID: e.RequestID, Kind: AnswerChanged, ID: EntryID{Index: run.Index}})`)).or("Change_ADeposedLeader"),
	newer("M184", "a refusal that says what the configuration is is confirmed first", "a leader that is deposed says it at once", "tests",
		value("changeerrors.go", `why.kind.aboutConfiguration()`, `false`)).or("Change_ADeposedLeader"),
	newer("M185", "what says what the configuration is waits in the room of changes", "without a limit", "N10",
		value("reconfigure.go", `reads.changes >= c.cfg.ProposalsMax`, `false`)).or("Change_WhatWaitsToBeConfirmed"),
	newer("M186", "a store older than all removals that are remembered may not join", "it may", "tests",
		value("admission.go", `h.NamedIndex < v.Removed[0].Index`, `false`)).or("MayJoin_AStoreOlder"),
	newer("M187", "a store joins as long as no removal can be forgotten", "none that lags may join", "tests",
		value("admission.go", `len(v.Removed) >= RemovedMax`, `len(v.Removed) > 0`)).or("MayJoin_AStoreOlder"),
	newer("M188", "who comes and goes does not prolong the wait for a live majority", "it begins anew each time", "L15",
		before("reconfigure.go", `if waits && ch.readyAt == 0 {`, `if waits { ch.readyAt = 0 }`)).or("LiveMajority_IsNotWaitedFor"),
	newer("M189", "the wait for a live majority begins anew once it was heard", "it goes on", "tests",
		before("reconfigure.go", "ch.readyAt = 0\n\tcase len(silent) == 0:", `break`)).or("LiveMajority_IsNotWaitedFor"),
	newer("M190", "a stalled leader hands over to a voter that leaves if no other is ahead", "it waits for another", "L4",
		value("stall.go", `IncomingHalf|OutgoingHalf`, `IncomingHalf`)).or("TestStall"),
	newer("M192", "an error names the lowest protocol of those that it names", "that of any member", "tests",
		value("reconfigure.go", `min(lowest, speaks)`, `min(lowest, 1)`)).or("TestChange"),
	newer("M193", "an error says by how much a configuration is over its limit", "it says only that it is", "tests",
		value("changeerrors.go", `why.invalid`, `error(nil)`)).or("TestPlan|TestChange"),
	newer("M199", "a learner that is to become a voter may be needed as leader", "it never campaigns", "L1",
		value("configuration.go", `ok && m.Next == NextVoter || c.VotesIn(p) != 0`, `c.VotesIn(p) != 0 || false && ok && m.Next == NextVoter`)).or("Joint_ALearner"),
}

// newer is a mutant that is newer than the checks which kill it, and that seeds of the profile members hunt.
func newer(id, rule, bug, expect string, edits ...Edit) Mutant {
	m := member(id, rule, bug, expect, edits...)
	m.Before = false
	return m
}

// or names the test of the core that catches the mutant if no seed does.
func (m Mutant) or(run string) Mutant {
	m.Test = &Test{".", run}
	return m
}

// must says that every change must be able to kill the mutant.
func (m Mutant) must() Mutant {
	m.MustKill = true
	return m
}
