package pipeline_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/pipeline"
)

// A log that cannot grow gets a snapshot at once, and another one only when it has grown since it was shortest.
func TestShorten_IsDueAsTheLogGrows(t *testing.T) {
	var s pipeline.Shorten
	full := errors.New("no space left")
	for _, look := range []struct {
		full error
		log  int64
		due  bool
	}{
		{nil, 100, false},
		{full, 100, true},
		{full, 109, false},
		{full, 110, true},
		{full, 50, false}, // it was shortened
		{full, 59, false},
		{full, 60, true},
		{nil, 60, false},
		{full, 60, true},
	} {
		assert.Equal(t, look.due, s.Due(look.full, look.log, 10), "%v", look)
	}
}
