package zoo

// surroundings: the node, the store and the transport around the core, which the simulator replaces by its
// own; their tests catch these.
var surroundings = []Mutant{
	{
		ID: "D05", Rule: "a truncation and the entries after it are one write", Bug: "they are two writes",
		Edits: []Edit{before("storage/bolt.go", `return b.update("writing to", func(tx *bbolt.Tx) error { return b.put(tx, next, lineage, w) })`, `
			if w.Log != nil && len(w.Log.Entries) > 0 && w.Log.After != next.last {
				cut := b.written
				if err := b.update("cutting", func(tx *bbolt.Tx) error {
					if err := b.writeLog(tx, &cut, &raft.LogWrite{After: w.Log.After}); err != nil { return err }
					return tx.Bucket(hardBucket).Put(recordKey, cut.encode())
				}); err != nil { return err }
				b.written, next.last, next.bytes = cut, cut.last, cut.bytes
			}`)},
		Expect:  "N4, G2",
		Test:    &Test{"storage", ""},
		Outside: true,
	},
	{
		ID: "D06", Before: true, Rule: "a log that ends too early is reported as damaged", Bug: "it is taken for a shorter log",
		Edits:  []Edit{value("storage/boltlog.go", `log.Last != content.last`, `false`)},
		Expect: "G5, G3", Seen: "pebble #453; PAR (FAST'18); NATS truncates .blk files",
		Test:    &Test{"storage", "Damaged"},
		Outside: true,
	},
	{
		ID: "D08", Rule: "checksums are verified", Bug: "they are not",
		Edits:  []Edit{value("entry.go", `got != want`, `false && got != want`)},
		Expect: "N5", Seen: "hashicorp/raft-wal does not verify each read",
		Test:    &Test{".", "Entry|Record"},
		Outside: true,
	},
	{
		ID: "D09", Before: true, Rule: "a record names its place", Bug: "any intact record is accepted",
		Edits:   []Edit{value("storage/bolt.go", `e.Index != i`, `false`)},
		Expect:  "N4, G2",
		Test:    &Test{"storage", "ARecordInThePlaceOfAnother"},
		Outside: true,
	},
	{
		ID: "D11", Before: true, Rule: "the name of a new file is durable", Bug: "its directory is not synced",
		Edits:  []Edit{before("storage/boltstore.go", `if err := files.OS.SyncDir(dir)`, `return nil`)},
		Expect: "N6", Seen: "All file systems are not created equal (OSDI'14)",
		Test:    &Test{"storage", "ANewStoreSurvives"},
		Outside: true,
	},
	{
		ID: "D12", Rule: "a durable state machine continues at its applied index", Bug: "all entries are applied to it again",
		Edits:  []Edit{before("node/applier.go", `a := applier{calls: newFSMCalls()}`, `return raft.EntryID{}, nil`)},
		Expect: "N5", Seen: "etcd v3.5 (#13766, #14685)",
		Test:    &Test{"node", "DurableFSM"},
		Outside: true,
	},
	{
		ID: "D25", Rule: "a write with a new term is not merged into the one before it", Bug: "it is, and its term is lost",
		Edits:  []Edit{value("internal/pipeline/merge.go", `queue[n].Hard == nil`, `true`)},
		Expect: "N42", MustKill: true,
		Test: &Test{"internal/pipeline", "Merge"},
	},
	{
		ID: "R29", Rule: "an old write makes nothing of the new log durable", Bug: "the log cache drops entries that are not stored",
		Edits:  []Edit{value("internal/pipeline/cache.go", `generation != c.generation`, `false`)},
		Expect: "N43", Profiles: []string{"slow", "elections", "disk"},
		Test: &Test{"internal/pipeline", "Cache"},
	},
	{
		ID: "X05", Before: true, Rule: "heartbeats do not wait behind entries", Bug: "they share a connection",
		Edits: []Edit{before("message.go", `switch m.Body.(type) {
	case AppendRequest, AppendReply, AppendConflict, InstallSnapshot, SnapshotProgress:`, `return LaneBulk`)},
		Expect: "L4", Seen: "etcd splits its streams", Profiles: []string{"calm"},
		Test: &Test{"node", "HeartbeatsDoNotWait"},
	},
	{
		ID: "X06", Rule: "queues are bounded", Bug: "they are not",
		Edits:   []Edit{value("node/sender.go", `s.node.cfg.SendQueueMax`, `1<<30`)},
		Expect:  "N10",
		Test:    &Test{"node", "Sender"},
		Outside: true,
	},
	{
		ID: "X02", Rule: "a length is checked before memory is allocated", Bug: "it is not checked",
		Edits:  []Edit{value("transport/frame.go", `uint64(body) > uint64(bodyMax)`, `false`)},
		Expect: "N10", Seen: "etcd #5386, #21874; cubefs #4095",
		Test:    &Test{"transport", ""},
		Outside: true,
	},
	{
		ID: "X07", Rule: "a length is compared as an unsigned number", Bug: "it is converted to a signed one first",
		Edits:  []Edit{value("transport/frame.go", `uint64(body) > uint64(bodyMax)`, `int32(body) > int32(bodyMax)`)},
		Expect: "N10", Seen: "etcd #21874",
		Test:    &Test{"transport", ""},
		Outside: true,
	},
	arranged(outsideOf("F17", "an uninitialized member that is called for another incarnation was emptied", "it waits to be added forever",
		"TestWiped_AMember", value("node/identity.go", `v.Misnames(h)`, `false`))),
	arranged(outsideOf("F18", "a member of the cluster serves, even if a peer calls for another incarnation of it", "any peer stops it",
		"TestWiped_AConfused", value("handshake/admission.go", `v.uninitialized()`, `true`),
		value("node/identity.go", `i.cluster == (raft.ClusterID{}) && i.term.Load() == 0`, `true`))),
	arranged(outsideOf("F19", "a call by a member without a term proves nothing", "a bootstrap that is begun anew is stopped",
		"TestWiped_AConfused", value("handshake/admission.go", `h.Term > 0`, `true`))),
	arranged(outsideOf("F20", "a peer that the list does not name proves nothing", "an earlier cluster's member stops a new one",
		"TestWiped_AConfused", value("handshake/admission.go", `(listed || len(v.Initial.Members) == 0)`, `true`))),
}
