package zoo

// outsideOf is a mutant of the node around the core, with the test of the root package that catches it.
func outsideOf(id, rule, bug, test string, edit Edit) Mutant {
	return Mutant{
		ID: id, Rule: rule, Bug: bug, Edits: []Edit{edit}, Expect: "tests",
		Test: &Test{".", test}, Outside: true,
	}
}

// queues: who waits for what in the node, how long, and how many may.
var queues = []Mutant{
	outsideOf("J01", "an index is published once the FSM has it", "it is before, and a read is stale",
		"AnIndexIsPublished", before("applier.go", `began := time.Now()`, `n.applied.advance(entries[len(entries)-1].Index)`)),
	outsideOf("J02", "an outcome that crosses with a cancellation is taken out of the call", "the next caller gets it",
		"CrossesWithACancellation", instead("requests.go", `return <-req.outcome // it came at the same moment`, `return outcome{err: cause}`)),
	outsideOf("J03", "a write that is queued wakes the writer", "one with a new term does not",
		"EveryWriteOfTheQueue", before("writer.go", "w.poke()\n}\n\n// poke", `if write.Hard != nil { return }`)),
	outsideOf("J04", "what a step does not take wakes the loop again", "proposals beyond a batch wait for the next call",
		"DoesNotTakeWakes", value("requests.go", `rest > 0`, `false`)),
	outsideOf("J05", "the promises that wait for the disk are bounded", "they are not",
		"PromisesOverTheLimit", value("writer.go", `len(w.queue) < w.node.cfg.ReceivedMax`, `true`)),
	outsideOf("J20", "appends are dropped while the disk has as many writes as it may", "they pile up",
		"AppendsAreDropped", value("identity.go", `entryBytes(m) > 0 && n.writer.depth() >= n.cfg.ReceivedMax`, `false`)),
	outsideOf("J06", "the messages that wait for the loop are bounded", "they are not",
		"Mailbox", value("mailbox.go", `m.received >= cfg.ReceivedMax`, `false`)),
	outsideOf("J07", "their bytes are bounded", "they are not",
		"Mailbox", value("mailbox.go", `queued+size > cfg.ReceivedBytesMax`, `false`)),
	outsideOf("J08", "events about connections are bounded", "they are not",
		"Mailbox", value("mailbox.go", `len(m.events)-m.received >= happeningsMax`, `false`)),
	outsideOf("J09", "callers that wait are bounded", "they are not",
		"Requests", value("requests.go", `waiting >= r.cfg.ProposalsMax`, `false`)),
	outsideOf("J10", "the bytes of their commands are bounded", "they are not",
		"Requests", value("requests.go", `r.bytes >= r.cfg.ProposalBytesMax`, `false`)),
	outsideOf("J11", "what is let in does not depend on its size", "small commands starve the largest",
		"Starve", value("requests.go", `r.bytes >= r.cfg.ProposalBytesMax`, `r.bytes > 0 && r.bytes+bytes > r.cfg.ProposalBytesMax`)),
	outsideOf("J12", "those who wait for an index are bounded", "they are not",
		"NumberOfWaiters", value("applier.go", `len(p.waiting) >= limit`, `false`)),
	outsideOf("J13", "the peers that are talked to are bounded", "they are not",
		"SendersAre|Senders_", value("sender.go", `len(s.peers) >= sendersMax`, `false`)),
	outsideOf("J14", "the tail is bounded", "it is not",
		"Tail", value("tail.go", `t.memory > t.bytesMax`, `false`)),
	outsideOf("J15", "the tail counts what its entries take", "it counts their records",
		"TakesNoMoreMemory", value("tail.go", `chunkMemory + cap(entries)*entryMemory + len(entries)*allocationMemory + bytes + bytes/16`, `bytes`)),
	outsideOf("J16", "an FSM that waits for its own node is told", "it waits for ever",
		"ThatWaitsForItself", value("fsmcall.go", `f.goroutine.Load() == id`, `false`)),
	outsideOf("J17", "a logger that panics is not called again", "it is, with what it left locked",
		"ALoggerThatPanics", instead("guard.go", `g.broken.Store(true)`, `_ = err`)),
	outsideOf("J18", "a transport that panics ends the node", "it ends the process",
		"ATransportThatPanics", instead("node.go", `n.connect(n.identity.others(*out.Config))`, `n.transport.Connect(n.identity.others(*out.Config))`)),
	outsideOf("J19", "an append fits into the transport's frame", "one that does not is sent for ever",
		"LimitsThatTheTransport", before("config.go", `if most == 0 {`, `most = 0`)),
	{
		ID: "J21", Rule: "a store writes nothing after a write that failed", Bug: "it goes on", Expect: "tests",
		Edits: []Edit{value("storage/bolt.go", `b.failed != nil`, `false`)},
		Test:  &Test{"storage", "NothingIsWrittenAfter"}, Outside: true,
	},
}
