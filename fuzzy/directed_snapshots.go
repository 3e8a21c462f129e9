package fuzzy

import (
	"slices"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// snapshotScenarios bring snapshots to followers that lag behind the base of the leader's log (paper §7).
var snapshotScenarios = []scenario{
	{
		name: "slow-follower-after-compaction", voters: 3, shape: smallSnapshots, play: slowFollowerAfterCompaction,
		about: "a follower whose appends were lost until its next entry was compacted receives a snapshot, and is " +
			"replicated to again although nothing more is written",
		source: "etcd-io/raft, slow_follower_after_compaction, snapshot_succeed_via_app_resp",
	},
	{
		name: "acknowledged-behind-the-offer", voters: 3, shape: smallSnapshots, play: acknowledgedBehindTheOffer,
		about: "a follower whose acknowledgement of a snapshot comes after its leader has taken a newer one gets the " +
			"entries in between by appends",
		source: "etcd-io/raft, snapshot_succeed_via_app_resp_behind",
	},
	{
		name: "two-leaders-in-mid-stream", voters: 3, shape: smallSnapshots, play: twoLeadersInMidStream,
		about: "a follower that has a part of a deposed leader's snapshot takes that of the new leader, and none of " +
			"the bytes that the other one still sends",
	},
	{
		name: "same-entry-other-bytes", voters: 3, shape: smallSnapshots, play: sameEntryOtherBytes,
		about: "a follower that has a part of a snapshot begins anew with another leader's snapshot of the same entry, " +
			"whose bytes are others",
	},
	{
		name: "too-large-for-one", voters: 3, shape: smallAppends, play: tooLargeForOne,
		about: "a member that takes only small appends, of which the leader did not know, receives a snapshot of an entry " +
			"that is too large for it, and afterwards the leader takes no command that is too large for that member",
	},
	{
		name: "too-large-for-one-durable", voters: 3, shape: smallAppendsDurable, play: tooLargeForOne,
		about: "the same with state machines that keep their state on disk themselves: it is frozen for the member",
	},
}

// smallSnapshots makes members take a snapshot every eight entries, and keep almost none of the entries that the snapshot
// covers.
func smallSnapshots(p *Profile) {
	p.Snapshots = Snapshots{On: true, BytesMax: 2000, ChunkBytes: 8, WindowChunks: 2}
	p.Limits.SnapshotEntries, p.Limits.SnapshotLogBytes, p.Limits.SnapshotTailBytes, p.Limits.SnapshotHoldBytes = 8, 1<<20, 1, 1
	p.Limits.InflightMax = 2
}

// leaveBehind makes the leader compact entries that the follower lacks.
func (d *director) leaveBehind(leader, follower *node) {
	lost := d.lose(these(leader), these(follower), raft.AppendRequest{})
	d.until("the follower's next entry is compacted", func() bool {
		d.written(leader)
		return leader.status.Base.Index > follower.status.Last.Index+8
	})
	lost.stop()
}

// hasInstalled returns a condition: the member has installed a snapshot, and has applied all entries that the leader knows to
// be committed.
func (n *node) hasInstalled(leader *node) func() bool {
	before := n.status.Last.Index
	return func() bool {
		return n.disk.base.ID.Index > before && n.applied == leader.status.Commit
	}
}

func slowFollowerAfterCompaction(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	reigns := d.reignsOn(a)
	d.leaveBehind(a, c)
	last := a.status.Last
	d.expect(20, "c has what is committed, by a snapshot", c.hasInstalled(a))
	d.expect(2, "a knows it", func() bool {
		p := a.progressOf(c)
		return p.State == "replicate" && p.Match == last.Index && p.Inflight == 0
	})
	d.check("nothing was written for it, and a leads still", func() bool { return a.status.Last == last && reigns() })
}

func acknowledgedBehindTheOffer(d *director) {
	a, c := d.c.nodes[0], d.c.nodes[2]
	d.bootstrap()
	d.leaveBehind(a, c)
	d.until("c is offered a snapshot", func() bool { return a.progressOf(c).Offered.Index > 0 })
	acks := d.hold(these(c), these(a), raft.AppendReply{}, raft.HeartbeatReply{}, raft.SnapshotProgress{}).where(func(m *raft.Message) bool {
		p, stream := m.Body.(raft.SnapshotProgress)
		return !stream || p.Done
	})
	d.until("c has the snapshot, and a does not know it", func() bool { return c.disk.snapshot.ID.Index > 0 && c.applied == c.disk.snapshot.ID.Index })
	offered := c.disk.snapshot.ID
	d.until("a has a newer one", func() bool {
		d.written(a)
		return a.status.Snapshot.Index > offered.Index
	})
	d.given("c is offered a snapshot still", a.progressOf(c).State == "snapshot")
	acks.release()
	d.expect(20, "c has the rest", func() bool { return c.applied == a.status.Commit && a.progressOf(c).State == "replicate" })
}

func twoLeadersInMidStream(d *director) {
	n := d.c.nodes
	a, b, c := n[0], n[1], n[2]
	rest := func(m *raft.Message) bool { return m.Body.(raft.SnapshotChunk).At > 0 }
	d.bootstrap()
	d.leaveBehind(a, c)
	installed := c.hasInstalled(b)
	fromA := d.hold(these(a), these(c), raft.SnapshotChunk{}).where(rest)
	d.until("c has a part of a's snapshot", fromA.some)
	d.isolate(sim.BothWays, a)
	fromB := d.hold(these(b), these(c), raft.SnapshotChunk{}).where(rest)
	d.elect(b)
	d.until("and a part of b's", fromB.some)
	file := b.disk.snapshot.File
	fromA.release()
	d.always(1, "c has neither as a whole", func() bool { return c.status.Base.Index == 0 })
	fromB.release()
	d.expect(20, "c records that of b", func() bool { return c.disk.snapshot.File == file })
	d.expect(20, "c has what is committed", installed)
}

func sameEntryOtherBytes(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.leaveBehind(a, c)
	d.until("a and b have snapshots of one entry", func() bool {
		return a.disk.snapshot.ID == b.disk.snapshot.ID && !a.vault.writing && !b.vault.writing
	})
	d.given("their bytes are others", a.disk.snapshot.File != b.disk.snapshot.File)
	fromA := d.hold(these(a), these(c), raft.SnapshotChunk{}).where(func(m *raft.Message) bool { return m.Body.(raft.SnapshotChunk).At > 16 })
	d.until("c has a part of a's snapshot", fromA.some)
	d.isolate(sim.BothWays, a)
	installed, file := c.hasInstalled(b), b.disk.snapshot.File
	d.elect(b)
	d.expect(30, "c records that of b", func() bool { return c.disk.snapshot.File == file })
	d.expect(20, "c has what is committed", installed)
}

// smallAppends makes b accept only appends of a few small entries. No member takes a snapshot unless one is needed.
func smallAppends(p *Profile) {
	smallSnapshots(p)
	p.Limits.SnapshotEntries = 1 << 20
	p.Node.Connections, p.Node.Carries, p.Load.BytesMax = true, 200, 1000
}

func smallAppendsDurable(p *Profile) {
	smallAppends(p)
	p.Node.Durable = true
}

// isTooLarge reports whether an entry is too large for an append to the member.
func (n *node) isTooLarge(e *raft.Entry) bool {
	return len(e.Data)+raft.RecordOverheadBytes > n.carries()
}

func tooLargeForOne(d *director) {
	a, b, c := d.c.nodes[0], d.c.nodes[1], d.c.nodes[2]
	d.bootstrap()
	d.crash(a, b, c)
	d.start(a, c)
	d.elect(a)
	d.until("a, which has not heard from b, commits what is too large for b", func() bool {
		d.written(a)
		return b.isTooLarge(a.log[a.status.Commit-1].entry)
	})
	reigns := d.reignsOn(a)
	d.start(b)
	d.expect(20, "b has what is committed, by a snapshot", b.hasInstalled(a))
	d.expect(4, "and is replicated to", func() bool { return a.progressOf(b).State == "replicate" })
	d.until("a refuses what is too large for b", func() bool { return d.state(d.write(a, 1)) == answeredNo })
	d.expect(4, "a has applied the rest", func() bool { return a.applied == a.status.Last.Index })
	d.check("nothing of it is too large, and a leads still", func() bool {
		return !slices.ContainsFunc(a.log[b.disk.base.ID.Index:], func(s slot) bool { return b.isTooLarge(s.entry) }) && reigns()
	})
}
