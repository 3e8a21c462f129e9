package zoo

// forwards: mutants of the rule by which a request reaches the leader through another member and takes effect once, and of the
// node that follows it.
var forwards = []Mutant{
	ofForward("V10", "a counter that was seen is answered no more", "a copy of a request is carried out, too", "Receiver",
		value("forward/receiver.go", `startCount == p.startCount && counter <= p.counter`, `false`)),
	ofForward("V11", "a refusal uses the counter of its request up", "a copy that comes later is carried out", "Receiver_ACounter|NoRequest",
		before("forward/receiver.go", `_, member := now.Committed.Peer(m.From)`, `
			if now.Term == 0 || m.Term != now.Term {
				return NotLeader
			}`)),
	ofForward("V12", "counters are kept across the terms of a receiver", "each term begins with none", "Receiver_ACounter|NoRequest",
		before("forward/receiver.go", `_, member := now.Committed.Peer(m.From)`, `
			if p := r.peers[m.From]; p != nil && m.Term > 5 {
				*p = from{}
			}`)),
	ofForward("V13", "a request is for one start of the receiver", "a later start carries it out", "Receiver_Decides|NoRequest",
		value("forward/receiver.go", `f.ToStart != r.startCount`, `false`)),
	ofForward("V14", "a request is for one incarnation of the receiver", "the store that replaces it carries it out", "Receiver_Decides",
		value("forward/receiver.go", `m.To != r.self`, `m.To.ID != r.self.ID`)),
	ofForward("V15", "a request is for the leader of one term", "any leader carries it out", "Receiver_Decides",
		value("forward/receiver.go", `m.Term != now.Term`, `false`)),
	ofForward("V16", "requests are taken from members of the committed configuration", "from everybody", "Receiver_Decides",
		before("forward/receiver.go", "switch {\n\tcase now.NoForward:", `member = true`)),
	ofForward("V17", "an earlier start of a sender is answered no more", "it is, and the counters of the later one are forgotten", "Receiver_Starts",
		value("forward/receiver.go", `startCount < p.startCount`, `false`)),
	ofForward("V18", "a leader that transfers its leadership answers at once", "it carries the request out", "Receiver_Decides",
		value("forward/receiver.go", `now.Transferring`, `false`)),
	ofForward("V19", "only the answer that nothing was carried out lets a request be sent again", "an unknown outcome does, too", "Sender_What",
		instead("forward/forward.go", `return Unknown`, `return Again`)),
	ofForward("V20", "a request whose connection has ended is decided", "a late answer lets it be sent again", "Sender_After",
		instead("forward/sender.go", `return one.to == to`, `return false`)),
	ofForward("V21", "a counter is used for one message", "the next request gets it again", "Sender_Names",
		instead("forward/sender.go", `s.counter++`, `_ = s`)),
	ofForward("V43", "an answer to another member is ignored", "it counts for the request with the same counter", "Sender_What",
		value("forward/sender.go", `m.To != s.self`, `false`)),
	ofForward("V22", "nothing leaves after the deadline", "it does", "Sender_Nothing",
		value("forward/sender.go", `deadline != 0 && deadline <= now`, `false`)),
	ofForward("V23", "what one sender has open is bounded", "it is not", "Receiver_Limits",
		value("forward/receiver.go", `p.open >= r.limits.Requests || p.bytes >= r.limits.Bytes`, `false`)),
	ofForward("V32", "a member may take no changes of others", "it takes them", "Receiver_Decides",
		value("forward/receiver.go", `now.NoRemoteChanges && (f.Kind == raft.ForwardChange || f.Kind == raft.ForwardTransfer)`, `false`)),
	ofForward("V33", "a copy of a change, or of a transfer, is not carried out", "only a copy of a proposal is not", "Receiver_ACounter|NoRequest",
		before("forward/receiver.go", `_, member := now.Committed.Peer(m.From)`, `
			if p := r.peers[m.From]; p != nil && f.Kind != raft.ForwardPropose {
				p.counter = 0
			}`)),
	mutant("V34", "a forwarded transfer begins in the term of its message alone", "in any term", "H6",
		value("transfer.go", `c.isOtherTerm(r.Term)`, `false`)).arranged().profiles("forwards").or("TestPropose_OfAnother"),
	mutant("V35", "a forwarded change begins in the term of its message alone", "in any term", "H6",
		value("reconfigure.go", `c.isOtherTerm(e.Term)`, `false`)).arranged().profiles("forwards").or("TestPropose_OfAnother"),
	mutant("V36", "a leader that ends does not say of a transfer that nothing was carried out", "the next leader gets it again", "H7",
		value("transfer.go", `t.sent && (a.Refusal == RefusedClosing || a.Refusal == RefusedNotLeader)`, `false`)).
		arranged().profiles("forwards").or("TestTransfer_RefusesAtOnce"),
	outsideOf("V37", "a transfer that the core has may take place", "its caller learns that it does not", "Requests_ATransfer",
		value("node/requests.go", `c.taken`, `c.taken && c.kind != transferCall`)),
	outsideOf("V24", "a forwarded proposal is appended in the term of its message alone", "in any term", "Requests_AForwarded",
		instead("node/requests.go", `proposals[i].Term = batch[i].Term`, `_ = batch`)),
	outsideOf("V25", "a forwarded proposal does not wait for the end of a transfer", "it waits like those of this member", "Requests_AForwarded",
		instead("node/requests.go", `r.forwarded.add(p)`, `r.proposals.add(p)`)),
	outsideOf("V26", "a request that has left is of unknown outcome once its connection has ended", "its caller waits on", "BadForward_ALost|Forward_TheRequests",
		instead("node/handler.go", "e.node.streamer.disconnected(p)\n\te.node.forwards.lost(p)", `e.node.streamer.disconnected(p)`)),
	outsideOf("V27", "a request that has left is not sent elsewhere when its caller stops waiting", "the error says that it was not applied", "BadForward_ALost",
		value("node/forwards.go", `c.counter == 0`, `true`)),
	outsideOf("V29", "a request that may have left is not sent elsewhere", "a broken connection lets it be sent again", "Forward_AFailedSend",
		value("node/forwardlane.go", `errors.Is(err, raft.ErrNotSent)`, `true`)),
	outsideOf("V28", "Close answers what other members have forwarded", "it ends at once", "Forward_CloseWaits",
		instead("node/close.go", `n.forwards.settle()`, `_ = n`)),
	outsideOf("V30", "a request for an earlier start of the leader does not leave", "its caller waits for the next start, which is silent", "Forward_ARestart",
		value("node/forwardlane.go", `f.node.identity.startOf(l.to) != c.to.StartCount`, `false`)),
	outsideOf("V31", "a caller without a deadline waits a bounded time for an answer", "it waits for ever", "BadForward_ALost",
		value("node/forwards.go", `c.deadline == 0 && kind != raft.ForwardChange`, `false`)),
	outsideOf("V41", "a change without a deadline waits only as long as a change runs", "it waits for ever for an answer that was lost", "Forward_AChangeWithout",
		value("node/forwards.go", `now.Index == before.Index`, `false`)),
	outsideOf("V42", "an answer that has not left is sent again", "it is dropped", "Forward_AnAnswerThatIsNotSent",
		value("node/forwardlane.go", `f.putBack(l, item)`, `false`)),
	outsideOf("V38", "the outcome of a forwarded proposal goes to the member that sent it", "those of a batch go to the sender of the first", "Requests_ForwardedProposalsOfABatch",
		value("node/requests.go", `&batch[i]`, `&batch[0]`)),
	outsideOf("V39", "the outcomes of forwarded proposals are passed on once they are known", "a single one waits for others", "Requests_ForwardedProposalsOfABatch",
		value("node/requests.go", `len(r.outcomes) > 0`, `len(r.outcomes) > 1`)),
	tested("V40", "what was decoded from one frame stays as it is", "the data of a request is overwritten by later frames", "transport", "Forward_LaterFrames",
		value("transport/forward.go", `len(rest) <= readBufferBytes`, `false`)),
}

// ofForward returns a mutant of package forward, which the simulator runs, with the test that catches it if no seed does.
func ofForward(id, rule, bug, run string, edits ...Edit) Mutant {
	return mutant(id, rule, bug, "G11, H4, H6, H7", edits...).arranged().profiles("forwards").test("forward", run)
}
