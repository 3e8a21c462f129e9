package elections

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/coxswain/raft/internal/sim"
)

// rounds returns the waiting messages with their rounds, and forgets them.
func (b *bench) rounds() string {
	var all []string
	for _, l := range b.waiting {
		all = append(all, fmt.Sprintf("%v(%d)", l, l.message.(stableMessage).round))
	}
	b.waiting = nil
	return strings.Join(all, ", ")
}

func (b *bench) okay(round uint64) Message  { return stableMessage{true, round, int64(b.clock)} }
func (b *bench) begun(round uint64) Message { return stableMessage{false, round, int64(b.clock)} }

var stableEta = Scaled().Eta

// Round 0 is member 1's; each row says what member 2 of three does.
var stableRules = []struct {
	rule    string
	do      func(b *bench)
	said    string
	silence sim.Time // until member 2 gives the round up
	led     Rank
	epoch   uint64
}{
	{rule: "all begin in round 0, and wait for its leader", do: func(*bench) {}, silence: 2 * stableEta},
	{
		rule: "one OK is not enough", silence: 2 * stableEta,
		do: func(b *bench) { b.tell(2, 1, b.okay(0)) },
	},
	{
		rule: "after two OKs of the round its leader is taken as leader", silence: 2 * stableEta, led: 1, epoch: 1,
		do: func(b *bench) { b.tell(2, 1, b.okay(0)); b.tell(2, 1, b.okay(0)) },
	},
	{
		rule: "no OK for 2η: the next round, and START to all; its leader sends OK at once, and one OK is not enough",
		do:   func(b *bench) { b.fire(2, stableSilence) },
		said: "2 -> 1 OK(1), 2 -> 3 OK(1), 2 -> 1 START(1), 2 -> 3 START(1)",
	},
	{
		rule: "a round's leader sends OK every η, and leads after two", led: 2, epoch: 2,
		do:   func(b *bench) { b.fire(2, stableSilence); b.waiting = nil; b.fire(2, stableSend) },
		said: "2 -> 1 OK(1), 2 -> 3 OK(1)",
	},
	{
		rule: "a message of a higher round moves a member to that round", silence: 2 * stableEta,
		do: func(b *bench) { b.tell(2, 1, b.begun(5)) },
	},
	{
		rule: "a round that it is moved to may be its own", said: "2 -> 1 OK(4), 2 -> 3 OK(4)",
		do: func(b *bench) { b.tell(2, 3, b.begun(4)) },
	},
	{
		rule: "a leader that is moved to a higher round leads no more", silence: 2 * stableEta,
		do: func(b *bench) {
			b.fire(2, stableSilence)
			b.fire(2, stableSend)
			b.waiting = nil
			b.tell(2, 3, b.begun(2))
		},
	},
	{
		rule: "OKs of two rounds do not add up", silence: 2 * stableEta,
		do: func(b *bench) { b.tell(2, 1, b.okay(0)); b.tell(2, 1, b.okay(3)) },
	},
	{
		rule: "a message of a lower round is answered with START of the own round", silence: 2 * stableEta,
		do:   func(b *bench) { b.tell(2, 1, b.begun(5)); b.tell(2, 1, b.okay(0)) },
		said: "2 -> 1 START(5)",
	},
	{
		rule: "a message older than η is dropped", silence: stableEta - 1,
		do: func(b *bench) {
			late := b.begun(4)
			b.clock += stableEta + 1
			b.tell(2, 1, late)
		},
	},
	{
		rule: "one as old as η is not", said: "2 -> 1 OK(4), 2 -> 3 OK(4)",
		do: func(b *bench) {
			late := b.begun(4)
			b.clock += stableEta
			b.tell(2, 1, late)
		},
	},
	{
		rule: "an OK of one that is not the round's leader counts for nothing", silence: stableEta,
		do: func(b *bench) {
			b.clock += stableEta
			b.tell(2, 3, b.okay(0))
			b.tell(2, 3, b.okay(0))
		},
	},
	{
		rule: "an OK sets the wait anew", silence: 2 * stableEta,
		do: func(b *bench) { b.clock += stableEta; b.tell(2, 1, b.okay(0)) },
	},
	{
		rule: "START alone does not make a leader", silence: 2 * stableEta,
		do: func(b *bench) { b.tell(2, 1, b.begun(0)); b.tell(2, 1, b.begun(0)) },
	},
}

func TestStable_FollowsItsRules(t *testing.T) {
	for _, row := range stableRules {
		t.Run(row.rule, func(t *testing.T) {
			b := newBench(t, 3, Scaled())
			b.start(2, stable.New(Options{Self: 2, N: 3}))
			row.do(b)
			assert.Equal(t, row.said, b.rounds())
			if due, waits := b.timers[2][stableSilence]; waits {
				assert.Equal(t, row.silence, due-b.clock)
			} else {
				assert.Zero(t, row.silence, "it waits for another member's OK")
			}
			led, epoch := b.machines[2].Leader()
			assert.Equal(t, row.led, led)
			assert.Equal(t, row.epoch, epoch)
		})
	}
}

// Only the leader sends: n - 1 messages every η, once there is one.
func TestStable_OnlyTheLeaderSendsOnceThereIsOne(t *testing.T) {
	const n = 9
	s := elected(t, stable, n)
	s.pass(time.Second)
	assert.Equal(t, int(ms(1000)/stableEta)*(n-1), s.count("OK"))
	assert.Zero(t, s.count("START"))
}

func TestStable_AWorkingLeaderStaysThoughOthersComeAndGo(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		o := runOne(t, stable, "flapping", 5, seed) // round 0's leader is not the highest rank
		assert.Zero(t, o[Changes], "seed %d", seed)
		assert.Zero(t, o[Leaderless], "seed %d", seed)
	}
}

func TestStable_ElectsALeaderInEachPartOfAPartition(t *testing.T) {
	o := runOne(t, stable, "three-way", 5, 1)
	assert.Greater(t, o[TwoLeaders], int64(partitionTime)*9/10)
	assert.Equal(t, int64(1), o[Ends], "and agrees again after it")
}
