package raft

import (
	"math"
	"slices"
	"time"
)

// stampAheadMax is how far a stamp may be ahead of the median of the voters' clocks.
const stampAheadMax = int64(time.Minute)

// wallMax bounds which readings of other members' clocks this member accepts, so that nothing overflows.
const wallMax = 1 << 62

// clocks holds what the wall clocks of the other voters showed when this member last heard from each voter. The clocks are
// used only to stamp entries: no rule of Raft depends on a wall clock.
type clocks []clockReading

// clockReading is one voter's clock. Between two readings it advances with our own monotonic time.
type clockReading struct {
	peer  Peer
	ahead int64 // of our monotonic time
}

// hearClock records a voter's clock; 0 means that the voter did not send it.
func (c *Core) hearClock(from Peer, wall int64) {
	if c.config().VotesIn(from) == 0 || wall == 0 || wall >= wallMax || wall <= -wallMax {
		return
	}
	heard := clockReading{from, wall - int64(c.now.Mono)}
	if i := slices.IndexFunc(c.clocks, func(r clockReading) bool { return r.peer == from }); i >= 0 {
		c.clocks[i] = heard
		return
	}
	c.clocks = append(c.clocks, heard)
}

// stampNow returns the time for an entry that is appended now. It is our own wall clock, but at most a minute ahead of the
// median of the voters' clocks, and never below the highest stamp that the log has held. Because stamps never fall, without
// the median a leader whose clock is years ahead would freeze the stamps for years.
//
// A new leader has the clocks of a quorum, because they came with the votes. One round trip later, it has the clocks of all
// voters. If the number of clocks is even, it takes the lower of the two in the middle, because a stamp that is too high
// cannot be corrected later.
func (c *Core) stampNow() int64 {
	shown := append(make([]int64, 0, 8), c.now.Wall)
	for _, r := range c.clocks {
		if c.config().VotesIn(r.peer) != 0 {
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
