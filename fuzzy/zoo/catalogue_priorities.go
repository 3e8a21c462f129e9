package zoo

// priorities: the priorities of voters, as the configuration holds them.
var priorities = []Mutant{
	member("Q20", "the first priority raises the feature level", "the level stays, so nobody gets a priority", "N69",
		value("change.go", `next.prioritized()`, `false`)).or("Plan_Priorities"),
	member("Q21", "a voter that may lead is required in each half, also while a change waits", "it is required only in the resulting configuration", "N69, G20",
		value("priority.go", `m.Kind == Voter`, `false`)).or("Plan_PrioritiesThatAreRefused"),
	member("Q22", "a replacement keeps the priority of the member that it replaces", "it has the one that the caller gave", "N69",
		instead("change.go", `r.New.Priority = old.Priority`, ``)).or("Plan_Priorities"),
	member("Q23", "a learner has no priority", "it may have one", "N69, G20",
		value("priority.go", `!c.needs(m.Peer())`, `false`)).or("Plan_PrioritiesThatAreRefused"),
	member("Q24", "a demoted member loses its priority with its last vote", "it keeps it as a learner, which no configuration may say", "N9",
		value("quorum.go", `m.Kind == Learner`, `false`)).or("Plan_Priorities"),
	member("Q28", "a change that is given up takes the priorities of learners away", "they keep them, which no configuration may say", "N9",
		value("quorum.go", `next.Members[i].Kind == Learner`, `false`)).or("Plan_Priorities"),
	member("Q25", "a priority is refused while a member speaks an earlier protocol", "every protocol that can change members is enough", "N69",
		value("reconfigure.go", `next.Protocol()`, `ProtocolMembership`)).or("Change_TheFirstPriority"),
	member("Q26", "a member of an earlier release gets no snapshot whose configuration has priorities", "it gets one", "tests",
		value("snapshot.go", `c.log.configAt(c.log.commit).Config.Protocol()`, `ProtocolSnapshots`)).or("Change_AMemberThatWentBack"),
	member("Q27", "a bootstrap with priorities has feature level 2", "it has level 0, which earlier releases read in a base", "N9, G20",
		instead("configentry.go", `f.Configuration.Level = featureLevelPriorities`, ``)).or("Bootstrap_WithPriorities"),
	mutant("Q45", "a leader transfers for a priority only to a member that has reported its back-off", "a member that has not answered a heartbeat counts as one without", "tests",
		value("preference.go", `p.beats.echoed == (RPCID{})`, `false`)).or("Takeover_WaitsForTheTargetsReport"),
}
