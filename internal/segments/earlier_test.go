package segments_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/crashdisk"
	"github.com/coxswain/raft/internal/segments"
)

// roomy puts each entry of 900 bytes or more into a batch of its own. One segment has room for all entries of a test.
var roomy = segments.Sizes{SegmentBytes: 16 << 10, FirstBytes: 16 << 10, BatchBytes: 1000, BufferBytes: 8 << 10}

// markBytes is the size of a batch without entries.
const markBytes = 72

// interrupted returns a disk with a log of one entry. After the entry are the remains of an interrupted write of two batches.
// The first block of that write is lost. The second batch begins at the start of a block.
func interrupted(t *testing.T) (*crashdisk.Tree, *script) {
	tree := newTree()
	tree.ForgetFailed()
	s := newScript(tree.FS())
	s.sizes = roomy
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 1), marks()}))
	tree.StopAfter(1) // carries out the write, not the sync
	require.Error(t, s.log.Append(id(1, 1), []raft.Entry{entry(2, 2, 1052), entry(3, 2, 900)}, 0))
	blocks := 0
	tree.Cut(func() bool { blocks++; return blocks > 1 })
	require.Greater(t, blocks, 3)
	return tree, s
}

// An interrupted write leaves a sound batch after a lost one. A start cannot reliably clear the sound batch: a sync may fail,
// and then the next start reads zeros that are not on the disk. A batch of a later process may end where the left-over batch
// begins. Even then the log must not include the left-over batch.
func TestEarlier_ALeftOverNeverFollowsALaterWrite(t *testing.T) {
	before, s := interrupted(t)
	for failing := range 8 {
		for _, less := range []int{0, markBytes} {
			tree := before.Clone()
			after := s.on(tree.FS())
			tree.FailSyncs(failing)
			_ = starts()(after)
			tree.FailSyncs(-1)
			require.NoError(t, after.resume())
			all := []raft.Entry{entry(2, 3, 1052-less)}
			require.NoError(t, after.log.Append(id(1, 1), all, 0))
			after.tried.append(id(1, 1), all)
			after.ended(after.tried)
			tree.Cut(crashdisk.KeepNothing)
			last := after.on(tree.FS())
			require.NoError(t, last.resume(), "sync %d fails, %d bytes less", failing+1, less)
		}
	}
}

// flip changes a bit of an entry in the last segment.
func flip(t *testing.T, s *script, e raft.Entry) {
	t.Helper()
	change(t, s.disk, s.path(len(s.catalog.Listed)-1), func(b []byte) []byte {
		at := bytes.Index(b, e.Record())
		require.Positive(t, at)
		b[at+40] ^= 1
		return b
	})
}

// Everything that a start finds is durable, and the log records that it is durable. That holds even if the process writes
// nothing afterwards.
func TestMark_CoversWhatAStartFound(t *testing.T) {
	s := newScript(newTree().FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 4)}))
	require.NoError(t, s.resume())
	flip(t, s, s.acked.entries[3])
	var corrupt *raft.CorruptError
	_, _, err := s.open()
	require.ErrorAs(t, err, &corrupt)
}

// A start may fail after it has read the log, for example because of a damaged snapshot. The same process may then start
// again, and Recover reads the log again. The log must then hold each segment once.
func TestRecover_Again(t *testing.T) {
	s := newScript(newTree().FS())
	require.NoError(t, s.run([]act{starts(), appends(0, 1, 30), appends(0, 1, 30), closes()}))
	require.Greater(t, len(s.catalog.Listed), 3)

	l := s.unread()
	for range 3 {
		found, err := l.Recover(context.Background(), member, s.catalog, s.base)
		require.NoError(t, err)
		require.Equal(t, s.acked.stored(s.base), found.Log)
	}
	require.NoError(t, l.Begin())
	require.NoError(t, s.acked.differs(l))
	s.log = l
	require.NoError(t, s.run([]act{compacts(4), appends(0, 2, 3), restarts()}))
	require.NoError(t, s.acked.differs(s.log))
}
