package elections

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/sim"
)

// The numbers of every comparison, and the numbers that the authors gave. A change of any of them changes every table.
func TestTimes_AreThoseOfTheProfiles(t *testing.T) {
	const millisecond, second = sim.Time(time.Millisecond), sim.Time(time.Second)
	assert.Equal(t, Times{
		Name: "scaled", Heartbeat: 50 * millisecond, RTT: 10 * millisecond, Answer: 12 * millisecond,
		TimeoutMin: 150 * millisecond, TimeoutMax: 300 * millisecond, Silence: 150 * millisecond,
		Period: 100 * millisecond, Eta: 75 * millisecond, Durable: 2 * millisecond,
	}, Scaled())
	assert.Equal(t, Times{
		Name: "published", Heartbeat: 5 * second, RTT: 250 * millisecond, Answer: 250 * millisecond,
		TimeoutMin: 15 * second, TimeoutMax: 30 * second, Silence: 15 * second,
		Period: 10 * second, Eta: 5 * second, Durable: 2 * millisecond,
	}, Published())
}

// RTT is the bound of the simulation kernel: no message of the simulated network takes longer than half of RTT. T is a round
// trip and the time to answer.
func TestTimes_ARoundTripIsTheBoundOfTheNetwork(t *testing.T) {
	w := newWorld(stable, &Setup{N: 3, Times: Scaled()}, 1, nil)
	d := w.net.Faults.Delay
	assert.Equal(t, sim.Uniform, d.Shape)
	assert.Equal(t, Scaled().RTT, 2*max(d.Min, 2*d.Mean))
	assert.True(t, w.net.Faults.FIFO, "messages of one link keep their order")
	assert.Greater(t, Scaled().Answer, Scaled().RTT)
	assert.Equal(t, 20_000_000, w.budget, "and a run has so many events")
}

// Clocks run up to 100 ppm wrong, each in its own way.
func TestTimes_ClocksAreAsWrongAsThoseOfOrdinaryMachines(t *testing.T) {
	shown := map[sim.Time]bool{}
	for seed := uint64(1); seed <= 100; seed++ {
		w := newWorld(stable, &Setup{N: 3, Times: Scaled()}, seed, nil)
		for i := range w.members {
			off := w.members[i].clock.Local(sim.Time(time.Second)) - sim.Time(time.Second)
			assert.LessOrEqual(t, max(off, -off), sim.Time(100*time.Microsecond))
			shown[off] = true
		}
	}
	assert.Greater(t, len(shown), 50)
}
