package zoo

// ofSnapshots returns a bug of taking, sending or installing snapshots.
func ofSnapshots(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Profiles: []string{"snapshots"}}
}

// ofFreezes returns a bug of taking or sending snapshots of a DurableFSM.
func ofFreezes(id, rule, bug, expect string, edits ...Edit) Mutant {
	m := ofSnapshots(id, rule, bug, expect, edits...)
	m.Profiles = []string{"durable"}
	return m
}

// freezes: how the core and the sender of a stream treat the frozen state of a DurableFSM.
var freezes = []Mutant{
	ofFreezes("P31", "a frozen state that no follower needs any longer is released", "it is held forever", "N58",
		instead("snapshot.go", `c.discard(h.snapshot.File)`, `_ = h.snapshot`)),
	ofFreezes("P85", "a frozen state is released when its follower is no longer a member", "it is held as long as the removed follower is served", "N58",
		value("snapshot.go", `p != nil && p.state == snapshot && p.departs == 0`, `p != nil && p.state == snapshot`)).profiles("durable").or("AFrozenStateIsNotHeldForARemovedMember"),
	ofFreezes("P78", "a leader relies on what its DurableFSM has applied", "it sends nothing of that before its own first commit", "L14, L3, L2",
		instead("raft.go", `c.log.provenCommit = c.log.commit`, `_ = c`)),
	ofFreezes("P77", "no log begins behind what its DurableFSM reports, which is at most the last command", "the entries behind that are compacted, too",
		"N61",
		instead("compact.go", `covered = min(covered, c.snaps.reported)`, `_ = covered`)),
	ofFreezes("P34", "the file of a snapshot is needed until a DurableFSM has synced its contents", "it is no longer needed once the FSM begins to restore it",
		"N1",
		before("compact.go", `c.log.applying, s.restoreOut = restore.ID.Index, true`,
			`if c.cfg.DurableFSM { c.record(Snapshot{Base: restore.Base}) }`)),
}

// snapshots: how the core treats its own snapshots and those of other members.
var snapshots = []Mutant{
	ofSnapshots("P01", "a snapshot of entries that are committed here is not installed", "it is", "N47",
		value("snapshot.go", `c.log.has(last)`, `last.Index > c.log.commit && c.log.has(last)`),
		value("snapshot.go", `last.Index <= max(c.log.commit, c.termLeader.proved)`, `false`),
		value("snapshot.go", `c.log.has(s.ID)`, `s.ID.Index > c.log.commit && c.log.has(s.ID)`),
		value("snapshot.go", `s.ID.Index <= max(c.log.commit, c.termLeader.proved)`, `false`)),
	ofSnapshots("P02", "a snapshot of entries that the log holds is not installed", "it is, above the commit index", "N47",
		value("snapshot.go", `c.log.has(last)`, `last.Index <= c.log.commit && c.log.has(last)`),
		value("snapshot.go", `c.log.has(s.ID)`, `s.ID.Index <= c.log.commit && c.log.has(s.ID)`)).profiles("snapshots").or("Install_WhatIsNotNeededIsLeft|Install_TheOffer"),
	ofSnapshots("P03", "an install replaces the log", "its write keeps what the log held", "N4",
		instead("log.go", `c.step.out.Write.Log = &LogWrite{After: base.ID, Reset: true, Generation: c.log.generation}`,
			`c.step.out.Write.Log = &LogWrite{After: base.ID, Generation: c.log.generation}`)),
	ofSnapshots("P05", "a base names the entry of its configuration", "it names no entry", "G9",
		value("compact.go", `latest.Index`, `c.log.Base.ConfigIndex`)),
	mutant("P07", "a snapshot is frozen at the entry that the core has named", "after the batch that holds it", "N51",
		value("node/applier.go", `t.take != nil && t.take.ID.Index < t.target.Index`, `false`)).arranged().outside("node", "IsTakenExactlyAtItsEntry"),
	ofSnapshots("P08", "a stream is resumed only with the same file of the same sender", "it is resumed with any snapshot of the same entry", "N49",
		before("internal/pipeline/incoming.go", `var w Work
	if s != nil {
		w = in.refuse(raft.StreamSuperseded)`, `if s != nil && s.snapshot.ID == r.Snapshot.ID {
			s.streamName, s.snapshot, s.heard = name, r.Snapshot, now
			return in.answer(s.snapshot.Cluster, name, raft.SnapshotProgress{Begin: true, At: s.at})
		}`), value("internal/pipeline/incoming.go", `s.sum != announced`, `false`)).profiles("snapshots").test("internal/pipeline", "Incoming|Stream"),
	ofSnapshots("P09", "the log is compacted once a snapshot is durable", "it is compacted once the snapshot is asked for", "N61",
		before("compact.go", `c.keep().Take = &take`, `c.covered(take.ID)`)),
	ofSnapshots("P10", "the base keeps the term of its entry", "it has none", "N20",
		instead("log.go", `return base.Term`, `return 0`)),
	ofSnapshots("P11", "an install acknowledges what the snapshot covers", "what the former log held", "N6",
		before("snapshot.go", `c.replaceLog(s.Base)`, `c.promiseLog(from, AppendReply{Match: c.log.Last.Index}, 0)`)),
	ofSnapshots("P12", "an install makes the snapshot that is being taken superfluous", "the older snapshot replaces the installed one", "N51",
		instead("snapshot.go", `snaps.taking, snaps.restoring, snaps.restoreOut = nil, &s, false`, `snaps.restoring, snaps.restoreOut = &s, false`)),
	ofSnapshots("P13", "a leader keeps what a follower needs next, within the hold", "it keeps only the tail", "N52",
		value("compact.go", `held < to`, `false`)),
	ofSnapshots("P14", "everything below the base matches", "nothing does", "N54", value("log.go", `id.Term <= l.Base.ID.Term`, `false`)),
	ofSnapshots("P15", "an entry below the base may be of an earlier term", "it contradicts the base", "N22, N54",
		value("log.go", `id.Term <= l.Base.ID.Term`, `id.Term == l.Base.ID.Term`)),
	ofSnapshots("P16", "a restoration begins once the record is durable", "it begins at once", "N62",
		value("compact.go", `c.disk.snapshot.File != s.restoring.File`, `false`)),
	ofSnapshots("P17", "an install that is not durable acknowledges nothing", "the former log's durable end counts", "N6",
		instead("log.go", `c.disk.truncated(0)`, `_ = base`)),
	ofSnapshots("P18", "a conflict at the base requires a snapshot", "the leader probes at the base forever", "L3",
		value("progress.go", `prev == base`, `false`)),
	ofSnapshots("P19", "only a conflict at the base requires a snapshot", "so does an append that was not sent", "N48",
		before("replicate.go", `p.becomeProbe(min(p.next, e.Span.After+1), c.log.Base.ID.Index)`,
			`if e.Span.After < c.log.Base.ID.Index { p.becomeSnapshot(c.log.Base.ID.Index, c.log.Base.ID.Index); return }`),
		before("replicate.go", `p.becomeProbe(next, c.log.Base.ID.Index)`,
			`if next <= c.log.Base.ID.Index { p.becomeSnapshot(c.log.Base.ID.Index, c.log.Base.ID.Index); return }`)),
	ofSnapshots("P20", "a member that has lost what it acknowledged says so in answer to an offer", "it installs the snapshot", "N40",
		value("snapshot.go", `r.Acknowledged > c.log.Last.Index`, `false`)).profiles("images").or("Install_TheEvidenceOfAnOffer"),
	ofSnapshots("P21", "a log is compacted only up to what a leader reported as committed", "it is compacted also up to what only the state machine remembers",
		"N22",
		value("compact.go", `to > c.log.provenCommit`, `false`)).profiles("durable").or("Take_OnlyOfWhatALeaderHasCommitted"),
	ofSnapshots("P22", "a file is discarded once the next record is durable", "it is discarded once that record is written", "N50",
		before("compact.go", `c.snaps.writing, c.step.out.Write.Snapshot = &s, &written`,
			`if f := c.disk.snapshot.File; f != (SnapshotID{}) { keep := c.keep(); keep.Discard = append(keep.Discard, f) }`)),
	ofSnapshots("P23", "a write with a record of a snapshot is not merged into the one before it", "it is, and the record is lost", "N50",
		value("internal/pipeline/merge.go", `queue[n].Snapshot == nil`, `true`)),
	ofSnapshots("P24", "a stream takes chunks in order", "it takes one behind a gap", "L14, N49",
		value("internal/pipeline/incoming.go", `c.At > s.at`, `false`), value("internal/pipeline/incoming.go", `s.sum != announced`, `false`)),
	ofSnapshots("P26", "an uninitialized member stays in term 0 until it has the snapshot", "the offer raises its term", "N7",
		before("snapshot.go", `if o := c.follower.offer; o != nil && m.Term < o.term {`, `if m.Term > c.hard.Term { c.becomeFollower(m.Term, Peer{}) }`)).profiles("snapshots").or("Install_AnUninitializedMember"),
	ofSnapshots("P27", "term and snapshot are recorded in one write", "the term is recorded first", "N7",
		instead("snapshot.go", `c.becomeFollower(offered, Peer{})`, `c.becomeFollower(offered, Peer{})
			return`)).profiles("snapshots").or("Install_AnUninitializedMember"),
	ofSnapshots("P28", "a pending read stores the term of its entry", "it looks the entry up in the log again", "panic",
		instead("read.go", `c.answerRead(read, r.id)`, `c.answerRead(read, c.log.id(r.id.Index))`)),
	mutant("P29", "after a restoration, the applier continues behind the snapshot", "it applies the last entry of the snapshot again", "N62",
		instead("node/restore.go", `a.at = s.ID`, `a.at = raft.EntryID{Term: s.ID.Term, Index: s.ID.Index - 1}`)).arranged().outside("node", "AFollowerBehindTheBase"),
	ofSnapshots("P30", "a leader that steps down stops its streams", "they continue", "N48",
		instead("snapshot.go", `keep.Stop = append(keep.Stop, p.peer)`, `_ = keep`)),
	ofSnapshots("P32", "a stale follower learns that it is stale", "it is offered a snapshot", "N23",
		instead("replicate.go", `p.becomeStale(c.acknowledgedEntry(p))`, `if c.cfg.Snapshots { p.becomeSnapshot(base, base) } else { p.becomeStale(c.acknowledgedEntry(p)) }`)).profiles("images").or("Stale"),
	ofSnapshots("P82", "the step of a mark keeps the whole log: it is evidence", "a base that is written in it stays", "N42",
		instead("compact.go", `w.Base, c.step.out.Keep = nil, nil`, `c.step.out.Keep = nil`)).profiles("images").or("Compact_NotInTheStepOfAMark"),
	ofSnapshots("P86", "the step of a mark keeps an install whole", "it drops the record of the snapshot", "N4",
		value("compact.go", `w.Log == nil || !w.Log.Reset`, `true`)).profiles("images").or("Install_TheEvidence|Suspected_MarksItsStore"),
	ofSnapshots("P33", "an install begins a new generation of the log", "it does not", "N20, N44",
		instead("log.go", `l.generation++`, `_ = l`)).profiles("snapshots").or("Install_ReplacesTheLogInOneWrite"),
	ofSnapshots("P35", "one snapshot is taken at a time", "several are", "N51",
		value("compact.go", `s.taking != nil || s.writing != nil`, `s.writing != nil`)),
	ofSnapshots("P36", "a snapshot that failed is taken again after a pause", "it is never taken again", "L16",
		instead("compact.go", `s.retryAt = c.now.Mono + s.pause`, `s.retryAt = 1 << 62`)),
}
