package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft"
	"github.com/coxswain/raft/internal/pipeline"
)

func TestAllowance_IsForEachLeader(t *testing.T) {
	var a pipeline.Allowance
	for _, row := range []struct {
		full  bool
		term  raft.Term
		bytes int
		takes bool
	}{
		{false, 3, 1000, true},
		{true, 3, 60, true},
		{true, 3, 40, true},
		{true, 3, 0, true},
		{true, 3, 1, false},
		{true, 3, 0, false}, // it is behind the one before
		{true, 2, 10, false},
		{true, 4, 100, true}, // of a new leader
		{true, 3, 10, false},
		{true, 4, 1, false},
		{false, 4, 500, true},
		{true, 4, 100, true},
		{true, 5, 101, false},
	} {
		assert.Equal(t, row.takes, a.Takes(row.full, row.term, row.bytes, 100), "%+v", row)
	}
}
