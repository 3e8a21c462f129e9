package zoo

// admissions: the effects of membership changes on handshakes.
var admissions = []Mutant{
	mutant("M52", "only a committed removal rejects a member", "one that may be rolled back does, too", "I8",
		before("handshake/admission.go", `if removal, ok := removalOf(v.Removed, h.From); ok {`,
			`{ w := *v; w.Removed = slices.Concat(v.Removed, v.Config.Removed); v = &w }`)).arranged().profiles("images").test("handshake", "CheckRemoved"),
	mutant("M53", "a member that lags admits the incarnation that has taken another one's place", "it rejects it", "I9",
		value("handshake/handshake.go", `v.Term != 0 || h.Term != 0 && h.Cluster == v.Cluster`, `false`)).
		arranged().profiles("images", "alone").test("handshake", "Handshake_Refuses"),
	mutant("M54", "a member believes that it was removed only if a member that it knows says so", "it believes anybody", "I8",
		value("handshake/admission.go", `v.names(r.From)`, `true`)).arranged().profiles("images").test("handshake", "ToldRemoval"),
	mutant("M194", "on entries that it knows to be committed, a member believes itself alone", "it ends if a member says that such an entry has removed it",
		"I8",
		value("handshake/admission.go", `r.Index <= v.Commit`, `false`)).arranged().profiles("images").test("handshake", "ToldRemoval"),
	mutant("M195", "a reported removal that contradicts a committed entry marks the store", "it is ignored", "I8",
		instead("handshake/descent.go", `return v.contradictedBy(r)`, `return nil`)).arranged().profiles("images").test("handshake", "Told_ARemovalThatContradicts"),
	mutant("M196", "a reported removal whose entry may be compacted contradicts nothing", "it marks the store of a member that has joined again", "I8",
		value("handshake/admission.go", `len(v.Removed) == raft.RemovedMax && r.Index <= v.Removed[0].Index`, `false`)).
		arranged().profiles("churn").test("handshake", "Told_ARemovalThatContradicts"),
	mutant("M197", "a member that was added again after its removal continues", "it ends", "N70",
		value("membership.go", `c.joinsAgain(removal)`, `false`)).arranged().profiles("churn").or("Removed_WhoIsAddedAgain"),
	mutant("M198", "a node checks again before it ends because it was removed", "it ends without a check", "tests",
		value("node/marks.go", `n.removed.Load() == removed`, `true`)).arranged().outside("node", "TestRemoved_AMemberThatHasJoinedAgain"),
	mutant("M55", "an incarnation that was removed never joins again", "it may", "I10",
		value("handshake/admission.go", `removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`,
			`h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`)).arranged().profiles("images").test("handshake", "MayJoin"),
	mutant("M56", "the store of another cluster does not join", "it does", "I10",
		value("handshake/admission.go", `removed || h.Cluster != (raft.ClusterID{}) && h.Cluster != v.Cluster`, `removed`)).
		arranged().profiles("images").test("handshake", "MayJoin"),
	mutant("M58", "what a peer has confirmed is kept while a configuration is rolled back and made again", "it is forgotten", "I4",
		before("handshake/descent.go", `return &m`,
			`m.Confirmed = slices.DeleteFunc(slices.Clone(m.Confirmed), func(s raft.Sighting) bool { return !v.uninitialized() && !v.names(s.Peer) })`)).arranged().profiles("images").test("handshake", "KeepsWhatWasConfirmed"),
	mutant("M82", "a member that a newer configuration names is not wiped", "it counts as wiped if a lagging member names another incarnation", "tests",
		instead("node/identity.go", `wiped = wiped && misnamed`, `_ = misnamed`)).arranged().outside("node", "TestWiped_AConfigurationThatNames"),
}
