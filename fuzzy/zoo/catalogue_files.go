package zoo

// ofFiles is a bug of the files of snapshots, which the simulator runs over disks in memory.
func ofFiles(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Profiles: []string{"snapshots"}}
}

// testedFile is a bug of stores, or of files in a way that the simulator does not bring about.
func testedFile(id, rule, bug, expect, where, run string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Test: &Test{where, run}, Outside: true}
}

// snapshotFiles: what stores and the files of snapshots do.
var snapshotFiles = []Mutant{
	{
		ID: "B01", Before: true, Rule: "a file has its bytes before it has its name", Bug: "it is renamed without a sync",
		Edits: []Edit{instead("internal/snapfile/writer.go", `if w.err = w.f.Sync(); w.err != nil {
		return w.err
	}`, `_ = w`)},
		Expect: "N50", Test: &Test{"internal/snapfile", "Crash"}, Profiles: []string{"snapshots"},
	},
	{
		ID: "B02", Before: true, Rule: "a finished snapshot has its name durably", Bug: "its directory is not synced",
		Edits: []Edit{instead("internal/snapfile/writer.go", `if w.err = w.dir.fs.SyncDir(w.dir.path); w.err != nil {
		return w.err
	}`, `_ = w`)},
		Expect: "N50", Test: &Test{"internal/snapfile", "Crash"}, Profiles: []string{"snapshots"},
	},
	{
		ID: "B03", Before: true, Rule: "each block of a snapshot is checked before a byte of it is used", Bug: "it is not",
		Edits: []Edit{value("internal/snapfile/reader.go",
			`binary.LittleEndian.Uint32(b[size:]) != blockSum(r.snapshot.File, number, b[:size])`, `false`)},
		Expect: "G18, N49", Test: &Test{"internal/snapfile", "EachDamage"}, Profiles: []string{"snapshots"},
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
	ofFiles("D19", "an old snapshot is removed once the record of the new one is durable", "once the new file is complete", "N50",
		before("internal/snapfile/writer.go", `w.renamed = true`, `_, _ = w.dir.Clean(w.file)`)),
	{
		ID: "P45", Before: true, Rule: "a file is the one that its name says", Bug: "any intact file is",
		Edits: []Edit{
			value("internal/snapfile/format.go", `raft.SnapshotID(b[idAt:sum]) != file`, `false`),
			value("internal/snapfile/format.go", `crc32.Checksum(file[:], castagnoli)`, `uint32(0)`),
			value("internal/snapfile/format.go", `found.File != file`, `false`),
			value("internal/snapfile/reader.go", `!bytes.Equal(got.Encode(), want.Encode())`, `false`),
		},
		Expect: "N49", Profiles: []string{"snapshots"}, Test: &Test{"internal/snapfile", "OpenRecorded"},
	},
	ofFiles("P46", "a start removes what an earlier process left over", "it stays", "N50",
		value("internal/snapfile/dir.go", `!isSnapshot(info.Name) || info.Name == keep.String()+wholeSuffix`, `true`)),
	ofFiles("P47", "a start keeps the recorded file", "it removes it with the others", "N50",
		value("internal/snapfile/dir.go", `!isSnapshot(info.Name) || info.Name == keep.String()+wholeSuffix`, `!isSnapshot(info.Name)`)),
	testedFile("P48", "a length in a file is checked before so much is allocated", "it is not", "N5", "internal/snapfile", "SnapshotFile|EachDamage",
		value("internal/snapfile/format.go", `length > raft.SnapshotRecordBytesMax || length > size-int64(headBytes+endBytes)`, `false`)),
	testedFile("P49", "the end of a file is checked", "any end is accepted", "N5", "internal/snapfile", "EachDamage",
		value("internal/snapfile/format.go", `binary.LittleEndian.Uint32(all[length+4:]) != endSum(file, all[:length+4])`, `false`)),
	ofFiles("P55", "a snapshot leaves the reserve to the log", "it may take all the room", "N56",
		value("internal/pipeline/space.go", `s.Free - s.Reserve`, `s.Free`)),
	ofFiles("P56", "a snapshot that arrives takes none of the reserve", "the room is checked at its beginning alone", "N56",
		value("internal/pipeline/incoming.go", `why == 0 && room < 0`, `false`)),
	testedFile("P59", "an entry below the base is not stored", "it is called damaged", "N59", "storage", "KeepsTheContract",
		instead("storage/bolt.go", `return nil, notStored(span.After+1, hard)`,
			`return nil, damaged(b.path, entryPlace(span.After+1), errors.New("it is missing"))`)),
	testedFile("P60", "what is pruned lies at or below the base", "the entry behind it goes, too", "N4", "storage", "KeepsTheContract",
		value("storage/boltlog.go", `raft.Index(binary.BigEndian.Uint64(key)) > c.start.Index || len(keys) == pruneEntriesMax`,
			`raft.Index(binary.BigEndian.Uint64(key)) > c.start.Index+1 || len(keys) == pruneEntriesMax`)),
	testedFile("P61", "a log that is replaced and its base become durable together", "the base does not", "N4", "storage", "KeepsTheContract",
		instead("storage/bolt.go", `if err := putBase(tx, next.base); err != nil {
				return err
			}`, `_ = b`)),
	ofFiles("P64", "chunks have a lane of their own", "they share that of appends", "N64",
		instead("message.go", `return LaneSnapshot`, `return LaneBulk`)),
	ofFiles("P65", "a stream keeps to its rate", "nothing limits it", "N64",
		value("internal/pipeline/pace.go", `owed > allowed`, `false`)),
	{
		ID: "P66", Before: true, Rule: "a freeze is given up ten election timeouts after its receiver has fallen silent", Bug: "it is held for longer",
		Edits:  []Edit{value("internal/pipeline/outgoing.go", `o.kept != nil && o.lacking != 0 && o.acked != o.size`, `false`)},
		Expect: "N58", Profiles: []string{"durable"}, Test: &Test{"internal/pipeline", "SendsWhatTheReceiverLacks"},
	},
	testedFile("M98", "a store that is set aside is in use by nobody", "one that is locked is moved, too", "N4", "storage", "SetAside_InUse",
		before("storage/lock_flock.go", `if errors.Is(err, syscall.EWOULDBLOCK) {`, `err = nil`)),
	testedFile("M99", "snapshots are set aside before the store that has recorded them", "after it", "N4", "storage", "SetAside_Each",
		before("storage/setaside.go", `err = moveStore(disk, dir, filepath.Join(dir, a.Name))`,
			`if err := moveAll(disk, dir, filepath.Join(dir, a.Name), []files.Info{{Name: BoltFile}}); err != nil { return err }`),
		instead("storage/setaside.go", `return moveAll(disk, dir, to, []files.Info{{Name: BoltFile}})`, `return nil`)),
	testedFile("P74", "a simulated state machine answers like one that applied each command alone", "its answers are not compared", "A1", "rafttest", "Simulate_FindsBroken",
		value("fuzzy/application_member.go", `!bytes.Equal(result, want.data)`, `false`)),
}
