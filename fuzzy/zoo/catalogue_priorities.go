package zoo

// priorities: the priorities of voters, as the configuration holds them.
var priorities = []Mutant{
	newer("Q20", "the first priority raises the feature level", "the level stays, so nobody gets a priority", "N69",
		value("change.go", `next.prioritized()`, `false`)).or("Plan_Priorities"),
	newer("Q21", "a voter that may lead is required in each half, also while a change waits", "it is required only in the resulting configuration", "N69, G20",
		value("priority.go", `m.Kind == Voter`, `false`)).or("Plan_PrioritiesThatAreRefused"),
	newer("Q22", "a replacement keeps the priority of the member that it replaces", "it has the one that the caller gave", "N69",
		instead("change.go", `r.New.Priority = old.Priority`, ``)).or("Plan_Priorities"),
	newer("Q23", "a learner has no priority", "it may have one", "N69, G20",
		value("priority.go", `!c.needs(m.Peer())`, `false`)).or("Plan_PrioritiesThatAreRefused"),
	newer("Q25", "a priority is refused while a member speaks an earlier protocol", "every protocol that can change members is enough", "N69",
		value("reconfigure.go", `protocolOf(next.Level)`, `ProtocolMembership`)).or("Change_TheFirstPriority"),
	newer("Q26", "a member of an earlier release gets no snapshot whose configuration has priorities", "it gets one", "tests",
		value("snapshot.go", `protocolOf(c.log.configAt(c.log.commit).Config.Level)`, `ProtocolSnapshots`)).or("Change_AMemberThatWentBack"),
	newer("Q27", "a bootstrap with priorities has feature level 2", "it has level 0, which earlier releases read in a base", "N9, G20",
		instead("configentry.go", `f.Configuration.Level = featureLevelPriorities`, ``)).or("Bootstrap_WithPriorities"),
}
