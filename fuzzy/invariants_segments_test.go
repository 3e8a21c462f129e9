package fuzzy

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/sim"
)

// runningInSegments returns the cluster of running, with logs in segments.
func runningInSegments(t *testing.T) (c *cluster, lead, follower *node) {
	p := calmOfThree(t)
	p.Segments = Segments{On: true, Bytes: 4096, FirstBytes: 2048, BatchBytes: 500, MarkBytes: 300, BufferBytes: 1000, Tend: p.ElectionTimeout}
	c = runningAs(t, p)
	lead = c.nodes[c.leader()]
	follower = c.nodes[(lead.index+1)%3]
	require.Greater(t, len(c.check.canonical), 10)
	return c, lead, follower
}

// promised makes the model of a disk hold one entry that the disk's log lacks.
func promised(n *node) {
	n.crash()
	last := n.disk.lastID()
	n.disk.log = append(n.disk.log, slot{entry: &raft.Entry{Index: last.Index + 1, Term: last.Term}})
}

// redone changes the last entry in the model of a disk. The model's entry then has the same id as the log's entry, but
// differs from it, as after a repeated bootstrap. redone returns the log's entry.
func redone(n *node) (before raft.Entry) {
	n.crash()
	at := &n.disk.log[len(n.disk.log)-1]
	before = *at.entry
	at.entry = laterThan(&before, 1)
	return before
}

// laterThan returns an entry with the same id and a later time.
func laterThan(e *raft.Entry, by int64) *raft.Entry {
	other := raft.Entry{Index: e.Index, Term: e.Term, Kind: e.Kind, Time: e.Time + by, Data: e.Data}
	other.Seal()
	return &other
}

var segmentBreaches = []breach{
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // an acknowledged entry is missing
		promised(follower)
		follower.recoverLog()
	}},
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // another entry is there
		follower.crash()
		at := &follower.disk.log[len(follower.disk.log)-2]
		was := at.entry
		other := raft.Entry{Index: was.Index, Term: was.Term, Kind: was.Kind, Time: was.Time, Data: bytes.Repeat([]byte{1}, len(was.Data))}
		other.Seal()
		at.entry = &other
		follower.recoverLog()
	}},
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // the last one has the right id, and is another
		redone(follower)
		follower.recoverLog()
	}},
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // the same, and what was being written is neither of the two
		before := redone(follower)
		after := follower.disk.log[len(follower.disk.log)-2].entry.ID()
		follower.disk.segments.cut = &raft.LogWrite{After: after, Entries: []raft.Entry{*laterThan(&before, 2)}}
		follower.recoverLog()
	}},
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // an entry that nobody has written
		follower.crash()
		follower.disk.log = follower.disk.log[:len(follower.disk.log)-1]
		follower.recoverLog()
	}},
	{"N78", func(_ *cluster, _ *checker, _, follower *node) { // a commit index that was reached is lost
		follower.crash()
		follower.disk.segments.reached = follower.disk.lastID().Index + 1
		follower.disk.commit = 0
		follower.disk.segments.told = 0
		follower.recoverLog()
	}},
	{"N79", func(_ *cluster, _ *checker, _, follower *node) { // damage shortens the log
		promised(follower)
		follower.disk.segments.spoiled, follower.disk.segments.recent = true, [2]appended{}
		follower.recoverLog()
	}},
	{"N79", func(_ *cluster, _ *checker, _, follower *node) { // an entry is back that was replaced too long ago
		before, s := redone(follower), &follower.disk.segments
		s.spoiled, s.recent = true, [2]appended{{[]raft.Entry{*laterThan(&before, 2)}}}
		follower.recoverLog()
	}},
	{"N79", func(_ *cluster, k *checker, _, follower *node) { // a log without damage is refused
		k.checkLogRefusal(follower, &raft.CorruptError{File: "a"})
	}},
	{"N79", func(_ *cluster, k *checker, _, follower *node) { // damage is refused without a name
		follower.disk.segments.spoiled = true
		k.checkLogRefusal(follower, syscall.EIO)
	}},
	{"N80", func(_ *cluster, k *checker, _, follower *node) { k.checkLogFailure(follower, syscall.EIO) }},
	{"N80", func(_ *cluster, k *checker, _, follower *node) { k.checkLogFailure(follower, syscall.ENOSPC) }},
	{"N82", func(_ *cluster, k *checker, lead, _ *node) { k.checkRoomRefusal(lead, true) }},
	{"N82", func(_ *cluster, k *checker, _, follower *node) { // only a leader refuses
		follower.disk.segments.ahead = true
		k.checkRoomRefusal(follower, true)
	}},
	{"N82", func(_ *cluster, k *checker, lead, _ *node) {
		lead.disk.segments.ahead = true
		k.checkRoomRefusal(lead, false)
	}},
	{"N81", func(_ *cluster, k *checker, _, follower *node) {
		follower.disk.log = follower.disk.log[:2]
		k.checkLogBounds(follower)
	}},
}

func TestSegments_EachRuleNoticesItsBreach(t *testing.T) {
	for _, row := range segmentBreaches {
		c, lead, follower := runningInSegments(t)
		row.breach(c, c.check, lead, follower)
		expectBreach(t, c, row.rule)
	}
}

// Suppose that a bootstrap was repeated, so that both bootstraps wrote an entry with the same id. Damage to the second write
// brings back the first entry. Damage to the last write may do this, so the member counts as damaged and no rule is broken.
func TestSegments_DamageMayBringBackAnEarlierBootstrap(t *testing.T) {
	c, _, follower := runningInSegments(t)
	before := redone(follower)
	s := &follower.disk.segments
	s.spoiled, s.recent = true, [2]appended{{[]raft.Entry{before}}}
	require.False(t, follower.recoverLog(), "the process ends")
	require.Nil(t, c.failure)
	assert.True(t, follower.disk.damaged)
	assert.Equal(t, 1, c.stats.Segments.Shortened)
}

// The seeds reach every event that may happen to logs in segments.
func TestSegments_SeedsReachWhatMayHappen(t *testing.T) {
	total := SegmentStats{}
	for number := range uint64(60) {
		r, err := Run(Seed{"segments", number}, nil)
		require.NoError(t, err)
		require.Nil(t, r.Failure, "%v", r.Seed)
		s := r.Stats.Segments
		total.Truncations += s.Truncations
		total.Resets += s.Resets
		total.Rolled += s.Rolled
		total.Pruned += s.Pruned
		total.Failed += s.Failed
		total.Waits += s.Waits
		total.Prefixes += s.Prefixes
		total.CutStarts += s.CutStarts
		total.Refused += s.Refused
		total.NoRoom += s.NoRoom
		total.Transfers += s.Transfers
	}
	for what, times := range map[string]int{
		"truncations": total.Truncations, "resets": total.Resets, "segments in use": total.Rolled, "pruned segments": total.Pruned,
		"writes that failed": total.Failed, "writes that waited for room": total.Waits, "parts of writes": total.Prefixes,
		"starts that were cut short": total.CutStarts, "damaged logs": total.Refused,
		"proposals without room": total.NoRoom, "leaders without room that transfer": total.Transfers,
	} {
		assert.Positive(t, times, what)
	}
}

// A member that refuses proposals because of a full disk writes nothing. So only the maintenance of the segments finds out
// that the disk has room again.
func TestSegments_AStallOnlyDelaysTheNextSegment(t *testing.T) {
	c, _, n := runningInSegments(t)
	s := &n.disk.segments
	s.tended = true
	n.disk.stallTill = c.now() + sim.In(time.Second)
	n.tends()
	assert.True(t, s.tended, "it is tried again")
	n.disk.stallTill = sim.Never
	n.tends()
	assert.False(t, s.tended)
}
