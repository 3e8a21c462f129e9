package zoo

// ofSnapshots is a bug of taking, sending or installing snapshots.
func ofSnapshots(id, rule, bug, expect string, edits ...Edit) Mutant {
	return Mutant{ID: id, Before: true, Rule: rule, Bug: bug, Edits: edits, Expect: expect, Profiles: []string{"snapshots"}}
}

// ofFreezes is a bug of taking or sending snapshots of a DurableFSM.
func ofFreezes(id, rule, bug, expect string, edits ...Edit) Mutant {
	m := ofSnapshots(id, rule, bug, expect, edits...)
	m.Profiles = []string{"durable"}
	return m
}

// freezes: what the core and the sender of a stream do about the frozen state of a DurableFSM.
var freezes = []Mutant{
	ofFreezes("P31", "a frozen state that no follower needs any longer is given back", "it is held for ever", "N58",
		instead("snapshot.go", `c.discard(h.snapshot.File)`, `_ = h.snapshot`)),
	ofFreezes("P77", "a leader trusts what its DurableFSM has applied", "it sends nothing of that before its own first commit", "L14, L3, L2",
		instead("raft.go", `c.log.told = c.log.commit`, `_ = c`)),
	ofFreezes("P34", "the file of a snapshot counts until a DurableFSM has synced it", "it counts no longer once the FSM begins to restore it", "N1",
		before("compact.go", `c.log.applying, s.restoreOut = restore.ID.Index, true`,
			`if c.cfg.DurableFSM { c.record(Snapshot{Base: restore.Base}) }`)),
}

// snapshots: what the core does about its own snapshots and those of others.
var snapshots = []Mutant{
	ofSnapshots("P03", "an install replaces the log", "its write keeps what the log held", "N4",
		instead("log.go", `c.step.out.Write.Log = &LogWrite{After: base.ID, Reset: true, Generation: c.log.generation}`,
			`c.step.out.Write.Log = &LogWrite{After: base.ID, Generation: c.log.generation}`)),
	ofSnapshots("P05", "a base names the entry of its configuration", "it names none", "G9",
		value("compact.go", `max(1, c.log.Base.ConfigIndex)`, `c.log.Base.ConfigIndex`)),
	ofSnapshots("P09", "the log is compacted once a snapshot is durable", "once it is asked for", "N61",
		before("compact.go", `c.keep().Take = &take`, `c.covered(take.ID)`)),
	ofSnapshots("P10", "the base keeps the term of its entry", "it has none", "N20",
		instead("log.go", `return base.Term`, `return 0`)),
	ofSnapshots("P16", "a restoration begins once the record is durable", "at once", "N62",
		value("compact.go", `c.disk.snapshot.File != s.restoring.File`, `false`)),
	ofSnapshots("P17", "an install that is not durable acknowledges nothing", "the former log's durable end counts", "N6",
		instead("log.go", `c.disk.truncated(0)`, `_ = base`)),
	ofSnapshots("P18", "a conflict at the base calls for a snapshot", "the leader probes at the base forever", "L3",
		value("progress.go", `prev == base`, `false`)),
	ofSnapshots("P22", "a file is discarded once another record is durable", "once that is written", "N50",
		before("compact.go", `c.snaps.writing, c.step.out.Write.Snapshot = &s, &written`,
			`if f := c.disk.snapshot.File; f != (SnapshotID{}) { keep := c.keep(); keep.Discard = append(keep.Discard, f) }`)),
	ofSnapshots("P23", "a write with a record of a snapshot is not merged into the one before it", "it is, and the record is lost", "N50",
		value("internal/pipeline/merge.go", `queue[n].Snapshot == nil`, `true`)),
	ofSnapshots("P24", "a stream takes chunks in order", "it takes one behind a gap", "L14, N49",
		value("internal/pipeline/incoming.go", `c.At > s.at`, `false`), value("internal/pipeline/incoming.go", `s.sum != announced`, `false`)),
	ofSnapshots("P35", "one snapshot is taken at a time", "several are", "N51",
		value("compact.go", `s.taking != nil || s.writing != nil`, `s.writing != nil`)),
}
