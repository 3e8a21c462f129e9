package zoo

// admissions: what a change of the members means for handshakes.
var admissions = []Mutant{
	{
		ID: "M52", Before: true, Rule: "only a removal that is committed rejects a member", Bug: "one that may be rolled back does, too",
		Edits: []Edit{before("handshake/admission.go", `if removal, ok := removalOf(v.Removed, h.From); ok {`,
			`{ w := *v; w.Removed = slices.Concat(v.Removed, v.Config.Removed); v = &w }`)},
		Expect: "I8", Profiles: []string{"images"}, Test: &Test{"handshake", "CheckRemoved"},
	},
	{
		ID: "M53", Before: true, Rule: "a member that lags takes the incarnation that has the place of another", Bug: "it rejects it",
		Edits:  []Edit{value("handshake/handshake.go", `v.Term != 0 || h.Term != 0 && h.Cluster == v.Cluster`, `false`)},
		Expect: "I9", Profiles: []string{"images", "disk"}, Test: &Test{"handshake", "Handshake_Refuses"},
	},
	{
		ID: "M54", Before: true, Rule: "a member believes that it was removed only if a member that it knows says so", Bug: "it believes anybody",
		Edits:  []Edit{value("handshake/admission.go", `v.names(r.From)`, `true`)},
		Expect: "I8", Profiles: []string{"images"}, Test: &Test{"handshake", "ToldRemoval"},
	},
	{
		ID: "M194", Before: true, Rule: "of what it knows to be committed a member believes itself alone", Bug: "it ends if a member says that such an entry has removed it",
		Edits:  []Edit{value("handshake/admission.go", `r.Index <= v.Commit`, `false`)},
		Expect: "I8", Profiles: []string{"images"}, Test: &Test{"handshake", "ToldRemoval"},
	},
	{
		ID: "M195", Before: true, Rule: "a removal that contradicts what is committed marks the store", Bug: "it is ignored",
		Edits:  []Edit{instead("handshake/descent.go", `return v.contradictedBy(r)`, `return nil`)},
		Expect: "I8", Profiles: []string{"images"}, Test: &Test{"handshake", "Told_ARemovalThatContradicts"},
	},
	{
		ID: "M196", Before: true, Rule: "a removal that may be forgotten contradicts nothing", Bug: "it marks the store of a member that has joined again",
		Edits:  []Edit{value("handshake/admission.go", `len(v.Removed) == raft.RemovedMax && r.Index <= v.Removed[0].Index`, `false`)},
		Expect: "I8", Profiles: []string{"churn"}, Test: &Test{"handshake", "Told_ARemovalThatContradicts"},
	},
	{
		ID: "M197", Before: true, Rule: "a member that was added again after its removal goes on", Bug: "it ends",
		Edits:  []Edit{value("membership.go", `c.joinsAgain(removal)`, `false`)},
		Expect: "N70", Profiles: []string{"churn"}, Test: &Test{".", "Removed_WhoIsAddedAgain"},
	},
	{
		ID: "M198", Before: true, Rule: "a node looks again before it ends as that of a removed member", Bug: "it ends all the same",
		Edits:  []Edit{value("node/marks.go", `n.removed.Load() == removed`, `true`)},
		Expect: "tests", Test: &Test{"node", "TestRemoved_WhoHasJoinedAgain"}, Outside: true,
	},
	{
		ID: "M55", Before: true, Rule: "an incarnation that was removed never joins again", Bug: "it may",
		Edits: []Edit{value("handshake/admission.go", `removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`,
			`h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`)},
		Expect: "I10", Profiles: []string{"images"}, Test: &Test{"handshake", "MayJoin"},
	},
	{
		ID: "M56", Before: true, Rule: "the store of another cluster does not join", Bug: "it does",
		Edits:  []Edit{value("handshake/admission.go", `removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`, `removed`)},
		Expect: "I10", Profiles: []string{"images"}, Test: &Test{"handshake", "MayJoin"},
	},
	{
		ID: "M58", Before: true, Rule: "what a peer has confirmed is kept while a configuration is rolled back and made again", Bug: "it is forgotten",
		Edits: []Edit{before("handshake/descent.go", `return &m`,
			`m.Confirmed = slices.DeleteFunc(slices.Clone(m.Confirmed), func(s raft.Sighting) bool { return !v.uninitialized() && !v.names(s.Peer) })`)},
		Expect: "I4", Profiles: []string{"images"}, Test: &Test{"handshake", "KeepsWhatWasConfirmed"},
	},
	{
		ID: "M82", Before: true, Rule: "a member that a newer configuration names is not wiped", Bug: "it is, if one that lags names another incarnation",
		Edits:  []Edit{instead("node/identity.go", `wiped = wiped && misnamed`, `_ = misnamed`)},
		Expect: "tests", Test: &Test{"node", "TestWiped_AConfigurationThatNames"}, Outside: true,
	},
}
