package segments_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// What is read at once may end anywhere: in a record, in the head of a batch, or in the zeros between two batches.
func TestEntries_AReadEndsBetweenTwoBatches(t *testing.T) {
	s := newScript(newTree().FS())
	s.sizes.FirstBytes, s.sizes.SegmentBytes = 1<<18, 1<<18
	require.NoError(t, starts()(s))
	for range 100 {
		require.NoError(t, appends(0, 1, 1)(s))
	}
	last := s.log.Last().Index
	for bytesMax := 1; bytesMax < 5000; bytesMax++ {
		entries, err := s.log.Entries(raft.Span{Last: last}, bytesMax)
		require.NoError(t, err, "%d bytes", bytesMax)
		require.NoError(t, same(entries, s.acked.entries[:len(entries)]))
	}
}
