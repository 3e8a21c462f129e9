package elections

import (
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// Times is a time profile: how long things take.
type Times struct {
	Name       string
	Heartbeat  sim.Time // HBT: how often a leader sends heartbeats
	RTT        sim.Time // a bound on a round trip
	Answer     sim.Time // T: how long a member waits for an answer, 2 · transmission + processing
	TimeoutMin sim.Time // a leader is suspected after a silence drawn from TimeoutMin
	TimeoutMax sim.Time // to TimeoutMax
	Silence    sim.Time // the fixed timeout of algorithms without a random one: candidate/ordinary, raft-fixed, raft-ranked
	Period     sim.Time // of ballots
	Eta        sim.Time // η of the stable election
	Durable    sim.Time // a durable write, for the algorithm that has a disk
}

// Scaled returns the profile of every comparison: the core's own times, and the bound of the simulated network.
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

// Published returns the authors' own numbers. If an author gave none, it uses the heartbeat and round trip of the two-phase
// election, and derives the timeouts from them as Scaled does. Raft's own timeouts, 150 to 300 ms, are in Scaled. Here Raft
// has the same timeouts as the other algorithms, so that they can be compared.
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

// scaledHeartbeat is the heartbeat interval for which scenarios are written.
const scaledHeartbeat = sim.Time(50 * time.Millisecond)

// lasting converts a duration of a scenario from scaled times to this profile. The converted duration is the same number of
// heartbeat intervals.
func (t *Times) lasting(scaled sim.Time) sim.Time {
	const unit = sim.Time(time.Microsecond) // so that no product overflows
	return scaled / unit * t.Heartbeat / (scaledHeartbeat / unit)
}

// longer returns the factor by which lasting prolongs a duration.
func (t *Times) longer() int { return int(t.Heartbeat / scaledHeartbeat) }

// inSeconds reports whether tables show seconds: in milliseconds the numbers would be long and no more useful.
func (t *Times) inSeconds() bool { return t.Heartbeat >= sim.In(time.Second) }

// The network of every scenario: a message takes delayMin to delayMax, and the messages of one link keep their order.
const (
	delayMin = sim.Time(200 * time.Microsecond)
	delayMax = sim.Time(5 * time.Millisecond)
)

// Delta returns δ of the candidate/ordinary election: (n - rank + 1) · step, so that a higher rank begins earlier. The step
// exceeds the time until the others are told. The notice leaves T after an election began, and takes up to one delay. The
// last heartbeat reached the members up to one delay apart. A third delay allows for clocks that run at different rates.
func (t *Times) Delta(n int, r Rank) sim.Time { return sim.Time(n-int(r)+1) * (t.Answer + t.RTT*3/2) }

// DrawTimeout draws a random timeout, as the core does.
func (t *Times) DrawTimeout(s *sim.Stream) sim.Time { return s.Between(t.TimeoutMin, t.TimeoutMax) }
