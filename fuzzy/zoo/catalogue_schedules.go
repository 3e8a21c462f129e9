package zoo

// schedules: what only members with different settings, two leaders that fall one after another, and reads that several members
// request at once show, and disks, streams and connections that fail in the middle of their work.
var schedules = []Mutant{
	mutant("H20", "a member takes entries above its own limit for proposals", "it refuses them", "L2",
		before("append.go", "if e.Index != before.Index+1 ||", `if e.Kind == EntryCommand && len(e.Data) > c.cfg.CommandBytesMax { return "an entry is too large" }`)).profiles("swarm", "members", "slow"),
	mutant("H25", "a member takes more entries at once than it sends", "it refuses them", "L2",
		before("append.go", "before := r.Prev\n\tfor", `if bytes := 0; len(r.Entries) > 1 {
			for _, e := range r.Entries {
				bytes += len(e.Data) + RecordOverheadBytes
			}
			if bytes > c.cfg.AppendBytesMax {
				return "it is too large"
			}
		}`)).profiles("swarm", "members", "slow"),
	mutant("R42", "a reply to a read names the start that asked", "only the counter counts", "G13, H1",
		value("read.go", `f.request != r.ID`, `f.request.Counter != r.ID.Counter`)).profiles("elections", "history", "swarm"),
	mutant("R50", "what a follower reports never falls in a term", "a late append lowers it", "N17",
		instead("append.go", `c.termLeader.proved = max(c.termLeader.proved, r.Last.Index)`, `c.termLeader.proved = r.Last.Index`)).profiles("images", "elections"),
	ofSnapshots("G20", "a snapshot that was not asked for last is discarded", "its file stays", "N50",
		instead("snapshot.go", `c.leave(e, "it was not asked for, or not last")`, `_ = e`)).profiles("members", "snapshots").or("Install_WhatIsNotNeededIsLeft"),
	ofSnapshots("G21", "a stream whose file was discarded begins anew", "it counts as received if another stream is open", "N50",
		value("internal/pipeline/incoming.go", `in.done.file == file`, `in.stream == nil && in.done.file == file`)).test("internal/pipeline", "Incoming_TakesOneStream"),
	ofSnapshots("G22", "a snapshot that could not be opened has no reader", "it has one, and is never removed", "L21, N50",
		instead("internal/snapfile/reader.go", `return nil, errors.Join(err, d.leave(file))`, `return nil, err`)).test("internal/snapfile", "CouldNotBeOpened"),
	ofSegments("G23", "a start writes the last write again", "it writes the last batch of it again", "N79",
		instead("internal/segments/recover.go", `r.synced, l.end = synced, offset`, `r.synced, l.end = h.offset, offset`)).test("internal/segments", "EverySyncForgets"),
	ofSegments("G24", "a segment with batches of the running write is not given up", "it is", "N81",
		value("internal/segments/prepare.go", `slices.ContainsFunc(l.writer.pending, func(p piece) bool { return p.segment == first })`, `false`)).test("internal/segments", "AWriteMakesRoom"),
	ofSegments("G26", "a segment may be full of synced batches", "the list of such a segment is refused", "N80",
		value("internal/segments/catalog.go", `c.Synced > s.Bytes`, `c.Synced >= s.Bytes`)).test("internal/segments", "Log_IsWhatTheModelIs"),
	ofFreezes("G25", "a failed dial changes nothing for a stream that waits", "each of them begins the wait anew", "N55, N58",
		instead("internal/pipeline/outgoing.go", `if o.begun {
		o.await(now)
	}`, `o.await(now)`)).profiles("durable", "snapshots").test("internal/pipeline", "Outgoing_SendsWhat"),
	mutant("C56", "a leader waits while it takes the snapshot for a member", "it gives the change up", "L15",
		value("reconfigure.go", `mayTake && c.waitsForTake(p)`, `false`)).arranged().profiles("members").or("CatchUp_WaitsForItsSnapshot"),
}
