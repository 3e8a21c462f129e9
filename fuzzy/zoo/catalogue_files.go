package zoo

// ofFiles returns a bug in the code for snapshot files, which the simulator runs on disks in memory.
func ofFiles(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Profiles: []string{"snapshots"}}
}

// testedFile returns a bug of stores or files that the simulator cannot provoke.
func testedFile(id, rule, bug, expect, where, run string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Test: &Test{where, run}, Outside: true}
}

// snapshotFiles: stores and snapshot files.
var snapshotFiles = []Mutant{
	mutant("B01", "a file gets its final name only after its bytes are synced", "it is renamed without a sync", "N50",
		instead("internal/snapfile/writer.go", `if w.err = w.f.Sync(); w.err != nil {
		return w.err
	}`, `_ = w`)).arranged().profiles("snapshots").test("internal/snapfile", "Crash"),
	mutant("B02", "the name of a finished snapshot is durable", "its directory is not synced", "N50",
		instead("internal/snapfile/writer.go", `if w.err = w.dir.fs.SyncDir(w.dir.path); w.err != nil {
		return w.err
	}`, `_ = w`)).arranged().profiles("snapshots").test("internal/snapfile", "Crash"),
	mutant("B03", "each block of a snapshot is checked before a byte of it is used", "it is not", "G18, N49",
		value("internal/snapfile/reader.go", `binary.LittleEndian.Uint32(b[size:]) != blockSum(r.snapshot.File, number, b[:size])`, `false`)).
		arranged().profiles("snapshots").test("internal/snapfile", "EachDamage"),
	mutant("B04", "a block belongs to its place", "any intact block of the file is accepted", "N5",
		value("internal/snapfile/format.go", `uint64(number)`, `uint64(0)`)).arranged().outside("internal/snapfile", "FileAndPlace"),
	mutant("B05", "a snapshot exists until its last reader is closed", "it is deleted at once", "N5",
		before("internal/snapfile/dir.go", `if d.readers[file] > 0 {`, `return d.remove(d.Path(file))`)).arranged().outside("internal/snapfile", "Discard"),
	mutant("B06", "what lies at or below the base is not in the log", "it can be read until Prune deletes it", "N4",
		value("storage/bolt.go", `span.After < hard.start.Index`, `false`)).arranged().outside("storage", "KeepsTheContract"),
	mutant("B07", "an earlier release refuses a compacted log", "it takes the rest for the whole log", "N4",
		value("storage/record.go", `h.start == raft.EntryID{} && h.snapshotIndex == 0`, `true`)).arranged().outside("storage", "ACompactedLog"),
	mutant("B08", "a member starts only with the snapshot that its store has recorded", "it starts without it", "N4",
		value("storage/boltload.go", `b.check(stored.Snapshot)`, `error(nil)`)).arranged().outside("storage", "ASnapshotOfAnother"),
	mutant("B09", "a start finishes an installation that a crash interrupted", "the old log stays", "N4",
		value("storage/boltload.go", `installInterrupted(&stored.Log, stored.Snapshot)`, `false`)).arranged().seen("camunda #4451, #4587, #10202").outside("storage", "KeepsTheContract"),
	mutant("B10", "free space is what this user may write", "the blocks that are reserved for root count, too", "N56",
		value("internal/files/free_linux.go", `s.Bavail`, `s.Bfree`)).arranged().outside("storage/storagetest/powercut", "Quota"),
	ofFiles("D19", "an old snapshot is removed once the record of the new one is durable", "it is removed once the new file is complete", "N50",
		before("internal/snapfile/writer.go", `w.renamed = true`, `_, _ = w.dir.Clean(w.file)`)),
	mutant("P45", "a file holds the snapshot that its name says", "any intact file is accepted", "N49",
		value("internal/snapfile/format.go", `raft.SnapshotID(b[idAt:sum]) != file`, `false`),
		value("internal/snapfile/format.go", `crc32.Checksum(file[:], castagnoli)`, `uint32(0)`),
		value("internal/snapfile/format.go", `found.File != file`, `false`),
		value("internal/snapfile/reader.go", `!bytes.Equal(got.Encode(), want.Encode())`, `false`)).arranged().profiles("snapshots").test("internal/snapfile", "OpenRecorded"),
	ofFiles("P46", "a start removes what an earlier process left behind", "it stays", "N50",
		value("internal/snapfile/dir.go", `f.Whole && f.ID == keep`, `true`)),
	ofFiles("P47", "a start keeps the recorded file", "it removes it with the others", "N50",
		value("internal/snapfile/dir.go", `f.Whole && f.ID == keep`, `false`)),
	testedFile("P48", "a length in a file is checked before that much memory is allocated", "it is not",
		"N5", "internal/snapfile", "SnapshotFile|EachDamage",
		value("internal/snapfile/format.go", `length > raft.SnapshotRecordBytesMax || length > size-int64(headBytes+endBytes)`, `false`)),
	testedFile("P49", "the end of a file is checked", "any end is accepted", "N5", "internal/snapfile", "EachDamage",
		value("internal/snapfile/format.go", `binary.LittleEndian.Uint32(all[length+4:]) != endSum(file, all[:length+4])`, `false`)),
	ofFiles("P55", "a snapshot leaves the reserve to the log", "it may take the whole disk", "N56",
		value("internal/pipeline/space.go", `s.Free - s.Reserve`, `s.Free`)),
	ofFiles("P56", "a snapshot that arrives takes nothing of the reserve", "the room is checked only at its beginning", "N56",
		value("internal/pipeline/incoming.go", `why == 0 && room < 0`, `false`)),
	testedFile("P59", "an entry below the base is not stored", "it is called damaged", "N59", "storage", "KeepsTheContract",
		instead("storage/bolt.go", `return nil, notStored(span.After+1, hard)`,
			`return nil, damaged(b.path, entryPlace(span.After+1), errors.New("it is missing"))`)),
	testedFile("P60", "only entries at or below the base are pruned", "the entry behind it is pruned, too", "N4", "storage", "KeepsTheContract",
		value("storage/boltlog.go", `raft.Index(binary.BigEndian.Uint64(key)) > c.start.Index || len(keys) == pruneEntriesMax`,
			`raft.Index(binary.BigEndian.Uint64(key)) > c.start.Index+1 || len(keys) == pruneEntriesMax`)),
	testedFile("P61", "a log that is replaced and its base become durable together", "the base does not become durable with it",
		"N4", "storage", "KeepsTheContract",
		instead("storage/bolt.go", `if err := putBase(tx, next.base); err != nil {
				return err
			}`, `_ = b`)),
	ofFiles("P64", "chunks have a lane of their own", "they share the lane of appends", "N64",
		instead("message.go", `return LaneSnapshot`, `return LaneBulk`)),
	ofFiles("P65", "a stream keeps to its rate", "nothing limits it", "N64",
		value("internal/pipeline/pace.go", `owed > allowed`, `false`)),
	mutant("P66", "a freeze is given up ten election timeouts after its receiver has fallen silent", "it is held for longer", "N58",
		value("internal/pipeline/outgoing.go", `o.kept != nil && o.lacking != 0 && o.acked != o.size`, `false`)).
		arranged().profiles("durable").test("internal/pipeline", "SendsWhatTheReceiverLacks"),
	testedFile("M98", "a store that is set aside is in use by nobody", "a locked store is moved, too", "N4", "storage", "SetAside_InUse",
		before("storage/lock_flock.go", `if errors.Is(err, syscall.EWOULDBLOCK) {`, `err = nil`)),
	testedFile("M99", "snapshots are set aside before the store that has recorded them", "after it", "N4", "storage", "SetAside_Each",
		before("storage/setaside.go", `err = moveStore(disk, dir, filepath.Join(dir, a.Name))`,
			`if err := moveAll(disk, dir, filepath.Join(dir, a.Name), []files.Info{{Name: BoltFile}}); err != nil { return err }`),
		instead("storage/setaside.go", `return moveAll(disk, dir, to, []files.Info{{Name: BoltFile}})`, `return nil`)),
	testedFile("P74", "the answers of a simulated state machine match one that applied each command alone", "its answers are not compared",
		"A1", "rafttest", "Simulate_FindsBroken",
		value("fuzzy/application_member.go", `!bytes.Equal(result, want.data)`, `false`)),
}
