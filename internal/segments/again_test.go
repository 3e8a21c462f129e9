package segments_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A start that fails after the log was read, as at a damaged snapshot, may be repeated by the same process: the log is read anew,
// and each of its segments is in it once.
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
