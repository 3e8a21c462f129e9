package fuzzy

import (
	"cmp"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// registerOperation is an operation for porcupine.
type registerOperation struct {
	write  bool
	serial uint64
}

var registerModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		in := input.(registerOperation)
		return in.write || state == in.serial, in.serial
	},
}

// byPorcupine checks a history with a checker that does not exploit the special form of these histories.
func byPorcupine(history []operation) bool {
	var all []porcupine.Operation
	for i, o := range history {
		all = append(all, porcupine.Operation{
			ClientId: i, Input: registerOperation{o.write, o.serial}, Call: o.call, Return: o.answer,
		})
	}
	return porcupine.CheckOperations(registerModel, all)
}

// someHistory draws a history of up to n operations, some of them endless. Each operation takes effect between its call and
// its answer. Strays are the exception: a stray is a read that returns any value.
func someHistory(random *sim.Stream, n, strays int) []operation {
	const length = 100 // longest operation, in stamps
	type effect struct {
		at int64
		operation
	}
	var effects []effect
	for i := range 1 + random.IntN(n) {
		at := int64(random.IntN(20 * n))
		o := operation{write: random.Coin(), serial: uint64(i + 1)}
		o.call, o.answer = at-int64(random.IntN(length)), at+int64(random.IntN(length))
		if o.write && random.IntN(6) == 0 {
			o.answer = 1 << 40
		}
		effects = append(effects, effect{at, o})
	}
	slices.SortStableFunc(effects, func(a, b effect) int { return cmp.Compare(a.at, b.at) })
	var history []operation
	holds := uint64(0)
	for i, e := range effects {
		o := e.operation
		o.call, o.answer = (o.call+length)<<10|int64(i), (o.answer+length)<<10|1<<9|int64(i) // no two at the same time
		switch {
		case o.write:
			holds = o.serial
		case random.Chance(strays):
			o.serial = uint64(random.IntN(n + 1))
		default:
			o.serial = holds
		}
		history = append(history, o)
	}
	return history
}

func TestLinearizable_AgreesWithPorcupine(t *testing.T) {
	random := sim.NewStream(1, sim.WorkloadConcern)
	sound, broken := 0, 0
	for range 20_000 {
		history := someHistory(random, 12, sim.Million/5)
		want := byPorcupine(history)
		require.Equal(t, want, linearizable(history), "%+v", history)
		if want {
			sound++
		} else {
			broken++
		}
	}
	assert.Greater(t, sound, 3000)
	assert.Greater(t, broken, 3000)
}

func TestLinearizable_TakesWhatARegisterDoes(t *testing.T) {
	random := sim.NewStream(2, sim.WorkloadConcern)
	for range 200 {
		assert.True(t, linearizable(someHistory(random, 500, 0)))
	}
}

func TestLinearizable_KnowsEachWayToBeWrong(t *testing.T) {
	write := func(serial uint64, call, answer int64) operation {
		return operation{write: true, serial: serial, call: call, answer: answer}
	}
	read := func(serial uint64, call, answer int64) operation {
		return operation{serial: serial, call: call, answer: answer}
	}
	for name, row := range map[string]struct {
		sound   bool
		history []operation
	}{
		"nothing happened":                         {true, nil},
		"a read of nothing":                        {true, []operation{read(0, 1, 2)}},
		"a read of what nobody wrote":              {false, []operation{read(7, 1, 2)}},
		"a read before its write":                  {false, []operation{read(1, 1, 2), write(1, 3, 4)}},
		"a read while it is written":               {true, []operation{read(1, 2, 3), write(1, 1, 4)}},
		"a stale read":                             {false, []operation{write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)}},
		"a read of nothing after a write":          {false, []operation{write(1, 1, 2), read(0, 3, 4)}},
		"reads that disagree about the order":      {false, []operation{write(1, 1, 9), write(2, 2, 8), read(1, 3, 4), read(2, 5, 6), read(1, 10, 11)}},
		"a write that never ended is read late":    {true, []operation{write(1, 1, 99), write(2, 2, 3), read(2, 4, 5), read(1, 6, 7)}},
		"a write that never ended is read, undone": {false, []operation{write(1, 1, 99), write(2, 2, 3), read(1, 4, 5), read(2, 6, 7)}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.sound, byPorcupine(row.history))
			assert.Equal(t, row.sound, linearizable(row.history))
		})
	}
}
