package load_test

import (
	"context"
	"testing"
	"time"

	"github.com/coxswain/raft/internal/load"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPauses_AreThoseThatOverlapTheSpans(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	ended := []time.Time{at(10), at(0), at(1), at(7), at(8)}
	assert.Equal(t, []time.Duration{time.Second, 6 * time.Second, 6 * time.Second},
		load.Pauses(ended, []load.Span{{at(2), at(9)}, {at(-1), at(1)}, {at(3), at(4)}}))
	assert.Equal(t, []time.Duration{0}, load.Pauses(nil, []load.Span{{at(1), at(2)}}))
}

func TestSyncedWrites_MeasuresAtLeastOne(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	took, err := load.SyncedWrites(ctx, t.TempDir())
	require.NoError(t, err)
	assert.Len(t, took, 1)
	_, err = load.SyncedWrites(ctx, t.TempDir()+"/none")
	assert.Error(t, err)
}
