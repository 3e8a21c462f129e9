package zoo

// surroundings: mutants in the node, the store and the transport around the core. The simulator has its own versions of
// these, so only the tests of the real ones catch these mutants.
var surroundings = []Mutant{
	mutant("D05", "a truncation and the entries after it are one write", "they are two writes", "N4, G2",
		before("storage/bolt.go", `return b.update("writing to", func(tx *bbolt.Tx) error { return b.put(tx, next, lineage, w) })`, `
			if w.Log != nil && len(w.Log.Entries) > 0 && w.Log.After != next.last {
				cut := b.written
				if err := b.update("cutting", func(tx *bbolt.Tx) error {
					if err := b.writeLog(tx, &cut, &raft.LogWrite{After: w.Log.After}); err != nil { return err }
					return tx.Bucket(hardBucket).Put(recordKey, cut.encode())
				}); err != nil { return err }
				b.written, next.last, next.bytes = cut, cut.last, cut.bytes
			}`)).outside("storage", ""),
	mutant("D06", "a log that ends too early is reported as damaged", "it is taken for a shorter log", "G5, G3",
		value("storage/boltlog.go", `log.Last != content.last`, `false`)).arranged().seen("pebble #453; PAR (FAST'18); NATS truncates .blk files").outside("storage", "Damaged"),
	mutant("D08", "checksums are verified", "they are not", "N5",
		value("entry.go", `got != want`, `false && got != want`)).seen("hashicorp/raft-wal does not verify each read").outside(".", "Entry|Record"),
	mutant("D09", "a record names its place", "any intact record is accepted", "N4, G2",
		value("storage/bolt.go", `e.Index != i`, `false`)).arranged().outside("storage", "ARecordInThePlaceOfAnother"),
	mutant("D11", "the name of a new file is durable", "its directory is not synced", "N6",
		before("storage/boltstore.go", `if err := files.OS.SyncDir(dir)`, `return nil`)).
		arranged().seen("All file systems are not created equal (OSDI'14)").outside("storage", "ANewStoreSurvives"),
	mutant("D12", "a durable state machine continues at its applied index", "all entries are applied to it again", "N5",
		before("node/applier.go", `a := applier{calls: newFSMCalls()}`, `return raft.EntryID{}, nil`)).seen("etcd v3.5 (#13766, #14685)").outside("node", "DurableFSM"),
	mutant("D25", "a write with a new term is not merged into the one before it", "it is, and its term is lost", "N42",
		value("internal/pipeline/merge.go", `queue[n].Hard == nil`, `true`)).test("internal/pipeline", "Merge").must(),
	mutant("R29", "the completion of an old write makes nothing of the new log durable", "the log cache drops entries that are not stored", "N43",
		value("internal/pipeline/cache.go", `generation != c.generation`, `false`)).profiles("slow", "elections", "alone").test("internal/pipeline", "Cache"),
	mutant("X05", "heartbeats do not wait behind entries", "they share a connection", "L4",
		before("message.go", `switch m.Body.(type) {
	case AppendRequest, AppendReply, AppendConflict, InstallSnapshot, SnapshotProgress:`, `return LaneBulk`)).arranged().seen("etcd splits its streams").profiles("calm").test("node", "HeartbeatsDoNotWait"),
	mutant("X06", "queues are bounded", "they are not", "N10",
		value("node/sender.go", `s.node.cfg.SendQueueMax`, `1<<30`)).outside("node", "Sender"),
	mutant("X02", "a length is checked before memory is allocated", "it is not checked", "N10",
		value("transport/frame.go", `uint64(body) > uint64(bodyMax)`, `false`)).seen("etcd #5386, #21874; cubefs #4095").outside("transport", ""),
	mutant("X07", "a length is compared as an unsigned number", "it is converted to a signed one first", "N10",
		value("transport/frame.go", `uint64(body) > uint64(bodyMax)`, `int32(body) > int32(bodyMax)`)).seen("etcd #21874").outside("transport", ""),
	outsideOf("F17", "an uninitialized member was emptied if a peer calls it as another incarnation", "it waits to be added forever",
		"TestWiped_AMember", value("node/identity.go", `v.Misnames(h)`, `false`)).arranged(),
	outsideOf("F18", "a member that has a term serves, even if a peer calls it as another incarnation", "any peer stops it",
		"TestWiped_AConfused", value("handshake/admission.go", `v.uninitialized()`, `true`),
		value("node/identity.go", `i.cluster == (raft.ClusterID{}) && i.term.Load() == 0`, `true`)).arranged(),
	outsideOf("F19", "a call by a member without a term proves nothing", "it stops a bootstrap that is begun anew",
		"TestWiped_AConfused", value("handshake/admission.go", `h.Term > 0`, `true`)).arranged(),
	outsideOf("F20", "a call by a peer that the list does not name proves nothing", "a member of an earlier cluster stops a new one",
		"TestWiped_AConfused", value("handshake/admission.go", `(listed || len(v.Initial.Members) == 0)`, `true`)).arranged(),
}
