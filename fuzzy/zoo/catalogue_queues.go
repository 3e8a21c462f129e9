package zoo

// outsideOf returns a mutant of the node around the core, with the test of package node that catches it.
func outsideOf(id, rule, bug, test string, edits ...Edit) Mutant {
	return Mutant{
		ID: id, Rule: rule, Bug: bug, Edits: edits, Expect: "tests",
		Test: &Test{"node", test}, Outside: true,
	}
}

// inside returns a mutant of code that the node and the simulator share, with the invariant and the test that catch it.
func inside(id, rule, bug, expect string, profiles []string, test string, edit Edit) Mutant {
	in := "internal/pipeline"
	if test == "Sender" {
		in = "node"
	}
	return Mutant{
		ID: id, Before: true, Rule: rule, Bug: bug, Edits: []Edit{edit}, Expect: expect, Profiles: profiles,
		Test: &Test{in, test},
	}
}

// queues: waits inside the node, their limits and their ends.
var queues = []Mutant{
	outsideOf("J01", "an index is published once the FSM has applied it", "it is published before, and a read is stale",
		"AnIndexIsPublished", before("node/applier.go", `began := time.Now()`, `n.applied.advance(entries[len(entries)-1].Index)`)),
	outsideOf("J02", "an outcome that crosses with a cancellation is taken out of the call", "the next caller gets it",
		"CrossesWithACancellation", instead("node/requests.go", `return <-req.outcome // the outcome arrived at the same moment`, `return outcome{err: cause}`)),
	outsideOf("J03", "a write that is queued wakes the writer", "one with a new term does not",
		"EveryWriteOfTheQueue", before("node/writer.go", `w.queue.add(write)`, `if write.Hard != nil { w.queue.items = append(w.queue.items, write); return nil }`)),
	outsideOf("J04", "proposals that a step does not take wake the loop again", "proposals beyond a batch wait for the next call",
		"DoesNotTakeWakes", value("node/queue.go", `q.len() > 0`, `false`)),
	outsideOf("J05", "the promises that wait for the disk are bounded", "they are not",
		"PromisesOverTheLimit", value("node/writer.go", `w.node.cfg.ReceivedMax`, `1<<30`)),
	outsideOf("J20", "appends are dropped while the disk has the maximum number of writes", "they pile up",
		"AppendsAreDropped", value("node/handler.go", `entryBytes(m) > 0 && n.writer.depth() >= n.cfg.ReceivedMax`, `false`)),
	outsideOf("J06", "the messages that wait for the loop are bounded", "they are not",
		"Mailbox", value("node/mailbox.go", `m.received >= cfg.ReceivedMax`, `false`)),
	outsideOf("J07", "the bytes of the messages that wait for the loop are bounded", "they are not",
		"Mailbox", value("node/mailbox.go", `queued+size > cfg.ReceivedBytesMax`, `false`)),
	outsideOf("J08", "events about connections are bounded", "they are not",
		"Mailbox", value("node/mailbox.go", `postedMax+m.received`, `1<<30`)),
	outsideOf("J09", "callers that wait are bounded", "they are not",
		"Requests", value("node/requests.go", `waiting >= limit`, `false`)),
	outsideOf("J10", "the bytes of waiting callers' commands are bounded", "they are not",
		"Requests", value("node/requests.go", `r.bytes >= limits.ProposalBytesMax`, `false`)),
	outsideOf("J11", "the size of a command does not decide whether it is let in", "small commands starve the largest",
		"Starve", value("node/requests.go", `r.bytes >= limits.ProposalBytesMax`, `r.bytes > 0 && r.bytes+bytes > limits.ProposalBytesMax`)),
	outsideOf("J40", "the core learns new limits before the requests that enter under them", "it never learns them",
		"SetLimits", instead("node/requests.go", `r.changed = true`, `r.changed = false`)),
	outsideOf("J41", "a member that has joined another cluster was not bootstrapped", "it counts as bootstrapped",
		"TestBootstrap_OfAMember", value("node/bootstrap.go", `i.begins && i.initial.SameList(list)`, `i.initial.SameList(list)`)),
	outsideOf("J12", "the callers that wait for an index are bounded", "they are not",
		"NumberOfWaiters", value("node/applied.go", `len(p.waiting) >= limit`, `false`)),
	outsideOf("J13", "the number of peers that a member talks to is bounded", "it is not",
		"SendersAre|Senders_", value("node/sender.go", `len(s.peers) >= sendersMax`, `false`)),
	inside("J14", "the log cache is bounded", "it is not", "N43", nil,
		"Cache", value("internal/pipeline/cache.go", `c.memory > bytes`, `false`)).must(),
	inside("J15", "the log cache counts the memory of its entries", "it counts their records", "N43", nil,
		"TakesNoMoreMemory", value("internal/pipeline/cache.go", `chunkMemory + cap(entries)*entryMemory + len(entries)*allocationMemory + bytes + bytes/16`, `bytes`)).must(),
	outsideOf("J16", "an FSM that waits for its own node gets an error", "it waits forever",
		"ThatWaitsForItself", value("node/fsmcall.go", `call.goroutine == id`, `false`)),
	outsideOf("J17", "a logger that panics is not called again", "it is called again, with what it left locked",
		"ALoggerThatPanics", instead("node/guard.go", `g.broken.Store(true)`, `_ = err`)),
	outsideOf("J18", "a transport that panics ends the node", "it ends the process",
		"ATransportThatPanics", instead("node/contacts.go", `c.node.connect(dialed)`, `c.node.transport.Connect(dialed)`)),
	outsideOf("J19", "an append fits into the transport's frame", "one that does not is sent again forever",
		"LimitsThatTheTransport", before("node/config.go", `if most == 0 {`, `most = 0`)),
	inside("J22", "a write with a mark is not merged into the one before it", "it is, and the mark is lost", "N42", []string{"images"},
		"AMarkIsAWrite", value("internal/pipeline/merge.go", `queue[n].Mark == nil`, `true`)),
	// as J30
	mutant("J23", "a merged write has the last generation of its parts", "it has the first, and the log cache keeps everything", "tests",
		instead("internal/pipeline/merge.go", `m.log = &raft.LogWrite{After: m.log.After, Entries: append(entries, next.Entries...), Reset: m.log.Reset, Generation: next.Generation}`,
			`m.log = &raft.LogWrite{After: m.log.After, Entries: append(entries, next.Entries...), Reset: m.log.Reset, Generation: m.log.Generation}`)).outside("internal/pipeline", "Merge"),
	// A core truncates its log only with a new term. Such a write is not merged.
	mutant("J30", "a truncation within merged writes drops the entries after it", "they stay", "tests",
		value("internal/pipeline/merge.go", `int(after.Index - m.log.After.Index)`, `len(m.log.Entries)`)).arranged().outside("internal/pipeline", "Merge"),
	inside("J31", "the promises of all merged writes leave", "only those of the first one leave", "N42", nil,
		"Merge", value("internal/pipeline/merge.go", `n > 1 && then > 0`, `false`)).must(),
	inside("J32", "a merged write acknowledges the last write in it", "it acknowledges one more", "N6", nil,
		"Merge", instead("internal/pipeline/merge.go", `merged.Seq = queue[n].Seq`, `merged.Seq = queue[n].Seq + 1`)).must(),
	inside("J33", "the entries of an append belong to its generation", "they may be of any generation", "N44", nil,
		"Sender", value("internal/pipeline/log.go", `l.Cache.Generation() != a.Generation`, `false`)).must(),
	inside("J34", "appends are joined only if the second one begins where the first one ends", "they are joined even with a gap between them",
		"N45", nil,
		"Sender", value("internal/pipeline/log.go", `next.Prev == joined.Last`, `true`)).must(),
	inside("J35", "joined appends are of one term", "they may be of different terms", "N45", []string{"elections"},
		"Sender", value("internal/pipeline/log.go", `!sameButBody(messages[n], first)`, `false`)),
	mutant("J39", "joined appends name the acknowledgement before the first of them", "they name the one before the last: the receiver refuses them",
		"tests",
		before("internal/pipeline/log.go", `joined.Commit = max(joined.Commit, next.Commit)`, `joined.Acknowledged = next.Acknowledged`)).test("node", "Sender"),
	inside("J36", "the rest of a span leaves in a further message", "it never leaves", "N45", nil,
		"Sender", instead("internal/pipeline/log.go", `m, more = rest, goesOn`, `m, more = rest, false`)).must(),
	inside("J37", "a truncation drops the entries behind it from the log cache", "it drops only whole writes", "N44", nil,
		"Cache", value("internal/pipeline/cache.go", `c.chunks[keep].entries[:after-c.chunks[keep].first()+1]`, `c.chunks[keep].entries`)).must(),
	inside("J38", "entries below the log cache are read from storage, and only those", "later ones are read, too, where storage may have an older log",
		"N44", nil,
		"Sender", value("internal/pipeline/log.go", `min(span.Last, first-1)`, `span.Last`)).must(),
	mutant("J24", "the applied entry is the committed one", "it is any entry in its place", "tests",
		value("node/applier.go", `last.Index == target.Index && last != target`, `false`)).arranged().outside("node", "AppliesNothingElse"),
	outsideOf("J25", "an abandoned proposal takes its place until the loop drops it", "its bytes are given back twice",
		"Requests|Abandon|Bytes", instead("node/requests.go", `r.bytes += req.bytes // the proposal stays in the queue until the loop takes it, see take`, `_ = req`)),
	inside("J26", "a truncation withdraws what is on the disk", "the log cache forgets entries that are not stored", "N43", nil,
		"Cache", instead("internal/pipeline/cache.go", `c.persisted = min(c.persisted, after)`, `_ = after`)).must(),
	outsideOf("J27", "a command that reached the core may be applied, even if the node ends", "its caller is told that it never will be",
		"Node|Requests|Close", instead("node/requests.go", `r.finish(req, outcome{err: req.unknown()})`, `r.finish(req, outcome{err: err})`)),
	mutant("J28", "the commit index of merged writes never falls", "that of the last write is kept", "tests",
		instead("storage/boltstore.go", `b.commit = max(b.commit, w.Commit)`, `b.commit = w.Commit`)).outside("storage", "KeepsTheContract"),
	mutant("J29", "a reset moves the beginning of the log", "it moves only the end", "tests",
		instead("storage/bolt.go", `record.start, record.last = w.After, w.After`, `record.last = w.After`)).outside("storage", "KeepsTheContract"),
	mutant("J21", "a store writes nothing after a write that failed", "it continues to write", "tests",
		value("storage/boltstore.go", `b.failed != nil`, `false`)).outside("storage", "NothingIsWrittenAfter"),
}
