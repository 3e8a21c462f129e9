package zoo

// verdicts: what a status reports about members, and which members count.
var verdicts = []Mutant{
	testedFile("O02", "a member without room reports that to its leader", "it does not", "tests", "node", "TestTolerance_DoesNotCountVotersWithoutRoom",
		value("node/sender.go", `ok && s.node.roomWatch.trouble.get() != nil`, `false`)),
	testedFile("O03", "a voter with a verdict does not count unless the table says so", "it counts", "tests", "node", "TestVerdicts_DecideWhoCounts",
		value("node/verdict.go", `!v.Counts && m.excluded == ""`, `v.away`)),
	testedFile("O04", "after the end of a refused member, its peers still report why it was refused", "they forget it",
		"tests", "node", "TestImage_TheMemberThatRefusedSaysWhy",
		instead("node/identity.go", `i.refused[p] = *r`, `_ = r`)),
	testedFile("O05", "without a majority, no status advises to replace a member", "every status does",
		"tests", "node", "TestMajorityLost_IsSaidInsteadOfARemedy",
		value("node/majority.go", `voters > 0 && voters-len(lost) < voters/2+1`, `false`)),
	testedFile("O06", "once a remedy was applied, it is no longer logged", "a late dial logs it",
		"tests", "node", "TestRejections_ARemedyThatWasApplied",
		value("node/identity.go", `r.Reason == raft.RejectWrongIncarnation && replaced`, `false`)),
	testedFile("O07", "a connection in one direction does not end the rejections in the other", "they are logged again", "tests", "node", "TestRejections_ARemedyThatWasApplied",
		before("node/handler.go", `delete(i.refusals, p)`, `delete(i.warned, warning{p, hasRefused})`)),
	testedFile("O08", "a leader that is lost too often is reported", "only one that is followed by another is",
		"tests", "node", "TestHistory_ReportsALeaderThatIsLostTooOften",
		value("node/history.go", `from.Leader != to.Leader || from.Term != to.Term`, `to.Leader != "" && from.Leader != to.Leader`)),
	testedFile("O10", "a leader that transfers its leadership is not lost", "it counts as lost", "tests", "node", "TestHistory_ATransfer",
		value("node/history.go", `from.Leader == "" && to.ByTransfer && end >= 0`, `false`)),
	testedFile("O09", "the rate of a resumed transfer does not count bytes from before", "it does, and seems faster", "tests", "node", "TestTransfer_",
		value("node/snapshotstatus.go", `t.Done - t.from`, `t.Done`)),
}
