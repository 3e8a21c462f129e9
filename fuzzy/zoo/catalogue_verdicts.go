package zoo

// verdicts: what a status says of members, and who counts.
var verdicts = []Mutant{
	testedFile("O01", "a member that did not count is asked until it says that it does", "its heartbeats are skipped under load", "tests", ".", "TestHeartbeat_ReplySaysWhatHinders",
		value("heartbeat.go", `p.hindered == 0`, `true`)),
	testedFile("O02", "a member without room says so to its leader", "it does not", "tests", "node", "TestTolerance_DoesNotCountVotersWithoutRoom",
		value("node/sender.go", `ok && s.node.roomWatch.trouble.get() != nil`, `false`)),
	testedFile("O03", "a voter with a verdict does not count unless the table says so", "it counts", "tests", "node", "TestVerdicts_DecideWhoCounts",
		value("node/verdict.go", `!v.counts && m.excluded == ""`, `v.away`)),
	testedFile("O04", "peers say why a member was refused, after its end", "they forget it", "tests", "node", "TestImage_TheMemberThatRefusedSaysWhy",
		instead("node/identity.go", `i.refused[p] = *r`, `_ = r`)),
	testedFile("O05", "nobody is told to replace a member without a majority", "everybody is", "tests", "node", "TestMajorityLost_IsSaidInsteadOfARemedy",
		value("node/majority.go", `voters > 0 && voters-len(lost) < voters/2+1`, `false`)),
	testedFile("O06", "a remedy that was applied is not logged", "a late dial logs it", "tests", "node", "TestRejections_ARemedyThatWasApplied",
		value("node/identity.go", `r.Reason == raft.RejectWrongIncarnation && replaced`, `false`)),
	testedFile("O07", "a connection in one direction does not end the rejections in the other", "they are logged again", "tests", "node", "TestRejections_ARemedyThatWasApplied",
		before("node/handler.go", `delete(i.refusals, p)`, `delete(i.warned, warning{p, hasRefused})`)),
	testedFile("O08", "a leader that is lost too often is told", "only one that is followed by another", "tests", "node", "TestHistory_ReportsALeaderThatIsLostTooOften",
		value("node/history.go", `from.Leader != to.Leader || from.Term != to.Term`, `to.Leader != "" && from.Leader != to.Leader`)),
	testedFile("O09", "a resumed transfer does not count what was there before", "it does, and seems faster", "tests", "node", "TestTransfer_",
		value("node/snapshotstatus.go", `t.Done - t.from`, `t.Done`)),
}
