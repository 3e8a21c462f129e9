package fuzzy

// roomScenarios have a disk that stays full.
var roomScenarios = []scenario{
	{
		name: "full-until-it-is-shorter", voters: 3, shape: logsThatFillDisks, play: fullUntilItIsShorter,
		about: "a follower whose disk has no room for another segment of the log, and never gets any, keeps running: it takes " +
			"snapshots, and reuses its segments",
	},
}

// logsThatFillDisks makes members keep their logs in segments. They take no snapshot while the disk has room. A segment holds
// much more than the entries in flight at any time.
func logsThatFillDisks(p *Profile) {
	p.Segments = Segments{
		On: true, Bytes: 64 << 10, FirstBytes: 16 << 10, BatchBytes: 8 << 10, MarkBytes: 2 << 10, BufferBytes: 8 << 10,
		Tend: p.ElectionTimeout / 100,
	}
	p.Snapshots = Snapshots{On: true, BytesMax: 400_000, ChunkBytes: 4096, WindowChunks: 16}
	p.Limits.SnapshotEntries, p.Limits.SnapshotLogBytes, p.Limits.SnapshotTailBytes, p.Limits.SnapshotHoldBytes = 1<<20, 256<<10, 1, 1
	p.Limits.AppendBytesMax, p.Limits.InflightBytesMax = 2<<10, 8<<10
	p.Load.BytesMax, p.Load.History = 300, false
}

func fullUntilItIsShorter(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	more := func() {
		last := d.write(a, 40)
		d.expect(20, "it is committed", func() bool { return d.state(last) == answeredWell })
	}
	for len(b.disk.segments.catalog.Listed) < 4 {
		more()
	}
	d.isolate(0, c) // b is needed for each commit
	d.c.faulted("the disk of b has no room for another segment, and never gets any")
	b.disk.segments.fillPermanently()
	for range 70 {
		more()
	}
	d.check("b has taken snapshots", func() bool { return b.disk.segments.stats.Shortenings > 2 })
}
