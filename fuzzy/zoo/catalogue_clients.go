package zoo

// reads: mutants that let a read miss acknowledged writes (dissertation §6.4).
var reads = []Mutant{
	mutant("Q01", "reads wait for a commit of the leader's own term", "they do not wait", "G13, H1",
		value("read.go", `!c.committedOwn()`, `false`)).seen("etcd #7331; tikv #9239; redisraft #22; xraft #40").must(),
	mutant("Q02", "a quorum confirms that the leader still leads", "the leader assumes it without asking", "G13, H1",
		before("heartbeat.go", `return quorumValue(c.leader, &c.leader.indexes, 1`, `return true`)).seen("Jepsen 2014, etcd and Consul").must(),
	mutant("Q03", "a confirmation belongs to its round", "a reply to an earlier heartbeat counts", "G13",
		before("heartbeat.go", `p.beats.answered(r.Round, c.now.Mono)`, `p.beats.echoed = c.leader.round`)).seen("etcd #20418").must(),
	mutant("Q04", "a read waits until its index is applied", "it does not wait", "H1",
		instead("node/client.go", `return o.index, n.WaitApplied(ctx, o.index)`, `return o.index, nil`)).outside("node", "Node"),
	mutant("Q12", "a follower that is to serve a read asks the leader", "it serves what it knows to be committed", "G13, H1",
		before("read.go", "switch {\n\tcase c.step.closing || c.leader == nil", `
			if c.leader == nil && c.log.commit > 0 {
				c.answer(Answer{RequestID: t, Kind: AnswerReadSafe, ID: c.log.id(c.log.commit)})
				return
			}`)).must(),
	mutant("Q13", "a read waits for the next heartbeat round", "it joins the round that is under way", "G13",
		before("read.go", `c.leader.reads.next = append(c.leader.reads.next, read{requestID: t})`, `
			if len(c.leader.reads.now) > 0 {
				c.leader.reads.now = append(c.leader.reads.now, read{requestID: t})
				return
			}`)).must(),
	mutant("Q14", "a forwarded read is answered by its own reply", "the reply to an earlier read answers it", "G13",
		value("read.go", `f.request != r.ID`, `false`)).must(),
	mutant("Q15", "ids are not reused after a restart", "the counter starts again at its beginning", "N21, G13",
		value("raft.go", `RPCID{StartCount: stored.StartCount}`, `RPCID{StartCount: 1}`)).arranged().seen("class of etcd #20418").profiles("swarm").must(),
}

// transfers: leadership transfers (dissertation §3.10).
var transfers = []Mutant{
	mutant("T01", "the target of a transfer is brought up to date first", "it is asked to campaign at once", "G15",
		value("transfer.go", `p.match != c.log.Last.Index`, `false`)).seen("hashicorp/raft #487").profiles("elections", "swarm").must(),
	mutant("T02", "no proposals during a transfer", "they are accepted", "G15",
		value("leader.go", `c.leader == nil || c.step.closing || c.leader.transfer != nil`, `c.leader == nil || c.step.closing`)).
		seen("hashicorp/raft GH-581").profiles("elections", "swarm").must(),
	mutant("T03", "a transfer that fails is given up", "it continues forever", "G15, L9",
		value("transfer.go", `t == nil || c.now.Mono < t.deadline`, `true`)).seen("class of hashicorp/raft GH-413").profiles("elections", "swarm").must(),
	mutant("T04", "TimeoutNow is obeyed only in its own term", "an old one is obeyed, too", "N12, L4",
		before("raft.go", staleAnchor, `
			if _, ok := m.Body.(TimeoutNow); ok && c.leader == nil && c.mayCampaign() { c.campaign(true); return }`)).arranged().seen("raft-rs #234").profiles("elections", "swarm").must(),
	mutant("T05", "a transfer's vote needs an up-to-date log", "it is granted whatever the log", "N16, G3",
		before("election.go", voteDeniedAnchor, `if r.Transfer && why == DeniedOldLog { why = Granted }`)).arranged().profiles("elections", "swarm").must(),
	mutant("T06", "leadership is transferred only to voters", "to learners, too", "G15, N7",
		value("transfer.go", `p.votes&halves == 0`, `false`),
		value("election.go", `c.termLeader.elected != from || !c.mayCampaign()`, `c.termLeader.elected != from`)).must(),
	mutant("T07", "a leader with a stalled disk transfers its leadership", "it keeps leading", "L12",
		value("stall.go", `!stalled || l.transfer != nil || c.step.closing`, `c.now.Mono >= 0`)).
		arranged().seen("etcd #13527, #15247; hashicorp/raft #503, #612").profiles("alone").must(),
	mutant("T08", "a stalled leader transfers if a quorum without it is ahead of its disk", "the leader counts itself", "panic",
		value("stall.go", `quorumValue(c.leader, &c.leader.indexes, 0, ahead)`, `quorumValue(c.leader, &c.leader.indexes, c.log.Last.Index, ahead)`)).or("TestStall"),
	mutant("T09", "a stalled leader transfers its leadership to a member that is ahead", "it transfers to any member that it hears", "TestStall",
		value("transfer.go", `best == nil || p.match > best.match`, `best == nil`)).or("TestStall"),
	mutant("T10", "a leader with a stalled disk accepts no proposals", "it accepts them without limit", "N10",
		instead("leader.go", `return RefusedStalled`, `return 0`)).or("TestStall"),
	mutant("T11", "members that a stalled leader does not hear may be able to continue without it", "only members that it hears count", "S2, L12",
		value("stall.go", `c.silent(p)`, `false`)).arranged().profiles("elections", "swarm", "alone").or("TestStall").must(),
	mutant("T12", "a member that lost what it acknowledged does not count as able to continue", "a stalled leader transfers its leadership because of it",
		"N46",
		value("stall.go", `p.state != stale`, `true`)).arranged().profiles("images").or("TestStall"),
	mutant("T13", "a leader whose disk stalls while it holds the whole log appends a no-op", "it appends nothing", "S2, L12",
		value("stall.go", `c.diskHoldsLog()`, `false`)).profiles("snapshots").or("TestStall"),
	mutant("T14", "a member that needs a snapshot may continue under another leader", "a leader whose disk stalls keeps it waiting", "L12, L3",
		value("stall.go", `p.state == snapshot`, `false`)).arranged().profiles("durable").or("TestStall"),
	mutant("T15", "a stalled leader steps down if only members that it does not hear can help a member that needs a snapshot", "it keeps leading", "L12",
		instead("stall.go", "c.stepDown() // an unheard voter may be elected, and bring a snapshot to a member that needs one", `_ = c`)).arranged().profiles("durable").or("TestStall"),
	mutant("T16", "a leader whose log waits to be applied tests an idle disk with a write", "a disk that hangs with nothing to write is never noticed", "S2, L3",
		instead("stall.go", `c.leader.triesDisk = true`, `_ = c`)).arranged().profiles("durable").or("TestStall"),
	mutant("T17", "a disk is tested only while nothing else is written", "it is tested beside other writes", "N73",
		value("stall.go", `c.disk.idle() && c.step.out.Write.Log == nil`, `true`)).arranged().profiles("alone", "durable", "slow").or("TestStall"),
	mutant("T18", "a test of the disk is one write", "every write after it carries the hard state again", "N73",
		instead("output.go", `c.leader.triesDisk = false`, `_ = c`)).arranged().profiles("alone", "durable", "slow").or("TestStall"),
	mutant("T19", "in a planned transfer, the leader first applies what it has accepted", "the target campaigns at once", "H5",
		value("transfer.go", `c.log.applied < c.leader.accepted`, `false`)).arranged().profiles("elections", "swarm").must(),
	mutant("T23", "TimeoutNow is repeated later if outcomes are owed again", "the leader's next deadline stays in the past", "panic",
		before("transfer.go", `if t.sentAt = c.now.Mono; !waits {`, `
			if waits {
				return
			}`)).arranged().profiles("forwards").or("TestTransfer_TheFSM"),
	mutant("T20", "a transfer because of a stalled disk waits for nothing else", "it waits until that disk allows its entries to be applied", "L12",
		value("transfer.go", `t.planned && c.now.Mono < t.catchUp && c.owesOutcomes()`, `c.log.applied < c.leader.accepted`)).
		arranged().profiles("elections", "swarm", "alone").or("TestStall"),
	mutant("T21", "a planned transfer does not wait for a disk that stalls or an FSM that hangs", "it waits to its end, and fails", "TestTransfer",
		value("transfer.go", `!c.diskStalled() && !c.fsmHangs()`, `true`)).arranged().or("TestTransfer_AMemberThatCannotApply"),
	mutant("T22", "a leader that is about to end does not give up a target that has the whole log", "it gives the target up at the bound", "TestTransfer",
		value("transfer.go", `t.leaving && !t.sent && c.leader.peer(t.to).match == c.log.Last.Index`, `false`)).arranged().or("TestTransfer_WaitsForTheProposals"),
}

// clients: every request gets a true answer.
var clients = []Mutant{
	mutant("C05", "an answer belongs to the entry that was proposed", "it belongs to whatever entry is at its index", "G11, H1",
		value("node/requests.go", `req.id == entries[i].ID()`, `true`)).seen("common in stores on top of Raft").outside("node", "Node|Requests|Outcome"),
	mutant("C06", "an unknown outcome is not reported as a failure", "a deposed leader reports that the entry is not applied", "H4",
		instead("answer.go", `c.answer(Answer{RequestID: o.requestID, Kind: AnswerUnknown, ID: o.id})`,
			`c.answer(Answer{RequestID: o.requestID, Kind: AnswerNotApplied, ID: o.id})`)).seen("RedisRaft (Jepsen)").must(),
	mutant("C07", "a deposed leader answers its proposals", "they wait forever", "L9",
		before("answer.go", "if l.transfer != nil {\n\t\tc.awaitTransferOutcome(", `c.step.lost = c.step.lost[:0]`)).arranged().seen("openraft #1761").must(),
	mutant("C08", "a deposed leader answers its reads", "they wait forever", "L9",
		before("answer.go", `for _, reads := range [][]read{l.reads.now, l.reads.next} {`, `l.reads = leaderReads{}`)).arranged().must(),
	mutant("C09", "a read that was forwarded to a lost leader is answered", "it waits forever", "L9",
		before("read.go", "for _, t := range f.asked {\n\t\tc.refuseRequest(t)", `f.asked = f.asked[:0]`)).arranged().must(),
	mutant("C10", "a truncated entry may still be applied", "its client is told that it never will be", "H4",
		value("answer.go", `!c.log.has(id) && id.Index <= c.log.commit`, `!c.log.has(id)`)).profiles("elections", "swarm").must(),
	mutant("C11", "an entry that is being applied is answered by the applier", "the deposed leader answers it, too", "N11",
		value("answer.go", `c.log.has(o.id) && o.id.Index <= c.log.applying`, `false`)).profiles("elections").or("TestReplicate"),
	mutant("C12", "a reader that the leader forgot gets an error", "it waits forever", "L9",
		value("read.go", `len(f.asked) > 0 && c.now.Mono >= f.deadline && c.mayBeAnswered()`, `false`),
		before("read.go", "if len(f.asked) > 0 && c.now.Mono >= f.deadline {", `if len(f.asked) > 0 { return }`)).arranged().must(),
	outsideOf("C13", "a proposal that the loop has taken is not withdrawn", "its caller is told that it was never accepted",
		"Requests_AnAsynchronous", value("node/async.go", `r.table[req.requestID] != req || req.taken`, `r.table[req.requestID] != req`)).arranged(),
	outsideOf("C14", "an accepted proposal has one outcome", "it has two",
		"TestAsync", instead("node/requests.go", `r.callbacks.add(req, o) // which releases it`, `r.callbacks.add(req, o); r.callbacks.add(req, o)`)).arranged(),
	outsideOf("C15", "the end of the node answers every accepted proposal", "the last outcomes are lost",
		"TestAsync", value("node/async.go", `len(waiting) > 0`, `len(waiting) > 0 && !c.ended`)).arranged(),
	outsideOf("C16", "an outcome occupies its place in the limit until its function has returned", "the functions that wait are without limit",
		"TestAsync_Limits", instead("node/async.go", `defer c.release(a.req)`, `c.release(a.req)`)).arranged(),
	outsideOf("C17", "a function of ProposeAsync that closes its node gets an error", "it waits forever",
		"TestAsync_AFunctionMay", value("node/async.go", `c.goroutine.Load() == id`, `false`)).arranged(),
	outsideOf("C18", "a function that ends its goroutine costs no other caller its outcome", "all other outcomes are lost",
		"TestAsync_AFunctionThatEnds", value("node/async.go", `!finished`, `false`)).arranged(),
	outsideOf("C19", "a function of Read runs between two calls of the FSM", "it runs beside Apply",
		"TestRead_Sees", before("node/read.go", `ended, err := n.fsmCalls.beginRead(ctx, n.stop)`, `f(); return nil`)).arranged(),
	outsideOf("C20", "no function of Read sees what a failed Apply has left", "it reads half a batch",
		"TestRead_Nobody", value("node/fsmcall.go", `f.closed || !succeeded`, `f.closed`)).arranged(),
	outsideOf("C22", "a proposal that waits for the end of a transfer is made, or its caller learns the leader", "it is lost",
		"TestPlanned", instead("node/requests.go", `r.proposals.wake()`, `r.proposals.drop(r.proposals.len())`)).arranged(),
	outsideOf("C23", "a proposal that has waited is made once", "it is made twice",
		"TestPlanned", instead("node/requests.go", `r.proposals.wake()`, `for _, p := range r.proposals.waiting() { r.proposals.add(raft.NewProposal(p.RequestID, p.Kind, p.Data)) }`)).arranged(),
	mutant("C24", "a proposal for one term is appended in no other", "the leader of any term appends it", "panic, H6",
		value("leader.go", `wanted != 0 && wanted != c.hard.Term`, `false`)).arranged().profiles("forwards").or("TestPropose_OfAnother"),
	outsideOf("C21", "Close waits for a running function of Read", "its caller takes the FSM apart too early",
		"TestRead_Close", instead("node/node.go", `n.fsmCalls.end()`, ``)).arranged(),
}
