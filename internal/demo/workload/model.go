package workload

import (
	"hash/maphash"
	"math"

	"github.com/anishathalye/porcupine"
)

// opKind is the kind of an operation on a register.
type opKind uint8

const (
	opGet opKind = iota
	opPut
	opDelete
	opSwap // a Put if the register holds the expected value; "" means absent
)

// input is an operation on one register. No value is written twice, so a value identifies its write.
type input struct {
	kind     opKind
	value    string // value to be written
	expected string // expected value of an opSwap
}

// output is the outcome of an operation.
type output struct {
	unknown  bool   // the outcome of a write is unknown: it may take effect at any time after its call, or never
	failed   bool   // the condition of an opSwap did not hold
	value    string // result of an opGet; "" means absent
	revision uint64 // revision of the register after the operation; 0 if it is absent
}

// forever is the return time of an operation with an unknown outcome. Such an operation stays concurrent with all later
// operations.
const forever = math.MaxInt64

// register is the state of one key. A value identifies its write, so the value alone decides whether a condition holds. A
// revision must rise with every change, and must equal the revision in the answer.
type register struct {
	value    string
	revision uint64 // revision of the last change; a lower bound if not exact
	exact    bool
}

// registerModel defines how one key must behave for all clients together.
var registerModel = porcupine.Model{
	Init: func() any { return register{exact: true} },
	Step: func(state, in, out any) (bool, any) {
		ok, next := state.(register).step(in.(input), out.(output))
		return ok, next
	},
	DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
	Hash:              func(state any) uint64 { return maphash.Comparable(registerSeed, state.(register)) },
}

var registerSeed = maphash.MakeSeed()

func (r register) step(in input, out output) (bool, register) {
	switch in.kind {
	case opGet:
		return r.seen(out)
	case opSwap:
		if r.value != in.expected {
			return out.failed || out.unknown, r
		}
		if out.failed {
			return false, r
		}
	}
	value := in.value
	if in.kind == opDelete {
		value = ""
	}
	if out.unknown {
		return true, register{value: value, revision: r.revision + 1}
	}
	return out.revision > r.revision, register{value, out.revision, true}
}

// seen is the step of a read. A present value must have the revision of its write. If that revision was unknown, the read
// determines it.
func (r register) seen(out output) (bool, register) {
	switch {
	case out.value != r.value:
		return false, r
	case r.value == "":
		return true, r
	case r.exact:
		return out.revision == r.revision, r
	}
	return out.revision >= r.revision, register{r.value, out.revision, true}
}
