package zoo

// memberships: how the membership of a cluster changes.
var memberships = []Mutant{
	member("M01", "the voters change through a joint configuration", "they change in one step", "G7",
		instead("quorum.go", `next.Outgoing = c.voterPeers()`, ``)),
	member("M02", "no configuration is appended before an entry of the leader's term is committed", "one is", "G19",
		value("reconfigure.go", `!c.committedOwn()`, `false`)).must(),
	member("M03", "at most one configuration is uncommitted", "the next one follows at once", "G19",
		value("reconfigure.go", `c.log.config().Index <= c.log.commit`, `true`)),
	member("M04", "a truncated log falls back to an earlier configuration", "it keeps the one that it dropped", "N9",
		instead("log.go", `s.Configs = s.Configs[:s.configsUpTo(after.Index)]`, ``)).must(),
	member("M05", "the newest configuration is in force", "the newest committed one is", "N9, G8",
		instead("membership.go", `return c.log.config().Config`, `return c.log.configAt(max(c.log.commit, c.log.Base.ID.Index, 1)).Config`)),
	member("M06", "a joint configuration commits by both halves", "it commits by one of them", "G5",
		instead("quorum.go", `value = min(value, outgoing)`, `value = max(value, outgoing)`)).must(),
	member("M07", "a joint configuration elects by both halves", "it elects by the new one", "G8",
		value("quorum.go", `(!c.Joint() || agreed >= majority(len(c.Outgoing)))`, `true`)),
	member("M09", "every leader leaves a joint configuration", "only the one that began it does", "L15",
		instead("reconfigure.go", `c.appendConfig(config.leave(c.log.Last.Index + 1))`,
			`if len(c.leader.change.accepted) > 0 { c.appendConfig(config.leave(c.log.Last.Index + 1)) }`)),
	member("M10", "a leader without a vote does not count itself", "it does", "G5",
		value("quorum.go", `l.votes&half != 0`, `half == IncomingHalf || l.votes&half != 0`)),
	member("M11", "a leader leaves once the configuration without it is committed", "it leaves as soon as that is appended", "N66",
		value("reconfigure.go", `c.log.config().Index > c.log.commit`, `false`)),
	member("M12", "a member votes for candidates that its configuration does not name", "it refuses them", "L1",
		before("election.go", `why := c.grants(c.hard.Term, c.hard.Vote, from, r.Last)`, `if !c.names(from) { c.send(from, VoteReply{}); return }`)).or("Joint_LearnersAndStrangers"),
	member("M15", "progress belongs to one incarnation", "another one inherits it", "N18",
		before("membership.go", `l.peers = append(l.peers, p)`, `
			for i := range l.peers {
				if l.peers[i].peer.ID == peer.ID {
					p.match, p.next = l.peers[i].match, l.peers[i].next
				}
			}`)),
	member("M16", "a change that leaves no voter is refused for that reason", "it is called malformed", "N69",
		instead("change.go", `d.refuse(RefusedLastVoter, d.before.Voters()[0].ID)`, ``)),
	member("M18", "reads are confirmed by both halves", "they are confirmed by the new one", "G13",
		before("heartbeat.go", `return quorumValue(c.leader, &c.leader.indexes, 1`, `
			if v, _ := halfValue(c.leader, IncomingHalf, &c.leader.indexes, 1, func(p *progress) Index {
				if p.beats.echoed.Less(round) {
					return 0
				}
				return 1
			}); true {
				return v == 1
			}`)),
	member("M19", "a leader must hear both halves", "it must hear only the new one", "N13",
		before("heartbeat.go", `return max(until, c.leader.change.since+c.electionTimeout())`,
			`until, _ = halfValue(c.leader, IncomingHalf, &c.leader.times, always, func(p *progress) Time { return p.heard + c.window(p) })`)),
	member("M20", "a leader without a vote must hear the others", "it need not", "N13",
		before("heartbeat.go", `return max(until, c.leader.change.since+c.electionTimeout())`, `if c.leader.votes == 0 { until = always }`)),
	member("M21", "a joint configuration commits by both halves", "it commits by the outgoing one", "G5",
		instead("quorum.go", `value = min(value, outgoing)`, `value = outgoing`)),
	member("M22", "a candidate asks both halves", "it asks only the new one", "L1, L15",
		value("membership.go", `config.VotesIn(p) != 0`, `config.VotesIn(p)&IncomingHalf != 0`)),
	member("M23", "voters of either half campaign", "only those of the new one do", "N15, L1",
		before("membership.go", `if c.config().needs(c.self) {`, `if c.config().VotesIn(c.self)&IncomingHalf == 0 { return false }`)),
	member("M24", "learners that stay learners do not campaign", "they do", "N7",
		before("membership.go", `if c.config().needs(c.self) {`, `if c.config().includes(c.self) { return true }`)),
	member("M25", "a member votes although it believes itself to be a learner", "it does not", "L1",
		before("election.go", `why := c.grants(c.hard.Term, c.hard.Vote, from, r.Last)`, `if c.config().VotesIn(c.self) == 0 { c.send(from, VoteReply{}); return }`)),
	member("M26", "a learner that gets a vote has ended a short round", "any acknowledgement suffices", "N67",
		before("membership.go", `return p.state == replicate && c.heardLately(p)`, `if p.match > 0 { return c.heardLately(p) }`)),
	member("M27", "whether a learner is ready is judged when it gets its vote", "once ready, it stays so", "N67",
		before("membership.go", `return p.state == replicate && c.heardLately(p)`, `if r.prompt { return true }`)),
	member("M29", "a change gives up members that make no progress", "it waits forever", "L15",
		value("reconfigure.go", `idle >= Time(config.Patience)`, `false`)),
	member("M30", "giving up a change clears all that it was to do", "removals remain", "invariant",
		instead("quorum.go", `next.Members[i].Next = NextSame`, `if next.Members[i].Next != NextRemoved { next.Members[i].Next = NextSame }`)),
	member("M31", "a majority of the new voters is heard when they get their votes", "nobody checks that", "N68",
		before("reconfigure.go", `	switch {
	case len(silent) == 0 && waits:`, `silent = nil`)).or("LiveMajority_IsWaitedFor"),
	member("M32", "a request must name all silent voters", "any name will do", "N68",
		value("reconfigure.go", `slices.Contains(ch.despite, p.ID)`, `len(ch.despite) > 0`)).or("LiveMajority_DespiteCounts"),
	member("M33", "a change is refused if the configuration that it names is not in force", "the index is not compared", "N69",
		value("reconfigure.go", `e.IfIndex != 0 && e.IfIndex != run.Index`, `false`)),
	member("M34", "a change is done once it is committed", "it is done once it is accepted", "N69",
		before("reconfigure.go", `ch.accepted = append(ch.accepted, acceptedChange{requestID: e.RequestID, first: first})`,
			`c.answer(Answer{RequestID: e.RequestID, Kind: AnswerChanged, ID: first}); return`)),
	member("M36", "no configuration is appended during a transfer", "one is", "invariant, G15",
		value("reconfigure.go", `c.leader.transfer == nil`, `true`)).or("Churn_StaysSafe"),
	member("M37", "leadership is transferred to a voter that stays", "it is transferred to one that is leaving", "G15",
		instead("transfer.go", `return c.targetAmong(IncomingHalf, func(p *progress) bool { return p.peer.ID == to })`,
			`return c.targetAmong(IncomingHalf|OutgoingHalf, func(p *progress) bool { return p.peer.ID == to })`),
		before("transfer.go", `if p := c.targetAmong(IncomingHalf, func(p *progress) bool { return c.effectivePriority(p) > 0 }); p != nil {`,
			`if p := c.targetAmong(IncomingHalf|OutgoingHalf, func(p *progress) bool { return c.effectivePriority(p) > 0 }); p != nil { return p }`)),
	member("M38", "a leader that was removed transfers its leadership", "it stays leader for a while", "N66",
		before("reconfigure.go", `if p := c.transferTarget(""); p != nil`, `if true { return false }`)),
	member("M39", "a base has the configuration of its index", "it has the newest one", "G9",
		before("compact.go", `return Base{`, `latest.Config = c.config()`)),
	member("M40", "a base names the entry of its configuration", "it names the entry of the newest configuration", "G9",
		before("compact.go", `return Base{`, `latest.Index = c.log.config().Index`)),
	member("M41", "a compacted log keeps the configurations behind its base", "it drops all", "N9",
		instead("log.go", `s.Configs = s.Configs[s.configsUpTo(b.ID.Index):]`, `s.Configs = nil`)),
	member("M42", "a member that installs a snapshot takes over its configuration", "it keeps its own", "N9",
		before("log.go", `l.StoredLog = StoredLog{Base: base, Last: base.ID, LastTime: max(l.LastTime, base.Time)}`,
			`if l.Last.Index > 0 { base.Config, base.ConfigIndex = l.config().Config, l.config().Index }`)),
	member("M44", "a removed member is served until it knows of its removal", "it is dropped at once", "L18",
		value("membership.go", `p.knowsItsRemoval()`, `true`)).or("RemovedLearnerIsServedUntil"),
	member("M45", "a removed member is served for at most ten election timeouts", "it is served forever", "N65",
		value("membership.go", `p.departsUntil > 0 && c.now.Mono >= p.departsUntil`, `false`)),
	member("M45b", "a removed member gets no entry behind its removal", "it gets all entries", "N65",
		instead("membership.go", `return min(p.departs, log.Last.Index)`, `return log.Last.Index`)),
	member("M46", "a member that joins is sent the log", "it is forgotten", "N67, L15",
		value("membership.go", `peer != c.self && l.peer(peer) == nil`, `false`)),
	member("M47", "an offer to a member that is removed ends", "it continues", "N65",
		instead("membership.go", `c.endOffer(p)`, ``)).or("RemovedMemberIsSentNoSnapshot"),
	mutant("M49", "a new voter waits before it campaigns", "its old deadline counts", "N72",
		instead("membership.go", `c.resetElectionDeadline()`, ``)).arranged().profiles("members").or("Joint_ALearner"),
	member("M50", "a member counts as removed once that is committed", "it does as soon as that is appended", "N70",
		before("membership.go", `if !removed ||`, `removal, removed = c.config().removal(c.self)`)),
	member("M51", "a removal names the entry that removed the member", "it names the one before", "G7",
		instead("quorum.go", `removed = append(removed, Removal{p, at})`, `removed = append(removed, Removal{p, at - 1})`)),
	member("M63", "a configuration that is rolled back is reported", "it is not", "N9",
		instead("log.go", "c.trace(TraceEvent{Kind: TraceConfigRolledBack, Index: now})\n\t\tc.configChanged(needed)", `_ = needed`)),
	member("M65", "a member that is being removed may still be needed as leader", "it never campaigns", "L1",
		before("membership.go", `for n := len(c.log.Configs); n >= c.log.configsUpTo(c.log.commit); n-- {`, `if true { return false }`)),
}

// member returns a mutant that is hunted with the profile members.
func member(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Expect: expect, Edits: edits, Profiles: []string{"members"}}
}
