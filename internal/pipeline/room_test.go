package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

// A log that cannot grow gets a snapshot at once, and another one when it has grown by an eighth, by 4 MiB at most, or after
// half a minute. Room that comes and goes brings no further ones.
func TestShorten_IsDueAsTheLogGrows(t *testing.T) {
	const second, mib = raft.Time(1e9), 1 << 20
	var s pipeline.Shorten
	for _, look := range []struct {
		now  raft.Time
		full bool
		log  int64
		due  bool
	}{
		{1, false, 100, false},
		{1, true, 100, true},
		{1, true, 114, false},
		{1, true, 115, true},
		{1, false, 50, false}, // it was shortened
		{1, true, 50, false},
		{1, true, 57, false},
		{1, true, 58, true},
		{30 * second, true, 58, false},
		{30*second + 1, true, 58, true},
		{40 * second, true, 100 * mib, true},
		{40 * second, true, 104 * mib, false},
		{40 * second, true, 104*mib + 1, true},
	} {
		assert.Equal(t, look.due, s.Due(look.now, look.full, look.log), "%v", look)
	}
}
