package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// runningWithSnapshots returns the cluster of running, with snapshots of everything that the members have applied. n leads,
// and other follows.
func runningWithSnapshots(t *testing.T) (c *cluster, n, other *node) {
	c, n, other = running(t)
	c.profile.Snapshots = Snapshots{On: true, BytesMax: 100, ChunkBytes: 64, WindowChunks: 2}
	for _, m := range []*node{n, other} {
		m.limits.SnapshotEntries, m.limits.SnapshotHoldBytes = 5, 1<<20
		m.status.Snapshot = raft.EntryID{Term: m.status.Term, Index: m.applyTo.Index}
		m.seen.now = m.now().Mono
	}
	n.status.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
	return c, n, other
}

var compactionBreaches = []stepBreach{
	{"L16", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Snapshot.Index = n.applyTo.Index - 5
		return nil
	}},
	{"L16", func(_ *checker, n, _ *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event { // the pause is over
		n.status.Snapshot.Index = n.applyTo.Index - 5
		n.seen.policy = policyWitness{failures: 3, failed: n.seen.now - 4*n.timeout()}
		return nil
	}},
	{"N54", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		before.Base = n.log[9].entry.ID()
		out.Trace = []raft.TraceEvent{{Kind: raft.TraceRefused, Peer: other.id, Text: "it contradicts the base"}}
		return given(message(other, n, n.status.Term, raft.AppendRequest{Prev: n.log[8].entry.ID(), Last: n.log[8].entry.ID()}))
	}},
	{"N48", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Peers[0].State = "snapshot"
		return nil
	}},
	{"N48", func(_ *checker, n, other *node, before *raft.CoreStatus, _ *raft.Output) []raft.Event { // the check failed elsewhere
		before.Base, n.status.Base = n.log[4].entry.ID(), n.log[4].entry.ID()
		for i := range n.status.Peers {
			if n.status.Peers[i].ID == other.id {
				n.status.Peers[i].State = "snapshot"
			}
		}
		return given(message(other, n, n.status.Term, raft.AppendConflict{Prev: 9}))
	}},
	{"N48", func(_ *checker, n, other *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event { // the entry is not in its own log
		for i := range n.status.Peers {
			if n.status.Peers[i].ID == other.id {
				n.status.Peers[i].State = "snapshot"
			}
		}
		return []raft.Event{raft.SendDropped{To: other.peer(), Oversized: raft.EntryID{Term: 1 << 20, Index: 5}, OversizedBytes: 1 << 20}}
	}},
	{"N48", func(_ *checker, n, other *node, _ *raft.CoreStatus, out *raft.Output) []raft.Event { // the snapshot covers too little
		for i := range n.status.Peers {
			if n.status.Peers[i].ID == other.id {
				n.status.Peers[i].Oversized = n.log[4].entry.ID()
			}
		}
		offer := raft.InstallSnapshot{Snapshot: raft.Snapshot{Base: raft.Base{ID: n.log[3].entry.ID()}}}
		out.Send = []raft.Message{*message(n, other, n.status.Term, offer)}
		return nil
	}},
	{"N53", func(_ *checker, n, _ *node, _ *raft.CoreStatus, _ *raft.Output) []raft.Event {
		n.status.Base = n.log[4].entry.ID()
		n.status.Peers[0].Next = 5
		return nil
	}},
	{"N53", func(_ *checker, n, other *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		before.Base = n.log[4].entry.ID()
		out.Send = []raft.Message{*message(n, other, n.status.Term, raft.AppendRequest{Prev: n.log[3].entry.ID()})}
		return nil
	}},
	{"N52", func(_ *checker, n, _ *node, before *raft.CoreStatus, out *raft.Output) []raft.Event {
		p := &n.status.Peers[0]
		p.State, p.Match, p.Next = "replicate", 7, n.status.Last.Index+1
		before.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
		before.Peers[0].LastHeard = n.seen.now
		n.seen.of(peerOf(p)).provedAt = n.seen.now
		base := n.disk.baseAt(8)
		out.Write.Base = &base
		return nil
	}},
}

func TestInvariants_OfCompactionNoticeTheirBreach(t *testing.T) {
	for _, row := range compactionBreaches {
		c, n, other := runningWithSnapshots(t)
		before, out := n.status, raft.Output{}
		before.Peers = append([]raft.PeerProgress(nil), n.status.Peers...)
		c.check.checkCompaction(n, &before, nil, &out)
		require.Nil(t, c.failure, "a step in which nothing happens")
		events := row.breach(c.check, n, other, &before, &out)
		c.check.checkCompaction(n, &before, events, &out)
		expectBreach(t, c, row.rule)
	}
}

// After a failed snapshot, the next one waits for one election timeout. The wait doubles after each further failure.
func TestInvariants_AFailedSnapshotMayWait(t *testing.T) {
	c, n, _ := runningWithSnapshots(t)
	n.status.Snapshot.Index = n.applyTo.Index - 5
	before := n.status
	before.Taking = n.log[9].entry.ID()
	failed := []raft.Event{raft.SnapshotTaken{Take: before.Taking, Err: errWriteTo}}
	c.check.checkCompaction(n, &before, failed, &raft.Output{})
	require.Nil(t, c.failure)
	n.seen.now += n.timeout() - 1
	c.check.checkCompaction(n, &before, failed, &raft.Output{})
	n.seen.now += 2*n.timeout() - 1
	c.check.checkCompaction(n, &before, nil, &raft.Output{})
	require.Nil(t, c.failure)
	n.seen.now++
	c.check.checkCompaction(n, &before, nil, &raft.Output{})
	expectBreach(t, c, "L16")
}

// If a member has just installed a leader's snapshot, its own snapshot is superfluous. The superfluous snapshot does not end
// the pause.
func TestInvariants_ASuperfluousSnapshotDoesNotEndThePause(t *testing.T) {
	for _, installs := range []bool{false, true} {
		c, n, _ := runningWithSnapshots(t)
		n.status.Snapshot.Index = n.applyTo.Index - 5
		n.seen.policy = policyWitness{failures: 1, failed: n.seen.now}
		before := n.status
		before.Taking = n.log[9].entry.ID()
		out := &raft.Output{Write: raft.Write{Log: &raft.LogWrite{Reset: installs}}}
		c.check.checkCompaction(n, &before, []raft.Event{raft.SnapshotArrived{}, raft.SnapshotTaken{Take: before.Taking}}, out)
		if installs {
			require.Nil(t, c.failure)
			n.seen.now += n.timeout()
			c.check.checkCompaction(n, &before, nil, &raft.Output{})
		}
		expectBreach(t, c, "L16")
	}
}

// A start may write a record that no longer names the member's snapshot file. The next snapshot waits until this record is
// durable.
func TestInvariants_ASnapshotMayWaitForTheRecordOfAStart(t *testing.T) {
	c, n, _ := runningWithSnapshots(t)
	n.status.Snapshot.Index = n.applyTo.Index - 5
	before := n.status
	c.check.checkStart(n, &raft.Output{Write: raft.Write{Seq: 1, Snapshot: &raft.Snapshot{Base: n.disk.baseAt(5)}}})
	c.check.checkCompaction(n, &before, nil, &raft.Output{})
	require.Nil(t, c.failure)
	c.check.checkCompaction(n, &before, []raft.Event{raft.Persisted{Seq: 1}}, &raft.Output{})
	expectBreach(t, c, "L16")
}

func TestInvariants_OfStreamsNoticeTheirBreach(t *testing.T) {
	for _, row := range []struct {
		rule   string
		breach func(k *checker, n, other *node, o *outStream)
	}{
		{"N48", func(k *checker, _, other *node, o *outStream) { k.checkStream(other, o, 1) }},
		{"N55", func(k *checker, n, _ *node, o *outStream) { k.checkStream(n, o, 129) }},
	} {
		c, n, other := runningWithSnapshots(t)
		offer := message(n, other, n.status.Term, raft.InstallSnapshot{Snapshot: n.capture(n.disk.baseAt(5)).snapshot})
		o := &outStream{Outgoing: pipeline.NewOutgoing(n.now().Mono, *offer, n.streamLimits()), to: other.peer()}
		c.check.checkStream(n, o, 128)
		require.Nil(t, c.failure)
		row.breach(c.check, n, other, o)
		expectBreach(t, c, row.rule)
	}
}

func TestInvariants_OfDurableStatesNoticeTheirBreach(t *testing.T) {
	for _, row := range []struct {
		rule   string
		breach func(c *cluster, n *node)
	}{
		{"N57", func(c *cluster, n *node) { c.check.checkRecord(n, &raft.Snapshot{Base: n.disk.baseAt(5)}) }},
		{"N60", func(c *cluster, n *node) { // the snapshot covers less than was applied
			asked := c.work.snapshot(n, 0)
			n.disk.snapshot.Base = n.disk.baseAt(5)
			c.work.answered(n, []raft.Answer{{RequestID: asked, Kind: raft.AnswerSnapshot, ID: n.log[4].entry.ID()}})
		}},
		{"N60", func(c *cluster, n *node) { // the snapshot is not durable
			asked := c.work.snapshot(n, 0)
			c.work.answered(n, []raft.Answer{{RequestID: asked, Kind: raft.AnswerSnapshot, ID: n.log[n.applied-1].entry.ID()}})
		}},
		{"N60", func(c *cluster, n *node) { // the log is as long as before
			c.profile.Node.Durable, n.limits.SnapshotTailBytes = false, 1
			n.status.Role, n.status.Term, n.status.Base = raft.Follower, n.status.Term+1, raft.EntryID{}
			asked := c.work.snapshot(n, 0)
			n.disk.snapshot.Base = n.disk.baseAt(n.applied)
			c.work.answered(n, []raft.Answer{{RequestID: asked, Kind: raft.AnswerSnapshot, ID: n.log[n.applied-1].entry.ID()}})
		}},
		{"L16", func(c *cluster, n *node) {
			c.check.checkLogLength(n)
			require.Nil(t, c.failure)
			n.log[len(n.log)-1].payload += 2*sizeMarkBytes + 1<<20 + 1<<19
			c.profile.Load.BytesMax = 32
			c.check.checkLogLength(n)
		}},
	} {
		c, n, _ := runningWithSnapshots(t)
		row.breach(c, n)
		expectBreach(t, c, row.rule)
	}
}
