package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// If a log cannot grow, a snapshot is due at once. Another one is due after so many written bytes, or after five seconds. If
// room comes and goes in between, this causes no further snapshots.
func TestShorten_IsDueAsTheLogGrows(t *testing.T) {
	const second = raft.Time(1e9)
	var s pipeline.Shorten
	for _, look := range []struct {
		now     raft.Time
		full    bool
		written uint64
		due     bool
	}{
		{1, false, 100, false},
		{1, true, 100, true},
		{1, true, 109, false},
		{1, true, 110, true},
		{1, false, 119, false},
		{1, true, 119, false},
		{1, true, 120, true},
		{5 * second, true, 120, false},
		{5*second + 1, true, 120, true},
	} {
		assert.Equal(t, look.due, s.Due(look.now, look.full, look.written, 10), "%v", look)
	}
}
