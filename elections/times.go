package elections

import (
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// Times is how long things take: one profile of them.
type Times struct {
	Name       string
	Heartbeat  sim.Time // HBT: how often a leader makes itself heard
	RTT        sim.Time // a bound on a round trip
	Answer     sim.Time // T: how long an answer is waited for, 2 · transmission + processing
	TimeoutMin sim.Time // a leader is suspected after a silence drawn from TimeoutMin
	TimeoutMax sim.Time // to TimeoutMax
	Silence    sim.Time // the fixed silence of those that draw none: candidate/ordinary, raft-fixed, raft-ranked
	Period     sim.Time // of ballots
	Eta        sim.Time // η of the stable election
	Durable    sim.Time // a durable write, for the algorithm that has a disk
}

// Scaled is the profile of every comparison: the core's own times, and the bound of the simulated network.
func Scaled() Times {
	return Times{
		Name:       "scaled",
		Heartbeat:  scaledHeartbeat,
		RTT:        2 * delayMax,
		Answer:     2*delayMax + sim.In(2*time.Millisecond),
		TimeoutMin: sim.In(150 * time.Millisecond),
		TimeoutMax: sim.In(300 * time.Millisecond),
		Silence:    sim.In(150 * time.Millisecond),
		Period:     sim.In(100 * time.Millisecond),
		Eta:        sim.In(75 * time.Millisecond),
		Durable:    sim.In(2 * time.Millisecond),
	}
}

// Published is the authors' own numbers; where one gave none, those of the two-phase election hold, whose
// heartbeat and round trip the timeouts are then made of as in Scaled. Raft's own, 150 to 300 ms, are those of Scaled;
// here it has the others', so that it is compared with them.
func Published() Times {
	return Times{
		Name:       "published",
		Heartbeat:  sim.In(5 * time.Second),
		RTT:        sim.In(250 * time.Millisecond),
		Answer:     sim.In(250 * time.Millisecond),
		TimeoutMin: sim.In(15 * time.Second),
		TimeoutMax: sim.In(30 * time.Second),
		Silence:    sim.In(15 * time.Second),
		Period:     sim.In(10 * time.Second),
		Eta:        sim.In(5 * time.Second),
		Durable:    sim.In(2 * time.Millisecond),
	}
}

// scaledHeartbeat is the unit in which scenarios are written.
const scaledHeartbeat = sim.Time(50 * time.Millisecond)

// lasting is how long something of a scenario lasts: it is given for the scaled times, and takes as many
// heartbeat intervals with others.
func (t *Times) lasting(scaled sim.Time) sim.Time {
	const unit = sim.Time(time.Microsecond) // so that no product is too large
	return scaled / unit * t.Heartbeat / (scaledHeartbeat / unit)
}

// longer is how many times as long that is, for those whose times are longer.
func (t *Times) longer() int { return int(t.Heartbeat / scaledHeartbeat) }

// inSeconds says that its tables are in seconds: milliseconds would be long numbers that say no more.
func (t *Times) inSeconds() bool { return t.Heartbeat >= sim.In(time.Second) }

// The network of every scenario: a message takes delayMin to delayMax, and those of one link keep their
// order.
const (
	delayMin = sim.Time(200 * time.Microsecond)
	delayMax = sim.Time(5 * time.Millisecond)
)

// Delta is δ of the candidate/ordinary election: (n - rank + 1) · step, so that a higher rank begins earlier.
// The step is above the time in which the others are told: the notice leaves T after an election began, and takes
// a delay; the heartbeat that was the last reached the others up to a delay apart; a third one is for clocks that
// run at different rates.
func (t *Times) Delta(n int, r Rank) sim.Time { return sim.Time(n-int(r)+1) * (t.Answer + t.RTT*3/2) }

// DrawTimeout is the core's timeout draw, anew each time.
func (t *Times) DrawTimeout(s *sim.Stream) sim.Time { return s.Between(t.TimeoutMin, t.TimeoutMax) }
