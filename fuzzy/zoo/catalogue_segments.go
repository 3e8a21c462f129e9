package zoo

// ofSegments returns a bug of the log in segments, which the simulator runs on disks in memory.
func ofSegments(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{
		ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect,
		Profiles: []string{"segments"},
	}
}

// segmentLogs: how a log in segments is written, read, and recovered.
var segmentLogs = []Mutant{
	ofSegments("U01", "entries are durable before they are acknowledged", "they are written and not synced", "N78",
		instead("internal/segments/append.go", `if err := l.flush(); err != nil {
		return err
	}
	if err := l.current().file.Datasync(); err != nil {
		return err
	}`, `if err := l.flush(); err != nil { return err }`)),
	ofSegments("U02", "what is synced was written before", "the sync comes first", "N78",
		instead("internal/segments/append.go", `if err := l.flush(); err != nil {
		return err
	}
	if err := l.current().file.Datasync(); err != nil {
		return err
	}`, `if err := l.current().file.Datasync(); err != nil { return err }
if err := l.flush(); err != nil { return err }`)),
	ofSegments("U03", "a batch belongs to the present use of its file", "a batch of an earlier use is accepted", "N78, N79",
		value("internal/segments/format.go", `binary.LittleEndian.Uint64(b) == salt`, `true`)),
	// No simulated disk writes to a wrong place.
	mutant("U04", "a batch belongs to its place", "it is accepted at any other", "-",
		value("internal/segments/format.go", `binary.LittleEndian.Uint64(b[8:]) == uint64(offset)`, `true`)).arranged().outside("internal/segments", "Place"),
	ofSegments("U05", "the checksum of a batch covers its records", "it covers its head alone", "N79",
		value("internal/segments/format.go", `crc32.Update(crc32.Checksum(b[:64], castagnoli), castagnoli, sums)`, `crc32.Checksum(b[:64], castagnoli)`)).test("internal/segments", "Place"),
	ofSegments("U06", "a start checks a batch before it accepts it", "it does not", "N79",
		value("internal/segments/scan.go", `reason == nil && batchSum(b, s.sums) != h.sum`, `false`)).test("internal/segments", "Damage_EachByte"),
	ofSegments("U07", "a truncation still holds after a restart", "the dropped entries are reported again", "N78, N79",
		value("internal/segments/recover.go", `r.observing && after.Index < r.found.Log.Last.Index`, `false`)),
	ofSegments("U08", "a start forgets the places of truncated entries", "it keeps them", "N78",
		instead("internal/segments/recover.go", `x.truncate(after)`, `x.last = after`)),
	ofSegments("U09", "a reset drops all entries", "a start finds them again", "N78, N79",
		value("internal/segments/recover.go", `h.epoch < l.catalog.Epoch`, `false`)),
	ofSegments("U10", "a reset begins a new epoch", "it does not", "N78, N79",
		instead("internal/segments/append.go", `next.Epoch++`, `_ = next`)),
	ofSegments("U11", "damage to what was synced is refused", "the log is truncated there", "N79",
		value("internal/segments/recover.go", `synced > offset`, `false`)),
	ofSegments("U12", "later batches prove what was synced", "only earlier ones do", "N79",
		value("internal/segments/recover.go", `max(synced, rest.synced)`, `synced`)),
	ofSegments("U13", "each use of a file has a new salt", "all uses have the same salt", "N78, N79",
		value("internal/segments/prepare.go", `l.owner.Salt()`, `uint64(7)`)),
	ofSegments("U14", "a segment gets its name once its head is durable", "it has its name before", "N79",
		instead("internal/segments/prepare.go", `err = f.Sync()`, `_ = f`)),
	ofSegments("U15", "a segment is listed once its name is durable", "its directory is not synced", "N79",
		instead("internal/segments/prepare.go", `if err := errors.Join(l.fs.Rename(name, s.path), l.fs.SyncDir(l.dir)); err != nil {
		return nil, errors.Join(err, l.drop(name), l.setBack(s, name, err))
	}`, `if err := l.fs.Rename(name, s.path); err != nil { return nil, err }`)),
	ofSegments("U16", "a file is reused once its new name is durable", "its directory is not synced", "N79",
		instead("internal/segments/prepare.go", `if err := l.fs.SyncDir(l.dir); files.NoDescriptor(err) || files.NoRoom(err) {
		return l.fs.Remove(spare)
	} else if err != nil {
		return err
	}`, ``)).test("internal/segments", "Crash_EveryImage"),
	ofSegments("U17", "a start writes again what was not known to be synced", "it only syncs it, which does nothing after a failed sync", "N78",
		value("internal/segments/begin.go", `max(r.synced, headBytes)`, `l.end`)),
	ofSegments("U18", "a start makes durable what it has found", "it does not sync", "N78",
		instead("internal/segments/begin.go", `return f.Sync()`, `return nil`)),
	ofSegments("U19", "the rest of an interrupted write never follows what a later process has written", "it does, if it fits", "N78, N79",
		value("internal/segments/recover.go", `h.synced < before`, `false`)).test("internal/segments", "Earlier"),
	ofSegments("U20", "a segment is listed before anything is written to it", "only every other one is", "N78",
		instead("internal/segments/prepare.go", `if err := l.owner.Keep(next); err != nil {
		return errors.Join(err, s.file.Close())
	}
	l.catalog = next
	l.end, l.synced = headBytes, headBytes`, `if n := len(next.Listed); n < 2 || n%2 == 1 {
if err := l.owner.Keep(next); err != nil { return err }
}
l.catalog = next
l.end, l.synced = headBytes, headBytes`)),
	ofSegments("U21", "a segment is given up once all its entries are below the base", "it is given up with one entry above the base, too", "N78",
		value("internal/segments/prepare.go", `first.last <= l.index.start.Index`, `first.last <= l.index.start.Index+1`)),
	ofSegments("U22", "a mark of the index names the entry at its place", "it is off by one", "N43, N78",
		instead("internal/segments/index.go", `at.left = len(entries) - k`, `at.left = len(entries) - k - 1`)),
	ofSegments("U23", "the recorded commit index is at most the end of the log", "it is recorded as it is", "N79",
		value("internal/segments/append.go", `min(max(l.commit, hint), last)`, `max(l.commit, hint)`)).test("internal/segments", "KeepsTheHint"),
	ofSegments("U24", "a segment is synced before the next one is begun", "it is not", "N78, N79",
		instead("internal/segments/prepare.go", `if err := l.sync(); err != nil {
		return err
	}
	return l.advance(headBytes + bytes)`, `if err := l.flush(); err != nil { return err }
l.writer.dirty = false
return l.advance(headBytes + bytes)`)),
	ofSegments("U25", "a truncation drops the places of entries at once", "readers still find them", "N43, N81",
		instead("internal/segments/append.go", `l.index.truncate(p.after)`, `l.index.last = p.after`)),
	ofSegments("U26", "a reader resumes at its place only in the same log", "it does so after a truncation, too", "N43, N78",
		value("internal/segments/read.go", `c.next == i && c.cuts == x.cuts && c.segment == s.segment`, `c.next == i && c.segment == s.segment`)),
	ofSegments("U27", "a leader whose disk is full refuses proposals", "it accepts them", "N82",
		value("internal/pipeline/fulldisk.go", `full == nil || !leads`, `true`)),
	ofSegments("U28", "a member continues when there is room again", "its log stays full", "N82",
		instead("internal/segments/prepare.go", `if l.room = err; err == nil {
		l.prepared = s
	}`, `if err != nil { l.room = err } else { l.prepared = s }`)),
	ofSegments("U29", "a leader whose disk is full transfers its leadership", "it stays", "L3",
		value("internal/pipeline/fulldisk.go", `now < h.next || len(voters) == 0`, `true`)).profiles("segments").test("internal/pipeline", "FullDiskTransfer"),
	ofSegments("U30", "a leader whose disk is full asks one voter after another", "it asks the same one again and again", "L3",
		instead("internal/pipeline/fulldisk.go", `h.asked = following(voters, h.asked)`, `h.asked = voters[0]`)).profiles("segments").test("internal/pipeline", "FullDiskTransfer"),
	// The simulator has its own loop around the core.
	mutant("U31", "a node whose disk is full transfers its leadership", "it stays leader, and refuses proposals", "-",
		value("node/room.go", `full == nil || !n.leads()`, `true`)).arranged().outside("node", "AnotherDiskHasRoom"),
	ofSegments("U32", "a process writes a mark before anything else", "it does so only behind entries that are not marked", "N78, N79",
		instead("internal/segments/begin.go", `return l.mark()`, `return l.Mark()`)).test("internal/segments", "Earlier"),
	ofSegments("U33", "once a start has synced what it found, that is known to be durable", "it is known once something is written", "N79",
		instead("internal/segments/begin.go", `return l.mark()`, `return nil`)).test("internal/segments", "Mark_"),
	ofSegments("U34", "a segment that has no room for a mark is marked in the catalog", "it is not marked", "N79",
		instead("internal/segments/append.go", `if err := l.owner.Keep(l.Catalog()); err != nil {
		return l.fail(err)
	}
	l.marked = true
	return nil`, `return nil`)).test("internal/segments", "WhereNoMarkFits"),
	// In the simulator, a failed start ends the process.
	mutant("U35", "reading a log again begins with an empty list", "each of its segments is listed twice", "-",
		instead("internal/segments/recover.go", `l.segments, l.cursors, l.end, l.commit, l.marked = nil, [cursorsMax]cursor{}, 0, 0, false
	return err`, `return nil`)).arranged().outside("internal/segments", "Recover_Again"),
	// In the simulator, a full disk has room again before a write waits for long.
	mutant("U36", "a write that needs room gives up segments that are not needed", "it does so only before its first part", "-",
		value("internal/segments/prepare.go", `slices.ContainsFunc(l.writer.pending, func(p piece) bool { return p.segment == first })`,
			`len(l.writer.pending) > 0`)).arranged().outside("internal/segments", "AWriteMakesRoom"),
	ofSegments("U37", "a segment has all its room before it is used", "the last part of it is missing", "N78, N79, L3",
		value("internal/segments/prepare.go", `written == bytes`, `written+int64(len(zeros)) >= bytes`)).test("internal/segments", "Prepare"),
	// Simulated syncs use neither CPU time nor disk time.
	mutant("U38", "the filling of a segment pauses for the log", "there are no pauses", "-",
		value("internal/segments/prepare.go", `!l.hurries(written, bytes)`, `false`)).arranged().outside("internal/segments", "PausesWhileThereIsTime"),
	mutant("U39", "the filling does not pause while the log waits for a segment", "only a full segment speeds up the next one", "-",
		value("internal/segments/prepare.go", `l.awaited > 0 || l.room != nil`, `l.room != nil`)).arranged().outside("internal/segments", "DoesNotPauseWhileTheLogWaits"),
	mutant("U40", "a new segment is synced a little at a time", "it is synced at its end", "-",
		value("internal/segments/prepare.go", `written-synced < l.sizes.FillBytes`, `true`)).arranged().outside("internal/segments", "NeverLeavesMuchToOneSync"),
	testedFirst("U41", "a log that waits does not wait for zeros", "all of the segment is filled", "internal/segments", "WritesFewZerosInAHurry",
		value("internal/segments/prepare.go", `f.Allocate(bytes)`, `errors.ErrUnsupported`)),
	testedFirst("U42", "where a file system cannot allocate, zeros are written", "no segment can be made", "internal/segments", "WritesFewZerosInAHurry",
		value("internal/segments/prepare.go", `err == nil || files.NoRoom(err)`, `true`)),
	testedFirst("U43", "closing a log ends the filling of a segment", "it waits for all of it", "internal/segments", "Close_EndsAFill",
		value("internal/segments/prepare.go", `!l.closing.Load()`, `true`)),
	testedFirst("U44", "a prepared segment that is too small makes room for a larger one", "both have to fit", "storage", "ReplacesAPreparedSegment",
		instead("internal/segments/prepare.go", `l.dismissed, err = before.path, before.file.Close()`, `err = before.file.Close()`)),
	testedFirst("U45", "a log without a file descriptor waits for one", "it ends", "storage", "WaitsForAFileDescriptor",
		value("storage/log.go", `!isDiskFull(err) && !files.NoDescriptor(err)`, `!isDiskFull(err)`)),
	testedFirst("U46", "the reason why the next segment cannot be made is reported early", "only a full disk is", "storage", "ReportsEarly",
		value("storage/log.go", `!errors.Is(err, segments.ErrClosed)`, `isDiskFull(err)`)),
	testedFirst("U47", "where the file system reports free space, attempts are cheap and repeated soon", "the duration of the last one sets the pause",
		"storage", "RetryAfter",
		value("storage/log.go", `l.log.Full()`, `false`)),
	testedFirst("U48", "outdated findings about the disk do not count", "an attempt notes its result although others have found out more since",
		"storage", "AnOutdatedReport",
		instead("storage/log.go", `defer l.preparing.Unlock()`, `l.preparing.Unlock()`)),
	mutant("U50", "later batches prove what was synced, whatever is damaged before them", "nothing behind a damaged head is read", "N79",
		instead("internal/segments/scan.go", `r.begins = r.begins || at == offset`, `if r.begins = r.begins || at == offset; !r.begins { break }`)).profiles("segments"),
	testedFirst("U51", "a file that is reused has the size of a segment", "it may be smaller", "storage", "ALargerSegment",
		value("internal/segments/begin.go", `size == l.sizes.SegmentBytes`, `size <= l.sizes.SegmentBytes`)),
	tested("U52", "a log that may still be in use is not removed", "it is, if the transaction that was to move it has failed",
		"storage", "Migrate_EachSync",
		instead("storage/migrate.go", `err = m.become(target)
	if err == nil {
		err = target.tidy()
	}`, `err = errors.Join(m.become(target), target.tidy())`)),
	tested("U53", "merged writes leave the entries of others alone", "they are overwritten", "internal/pipeline", "LeavesTheMergedWrites",
		instead("internal/pipeline/merge.go", `if !m.owned {
		entries = m.log.Entries[:keep:keep]
	}`, ``)),
	tested("U54", "a log is pruned at least every 50 ms", "it is only if nobody reads in between", "node", "Writer_PrunesAsMuch",
		before("node/writer.go", `if w.depth() > 0 && time.Since(w.prunedAt) < pruneEvery`, `defer func() { w.prunedAt = time.Now() }()`)),
	tested("U55", "the size of the log is measured after pruning", "it is the size before, until the next write", "storage", "Log_KeepsTheContract",
		instead("storage/log.go", `l.logBytes.Store(l.log.Bytes())`, ``)),
	testedFirst("U56", "while a log is being moved on, no other segment is prepared", "the one after the next is", "internal/segments", "Wanted_",
		value("internal/segments/prepare.go", `l.prepared != nil || l.moving`, `l.prepared != nil`)),
	testedFirst("U57", "an attempt to make a segment is repeated until it succeeds", "it is not while the present segment is young",
		"internal/segments", "Wanted_",
		value("internal/segments/prepare.go", `l.room != nil || s.limit > s.Bytes/4`, `s.limit > s.Bytes/4`)),
	testedFirst("U58", "a Write that waits for zeros ends when its member ends", "the end of a member waits for all zeros", "storage", "GiveUpEndsAFill",
		instead("storage/log.go", `l.log.GiveUp()`, ``)),
	testedFirst("U60", "a log that writes a little at a time gets zeros", "it gets room that is merely allocated, and waits longer for each sync", "internal/segments", "WritesFewZerosInAHurry",
		value("internal/segments/prepare.go", `l.large.Load()`, `true`)),
	testedFirst("U59", "a passing lack of file descriptors costs no file", "a file that waits to be reused is removed", "storage", "KeepsItsSpareFiles",
		value("internal/segments/prepare.go", `files.NoDescriptor(err) && s.Bytes == l.sizes.SegmentBytes`, `false`)),
	testedFirst("U61", "a file that could not become a segment gets its old name back", "it gets another one, and may have both after a power cut",
		"internal/segments", "APassingLack",
		value("internal/segments/prepare.go", `filepath.Base(name) == newName`, `true`)),
	testedFirst("U62", "files that wait to be reused make room for a larger one", "they do only where the file system reports free space",
		"internal/segments", "TakesTheRoomOfSpareFiles",
		value("internal/segments/prepare.go", `files.NoRoom(err) && l.dropSpare()`, `false`)),
	testedFirst("U63", "a slow attempt delays the next one only until a write has made the segment", "it delays it in any case",
		"storage", "PreparesSoonAfterAWriteHas",
		value("storage/log.go", `l.log.Room() == nil`, `false`)),
	testedFirst("U64", "an exhausted quota counts as a full disk", "it is another error, and ends the member",
		"storage", "PrunesWithoutRoomForADirectory",
		value("internal/files/files.go", `errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)`, `errors.Is(err, syscall.ENOSPC)`)),
	testedFirst("U65", "the log cache keeps nothing for a silent member", "it keeps all that such a member lacks",
		".", "ServedWaitsForNobodyWhoIsSilent",
		value("corestatus.go", `!c.silent(p)`, `true`)),
	tested("U66", "a follower holds no entries for others", "it keeps what it held as leader until its next snapshot",
		".", "Compact_HoldsWhatAFollowerNeeds",
		instead("append.go", `c.compact() // what it has held for others while it led, which may fill its disk`, ``)),
	tested("U72", "a leader that may lead again holds what its followers need", "it compacts that at once", ".", "Compact_HoldsWhatAFollowerNeeds",
		before("raft.go", `c.trace(TraceEvent{Kind: TraceFollower, Peer: leader.ID})`, `c.compact()`)),
	tested("U67", "a start holds no entries for followers", "what an earlier process held stays until the next snapshot", ".", "Restore_AtTheStart",
		instead("raft.go", `c.compact() // the earlier life may have held entries for followers`, ``)),
	tested("U68", "entries that an FSM has lost are not compacted", "all entries that it had once synced are", ".", "KeepsWhatTheFSMHasLost",
		value("compact.go", `s.restoring == nil && c.log.applied < committed`, `false`)),
	tested("U74", "nothing that was read before a restoration is applied after it", "it is", "node", "AppliesNothingThatWasReadBefore",
		instead("node/restore.go", `a.ahead = nil`, ``)),
	testedFirst("U75", "a log that takes its room in advance needs no reserve", "a snapshot that would shorten it leaves the reserve free",
		"internal/pipeline", "Reserve",
		instead("internal/pipeline/space.go", `log = 0`, ``)),
	testedFirst("U76", "a log without room is shortened", "it is only once a snapshot is due", "node", "IsTakenForALogWithoutRoom",
		instead("node/room.go", `w.snapshot()`, ``)),
	testedFirst("U78", "entries leave room for the record of the snapshot that frees more", "they may take it, and the record waits behind them for room",
		"node", "IsRecordedBeforeTheRoomIsUsedUp",
		value("internal/pipeline/allowance.go", `a.spent || a.bytes+bytes > most`, `false`)),
	testedFirst("U81", "heartbeats and votes pass appends that wait for room", "they wait with them, or find no room",
		"node", "Mailbox_HoldsAppendsBack",
		value("node/mailbox.go", `cfg.ReceivedMax/2`, `cfg.ReceivedMax`)),
	testedFirst("U82", "each new leader may have some of its entries stored on a full disk", "only the first leader may",
		"internal/pipeline", "Allowance_IsForEachLeader",
		value("internal/pipeline/allowance.go", `!full || term > a.term`, `!full`)),
	testedFirst("U83", "a lack of file descriptors asks for no snapshot", "it asks for one each time", "node", "IsTakenForALogWithoutRoom",
		value("node/room.go", `full != nil && isFull(full)`, `full != nil`)),
	testedFirst("U79", "a log without room gets another snapshot when it has grown", "it gets only one until it has room",
		"internal/pipeline", "Shorten_",
		value("internal/pipeline/room.go", `written-s.written < some && now < s.askedAt+shortenAgain`, `true`)),
	ofSnapshots("U80", "a snapshot that was asked for makes the log shorter", "only if many entries go", "N60",
		instead("compact.go", `for _, r := range c.snaps.asked {
		if r.at <= c.snaps.covered.Index {
			return true
		}
	}`, ``)).profiles("snapshots", "swarm").or("ARequestIsWorthIt"),
	testedFirst("U91", "a file of another program does not count as damaged", "it does", "storage", "AFileOfAnother",
		value("storage/boltfile.go", `damage == nil || errors.Is(damage, errFreelist)`, `false`)),
	testedFirst("U92", "a file is reused only if a store has named it", "a file with a similar name is reused", "storage", "RemovesNoFilesOfOthers",
		instead("internal/segments/prepare.go", `_, isSpare = numberOf(number)`, `_ = number`)),
	tested("U90", "a disk below the documented size is reported", "only a full one is", "node", "ASmallDisk",
		value("node/disk.go", `used+free >= needed`, `true`)),
	testedFirst("U84", "a segment that is made in advance leaves room for a snapshot", "it takes that room, and the log cannot be shortened",
		"internal/segments", "Prepare_LeavesTheReserve",
		value("internal/segments/prepare.go", `bytes == 0 && l.owner.Reserve != nil`, `false`)),
	testedFirst("U85", "space that a snapshot has taken is no longer reserved for it", "it still is", "storage", "ReservesRoomForTheNextSnapshot",
		value("storage/log.go", `l.dir.UnderWay()`, `0`)),
	tested("U77", "a reset drops all entries of a store in bbolt", "those behind its beginning stay", "storage", "Bolt_KeepsTheContract",
		value("storage/bolt.go", `w.Reset || record.last.Index > w.After.Index`, `record.last.Index > w.After.Index`)),
	testedFirst("U73", "the end of a node ends a write that waits", "it does so only if the storage knows about room",
		"node", "Close_WhileAWriteWaitsForAFileDescriptor",
		instead("node/node.go", `_ = guarded(func() error { s.GiveUp(); return nil })`, `if n.room != nil { n.room.GiveUp() }`)),
	testedFirst("U69", "a lack of file descriptors delays the record of a snapshot", "it ends the member", "storage", "WaitForAFileDescriptorToRecord",
		value("storage/boltstore.go", `!files.NoDescriptor(err)`, `true`)),
	testedFirst("U70", "a lack of file descriptors delays a restoration", "it ends the member", "node", "Restore_WaitsForAFileDescriptor",
		value("node/restore.go", `!files.NoDescriptor(err)`, `true`)),
	testedFirst("U71", "a member that answers now and then is served from memory", "one that answers once a heartbeat interval sometimes is not",
		".", "ServedWaitsForNobodyWhoIsSilent",
		value("corestatus.go", `!c.silent(p)`, `c.now.Mono-p.heard <= Time(c.cfg.HeartbeatInterval)`)),
}
