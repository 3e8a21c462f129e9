package fuzzy

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coxswain/raft"
)

// The invariants that clients see.
//
//	H1  The history of each key is linearizable. (§8) Checked by porcupine on short histories.
//	H2  On long ones: serials are unique, reads never go back and see one's own writes (G11, G13).
//	H3  Each write takes effect at most once, and once if it was acknowledged (G10, G11).
//	H4  What is said not to be applied never is.

// never takes into account that a client was told so.
func (k *checker) never(r *request, a raft.Answer) {
	if r.kind != writeRequest {
		return
	}
	w := &k.c.work.writes[r.serial]
	k.c.holds(w.index == 0, "H4", "write %d is answered %d/%d, and committed at %d", r.serial, a.Kind, a.Refusal, w.index)
	w.never = true
}

// The bounds of a history of one key that is checked: linearizability is NP-hard, above all in the writes
// that never ended.
const (
	historyMax  = 300
	endlessMax  = 12
	patienceMax = time.Second
)

// checkHistory checks the whole history at the end of a run.
func (c *cluster) checkHistory() {
	if !c.profile.Load.History {
		return
	}
	byKey := make([][]porcupine.Operation, c.profile.Load.Keys)
	endless := make([]int, len(byKey))
	for _, o := range c.work.complete() {
		if o.answer > c.work.stamp {
			endless[o.key]++
		}
		byKey[o.key] = append(byKey[o.key], porcupine.Operation{
			ClientId: o.client, Input: register{o.write, o.serial}, Call: o.call, Output: o.serial, Return: o.answer,
		})
	}
	for key, history := range byKey {
		if len(history) > historyMax || endless[key] > endlessMax {
			continue
		}
		c.stats.Histories++
		switch porcupine.CheckOperationsTimeout(registerModel, history, patienceMax) {
		case porcupine.Illegal:
			c.fail(Safety, "H1", "the history of key %d (%d operations) is not linearizable", key, len(history))
		case porcupine.Unknown:
			c.stats.UnknownHistories++
		}
	}
}

// complete is the history with the writes whose outcome is not known: they may be effective at any time
// after their call. A write that is nowhere in the log is left out.
func (w *workload) complete() []operation {
	list := w.history
	for i := range w.requests {
		r := &w.requests[i]
		if r.kind == writeRequest && r.serial > 0 && !r.applied && w.writes[r.serial].index > 0 {
			// A client of its own for each: porcupine takes the calls of one client one after the other.
			list = append(list, operation{len(w.clients) + i, true, r.key, r.serial, r.called, w.stamp + 1})
		}
	}
	return list
}

// register is the input of an operation.
type register struct {
	write  bool
	serial uint64
}

var registerModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(register); in.write {
			return true, in.serial
		}
		return state == output, state
	},
	DescribeOperation: func(input, output any) string {
		if in := input.(register); in.write {
			return fmt.Sprintf("write %d", in.serial)
		}
		return fmt.Sprintf("read %d", output)
	},
}
