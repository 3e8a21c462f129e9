package node

import (
	"testing"

	"github.com/coxswain/raft"
	"github.com/stretchr/testify/assert"
)

func TestHistory_CountsBeyondWhatItKeeps(t *testing.T) {
	h := &history{}
	for i := range traceEventsMax + 3 {
		h.add(int64(i+1), []raft.TraceEvent{{Kind: raft.TraceTimeout}})
	}
	for after, want := range map[uint64][2]uint64{0: {4, traceEventsMax + 3}, 2: {4, traceEventsMax + 3}, traceEventsMax + 1: {traceEventsMax + 2, traceEventsMax + 3}} {
		events, first := h.since(after)
		assert.Equal(t, want[0], first)
		assert.EqualValues(t, want[0], events[0].at, "the number is the place among all")
		assert.EqualValues(t, want[1], events[len(events)-1].at)
	}
}
