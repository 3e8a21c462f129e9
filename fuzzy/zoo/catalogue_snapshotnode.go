package zoo

// ofTaker returns a bug in the node's code for snapshots. The simulator has its own code for this.
func ofTaker(id, rule, bug, expect, test string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Test: &Test{"node", test}, Outside: true}
}

// takers: how the node takes, sends, receives and restores snapshots.
var takers = []Mutant{
	ofTaker("P42", "a snapshot is reported once its file is complete", "before that", "N50", "AFullDiskInTheMiddle",
		before("node/snapshot.go", `return s, to.Finish(s)`, `k.conclude(t, raft.SnapshotTaken{Take: t.ID, Snapshot: s})`)),
	ofTaker("P50", "a frozen state is closed once it is written", "it is closed when its stream begins", "N58", "TestHeld_AFollower",
		before("node/held.go", `err = guarded(h.write)`, `k.closeFrozen(h.taking, h.frozen)`)),
	ofTaker("P51", "a frozen state is closed in any case", "it is not closed after an error", "N58", "TestHeld_Trouble|TestHeld_CloseEndsIt",
		instead("node/held.go", `defer k.closeFrozen(h.taking, h.frozen)`, `defer func() { if err == nil { k.closeFrozen(h.taking, h.frozen) } }()`)),
	ofTaker("P52", "a restored DurableFSM is reported once it has synced", "before that", "N57", "TestHeld_TheFileStays",
		before("node/restore.go", `if err := a.syncTo(s.ID); err != nil {`, `n.mailbox.appliedUpTo(s.ID)`)),
	ofTaker("P53", "WriteTo waits for the follower", "what it writes waits in memory", "N55", "TestHeld_HoldsAWindow",
		before("node/held.go", `if err := h.frozen.WriteTo(h.ctx, movingWriter{h, buffered}); err != nil {`, `buffered = bufio.NewWriterSize(h, 64<<20)`)),
	ofTaker("P54", "a snapshot leaves room for the log", "its size is not checked", "N56", "TestSnapshot_LeavesRoom",
		before("node/space.go", `return pipeline.Space{Free: free, Reserve: s.reserve()}.Begin(size, s.last)`, `if free >= 0 { return nil }`)),
	ofTaker("P57", "the core learns of a snapshot that was not taken", "it does not, and never asks again", "L16, L17", "TestSnapshot_TroubleWhile",
		before("node/snapshot.go", `k.note(t, result)`, `if result.Err != nil { return first }`)),
	ofTaker("P58", "entries that a snapshot replaces need not be found", "that they are missing ends the node", "N59", "TestRestore_BesideApply",
		value("node/applier.go", `a.next().replaced`, `false`)),
	ofTaker("P62", "a restoration fails if the FSM has not read everything", "the FSM may stop early", "G18", "TestRestore_Trouble",
		before("node/restore.go", `return fmt.Errorf("it did not read the snapshot to its end: %d of %d bytes", r.at, r.size)`, `if r.size > 0 { return nil }`)),
	ofTaker("P63", "a proposer of an entry that a snapshot covers is answered", "it waits forever", "L9", "TestRestore_AnswersWaiters",
		before("node/requests.go", `unknown := outcome{err: ErrOutcomeUnknown}`, `to = 0`)),
	ofTaker("P67", "Node.Snapshot is answered once the record is durable", "it is answered once the record is written",
		"N60", "TestSnapshot_IsAnsweredOnce",
		value("compact.go", `r.at <= s.covered.Index`, `r.at <= s.covered.Index || s.writing != nil && r.at <= s.writing.ID.Index`)),
	ofTaker("P69", "one frozen state at a time", "another WriteTo begins beside one that does not end", "N58", "TestSnapshot_OneAtATime",
		value("node/snapshot.go", `busy != nil`, `false`)),
	ofTaker("P70", "Close within WriteTo is refused", "it waits for itself", "N29", "TestFSM_WithinWriteTo",
		value("node/snapshot.go", `n.taker.within()`, `false`)),
	ofTaker("P79", "entries below the base are deleted as fast as writes add others", "a few are deleted at a time", "L16", "TestWriter_PrunesAsMuch",
		value("node/writer.go", `bytes < before && bytes > w.left`, `false`)),
	ofTaker("P80", "a snapshot that is finished as it is given up leaves no file", "its file stays", "N50", "TestTaker_AFileThatWasFinished",
		value("node/snapshot.go", `!k.conclude(t, result) && file != (raft.SnapshotID{})`, `false`)),
	ofTaker("P81", "a leader replaces a snapshot that it finds damaged", "its follower waits until the next is due", "L3", "TestStream_ALeaderReplaces",
		instead("node/streams.go", `s.renew()`, `_ = s`)),
	ofTaker("P83", "the memory of a chunk is reused once the chunk is written", "it is reused while the chunk is written",
		"N49", "TestReceive_ReusesTheMemory",
		before("node/receive.go", `r.do(r.machine.Chunk(r.node.now().Mono, *w.chunk))`, `r.wrote(w.chunk.Body.(raft.SnapshotChunk).Data)`)),
	ofTaker("P84", "a spare buffer is given to one chunk", "it is given to each chunk that arrives", "N49", "TestReceive_ReusesTheMemory",
		instead("node/receive.go", `s.buffers, s.bytes = s.buffers[:last], s.bytes-cap(buf)`, `_ = last`)),
	ofTaker("P73", "the bytes of snapshots bypass the core", "a chunk waits in the mailbox like any message", "N55", "TestStream_AFollowerBehind",
		before("node/handler.go", `n, taken := e.node, false`, `if _, chunk := m.Body.(raft.SnapshotChunk); chunk { return false }`)),
}
