package zoo

// replication: log matching and the commit rule (paper §5.3, §5.4.2).
var replication = []Mutant{
	{
		ID: "R01", Rule: "only entries of the leader's term are committed by counting", Bug: "older ones are, too (Figure 8)",
		Edits:  []Edit{value("commit.go", `c.log.term(n) == c.hard.Term`, `true`)},
		Expect: "G6", Seen: "logcabin #44; canonical/raft #220; PySyncObj #169", MustKill: true,
	},
	{
		ID: "R02", Rule: "the entry before an append must have the term that it names", Bug: "any entry at that index is enough",
		Edits:  []Edit{value("append.go", `!c.log.has(r.Prev)`, `r.Prev.Index > c.log.Last.Index`)},
		Expect: "G2", MustKill: true,
		Profiles: []string{"swarm"},
	},
	{
		ID: "R03", Rule: "a log is truncated only at a conflict", Bug: "it is truncated after every append",
		Edits: []Edit{before("append.go", adoptAnchor,
			`if n := len(entries); n > 0 && entries[n-1].Index < c.log.Last.Index { c.truncate(entries[n-1].Index) }`)},
		Expect: "N8, G5", Seen: "RaftOS #26", MustKill: true,
	},
	{
		ID: "R04", Before: true, Rule: "only what this append proved is acknowledged", Bug: "the whole log is",
		Edits: []Edit{instead("append.go", `c.promiseLog(m.From, AppendReply{Match: r.Last.Index}, r.Last.Index)`,
			`c.promiseLog(m.From, AppendReply{Match: c.log.Last.Index}, c.log.Last.Index)`)},
		Expect: "N6, G5", Seen: "microsoft/CCF #6016",
	},
	{
		ID: "R05", Before: true, Rule: "the match index never falls", Bug: "a late acknowledgement lowers it",
		Edits: []Edit{
			instead("progress.go", `p.match = max(p.match, match)`, `p.match = match`),
			value("progress.go", `match <= p.match`, `false`),
		},
		Expect: "N18, L7", Seen: "PySyncObj #167; RaftOS #25", MustKill: true,
	},
	{
		ID: "R06", Before: true, Rule: "the next index is above the match index", Bug: "a late rejection moves it below",
		Edits: []Edit{
			instead("progress.go", `p.next = max(next, p.match+1, base+1)`, `p.next = max(next, 1)`),
			value("progress.go", `prev <= p.match`, `false`),
		},
		Expect: "N18, L7", Seen: "etcd-io/raft PR 149", MustKill: true,
	},
	{
		ID: "R07", Rule: "a follower commits only what the leader proved to match", Bug: "it commits up to the end of its own log",
		Edits:  []Edit{value("append.go", `min(leaderCommit, c.termLeader.proved)`, `min(leaderCommit, c.log.Last.Index)`)},
		Expect: "G4", Seen: "WRaft (SandTable)", MustKill: true,
	},
	{
		ID: "R08", Rule: "a heartbeat's commit index is within the match index", Bug: "it is the leader's commit index",
		Edits: []Edit{
			before("heartbeat.go", "p.sentCommit = max(p.sentCommit, commit)", `commit = c.log.commit`),
			before("heartbeat.go", `c.followCommit(h.Commit)`, `c.commitTo(min(h.Commit, c.log.Last.Index))`),
		},
		Expect: "G4", Seen: "guarded in etcd-io/raft and its TLA+ model", MustKill: true,
	},
	{
		ID: "R09", Rule: "the commit index never falls", Bug: "it is whatever the leader sends",
		Edits:  []Edit{value("commit.go", `i <= c.log.commit`, `i == c.log.commit`)},
		Expect: "N3", Seen: "PySyncObj #166", MustKill: true,
	},
	{
		ID: "R10", Rule: "a leader counts itself only for durable entries", Bug: "it counts itself for all appended entries",
		Edits: []Edit{value("commit.go", `quorumValue(c.leader, &c.leader.indexes, c.disk.persisted, func(p *progress) Index { return p.match })`,
			`quorumValue(c.leader, &c.leader.indexes, c.log.Last.Index, func(p *progress) Index { return p.match })`)},
		Expect: "G5", Seen: "etcd #14370", MustKill: true,
	},
	{
		ID: "R11", Rule: "the value of a quorum is found in sorted order", Bug: "in the order of the members",
		Edits:  []Edit{instead("quorum.go", `slices.Sort(reached)`, `_ = reached`)},
		Expect: "G5", Seen: "openraft #1802", MustKill: true,
	},
	{
		ID: "R12", Rule: "an append that contradicts the commit index is refused", Bug: "the log is truncated below it",
		Edits:  []Edit{value("append.go", `e.Index <= max(c.log.commit, c.termLeader.proved)`, `false`)},
		Expect: "N8", Seen: "openraft, a purged prev taken for a conflict",
		Test: &Test{".", "Hostile|Append"},
	},
	{
		ID: "R13", Before: true, Rule: "an acknowledgement of an earlier term means nothing", Bug: "it counts",
		Edits: []Edit{before("raft.go", staleAnchor,
			`if r, ok := m.Body.(AppendReply); ok && c.leader != nil { c.onAppendReply(m, r); return }`)},
		Expect: "N18, G5", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "R14", Rule: "a write that was overwritten makes nothing durable", Bug: "the log counts as saved up to its end, whatever is there now (ABA)",
		Edits: []Edit{instead("output.go", `d.pending[i].mark.Index = min(d.pending[i].mark.Index, after)`,
			`_ = i`)},
		Expect: "N6, G5", Seen: "etcd-io/raft has a test of this ABA", MustKill: true,
	},
	{
		ID: "R15", Rule: "a log has no gap", Bug: "an append beyond the end is accepted",
		Edits:  []Edit{value("append.go", `!c.log.has(r.Prev)`, `r.Prev.Index <= c.log.Last.Index && !c.log.has(r.Prev)`)},
		Expect: "N4", Seen: "WRaft, incorrect append (SandTable)", MustKill: true,
	},
	{
		ID: "R16", Before: true, Rule: "a rejection moves the probe back", Bug: "the probe stays where it is",
		Edits:  []Edit{instead("progress.go", `p.becomeProbe(min(agreed, prev-1)+1, base)`, `p.becomeProbe(prev+1, base)`)},
		Expect: "L2, L7", MustKill: true,
	},
	{
		ID: "R17", Before: true, Rule: "an append that seems lost is sent again", Bug: "the leader waits for its answer forever",
		Edits: []Edit{
			value("progress.go", `p.state == replicate && p.flow.silent(now, silence)`, `false`),
			before("replicate.go", `p := c.leader.peer(e.To)`, `return`),
		},
		Expect: "L2", Seen: "openraft #1795",
		MustKill: true,
	},
	{
		ID: "R18", Before: true, Rule: "entries never change once sent", Bug: "the array of an overwritten entry is reused",
		Edits: []Edit{value("log.go", `slices.Clip(write.Entries[:after-write.After.Index])`,
			`write.Entries[:after-write.After.Index]`)},
		Expect: "N19, N5", Seen: "a hazard of Go's slices",
		Profiles: []string{"elections"},
		Test:     &Test{".", "TestAppend"},
	},
	{
		ID: "R19", Before: true, Rule: "a rejection acknowledges nothing", Bug: "its hint counts as a match index",
		Edits: []Edit{before("replicate.go", `agreed := r.Hint.Index`,
			`p.acknowledged(r.Hint.Index, c.now.Mono)`)},
		Expect: "N18, G5", Seen: "microsoft/CCF #5674, #6016", MustKill: true,
	},
	{
		ID: "R21", Rule: "learners do not count for the commit", Bug: "they do",
		Edits: []Edit{
			value("membership.go", `config.VotesIn(p.peer)`, `IncomingHalf`),
			value("membership.go", `config.VotesIn(peer)`, `IncomingHalf`),
		},
		Expect: "G5", Seen: "dragonboat #106", MustKill: true,
	},
	{
		ID: "R22", Before: true, Rule: "a new leader appends a no-op", Bug: "it does not",
		Edits:  []Edit{instead("raft.go", `c.appendOwn(Entry{Kind: EntryNoop})`, `_ = EntryNoop`)},
		Expect: "L3, G13", Seen: "redisraft #22",
		MustKill: true,
		Profiles: []string{"swarm"},
	},
	{
		ID: "R23", Rule: "what a leader proved to match ends with its term", Bug: "the next leader inherits it",
		Edits:  []Edit{instead("raft.go", `c.termLeader = termLeader{}`, `c.termLeader = termLeader{proved: c.termLeader.proved}`)},
		Expect: "G4, N6", MustKill: true,
	},
	{
		ID: "R24", Rule: "a heartbeat's reply says what this leader proved to match", Bug: "all that is durable here",
		Edits:  []Edit{value("heartbeat.go", `min(c.disk.persisted, c.termLeader.proved)`, `c.disk.persisted`)},
		Expect: "N6, G5", MustKill: true,
	},
	{
		ID: "R25", Before: true, Rule: "a restarted follower is shown again what matches", Bug: "the leader assumes that it knows",
		Edits:  []Edit{value("progress.go", `p.state == replicate && p.beats.showsLess(round, match)`, `false`)},
		Expect: "L2", MustKill: true,
	},
	{
		ID: "R26", Before: true, Rule: "a truncation gives the log a new generation", Bug: "a sender cannot tell an old span from a new one",
		Edits:    []Edit{instead("log.go", `c.log.generation++`, `_ = c`)},
		Expect:   "N20, G2",
		Profiles: []string{"elections", "swarm"},
		Test:     &Test{".", "TestAppend"},
	},
	{
		ID: "R27", Rule: "the number of proposals is bounded", Bug: "all are accepted",
		Edits:  []Edit{value("leader.go", `len(l.pending) >= c.cfg.ProposalsMax`, `false`)},
		Expect: "N10", MustKill: true,
	},
	{
		ID: "R28", Rule: "appends in flight are bounded", Bug: "all are sent",
		Edits:  []Edit{value("progress.go", `len(f.inflight) < limits.InflightMax`, `true`)},
		Expect: "N10", MustKill: true,
	},
}

const adoptAnchor = "for i, e := range entries {\n\t\tif c.log.has(e.ID()) {"

// persistence: what is durable before what (paper Figure 2, dissertation §3.8).
var persistence = []Mutant{
	{
		ID: "D01", Rule: "an append is acknowledged only once it is durable", Bug: "it is acknowledged before that",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if _, ok := o.message.Body.(AppendReply); ok { durable = true }`)},
		Expect: "N6", Seen: "NATS 2.12.1 by default; etcd #14143", MustKill: true,
	},
	{
		ID: "D02", Rule: "a write that failed ends the node", Bug: "it is acknowledged like any other",
		Edits: []Edit{
			before("node/writer.go", "if err != nil {\n\t\t\treturn &StorageError{Op: \"write\", Err: err}\n\t\t}\n\t\tn.counters.wrote", `err = nil`),
		},
		Expect: "N6, G10", Seen: "fsyncgate; ATC'20",
		Test:    &Test{"node", "AWriteThatFailsEndsTheNode"},
		Outside: true,
	},
	{
		ID: "D03", Rule: "an acknowledged write is not the one after it", Bug: "the next one counts as durable too",
		Edits:  []Edit{value("output.go", `d.pending[n].seq <= seq`, `d.pending[n].seq <= seq+1`)},
		Expect: "N6", MustKill: true,
	},
	{
		ID: "D13", Rule: "the stored commit index is within what is durable", Bug: "it is the one in memory",
		Edits:  []Edit{instead("output.go", `w.Commit = min(c.log.told, c.disk.persisted)`, `w.Commit = c.log.told`)},
		Expect: "G4, N5", Seen: "etcd #5664, #13509",
		Profiles: []string{"elections", "crash"},
		Test:     &Test{".", "TestCommit"},
	},
	{
		ID: "D20", Rule: "truncated entries no longer count as durable", Bug: "they still do",
		Edits:  []Edit{instead("output.go", `d.persisted = min(d.persisted, after)`, `_ = d`)},
		Expect: "N6", MustKill: true,
	},
	{
		ID: "D21", Rule: "an entry is applied only once it is durable here", Bug: "it is applied once it is committed",
		Edits:  []Edit{before("commit.go", `if safe <= c.log.applying || c.marked() || c.restoresFirst() {`, `safe = c.log.commit`)},
		Expect: "N5", MustKill: true,
	},
	{
		ID: "D22", Rule: "promises of an earlier term are dropped", Bug: "they are sent",
		Edits: []Edit{before("output.go", releaseAnchor,
			`if o.message.Term < c.hard.Term { out.Write.Then = append(out.Write.Then, o.message); continue }`)},
		Expect: "N6, G5", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "D23", Rule: "a message waits until its term is durable", Bug: "a message that is not a promise leaves at once",
		Edits:  []Edit{before("output.go", releaseAnchor, `if !o.vote && o.match == 0 { durable = true }`)},
		Expect: "N6", Seen: "a prototype of this library, which lost committed entries", MustKill: true,
	},
}
