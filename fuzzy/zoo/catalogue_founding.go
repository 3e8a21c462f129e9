package zoo

// founding: how a cluster is born, and what an emptied disk may do. The numbers name the schedules that the
// model checks of the design found.
var founding = []Mutant{
	{
		ID: "F01", Rule: "a blank member does not vote", Bug: "it does",
		Edits:  []Edit{value("envelope.go", `c.blank() && !isAppend`, `false`)},
		Expect: "N7, G3", Seen: "model check, founding 1", Profiles: []string{"founding", "swarm", "disk"},
		Test: &Test{".", "TestFounding"},
	},
	{
		ID: "F02", Before: true, Rule: "a founder campaigns once all hold entry 1", Bug: "once it holds it itself",
		Edits:  []Edit{before("founding.go", checkHeldAnchor, `c.founder.replies = nil`)},
		Expect: "G16, L1", Seen: "model check, founding 2 and 5", Profiles: []string{"founding", "swarm", "disk"},
	},
	{
		ID: "F03", Before: true, Rule: "F01 and F02", Bug: "both",
		Edits: []Edit{
			value("envelope.go", `c.blank() && !isAppend`, `false`),
			before("founding.go", checkHeldAnchor, `c.founder.replies = nil`),
		},
		Expect: "G16, G2", Seen: "model check, founding 1", Profiles: []string{"founding", "swarm", "disk"}, MustKill: true,
	},
	{
		ID: "F04", Rule: "a founding is not redone after a campaign", Bug: "a founder that restarts calls the roll again",
		Edits:  []Edit{value("founding.go", `c.hard.Term > 0 || !calls(list, c.self.ID)`, `!calls(list, c.self.ID)`)},
		Expect: "N8, G4", Seen: "model check, founding 3", MustKill: true, Profiles: []string{"founding", "swarm", "disk"},
	},
	{
		ID: "F05", Before: true, Rule: "all founders have the same list", Bug: "whoever has a list joins",
		Edits: []Edit{
			value("founding.go", `!reply.List.SameList(r.List)`, `false`),
			value("founding.go", `r.Verdict == RollBlank && !r.List.SameList(f.list)`, `false`),
			value("founding.go", `c.blank() && c.cfg.Initial.SameList(f.Configuration)`, `c.blank()`),
		},
		Expect: "G16, G4", Seen: "model check, founding 4", Profiles: []string{"founding"},
		Test: &Test{".", "Found|Scenario"},
	},
	{
		ID: "F06", Rule: "only a member of term 0 takes a redone founding", Bug: "one that has voted does, too",
		Edits: []Edit{
			value("founding.go", `f != nil && c.hard == HardState{} && f.Founder == founder && f.Roll.Less(roll)`,
				`f != nil && f.Founder == founder && f.Roll.Less(roll)`),
		},
		Expect: "G4, L1", Seen: "model check, founding 6",
		Test: &Test{".", "Found|Scenario"},
	},
	{
		ID: "F07", Rule: "F04 and F06", Bug: "both: a founding is redone on both sides although there was a term",
		Edits: []Edit{
			value("founding.go", `c.hard.Term > 0 || !calls(list, c.self.ID)`, `!calls(list, c.self.ID)`),
			value("founding.go", `f != nil && c.hard == HardState{} && f.Founder == founder && f.Roll.Less(roll)`,
				`f != nil && f.Founder == founder && f.Roll.Less(roll)`),
		},
		Expect: "N8, G4", Seen: "model check, founding 3 and 6", Profiles: []string{"founding", "swarm", "disk"}, MustKill: true,
	},
	{
		ID: "F10", Before: true, Rule: "nobody at term 0 campaigns by itself", Bug: "whoever holds entry 1 does",
		Edits: []Edit{
			value("election.go", mayCampaignAnchor, `ok && m.Kind == Voter && m.Incarnation == c.self.Incarnation`),
			value("envelope.go", `m.Term == 0 && !ok`, `false`),
		},
		Expect: "G16, L1", Seen: "model check, founding", Profiles: []string{"founding"}, MustKill: true,
	},
	{
		ID: "F11", Before: true, Rule: "answers to an earlier roll do not count", Bug: "they do",
		Edits:  []Edit{value("founding.go", `f == nil || f.holding || r.ID != f.roll`, `f == nil || f.holding`)},
		Expect: "G16, L1", Profiles: []string{"founding", "swarm", "disk"},
		Test: &Test{".", "TestFounding"},
	},
	{
		ID: "F12", Rule: "a founding is durable before it is acknowledged", Bug: "the reply leaves before the write",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if _, ok := o.message.Body.(FoundReply); ok { durable = true }`)},
		Expect: "N6", MustKill: true, Profiles: []string{"founding", "swarm", "disk"},
	},
	{
		ID: "F13", Rule: "a founder sends entry 1 once it is durable", Bug: "at once",
		Edits:  []Edit{value("founding.go", `f.holding && !a.holds && c.disk.persisted >= 1`, `f.holding && !a.holds`)},
		Expect: "L1", Profiles: []string{"founding", "swarm", "disk"},
		Alive: "a founder that lost entry 1 calls the roll again, and who holds it at term 0 takes the new one: the rule saves a round, no more",
	},
	{
		ID: "F14", Rule: "who holds entry 1 is told by incarnation", Bug: "by id",
		Edits:  []Edit{value("founding.go", `a != nil && a.peer == from`, `a != nil`)},
		Expect: "L1", Profiles: []string{"founding", "swarm", "disk"},
		Alive: "only the incarnation that answered the roll is sent entry 1, so that no other can acknowledge it: the check guards against what is impossible today",
	},
	{
		ID: "F15", Rule: "all are asked before a cluster is founded", Bug: "a majority is enough",
		Edits: []Edit{before("founding.go", foundAnchor, `
			blank := 1
			for _, a := range f.replies { if a.verdict == RollBlank { blank++ } }
			if blank >= majority(len(f.list.Members)) {
				for i := range f.replies { f.replies[i].verdict = RollBlank }
			}`)},
		Expect: "G16, L1", MustKill: true, Profiles: []string{"founding", "swarm", "disk"},
	},
	{
		ID: "F16", Before: true, Rule: "a redone founding has a cluster id of its own", Bug: "it has the same one",
		Edits:  []Edit{value("founding.go", `last^c.founder.roll.Counter`, `last`)},
		Expect: "G16, G2", Profiles: []string{"founding", "swarm", "disk"},
		Test: &Test{".", "TestFounding"},
	},
	{
		ID: "D14", Rule: "a wiped disk is another member", Bug: "it answers and counts as the one it was",
		Edits: []Edit{
			value("envelope.go", wrongIncarnation, `false`),
			value("envelope.go", `c.blank() && !isAppend`, `false`),
			value("quorum.go", `slices.Contains(peers, m.Peer())`,
				`slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == m.ID })`),
			value("election.go", mayCampaignAnchor, `ok && m.Kind == Voter && c.hard.Term > 0`),
			value("leader.go", `l.peers[i].peer == p`, `l.peers[i].peer.ID == p.ID`),
		},
		Expect: "N7, G8, G3", Seen: "rethinkdb #5289; etcd #3504; dragonboat #256", MustKill: true,
		Profiles: []string{"disk", "swarm"},
	},
	{
		ID: "X01", Before: true, Rule: "another cluster's messages are refused", Bug: "they are taken",
		Edits:  []Edit{value("envelope.go", `"it is of another cluster"`, `""`)},
		Expect: "N19, G14", Seen: "etcd #17081; model check, founding", MustKill: true,
	},
	{
		ID: "X03", Rule: "a message for an earlier life of the disk is refused", Bug: "it is taken",
		Edits:  []Edit{value("envelope.go", wrongIncarnation, `false`)},
		Expect: "N19, G14", Profiles: []string{"disk", "swarm"}, MustKill: true,
	},
	{
		ID: "X08", Before: true, Rule: "a misdelivered message is refused", Bug: "it is taken",
		Edits:  []Edit{value("envelope.go", `m.To.ID != c.self.ID || m.From.ID == c.self.ID`, `m.From.ID == c.self.ID`)},
		Expect: "N19", Seen: "etcd #17081", Profiles: []string{"founding", "swarm"},
		Test: &Test{".", "Hostile|Refus|Misaddressed"},
	},
}

const (
	checkHeldAnchor   = "for _, a := range c.founder.replies {\n\t\tif !a.holds {"
	foundAnchor       = "for _, a := range f.replies {\n\t\tif a.verdict != RollBlank {"
	mayCampaignAnchor = `ok && m.Kind == Voter && m.Incarnation == c.self.Incarnation && c.hard.Term > 0`
	wrongIncarnation  = `m.To.Incarnation != c.self.Incarnation && !(roll && m.To.Incarnation == 0)`
)
