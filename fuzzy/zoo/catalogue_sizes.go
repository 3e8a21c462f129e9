package zoo

// sizes: entries that are too large for a member.
var sizes = []Mutant{
	mutant("A01", "a leader sends no append that is larger than its receiver accepts", "it sends it", "N44",
		value("internal/pipeline/log.go", `takes > 0 && Records(piece) > takes`, `false`)).arranged().profiles("swarm").must(),
	mutant("A02", "a leader accepts no command that is too large for a member", "it checks only its own limit", "N33",
		value("leader.go", `m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer)`, `false`)).arranged().profiles("swarm").must(),
	mutant("A03", "the limit of a peer that is not a member does not count", "it counts", "N33",
		value("leader.go", `m.appendBytesMax > 0 && most < limit.Limit && c.names(m.peer)`, `m.appendBytesMax > 0 && most < limit.Limit`)).arranged().profiles("members"),
	mutant("A04", "the snapshot for a member covers the entry that is too large for it", "any snapshot that covers the base of the log is sent", "N48",
		value("snapshot.go", `s.ID.Index >= p.next-1`, `s.ID.Index >= p.next-1 || p.oversized.id.Index > 0`)).arranged().profiles("snapshots"),
	mutant("A05", "a snapshot is taken for a member if an entry is too large for it", "the member waits for the next snapshot", "S2",
		value("compact.go", `len(s.asked) > 0 || c.wantsFile(to)`, `len(s.asked) > 0`)).arranged().profiles("snapshots"),
	mutant("A06", "an entry is sent to a member once its limit has grown", "the member waits for a snapshot that covers the entry", "L3",
		value("replicate.go", `limit == 0 || limit >= p.oversized.bytes`, `false`)).arranged().profiles("swarm", "alone"),
}
