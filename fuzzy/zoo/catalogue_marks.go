package zoo

// marks: members that lost what they acknowledged, and the last witness of what others lost.
var marks = []Mutant{
	{
		ID: "Y01", Before: true, Rule: "a conflict proves a loss only if it was sent after the acknowledgement",
		Bug:    "a late one from before does, too",
		Edits:  []Edit{value("replicate.go", `r.Prev == r.Acknowledged || agreed < r.Acknowledged`, `agreed < p.match`)},
		Expect: "N22", MustKill: true,
		Test: &Test{".", "TestStale"},
	},
	{
		ID: "Y02", Before: true, Rule: "a leader no longer counts a member that lost what it acknowledged", Bug: "it probes that member forever",
		Edits:  []Edit{value("replicate.go", `r.Prev == r.Acknowledged || agreed < r.Acknowledged`, `false`)},
		Expect: "N18, N23", MustKill: true, Seen: "our release candidate", Profiles: []string{"images"},
		Test: &Test{".", "TestStale"},
	},
	{
		ID: "Y03", Before: true, Rule: "an honest restart answers heartbeats with 0", Bug: "it is taken for a loss",
		Edits: []Edit{before("progress.go", "p.becomeProbe(p.match+1, base)\n\t}\n}\n\n// retransmit",
			`p.becomeStale(EntryID{Index: p.match}); return`)},
		Expect: "N22, panic", MustKill: true,
		Test: &Test{".", "TestStale"},
	},
	{
		ID: "Y04", Before: true, Rule: "a stale member's replies do not count", Bug: "they keep its leader from stepping down",
		Edits:  []Edit{before("heartbeat.go", `if p == nil || p.state == stale {`, `if p != nil { p.heard = c.now.Mono }`)},
		Expect: "N13", MustKill: true, Profiles: []string{"images"},
		Test: &Test{".", "TestStale"},
	},
	{
		ID: "Y05", Before: true, Rule: "a member that lacks what it acknowledged in this term marks its store", Bug: "it goes on",
		Edits:  []Edit{instead("append.go", `c.onLostLog(m.From, conflict)`, `_ = c`)},
		Expect: "N40", MustKill: true, Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y06", Before: true, Rule: "the last witness marks its store and ends", Bug: "it goes on, and refuses the leader forever",
		Edits:  []Edit{value("marked.go", `!found || ours.Term >= c.hard.Term || min(ours.Index, theirs.Index) <= c.termLeader.proved || !c.mayName(leader)`, `true`)},
		Expect: "N41", MustKill: true, Profiles: []string{"images"}, Seen: "our release candidate",
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y07", Before: true, Rule: "a mark is permanent", Bug: "a restart clears it",
		Edits:  []Edit{value("raft.go", `stored.Mark != nil`, `false`)},
		Expect: "N24", MustKill: true, Profiles: []string{"images"},
		Test: &Test{"node", "TestMarked|AMarkedStore"},
	},
	{
		ID: "Y08", Before: true, Rule: "a member that marks its store serves nobody from then on", Bug: "it serves until the mark is durable",
		Edits:  []Edit{value("marked.go", `c.disk.mark != nil`, `false`)},
		Expect: "N24", MustKill: true, Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y09", Before: true, Rule: "only entries that leaders reported as committed count as such", Bug: "entries that only the FSM remembers do, too",
		Edits:   []Edit{value("marked.go", `c.log.id(c.log.told)`, `c.log.id(c.log.commit)`)},
		Expect:  "N22",
		Test:    &Test{".", "TestMarked"},
		Outside: true,
	},
	{
		ID: "Y10", Before: true, Rule: "only a member of its configuration can make a member mark its store", Bug: "anybody can",
		Edits:   []Edit{value("raft.go", `c.config().includes(p)`, `true`)},
		Expect:  "N22",
		Test:    &Test{".", "TestMarked"},
		Outside: true,
	},
	{
		ID: "Y11", Before: true, Rule: "a marked member tells its leader before it ends", Bug: "it ends at once",
		Edits:   []Edit{before("node/marks.go", `time.AfterFunc(n.cfg.ElectionTimeout, func() { n.fail(m.Err()) })`, `n.fail(m.Err())`)},
		Expect:  "-",
		Test:    &Test{"node", "TestMark_"},
		Outside: true,
	},
	{
		ID: "Y12", Before: true, Rule: "a leader is ready while its entries get through", Bug: "it is ready while heartbeats are answered",
		Edits:   []Edit{value("node/client.go", `n.WaitApplied(limited, s.Last.Index) == nil`, `true`)},
		Expect:  "-",
		Test:    &Test{"node", "TestReady"},
		Outside: true,
	},
	{
		ID: "Y13", Rule: "a mark drops the answers of its own step", Bug: "a read that was confirmed in it is served",
		Edits:  []Edit{instead("marked.go", `c.takeBackAnswers()`, `_ = c`)},
		Expect: "N24", Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y14", Rule: "a marked member, too, refuses messages that are not meant for it", Bug: "it answers any message that names its leader as sender",
		Edits:  []Edit{value("marked.go", `c.misaddressed(m)`, `""`)},
		Expect: "N19", MustKill: true, Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y15", Before: true, Rule: "a marked member reports no entry as not applied", Bug: "it still trusts its commit index",
		Edits: []Edit{value("answer.go", `!c.marked()`, `true`)},
		// No seed reaches it: in one step a leader must be deposed, see its entries replaced by committed ones, and be
		// contradicted about these by the leader of a third term.
		Expect: "N24, H4", Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y16", Rule: "only who has lost what it acknowledged tells its leader so, again and again", Bug: "so does who is contradicted",
		Edits:  []Edit{value("marked.go", `c.disk.mark.Kind == MarkStaleImage`, `true`)},
		Expect: "N24", Profiles: []string{"images"},
		Test: &Test{".", "TestMarked"},
	},
	{
		ID: "Y17", Rule: "the reads of who has lost what it acknowledged are refused", Bug: "those that wait are answered once they are confirmed",
		Edits:  []Edit{instead("replicate.go", `c.refuseReadsOf(c.leader, p.peer)`, ``)},
		Expect: "N23", Profiles: []string{"images"},
		Test: &Test{".", "TestStale"},
	},
	stranger("Y18", "a member to which a stranger has shown what it has lost is suspected", "nothing comes of it", "S2, N74",
		instead("marked.go", `c.suspect(m, answer)`, `_ = m`)),
	stranger("Y19", "a suspected member votes in no later term", "it votes in the next one", "N74",
		value("marked.go", `c.log.Last.Term > s.mark.Term`, `c.hard.Term > s.mark.Term`)),
	stranger("Y20", "a suspected member marks its store once it knows who has shown the loss", "it goes on", "N74",
		value("marked.go", `c.mayName(s.mark.By)`, `false`)),
	stranger("Y21", "a suspected member does not campaign", "it does", "N74",
		value("election.go", `!c.suspected()`, `true`)),
	stranger("Y22", "a suspected member confirms nothing to the leader that has shown the loss", "it answers its heartbeats", "tests",
		value("heartbeat.go", `c.suspects()`, `false`)),
	stranger("Y23", "a liar that claims the term of a member makes nobody suspected for good", "it does", "S2",
		value("marked.go", `m.Body.class() == ofLeader`, `false`)),
	stranger("Y24", "a suspicion ends with an entry of a later term", "it never ends", "S2",
		value("marked.go", `c.log.Last.Term > s.mark.Term`, `false`)),
	stranger("Y25", "the leader that a suspected member elected itself proves nothing", "it ends the suspicion", "tests",
		value("marked.go", `m.From != c.hard.Vote`, `true`)),
	stranger("Y26", "a vote that was granted in the step of the report does not leave", "it does", "tests",
		value("marked.go", `o.vote`, `false`)),
}

// stranger is a mutant of what a member does that a leader which it does not know has told of its loss.
func stranger(id, rule, bug, expect string, edit Edit) Mutant {
	return Mutant{
		ID: id, Rule: rule, Bug: bug, Edits: []Edit{edit}, Expect: expect, Before: true,
		Profiles: []string{"images", "scenario:loss-shown-by-a-stranger", "scenario:loss-shown-by-a-liar"},
		Test:     &Test{".", "TestSuspected"},
	}
}
