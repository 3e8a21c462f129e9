package fuzzy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// The drawn worlds include the quiet one, a world for each dimension alone, and worlds with all dimensions. No exchange in a
// world takes longer than the world's unit.
func TestWorld_EachDimensionIsDrawnAloneAndWithTheOthers(t *testing.T) {
	random, timeout := sim.NewStream(1, sim.Profile), plain().ElectionTimeout
	drawn := map[[5]bool]int{}
	for range 200 {
		w := drawWorld(random, timeout)
		drawn[[5]bool{w.Disk > 0, w.Trip > 0, w.Step > 0, w.Pause > 0, w.Loss > 0}]++
		p := Profile{ElectionTimeout: timeout, World: w}
		disk, trip := w.writes(timeout), w.delay(timeout)
		assert.LessOrEqual(t, disk.Min+2*disk.Mean+2*trip.Mean+w.Step+w.Pause, p.unit())
	}
	assert.Len(t, drawn, 7, "quiet, five alone, all: %v", drawn)
}

// The slow profile is never quiet: its first phase is as slow as its second.
func TestWorld_TheSlowProfileIsSlow(t *testing.T) {
	for number := range uint64(20) {
		p, err := Draw(Seed{"slow", number})
		require.NoError(t, err)
		assert.False(t, p.World.quiet())
		assert.Equal(t, p.World.delay(p.ElectionTimeout), p.Network.Delay)
		assert.Equal(t, p.World.writes(p.ElectionTimeout), p.Node.DiskDelay)
	}
}

// In the slowest world, too, each member that leads waits long enough for an answer.
func TestWorld_NoRoundTripIsTooLongForAMember(t *testing.T) {
	unequal := 0
	for number := range uint64(100) {
		p := plain()
		p.Name, p.World.Trip = "slow", worldTripTenths*p.ElectionTimeout/10
		drawUnlike(Seed{p.Name, number}, &p)
		assert.Less(t, 2*p.World.Trip, waitsMax*p.shortestTimeout())
		unequal = max(unequal, p.Node.Unequal)
	}
	assert.Greater(t, unequal, 4)
}
