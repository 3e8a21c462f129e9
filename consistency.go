package raft

import (
	"fmt"
	"math"
	"time"
)

// Consistency says how fresh the state must be that a read sees: Linearizable, Lease or Stale(maxAge). See docs/reads.md.
type Consistency time.Duration

const (
	// Linearizable: everything that any member acknowledged before the read began. The leader confirms with a round of
	// messages that it still leads.
	Linearizable Consistency = 0
	// Lease: the same, without a round while the leader's lease runs. Without a lease, the read is as Linearizable, so it is
	// slower, but no less fresh. A leader whose clock stops is outside of what a lease can promise.
	Lease Consistency = -1
)

// Stale asks for a state that is at most maxAge old: it contains every write that any member had acknowledged maxAge before
// the read began. Any member answers from its own state, without asking anyone, if it can prove the age. Otherwise the read
// fails with a *node.TooStaleError at once. Members prove ages of two heartbeat intervals and a round trip, which is less than
// an election timeout where the network is fast. maxAge must be positive; reads refuse others with a *MaxAgeError.
func Stale(maxAge time.Duration) Consistency {
	if maxAge <= 0 {
		return Consistency(max(maxAge, math.MinInt64+2) - 2) // below Lease, so that the error can name it
	}
	return Consistency(maxAge)
}

// MaxAge returns the age that Stale was given, and 0 for others.
func (c Consistency) MaxAge() time.Duration {
	switch {
	case c >= 0:
		return time.Duration(c)
	case c == Lease:
		return 0
	}
	return time.Duration(c + 2)
}

// Validate returns a *MaxAgeError for an age that is not positive.
func (c Consistency) Validate() error {
	if c < Lease {
		return &MaxAgeError{c.MaxAge()}
	}
	return nil
}

func (c Consistency) String() string {
	switch c {
	case Linearizable:
		return "linearizable"
	case Lease:
		return "lease"
	}
	return fmt.Sprintf("stale=%v", c.MaxAge())
}

// MaxAgeError refuses a read whose age is not positive. Nothing was read.
type MaxAgeError struct {
	MaxAge time.Duration
}

func (e *MaxAgeError) Error() string {
	return fmt.Sprintf("raft: a read may not be at most %v old: give Stale a positive age, or read with Linearizable", e.MaxAge)
}
