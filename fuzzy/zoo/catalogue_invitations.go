package zoo

// invitations: how a node asks its leader to change the membership, and what it answers about a change.
var invitations = []Mutant{
	testedFile("M88", "a member joins only if it also reaches the leader", "the leader does not wait for its call",
		"tests", "node", "Change_AnUnreachable|ACancelledContact",
		value("node/invite.go", `v.callers[h.From] != h.Lineage.Last()`, `false`)),
	testedFile("M89", "a removed store does not join again", "it is rejected like any other store, and may", "tests", "node", "Change_ARemovedStore",
		value("node/invite.go", `r.Reason == raft.RejectRemoved && r.From == v.node.identity.self`, `false`)),
	testedFile("M90", "a change whose caller has gone is not asked for", "it is", "tests", "node", "Requests_AChangeThatIsCancelled",
		value("node/requests.go", `r.took(e)`, `true`)),
	testedFile("M91", "a change that has reached the core continues", "its caller is told that it does not",
		"tests", "node", "Change_TheOutcomeIsUnknown",
		value("node/requests.go", `c.taken`, `c.taken && c.kind != changeCall`)),
	testedFile("M92", "a change is answered when it has ended", "it is answered when its first entry is applied",
		"tests", "node", "Requests_AChangeIsAnswered",
		value("node/requests.go", `req.kind == changeCall`, `false`)),
	testedFile("M95", "while the voters change, each half must agree", "only the new voters count", "tests", "node", "Status_ToleranceInAJoint",
		value("node/memberstatus.go", `outgoing.voters == 0`, `true`)),
	testedFile("M96", "a member of an earlier release does not join", "it does", "tests", "node", "Change_AnEarlierRelease",
		value("node/invite.go", `h.Protocol < needs`, `false`)),
}
