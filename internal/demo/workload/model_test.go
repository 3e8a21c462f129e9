package workload

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

func op(call, ret int64, in input, out output) porcupine.Operation {
	if out.unknown {
		ret = forever
	}
	return porcupine.Operation{Input: in, Call: call, Output: out, Return: ret}
}

func get(value string, revision uint64) (input, output) {
	return input{kind: opGet}, output{value: value, revision: revision}
}

func put(value string, revision uint64) (input, output) {
	return input{kind: opPut, value: value}, output{revision: revision}
}

func unsurePut(value string) (input, output) {
	return input{kind: opPut, value: value}, output{unknown: true}
}

func swap(expected, value string, revision uint64) (input, output) {
	return input{kind: opSwap, value: value, expected: expected}, output{revision: revision, failed: revision == 0}
}

func TestModel_TellsWhatOneStoreCouldHaveAnswered(t *testing.T) {
	type history []porcupine.Operation
	seq := func(steps ...func() (input, output)) (h history) {
		for i, step := range steps {
			in, out := step()
			h = append(h, op(int64(10*i), int64(10*i+5), in, out))
		}
		return h
	}
	bind := func(in input, out output) func() (input, output) { return func() (input, output) { return in, out } }
	deleted := bind(input{kind: opDelete}, output{revision: 5})
	unsureSwap := bind(input{kind: opSwap, expected: "x", value: "y"}, output{unknown: true})
	for _, row := range []struct {
		rule string
		h    history
		want bool
	}{
		{"a new key is absent", seq(bind(get("", 0))), true},
		{"a read sees the write", seq(bind(put("a", 1)), bind(get("a", 1))), true},
		{"an acknowledged write is not lost", seq(bind(put("a", 1)), bind(get("", 0))), false},
		{"a read is not stale", seq(bind(put("a", 1)), bind(put("b", 2)), bind(get("a", 1))), false},
		{"a value has the revision of its write", seq(bind(put("a", 1)), bind(get("a", 2))), false},
		{"revisions rise", seq(bind(put("a", 2)), bind(put("b", 1))), false},
		{"a deleted key is absent", seq(bind(put("a", 1)), deleted, bind(get("", 0))), true},
		{"a deletion is not lost", seq(bind(put("a", 1)), deleted, bind(get("a", 1))), false},
		{"a swap of what is there", seq(bind(put("a", 1)), bind(swap("a", "b", 2)), bind(get("b", 2))), true},
		{"a swap of what is there does not fail", seq(bind(put("a", 1)), bind(swap("a", "b", 0))), false},
		{"a swap of something else fails", seq(bind(put("a", 1)), bind(swap("x", "b", 0)), bind(get("a", 1))), true},
		{"a swap of something else does not succeed", seq(bind(put("a", 1)), bind(swap("x", "b", 2))), false},
		{"an unsure write may have happened", seq(bind(unsurePut("a")), bind(get("a", 1))), true},
		{"or not", seq(bind(unsurePut("a")), bind(get("", 0))), true},
		{"or later", seq(bind(unsurePut("a")), bind(get("", 0)), bind(get("a", 1))), true},
		{"but not be undone", seq(bind(unsurePut("a")), bind(get("a", 1)), bind(get("", 0))), false},
		{"and has one revision", seq(bind(unsurePut("a")), bind(get("a", 1)), bind(get("a", 2))), false},
		{"which is above the ones before it", seq(bind(put("a", 7)), bind(unsurePut("b")), bind(get("b", 6))), false},
		{"an unsure swap whose condition never held", seq(bind(put("a", 1)), unsureSwap, bind(get("a", 1))), true},
		{"does not happen", seq(bind(put("a", 1)), unsureSwap, bind(get("y", 2))), false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			assert.Equal(t, row.want, porcupine.CheckOperations(registerModel, row.h))
		})
	}
}

func TestModel_ConcurrentWritesTakeEffectInSomeOrder(t *testing.T) {
	in1, out1 := put("a", 1)
	in2, out2 := put("b", 2)
	inGet, outGet := get("b", 2)
	assert.True(t, porcupine.CheckOperations(registerModel, []porcupine.Operation{
		op(0, 10, in2, out2), op(1, 11, in1, out1), op(20, 30, inGet, outGet),
	}), "the order is that of the revisions")
	inGet, outGet = get("a", 1)
	assert.False(t, porcupine.CheckOperations(registerModel, []porcupine.Operation{
		op(0, 10, in2, out2), op(1, 11, in1, out1), op(20, 30, inGet, outGet),
	}))
}
