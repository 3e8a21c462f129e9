package zoo

// sizes: what is done about entries that are too large for a member.
var sizes = []Mutant{
	{
		ID: "A01", Before: true, Rule: "no append leaves that is larger than its receiver takes", Bug: "it leaves",
		Edits:  []Edit{value("internal/pipeline/log.go", `takes > 0 && Records(piece) > takes`, `false`)},
		Expect: "N44", MustKill: true, Profiles: []string{"swarm"},
	},
	{
		ID: "A02", Before: true, Rule: "a leader takes no command that is too large for a member", Bug: "it heeds its own limit alone",
		Edits:  []Edit{value("leader.go", `m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer)`, `false`)},
		Expect: "N33", MustKill: true, Profiles: []string{"swarm"},
	},
	{
		ID: "A03", Before: true, Rule: "the limit of a peer that is no member does not count", Bug: "it counts",
		Edits:  []Edit{value("leader.go", `m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer)`, `m.appendBytesMax > 0 && most < limit.Limit`)},
		Expect: "N33", Profiles: []string{"members"},
	},
	{
		ID: "A04", Before: true, Rule: "the snapshot for a member covers the entry that is too large for it", Bug: "any one will do that covers the base of the log",
		Edits:  []Edit{value("snapshot.go", `s.ID.Index >= p.next-1`, `s.ID.Index >= p.next-1 || p.oversized.id.Index > 0`)},
		Expect: "N48", Profiles: []string{"snapshots"},
	},
	{
		ID: "A05", Before: true, Rule: "a snapshot is taken for a member for which an entry is too large", Bug: "the member waits for the next one",
		Edits:  []Edit{value("compact.go", `len(s.asked) > 0 || c.wantsFile(to)`, `len(s.asked) > 0`)},
		Expect: "S2", Profiles: []string{"snapshots"},
	},
	{
		ID: "A06", Before: true, Rule: "an entry goes to a member once its limit has grown", Bug: "the member waits for a snapshot that covers it",
		Edits:  []Edit{value("replicate.go", `limit == 0 || limit >= p.oversized.bytes`, `false`)},
		Expect: "L3", Profiles: []string{"swarm", "crash"},
	},
}
