package zoo

// takeovers: who should lead, and when leadership is transferred for that.
var takeovers = []Mutant{
	prefers("Q30", "a leader transfers for a priority only after ten seconds", "it does so at once", "G21",
		value("preference.go", `most > 0 && c.now.Mono < l.since+takeoverAfter`, `false`)).arranged().must(),
	prefers("Q31", "a member that has lost its leadership counts as one without priority for a while", "it counts with its priority", "G17, N88, G21",
		value("preference.go", `p.backoff > 0`, `false`)).arranged().must(),
	prefers("Q32", "a member that something hinders is no successor", "it is one", "G17, N88, G21",
		value("preference.go", `p.hindered != 0`, `false`)).arranged().or("TestTakeover_OnlyBy"),
	prefers("Q33", "a standby campaigns later than others", "it does not wait for them", "N86",
		value("election.go", `c.fsmHangs() || c.standby(c.self)`, `c.fsmHangs()`)).arranged().must(),
	prefers("Q34", "a planned transfer is no loss", "it is one", "tests",
		value("preference.go", `l.transfer != nil && l.transfer.sent && l.transfer.planned`, `false`)).or("TestBackoff_APlanned"),
	prefers("Q35", "a standby that leads transfers its leadership once another voter can lead", "it leads on", "L22, S2",
		before("preference.go", `most, best := c.priority(c.self), (*progress)(nil)`, `if c.standby(c.self) { return }`)).arranged(),
	prefers("Q36", "nothing is written about leaderships without priorities", "it is always written", "N87",
		value("preference.go", `c.config().prioritized() && !c.step.closing`, `!c.step.closing`)).arranged().must(),
	prefers("Q37", "losses outlast the term", "a new term forgets them", "tests",
		value("raft.go", `HardState{Term: term, Cluster: c.hard.Cluster, Losses: c.hard.Losses, Lease: c.hard.Lease}`,
			`HardState{Term: term, Cluster: c.hard.Cluster, Lease: c.hard.Lease}`)).or("TestBackoff_Doubles"),
	prefers("Q38", "successors come in the order of their priorities", "they come in the order of their ids", "N88",
		value("preference.go", `cmp.Compare(c.priority(b.peer), c.priority(a.peer))`, `0`)).arranged().must(),
	prefers("Q39", "a member that was told to campaign, and does not win, counts a loss", "it does not", "tests",
		value("preference.go", `b != nil && b.transfer && !won`, `false`)).or("TestBackoff_ATimeoutNow"),
	prefers("Q40", "a leader that was named does not transfer for a priority", "it does", "tests",
		instead("raft.go", `c.leader.stays = named`, ``)).or("TestTakeover_NotAfter"),
	prefers("Q41", "a loss counts once", "it counts twice", "N87",
		value("preference.go", `c.hard.Losses+1`, `c.hard.Losses+2`)).arranged().must(),
}

// prefers returns a mutant that is hunted with the profile whose members have priorities.
func prefers(id, rule, bug, expect string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, expect, edits...).profiles("preference")
}
