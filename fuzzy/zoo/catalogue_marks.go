package zoo

// marks: mutants for members that lost entries they had acknowledged, and for the last witness of a write that the others
// lost.
var marks = []Mutant{
	mutant("Y01", "a conflict proves a loss only if it was sent after the acknowledgement", "a late conflict from before does, too", "N22",
		value("replicate.go", `r.Prev == r.Acknowledged || agreed < r.Acknowledged`, `agreed < p.match`)).arranged().or("TestStale").must(),
	mutant("Y02", "a leader no longer counts a member that lost what it acknowledged", "it probes that member forever", "N18, N23",
		value("replicate.go", `r.Prev == r.Acknowledged || agreed < r.Acknowledged`, `false`)).arranged().seen("our release candidate").profiles("images").or("TestStale").must(),
	mutant("Y03", "an honest restart answers heartbeats with 0", "such an answer is taken for a loss", "N22, panic",
		before("progress.go", "p.becomeProbe(p.match+1, base)\n\t}\n}\n\n// retransmit", `p.becomeStale(EntryID{Index: p.match}); return`)).arranged().or("TestStale").must(),
	mutant("Y04", "a stale member's replies do not count", "they keep its leader from stepping down", "N13",
		before("heartbeat.go", `if p == nil || p.state == stale {`, `if p != nil { p.heard = c.now.Mono }`)).arranged().profiles("images").or("TestStale").must(),
	mutant("Y05", "a member that lacks what it acknowledged in this term marks its store", "it continues", "N40",
		instead("append.go", `c.onLostLog(m.From, conflict)`, `_ = c`)).arranged().profiles("images").or("TestMarked").must(),
	mutant("Y06", "the last witness of a lost write marks its store and ends", "it continues, and refuses the leader forever", "N41",
		value("marked.go", `!found || ours.Term >= c.hard.Term || min(ours.Index, theirs.Index) <= c.termLeader.proved || !c.mayName(leader)`, `true`)).
		arranged().seen("our release candidate").profiles("images").or("TestMarked").must(),
	mutant("Y07", "a mark is permanent", "a restart clears it", "N24",
		value("raft.go", `stored.Mark != nil`, `false`)).arranged().profiles("images").test("node", "TestMarked|AMarkedStore").must(),
	mutant("Y08", "a member that marks its store serves nobody from then on", "it serves until the mark is durable", "N24",
		value("marked.go", `c.disk.mark != nil`, `false`)).arranged().profiles("images").or("TestMarked").must(),
	mutant("Y09", "only entries that leaders reported as committed count as committed", "entries that only the FSM remembers do, too", "N22",
		value("marked.go", `c.log.id(c.log.provenCommit)`, `c.log.id(c.log.commit)`)).arranged().outside(".", "TestMarked"),
	mutant("Y10", "only a member of its configuration can make a member mark its store", "anybody can", "N22",
		value("raft.go", `c.config().includes(p)`, `true`)).arranged().outside(".", "TestMarked"),
	mutant("Y11", "a marked member reports to its leader before it ends", "it ends at once", "-",
		before("node/marks.go", `n.afterTimeout(func() { n.fail(m.Err()) })`, `n.fail(m.Err())`)).arranged().outside("node", "TestMark_"),
	mutant("Y12", "a leader is ready while its entries get through", "it is ready while heartbeats are answered", "-",
		value("node/client.go", `n.WaitApplied(limited, s.Last.Index) == nil`, `true`)).arranged().outside("node", "TestReady"),
	mutant("Y13", "a mark drops the answers of its own step", "a read that was confirmed in that step is served", "N24",
		instead("marked.go", `c.takeBackAnswers()`, `_ = c`)).profiles("images").or("TestMarked"),
	mutant("Y14", "a marked member, too, refuses messages that are not meant for it", "it answers any message that names its leader as sender", "N19",
		value("marked.go", `c.misaddressed(m)`, `""`)).profiles("images").or("TestMarked").must(),
	// No seed reaches this mutant. Three things must happen to a leader in one step: the leader is deposed, it sees committed
	// entries replace its own, and the leader of a third term contradicts it about these entries.
	mutant("Y15", "a marked member reports no entry as not applied", "it still trusts its commit index", "N24, H4",
		value("answer.go", `!c.marked()`, `true`)).arranged().profiles("images").or("TestMarked"),
	mutant("Y16", "only a member that lost what it acknowledged reports that to its leader, again and again", "a member that is contradicted does so, too",
		"N24",
		value("marked.go", `c.disk.mark.Kind == MarkStaleImage`, `true`)).profiles("images").or("TestMarked"),
	mutant("Y17", "the pending reads of a member that lost what it acknowledged are refused", "they are answered once they are confirmed", "N23",
		instead("replicate.go", `c.refuseReadsOf(c.leader, p.peer)`, ``)).profiles("images").or("TestStale"),
	stranger("Y18", "a member is suspected if a leader that its configuration does not name shows that it lost something", "it is not suspected",
		"S2, N74",
		instead("marked.go", `c.suspect(m, answer)`, `_ = m`)),
	stranger("Y19", "a suspected member votes in no later term", "it votes in the next one", "N74",
		value("marked.go", `c.log.Last.Term > s.mark.Term`, `c.hard.Term > s.mark.Term`)),
	stranger("Y20", "a suspected member marks its store once it knows the leader that has shown the loss", "it continues", "N74",
		value("marked.go", `c.mayName(s.mark.By)`, `false`)),
	stranger("Y21", "a suspected member does not campaign", "it does", "N74",
		value("election.go", `!c.suspected()`, `true`)),
	stranger("Y22", "a suspected member confirms nothing to the leader that has shown the loss", "it answers that leader's heartbeats", "tests",
		value("heartbeat.go", `c.suspects()`, `false`)),
	stranger("Y23", "a liar that claims the term of a member cannot make it suspected permanently", "it can", "S2",
		value("marked.go", `m.Body.class() == ofLeader`, `false`)),
	stranger("Y24", "a suspicion ends with an entry of a later term", "it never ends", "S2",
		value("marked.go", `c.log.Last.Term > s.mark.Term`, `false`)),
	stranger("Y25", "the leader that a suspected member elected itself does not clear it", "it ends the suspicion", "tests",
		value("marked.go", `m.From != c.hard.Vote`, `true`)),
	stranger("Y26", "a vote that was granted in the step of the report is not sent", "it is sent", "tests",
		value("marked.go", `o.vote`, `false`)),
}

// stranger returns a mutant of suspicion. In its scenarios, a leader that the member's configuration does not name has shown
// that the member lost something.
func stranger(id, rule, bug, expect string, edit Edit) Mutant {
	return Mutant{
		ID: id, Rule: rule, Bug: bug, Edits: []Edit{edit}, Expect: expect, Before: true,
		Profiles: []string{"images", "scenario:loss-shown-by-a-stranger", "scenario:loss-shown-by-a-liar"},
		Test:     &Test{".", "TestSuspected"},
	}
}
