package zoo

// leaks: mutants that keep what is no longer needed: files, readers, connections, goroutines, timers, and places within a limit;
// addresses that are never tried; and waits for an event that does not come.
var leaks = []Mutant{
	mutant("O20", "a damaged file of a snapshot is closed", "it stays open", "N50",
		instead("internal/snapfile/reader.go", `return nil, errors.Join(err, f.Close())`, `return nil, err`)).arranged().profiles("snapshots"),
	mutant("O21", "an unfinished snapshot that is given up is closed", "it stays open", "N50",
		instead("internal/snapfile/writer.go", `_ = w.f.Close()`, `_ = w`)).arranged().profiles("snapshots"),
	mutant("O22", "the file of a snapshot that is given up is removed", "it stays until the next start", "N50",
		instead("internal/snapfile/writer.go", `return w.dir.remove(w.dir.partPath(w.file))`, `return nil`)).arranged().profiles("snapshots"),
	mutant("O23", "a discarded file is removed once its last reader is closed", "it stays until the next start", "N50",
		before("internal/snapfile/dir.go", `if !d.discarded[file] {`, `return nil`)).arranged().profiles("snapshots").test("internal/snapfile", ""),
	mutant("O24", "each IP address of a name is tried", "only the first one is", "tests",
		value("transport/dial.go", `turn+attempt+i`, `i`)).arranged().
		seen("our own transport: a first address that did not answer took all of DialTimeout").outside("transport", "DialTCP_EachAddress"),
	mutant("O26", "a dialed connection whose handshake fails is closed", "it stays open", "tests",
		instead("transport/dial.go", `_ = conn.Close()
		return handshaken{address: address}, err`, `return handshaken{address: address}, err`)).arranged().outside("transport", "WhoseHandshakeFails"),
	mutant("O27", "if the bulk lane cannot be dialed, the urgent one is closed", "it stays open", "tests",
		instead("transport/dial.go", `_ = p.lanes[raft.LaneUrgent].conn.Close()`, `_ = p`)).arranged().outside("transport", "DialPair_"),
	mutant("O28", "a connection that is closed stops the timers of its side lanes", "the timer outlives it", "tests",
		instead("transport/conn.go", `p.sides[i].stopIdle()`, `_ = i`)).arranged().outside("transport", "Pair_"),
	mutant("O29", "a rejected caller is closed", "it stays open", "tests",
		instead("transport/accept.go", `defer func() { _ = c.Close() }()`, `_ = c`)).arranged().outside("transport", "EachCallerLeaves"),
	mutant("O30", "a member that is closed does not wait for the end that it has set itself", "a timer keeps it", "tests",
		before("node/marks.go", `select {
		case <-timer.C:`, `<-timer.C`)).arranged().outside("node", "AfterTimeout"),
	mutant("O31", "the file of a stream is closed with it", "it stays open", "tests",
		instead("node/streams.go", `_ = guarded(c.from.Close)`, `_ = c`)).arranged().outside("node", "Snapshot|Stream"),
	mutant("O32", "a snapshot is closed once it was restored", "it stays open", "tests",
		instead("node/restore.go", `defer func() { _ = guarded(from.Close) }()`, `_ = from`)).arranged().outside("node", "Restore|Snapshot"),
	mutant("O33", "a frozen state is closed, even if there is no room for it", "it is not", "tests",
		instead("node/snapshot.go", `defer closeOnce()`, `_ = closeOnce`)).arranged().outside("node", "Snapshot|Space|Room"),
	mutant("O34", "a snapshot whose writing fails is given up", "its file stays", "tests",
		instead("node/snapshot.go", `defer func() { _ = guarded(to.Abort) }()`, `_ = to`)).arranged().outside("node", "Snapshot"),
	mutant("O35", "a snapshot that is no longer received is given up", "its file stays", "tests",
		instead("node/receive.go", `_ = guarded(r.spool.Abort)`, `_ = r`)).arranged().outside("node", "Stream|Snapshot"),
	mutant("O36", "a frozen state that is sent is closed at the end", "it is not", "tests",
		instead("node/held.go", `defer k.closeFrozen(h.taking, h.frozen)`, `_ = k`)).arranged().outside("node", "Held|Durable"),
	mutant("O37", "a caller whose handshake has ended gives its place back", "it keeps it", "tests",
		instead("transport/accept.go", `c.gone()`, `_ = c`)).arranged().outside("transport", "EachCallerLeaves"),
	mutant("O40", "a member counts a peer once it durably remembers it", "before that", "tests",
		before("node/writer.go", `began := time.Now()`, `
			if memory != nil {
				n.identity.kept.publish(*memory)
			}`)).arranged().outside("node", "NobodyIsCounted"),
	mutant("O41", "no function of Read runs after a panic of Apply", "one that waits does", "tests",
		instead("node/applier.go", `ended(succeeded)`, `ended(succeeded || failed.(*FSMError).Panic != nil)`)).arranged().outside("node", "WhatAFailedApplyHasLeft"),
	mutant("O42", "a caller does not wait for an index that was applied just now", "it waits for the next one", "tests",
		instead("node/applied.go", `return nil, nil`, `
			w := &indexWaiter{index: index, done: make(chan error, 1)}
			heap.Push(&p.waiting, w)
			return w, nil`)).arranged().outside("node", "TestApplied_"),
	mutant("O43", "a restoration wakes those who wait for its entry", "they wait for the next one", "tests",
		instead("node/restore.go", `n.applied.advance(a.at.Index)`, `n.applied.advance(n.applied.index())`)).arranged().outside("node", "AppliesNothingThatWasReadBefore"),
	mutant("O44", "a snapshot is sent again to a member that has lost it", "never twice in a row", "tests",
		value("node/streams.go", `now-s.ended.at < raft.Time(s.limits.ElectionTimeout)`, `true`)).arranged().outside("node", "WasLostAfterItsArrival"),
	mutant("O45", "the sync of a snapshot may take longer than SnapshotStallMax", "it is given up", "tests",
		instead("node/snapshot.go", `closeOnce()
	stop()`, `closeOnce()`)).arranged().outside("node", "ASlowSync"),
	mutant("O46", "each part of a message has WriteTimeout", "all parts together have it", "tests",
		instead("transport/conn.go", `o.sentAt = time.Now()`, `
			if len(rest) == len(o.pieces) {
				o.sentAt = time.Now()
			}`)).arranged().outside("transport", "SlowLink"),
	mutant("O47", "an append that just fits a peer with a small limit is sent", "its sender refuses it", "tests",
		value("transport/dial.go", `takes + appendOverheadMax`, `takes`)).arranged().outside("transport", "Limits_"),
	mutant("O48", "a write stores a mark beside the memory of peers", "only the memory", "tests",
		instead("storage/lineage.go", `l.mark = &mark`, `
			if w.Memory == nil {
				l.mark = &mark
			}`)).arranged().outside("storage", "TestBolt_KeepsTheContract"),
	mutant("O49", "a copied file is removed once its copy has a durable name", "at once", "tests",
		instead("storage/setaside.go", `copied = append(copied, old)`, `_ = copied`),
		instead("storage/setaside.go", `err = copyFile(disk, old, target)`, `
			if err = copyFile(disk, old, target); err == nil {
				err = disk.Remove(old)
			}`)).arranged().outside("storage", "SetAside_EachCrash"),
	mutant("O50", "pruning continues while nothing is written", "the rest waits for a write", "tests",
		instead("node/writer.go", `if w.unpruned {
		w.queue.wake()
	}`, `_ = w`)).arranged().outside("node", "TestWriter_PrunesToTheEnd"),
	mutant("O52", "a held state whose WriteTo hangs is given up", "not after a piece that was taken", "tests",
		instead("node/held.go", `h.stall.Reset(h.limit)`, `_ = h`)).arranged().outside("node", "TestHeld_Trouble"),
	mutant("O53", "a failed TLS handshake gives its turn back", "it keeps it", "tests",
		instead("transport/waiting.go", `c.giveTurn()
	c.turns = nil`, `
			if err == nil {
				c.giveTurn()
				c.turns = nil
			}`)).arranged().outside("transport", "TestTurns_AFailed"),
	mutant("O54", "addresses that did not work are tried again", "none before the one that worked", "tests",
		value("transport/round.go", `slices.Concat(addresses[i:i+1], addresses[:i], addresses[i+1:])`, `addresses[i:]`)).arranged().outside("transport", "TestLink_TheOther"),
	mutant("O55", "a side lane that cannot be dialed leaves the connection as it was", "the connection never ends", "tests",
		instead("transport/sidelane.go", `defer p.served.Done()`, `
			defer func() {
				if p.side(lane).open.Load() != nil {
					p.served.Done()
				}
			}()`)).arranged().outside("transport", "SideLane_GoesToTheSameStart"),
	mutant("O56", "a log keeps a few files for reuse", "it keeps all", "tests",
		value("internal/segments/prepare.go", `len(l.spares) < sparesMax`, `true`)).arranged().outside("storage", "KeepNoSpace"),
}
