package zoo

// reads: what a read may miss (dissertation §6.4).
var reads = []Mutant{
	{
		ID: "Q01", Rule: "reads wait for a commit of the leader's own term", Bug: "they do not wait",
		Edits:  []Edit{value("read.go", `!c.committedOwn()`, `false`)},
		Expect: "G13, H1", Seen: "etcd #7331; tikv #9239; redisraft #22; xraft #40", MustKill: true,
	},
	{
		ID: "Q02", Rule: "a quorum confirms that the leader still leads", Bug: "the leader assumes it without asking",
		Edits:  []Edit{before("heartbeat.go", `return quorumValue(c.leader, &c.leader.indexes, 1`, `return true`)},
		Expect: "G13, H1", Seen: "Jepsen 2014, etcd and Consul", MustKill: true,
	},
	{
		ID: "Q03", Rule: "a confirmation belongs to its round", Bug: "a reply to an earlier heartbeat counts",
		Edits:  []Edit{before("heartbeat.go", `p.beats.answered(r.Round, c.now.Mono)`, `p.beats.echoed = c.leader.round`)},
		Expect: "G13", Seen: "etcd #20418", MustKill: true,
	},
	{
		ID: "Q04", Rule: "a read waits until its index is applied", Bug: "it does not wait",
		Edits:   []Edit{instead("node/client.go", `return o.index, n.WaitApplied(ctx, o.index)`, `return o.index, nil`)},
		Expect:  "H1",
		Test:    &Test{"node", "Node"},
		Outside: true,
	},
	{
		ID: "Q12", Rule: "a follower asks the leader", Bug: "it serves what it knows to be committed",
		Edits: []Edit{before("read.go", "switch {\n\tcase c.step.closing || c.leader == nil", `
			if c.leader == nil && c.log.commit > 0 {
				c.answer(Answer{RequestID: t, Kind: AnswerReadSafe, ID: c.log.id(c.log.commit)})
				return
			}`)},
		Expect: "G13, H1", MustKill: true,
	},
	{
		ID: "Q13", Rule: "a read waits for the next heartbeat round", Bug: "it joins the round that is under way",
		Edits: []Edit{before("read.go", `c.leader.reads.next = append(c.leader.reads.next, read{requestID: t})`, `
			if len(c.leader.reads.now) > 0 {
				c.leader.reads.now = append(c.leader.reads.now, read{requestID: t})
				return
			}`)},
		Expect: "G13", MustKill: true,
	},
	{
		ID: "Q14", Rule: "a forwarded read is answered by its own reply", Bug: "the reply to an earlier read answers it",
		Edits:  []Edit{value("read.go", `f.request != r.ID`, `false`)},
		Expect: "G13", MustKill: true,
	},
	{
		ID: "Q15", Before: true, Rule: "ids are not reused after a restart", Bug: "the counter starts again at its beginning",
		Edits:  []Edit{value("raft.go", `RPCID{StartCount: stored.StartCount}`, `RPCID{StartCount: 1}`)},
		Expect: "N21, G13", Seen: "class of etcd #20418",
		MustKill: true,
		Profiles: []string{"swarm"},
	},
}

// transfers: leadership that is transferred (dissertation §3.10).
var transfers = []Mutant{
	{
		ID: "T01", Rule: "the target is brought up to date first", Bug: "it is asked to campaign at once",
		Edits:  []Edit{value("transfer.go", `p.match != c.log.Last.Index`, `false`)},
		Expect: "G15", Seen: "hashicorp/raft #487", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "T02", Rule: "no proposals during a transfer", Bug: "they are accepted",
		Edits: []Edit{value("leader.go", `c.leader == nil || c.step.closing || c.leader.transfer != nil`,
			`c.leader == nil || c.step.closing`)},
		Expect: "G15", Seen: "hashicorp/raft GH-581", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "T03", Rule: "a transfer that fails is given up", Bug: "it goes on forever",
		Edits:  []Edit{value("transfer.go", `t != nil && c.now.Mono >= t.deadline`, `false`)},
		Expect: "G15, L9", Seen: "class of hashicorp/raft GH-413", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "T04", Before: true, Rule: "TimeoutNow is obeyed only in its own term", Bug: "an old one is obeyed, too",
		Edits: []Edit{before("raft.go", staleAnchor, `
			if _, ok := m.Body.(TimeoutNow); ok && c.leader == nil && c.mayCampaign() { c.campaign(true); return }`)},
		Expect: "N12, L4", Seen: "raft-rs #234", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "T05", Before: true, Rule: "a transfer's vote needs an up-to-date log", Bug: "it is granted whatever the log",
		Edits: []Edit{before("election.go", voteDeniedAnchor,
			`if r.Transfer && why == DeniedOldLog { why = Granted }`)},
		Expect: "N16, G3", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "T06", Rule: "leadership is transferred only to voters", Bug: "to learners, too",
		Edits: []Edit{
			value("transfer.go", `p.votes&halves == 0`, `false`),
			value("election.go", `c.termLeader.elected != from || !c.mayCampaign()`, `c.termLeader.elected != from`),
		},
		Expect: "G15, N7", MustKill: true,
	},
	{
		ID: "T07", Before: true, Rule: "a leader with a stalled disk transfers its leadership", Bug: "it keeps leading",
		Edits: []Edit{value("stall.go", `!stalled || l.transfer != nil || c.step.closing`,
			`c.now.Mono >= 0`)},
		Expect: "L12", Seen: "etcd #13527, #15247; hashicorp/raft #503, #612",
		Profiles: []string{"disk"}, MustKill: true,
	},
	{
		ID: "T08", Rule: "a stalled leader transfers if a quorum without it is ahead of its disk", Bug: "the leader counts itself",
		Edits:  []Edit{value("stall.go", `quorumValue(c.leader, &c.leader.indexes, 0, ahead)`, `quorumValue(c.leader, &c.leader.indexes, c.log.Last.Index, ahead)`)},
		Expect: "panic",
		Test:   &Test{".", "TestStall"},
	},
	{
		ID: "T09", Rule: "a stalled leader transfers its leadership to a member that is ahead", Bug: "it transfers to any member that it hears",
		Edits:  []Edit{value("transfer.go", `best == nil || p.match > best.match`, `best == nil`)},
		Expect: "TestStall",
		Test:   &Test{".", "TestStall"},
	},
	{
		ID: "T10", Rule: "a leader with a stalled disk accepts no proposals", Bug: "it accepts them without limit",
		Edits:  []Edit{instead("leader.go", `return RefusedStalled`, `return 0`)},
		Expect: "N10",
		Test:   &Test{".", "TestStall"},
	},
	{
		ID: "T11", Before: true, Rule: "members that a stalled leader does not hear may be able to go on without it", Bug: "only members that it hears count",
		Edits:  []Edit{value("stall.go", `c.silent(p)`, `false`)},
		Expect: "S2, L12", MustKill: true, Profiles: []string{"elections", "swarm", "network", "crash", "disk"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T12", Before: true, Rule: "a member that has lost what it acknowledged does not count as able to go on", Bug: "a stalled leader transfers its leadership because of it",
		Edits:  []Edit{value("stall.go", `p.state != stale`, `true`)},
		Expect: "N46", Profiles: []string{"images"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T13", Rule: "a leader whose disk stalls while it holds the whole log appends a no-op", Bug: "it appends nothing",
		Edits:  []Edit{value("stall.go", `c.diskHoldsLog()`, `false`)},
		Expect: "S2, L12", Profiles: []string{"snapshots"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T14", Before: true, Rule: "a member that needs a snapshot may go on under another leader", Bug: "a leader whose disk stalls keeps it waiting",
		Edits:  []Edit{value("stall.go", `p.state == snapshot`, `false`)},
		Expect: "L12, L3", Profiles: []string{"durable"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T15", Before: true, Rule: "a stalled leader steps down if only who is not heard can help who needs a snapshot", Bug: "it leads on",
		Edits:  []Edit{instead("stall.go", "c.stepDown() // who is not heard may be elected, and bring a snapshot to who needs one", `_ = c`)},
		Expect: "L12", Profiles: []string{"durable"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T16", Before: true, Rule: "a leader whose log waits to be applied tries a disk that is idle", Bug: "a disk that hangs with nothing to write is never noticed",
		Edits:  []Edit{instead("stall.go", `c.leader.triesDisk = true`, `_ = c`)},
		Expect: "S2, L3", Profiles: []string{"durable"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T17", Before: true, Rule: "a disk is tried only while nothing else is written", Bug: "it is tried beside other writes",
		Edits:  []Edit{value("stall.go", `c.disk.idle() && c.step.out.Write.Log == nil`, `true`)},
		Expect: "N73", Profiles: []string{"disk", "durable", "slow"},
		Test: &Test{".", "TestStall"},
	},
	{
		ID: "T18", Before: true, Rule: "a try is one write", Bug: "every write after it carries the hard state again",
		Edits:  []Edit{instead("output.go", `c.leader.triesDisk = false`, `_ = c`)},
		Expect: "N73", Profiles: []string{"disk", "durable", "slow"},
		Test: &Test{".", "TestStall"},
	},
}

// clients: every request is answered, and truly.
var clients = []Mutant{
	{
		ID: "C05", Rule: "an answer belongs to the entry that was proposed", Bug: "it belongs to whatever entry is at its index",
		Edits:  []Edit{value("node/requests.go", `req.id == entries[i].ID()`, `true`)},
		Expect: "G11, H1", Seen: "common in stores on top of Raft",
		Test:    &Test{"node", "Node|Requests|Outcome"},
		Outside: true,
	},
	{
		ID: "C06", Rule: "an unknown outcome is not a failure", Bug: "a deposed leader reports that the entry is not applied",
		Edits: []Edit{instead("answer.go", `c.answer(Answer{RequestID: o.requestID, Kind: AnswerUnknown, ID: o.id})`,
			`c.answer(Answer{RequestID: o.requestID, Kind: AnswerNotApplied, ID: o.id})`)},
		Expect: "H4", Seen: "RedisRaft (Jepsen)", MustKill: true,
	},
	{
		ID: "C07", Before: true, Rule: "a deposed leader answers its proposals", Bug: "they wait forever",
		Edits:  []Edit{before("answer.go", "if l.transfer != nil {\n\t\tc.awaitTransferOutcome(", `c.step.lost = c.step.lost[:0]`)},
		Expect: "L9", Seen: "openraft #1761", MustKill: true,
	},
	{
		ID: "C08", Before: true, Rule: "a deposed leader answers its reads", Bug: "they wait forever",
		Edits: []Edit{before("answer.go", `for _, reads := range [][]read{l.reads.now, l.reads.next} {`,
			`l.reads = leaderReads{}`)},
		Expect: "L9", MustKill: true,
	},
	{
		ID: "C09", Before: true, Rule: "a read that was forwarded to a lost leader is answered", Bug: "it waits forever",
		Edits:  []Edit{before("read.go", "for _, t := range f.asked {\n\t\tc.refuseRequest(t)", `f.asked = f.asked[:0]`)},
		Expect: "L9", MustKill: true,
	},
	{
		ID: "C10", Rule: "a truncated entry may still be applied", Bug: "its client is told that it never will be",
		Edits:  []Edit{value("answer.go", `!c.log.has(id) && id.Index <= c.log.commit`, `!c.log.has(id)`)},
		Expect: "H4", MustKill: true,
		Profiles: []string{"elections", "swarm"},
	},
	{
		ID: "C11", Rule: "an entry that is being applied is answered by the applier", Bug: "the deposed leader answers it, too",
		Edits:    []Edit{value("answer.go", `c.log.has(o.id) && o.id.Index <= c.log.applying`, `false`)},
		Expect:   "N11",
		Profiles: []string{"elections"},
		Test:     &Test{".", "TestReplicate"},
	},
	{
		ID: "C12", Before: true, Rule: "a reader that the leader forgot is told so", Bug: "it waits forever",
		Edits: []Edit{
			value("read.go", `len(f.asked) > 0 && c.now.Mono >= f.deadline && c.mayBeAnswered()`, `false`),
			before("read.go", "if len(f.asked) > 0 && c.now.Mono >= f.deadline {", `if len(f.asked) > 0 { return }`),
		},
		Expect: "L9", MustKill: true,
	},
	arranged(outsideOf("C13", "a proposal that the loop has taken is not withdrawn", "its caller is told that it was never accepted",
		"Requests_AnAsynchronous", value("node/async.go", `r.table[req.requestID] != req || req.taken`, `r.table[req.requestID] != req`))),
	arranged(outsideOf("C14", "an accepted proposal has one outcome", "it has two",
		"TestAsync", instead("node/requests.go", `r.callbacks.add(req, o) // which releases it`, `r.callbacks.add(req, o); r.callbacks.add(req, o)`))),
	arranged(outsideOf("C15", "the end of the node answers every accepted proposal", "the last outcomes are lost",
		"TestAsync", value("node/async.go", `len(waiting) > 0`, `len(waiting) > 0 && !c.ended`))),
	arranged(outsideOf("C16", "an outcome counts until its function has returned", "the functions that wait are without limit",
		"TestAsync_Limits", instead("node/async.go", `defer c.release(a.req)`, `c.release(a.req)`))),
	arranged(outsideOf("C17", "a function of ProposeAsync that closes its node is told", "it waits forever",
		"TestAsync_AFunctionMay", value("node/async.go", `c.goroutine.Load() == id`, `false`))),
	arranged(outsideOf("C18", "a function that ends its goroutine costs no other its outcome", "all others are lost",
		"TestAsync_AFunctionThatEnds", value("node/async.go", `!finished`, `false`))),
	arranged(outsideOf("C19", "a function of Read runs between two calls of the FSM", "it runs beside Apply",
		"TestRead_Sees", before("node/read.go", `ended, err := n.fsmCalls.beginRead(ctx, n.stop)`, `f(); return nil`))),
	arranged(outsideOf("C20", "nobody reads what a failed Apply has left", "half a batch is read",
		"TestRead_Nobody", value("node/fsmcall.go", `f.closed || !succeeded`, `f.closed`))),
	arranged(outsideOf("C21", "Close waits for the function of Read that runs", "its caller takes the FSM apart too early",
		"TestRead_Close", instead("node/node.go", `n.fsmCalls.end()`, ``))),
}
