package zoo

// bounds: waits that end too early or never, and what is forgotten too early.
var bounds = []Mutant{
	member("K20", "a learner that is added as a voter gets the address and the text of that request", "it keeps those that it has", "N69",
		instead("change.go", "m.Kind = Learner\n\t\td.Members[i] = m", `d.Members[i].Next = m.Next`)).arranged(),
	member("K21", "a future voter that is silent has not caught up", "it has, if it had before", "N67",
		before("membership.go", `return p.state == replicate && c.heardLately(p)`, `if p.state == replicate && r.prompt { return !r.running || c.now.Mono-r.since <= c.roundMax(p) }`)).arranged(),
	mutant("K23", "while a large snapshot is sent, as many bytes of the log are kept", "they are kept until the next compaction", "N52",
		value("compact.go", `p.state != snapshot`, `true`)).arranged().profiles("snapshots"),
	member("K25", "a member ignores a candidate whose removal is committed", "it also ignores one whose removal is not committed", "N70",
		instead("membership.go", "_, removed := c.log.configAt(c.log.commit).Config.removal(m.From)\n\treturn removed", "_, removed := c.config().removal(m.From)\n\treturn removed")).arranged(),
	mutant("K26", "a member in no term admits a new incarnation that knows a term of its cluster", "it rejects it", "I9",
		value("handshake/handshake.go", `v.Term != 0 || h.Term != 0 && h.Cluster == v.Cluster`, `v.Term != 0`)).arranged().profiles("bootstrap", "images"),
	mutant("K27", "a member that hears its leader again ends its long wait", "only the next commit does", "N31",
		value("append.go", `c.follower.attempts.any() && c.committedOwn()`, `false`)).arranged().profiles("slow", "elections"),
	mutant("K28", "an entry too large for a follower right after its match is brought by a snapshot", "its append is repeated", "N48",
		value("replicate.go", `e.Span.After < p.match`, `e.Span.After <= p.match`)).arranged().profiles("snapshots", "swarm"),
	mutant("K29", "a snapshot is due if the last applied entry is too large for a follower", "it is due with the next entry", "L16",
		value("snapshot.go", `p.next-1 <= to`, `p.next-1 < to`)).arranged().profiles("snapshots", "swarm"),
}
