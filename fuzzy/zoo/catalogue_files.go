package zoo

// snapshotFiles: what stores and snapshot files do besides what the simulator asks of its own disks; their tests catch
// these.
var snapshotFiles = []Mutant{
	{
		ID: "B01", Before: true, Rule: "a file has its bytes before it has its name", Bug: "it is renamed without a sync",
		Edits: []Edit{instead("internal/snapfile/writer.go", `if w.err = w.f.Sync(); w.err != nil {
		return w.err
	}`, `_ = w`)},
		Expect: "N6", Test: &Test{"internal/snapfile", "Crash"}, Outside: true,
	},
	{
		ID: "B02", Before: true, Rule: "a finished snapshot has its name durably", Bug: "its directory is not synced",
		Edits: []Edit{instead("internal/snapfile/writer.go", `if w.err = w.dir.fs.SyncDir(w.dir.path); w.err != nil {
		return w.err
	}`, `_ = w`)},
		Expect: "N6", Test: &Test{"internal/snapfile", "Crash"}, Outside: true,
	},
	{
		ID: "B03", Before: true, Rule: "each block of a snapshot is checked before a byte of it is used", Bug: "it is not",
		Edits: []Edit{value("internal/snapfile/reader.go",
			`binary.LittleEndian.Uint32(b[size:]) != blockSum(r.snapshot.File, number, b[:size])`, `false`)},
		Expect: "N5", Test: &Test{"internal/snapfile", "EachDamage"}, Outside: true,
	},
	{
		ID: "B04", Before: true, Rule: "a block belongs to its place", Bug: "any intact block of the file is accepted",
		Edits:  []Edit{value("internal/snapfile/format.go", `uint64(number)`, `uint64(0)`)},
		Expect: "N5", Test: &Test{"internal/snapfile", "FileAndPlace"}, Outside: true,
	},
	{
		ID: "B05", Before: true, Rule: "a snapshot is there until its last reader is closed", Bug: "it is deleted at once",
		Edits:  []Edit{before("internal/snapfile/dir.go", `if d.readers[file] > 0 {`, `return d.remove(d.Path(file))`)},
		Expect: "N5", Test: &Test{"internal/snapfile", "Discard"}, Outside: true,
	},
	{
		ID: "B06", Before: true, Rule: "what lies at or below the base is not in the log", Bug: "it is read until Prune deletes it",
		Edits:  []Edit{value("storage/bolt.go", `span.After < hard.start.Index`, `false`)},
		Expect: "N4", Test: &Test{"storage", "KeepsTheContract"}, Outside: true,
	},
	{
		ID: "B07", Before: true, Rule: "an earlier release refuses a compacted log", Bug: "it takes the rest for all of it",
		Edits:  []Edit{value("storage/record.go", `h.start == raft.EntryID{} && h.snapshotIndex == 0`, `true`)},
		Expect: "N4", Test: &Test{"storage", "ACompactedLog"}, Outside: true,
	},
	{
		ID: "B08", Before: true, Rule: "a member starts only with the snapshot that its store has recorded", Bug: "it starts without it",
		Edits:  []Edit{value("storage/boltload.go", `b.check(stored.Snapshot)`, `error(nil)`)},
		Expect: "N4", Test: &Test{"storage", "ASnapshotOfAnother"}, Outside: true,
	},
	{
		ID: "B09", Before: true, Rule: "a start finishes an installation that a crash interrupted", Bug: "the old log stays",
		Edits:  []Edit{value("storage/boltload.go", `lacks(&stored.Log, stored.Snapshot)`, `false`)},
		Expect: "N4", Seen: "camunda #4451, #4587, #10202",
		Test: &Test{"storage", "KeepsTheContract"}, Outside: true,
	},
	{
		ID: "B10", Before: true, Rule: "free is what this user may write", Bug: "the blocks that are kept for root count, too",
		Edits:  []Edit{value("internal/files/free_linux.go", `s.Bavail`, `s.Bfree`)},
		Expect: "N56", Test: &Test{"storage/storagetest/powercut", "Quota"}, Outside: true,
	},
}
