package raft

import (
	"math"
	"slices"
	"time"
)

// stampAheadMax is how far a stamp may be ahead of the median of the voters' clocks.
const stampAheadMax = int64(time.Minute)

// wallMax bounds what is believed of another member's clock, so that nothing overflows.
const wallMax = 1 << 62

// clocks is what the wall clocks of the other voters showed when they were last heard. Entries are stamped by
// them, and nothing else reads them: no rule of Raft depends on a wall clock.
type clocks []clockReading

// clockReading is one clock. It goes on with our own monotonic time until it is heard again.
type clockReading struct {
	id    NodeID
	ahead int64 // of our monotonic time
}

// hearClock takes the clock of a voter into account; 0 says nothing of it.
func (c *Core) hearClock(from NodeID, wall int64) {
	if m, ok := c.config().Member(from); !ok || m.Kind != Voter || wall == 0 || wall >= wallMax || wall <= -wallMax {
		return
	}
	heard := clockReading{from, wall - int64(c.now.Mono)}
	if i := slices.IndexFunc(c.clocks, func(r clockReading) bool { return r.id == from }); i >= 0 {
		c.clocks[i] = heard
		return
	}
	c.clocks = append(c.clocks, heard)
}

// stampNow is the time for an entry that is appended now: our own wall clock, but no more than a minute ahead
// of the median of the voters' clocks, and never below the highest stamp that the log ever held. So one clock
// that is years ahead does not stop the stamps of all later entries, which could not fall behind its own.
//
// A new leader has the clocks of a quorum, which came with the votes, and a round trip later those of all.
// With an even number of clocks the lower one in the middle counts: a stamp that is too late cannot be taken
// back.
func (c *Core) stampNow() int64 {
	shown := append(make([]int64, 0, 8), c.now.Wall)
	for _, r := range c.clocks {
		if m, ok := c.config().Member(r.id); ok && m.Kind == Voter {
			shown = append(shown, r.ahead+int64(c.now.Mono))
		}
	}
	slices.Sort(shown)
	latest := shown[(len(shown)-1)/2]
	if latest <= math.MaxInt64-stampAheadMax {
		latest += stampAheadMax
	}
	return max(min(c.now.Wall, latest), c.log.LastTime)
}
