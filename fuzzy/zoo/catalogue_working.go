package zoo

// working: the work of a host that ends with its member's leadership, and RunAsLeader.
var working = []Mutant{
	mutant("V80", "a transfer waits for the end of the host's work", "the target campaigns at once", "N120",
		instead("transfer.go", `waits = waits || t.workUntil > 0`, `_ = waits`)).arranged().profiles("elections", "forwards").or("TestTransfer_Waits").must(),
	mutant("V81", "a transfer waits for the work no longer than its bound", "it waits for ever", "panic, G15",
		value("transfer.go", `c.now.Mono >= t.workUntil`, `false`)).arranged().profiles("elections", "forwards").or("TestTransfer_Waits").must(),
	mutant("V82", "work begins once an entry of the term is applied", "it begins with the leadership", "N121",
		value("transfer.go", `c.log.known(c.log.applied).Term == c.hard.Term`, `true`)).arranged().profiles("elections", "forwards").or("TestMayWork").must(),
	mutant("V83", "no work begins during a transfer", "it begins, and is not told to stop", "N121",
		value("transfer.go", `c.leader.transfer == nil && !c.step.closing`, `!c.step.closing`)).arranged().profiles("elections", "forwards").or("TestMayWork").must(),
	mutant("V84", "a closing member may not work", "it may", "N121",
		value("transfer.go", `c.leader.transfer == nil && !c.step.closing`, `c.leader.transfer == nil`)).arranged().profiles("elections", "swarm").or("TestMayWork"),
	mutant("V85", "a transfer goes on as soon as the work has ended", "it waits to the bound", "TestTransfer",
		value("transfer.go", `t.workUntil > 0 && l.workStopMax == 0`, `false`)).arranged().or("TestTransfer_WaitsForTheEnd"),
	mutant("V86", "work of an earlier term holds up no transfer", "it does", "TestTransfer",
		value("transfer.go", `e.Term == c.hard.Term`, `e.Term > 0`)).arranged().or("TestTransfer_CatchesUpAfter"),
	mutant("V87", "the target may catch up after the work has ended", "its time runs from the begin of the transfer", "TestTransfer",
		value("transfer.go", `max(c.now.Mono, t.workUntil)`, `c.now.Mono`)).arranged().or("TestTransfer_WaitsForTheWork"),
	mutant("V88", "a transfer that is not planned waits for the host's work, too", "only a planned one does", "N120",
		value("transfer.go", `c.leader.workStopMax > 0`, `t.planned && c.leader.workStopMax > 0`)).arranged().profiles("elections", "forwards").or("TestTransfer_OfAStalledDisk").must(),
	mutant("V89", "work begins once an entry of the term is applied", "it begins once one is committed", "N121",
		value("transfer.go", `c.log.known(c.log.applied).Term == c.hard.Term`, `c.committedOwn()`)).arranged().profiles("elections", "forwards").or("TestMayWork").must(),

	mutant("V90", "the core knows of the functions that run", "it is not told", "TestRunAsLeader",
		value("node/node.go", `n.works.tell(batch[:0])`, `batch[:0]`)).arranged().outside("node", "TestRunAsLeader_ATransferWaits"),
	mutant("V91", "a function begins once everything committed before is applied", "it begins with the leadership", "TestRunAsLeader",
		value("node/runasleader.go", `core.MayWork()`, `core.Leadership().Role == raft.Leader`)).arranged().outside("node", "TestRunAsLeader_Begins"),
	mutant("V92", "a function is called again once the one before has returned", "it overlaps with itself", "TestRunAsLeader",
		instead("node/runasleader.go", `err = f(within, k.term)`, `
			returned := make(chan error, 1)
			go func() { returned <- f(within, k.term) }()
			select {
			case err = <-returned:
			case <-within.Done():
			}`)).arranged().outside("node", "TestRunAsLeader_ATransferWaits"),
	mutant("V93", "a function whose leadership has ended is called again", "its error ends RunAsLeader", "TestRunAsLeader",
		value("node/runasleader.go", `n.works.ended(k)`, `false`)).arranged().outside("node", "TestRunAsLeader_ATransferWaits"),
	mutant("V94", "a function whose context is cancelled learns why", "the cause is lost", "TestRunAsLeader",
		instead("node/runasleader.go", `k.cancel(&LeadershipEndedError{Term: k.term, Reason: reason})`, `k.cancel(nil)`)).arranged().outside("node", "TestRunAsLeader_ALeaderThatHearsNobody"),
	mutant("V95", "a function that panics runs no longer", "every later transfer waits for it", "TestRunAsLeader",
		instead("node/runasleader.go", `defer n.works.leave(k) // also if f panics`, `defer func() { if recover() == nil { n.works.leave(k) } else { panic("its own") } }()`)).arranged().outside("node", "TestRunAsLeader_RefusesBadCalls"),
	mutant("V96", "the end of the node cancels the context", "the function is never told", "TestRunAsLeader",
		instead("node/node.go", `n.works.end(n.Err())`, `_ = n`)).arranged().outside("node", "TestRunAsLeader_EndsWithItsNode"),
	mutant("V97", "with leases, a function begins within a lease", "it begins without one", "TestRunAsLeader",
		value("node/runasleader.go", `!core.Leases() || w.leased()`, `true`)).arranged().outside("node", "TestRunAsLeader_LeasesAreSwitched"),
	mutant("V98", "a function ends with its lease", "it runs until the leader steps down", "TestRunAsLeader",
		value("node/runasleader.go", `w.lapse == nil && w.lease.now.Load() != nil`, `false`)).arranged().outside("node", "TestRunAsLeader_EndsWithTheLease"),
	mutant("V99", "a context tells only the end of its own lease", "it tells that of another call", "TestRunAsLeader",
		value("node/runasleader.go", `held.Term != k.term || leading.Err() != nil`, `false`)).arranged().outside("node", "TestRunAsLeader_BeginsAnew"),
	mutant("V100", "a lease that was renewed goes on", "the function ends with the first lease", "TestRunAsLeader",
		instead("node/runasleader.go", `w.lapse = nil`, `w.lapse, w.lease = nil, &lease{}; w.lease.now.Store(&raft.LeaderLease{})`)).arranged().outside("node", "TestRunAsLeader_EndsWithTheLease"),
	mutant("V101", "a context ends before its step shows", "it ends when the step has been carried out", "TestRunAsLeader",
		instead("node/node.go", `n.works.follow(n.core)`, `_ = n`), before("node/node.go", `n.wakeAt(out.WakeAt)`, `n.works.follow(n.core)`)).
		arranged().outside("node", "TestRunAsLeader_TheContextEndsBefore"),
	mutant("V102", "a transfer waits for the function of the present term", "a function of an earlier term hides it", "TestRunAsLeader",
		instead("node/runasleader.go", `e.Term = w.running[last].term`, `e.Term = w.running[0].term`)).arranged().outside("node", "TestRunAsLeader_ATransferWaitsForTheLatest"),
	mutant("V103", "a transfer waits until a function has returned", "until it was cancelled", "TestRunAsLeader",
		instead("node/runasleader.go", `e.Term = w.running[last].term`, `if !w.running[last].over { e.Term = w.running[last].term }`)).
		arranged().outside("node", "TestRunAsLeader_ATransferWaits"),
}
