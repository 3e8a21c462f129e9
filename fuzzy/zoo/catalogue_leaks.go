package zoo

// leaks: mutants that keep what is no longer needed: files, readers, connections, goroutines, timers, and places within a limit;
// and addresses that are never tried.
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
		return handshaken{address: address}, err`, `return handshaken{address: address}, err`)).arranged().outside("transport", "TCP_|Handshake|Dial"),
	mutant("O27", "if the bulk lane cannot be dialed, the urgent one is closed", "it stays open", "tests",
		instead("transport/dial.go", `_ = p.lanes[raft.LaneUrgent].conn.Close()`, `_ = p`)).arranged().outside("transport", "DialPair_"),
	mutant("O28", "a connection that is closed stops the timer of its snapshot lane", "the timer outlives it", "tests",
		instead("transport/conn.go", `p.snapshot.stopIdle()`, `_ = p`)).arranged().outside("transport", "Pair_"),
	mutant("O29", "a rejected caller is closed", "it stays open", "tests",
		instead("transport/accept.go", `defer func() { _ = c.Close() }()`, `_ = c`)).arranged().outside("transport", "TCP_|Handshake|Accept_M"),
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
		instead("transport/accept.go", `c.gone()`, `_ = c`)).arranged().outside("transport", "TCP_|Handshake|Accept_M"),
}
