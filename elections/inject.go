package elections

import (
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// These faults neither end a process nor lose a message: clocks jump, and an operator changes priorities.

// In scaled times; see Times.lasting.
const (
	clockJump     = sim.Time(time.Minute)
	oneClockTime  = sim.Time(10 * time.Second)
	allClocksFrom = sim.Time(15 * time.Second)
	allClocksTime = sim.Time(5 * time.Second)
	clockSpread   = sim.Time(time.Second)

	standbyFrom = sim.Time(10 * time.Second)
	outFrom     = sim.Time(20 * time.Second)
	outTime     = sim.Time(5 * time.Second)
)

// clockJumps makes wall clocks jump. Only ballots and the stable election notice this, because only they compare a message's
// timestamp with their clock.
func clockJumps(w *world, fault sim.Time) {
	leader, jump := Rank(0), int64(w.times.lasting(clockJump))
	from, until := fault+w.times.lasting(allClocksFrom), fault+w.times.lasting(allClocksFrom+allClocksTime)
	w.fault(fault, "the leader's wall clock jumps ahead", func() {
		leader = max(w.present(), 1)
		w.member(leader).clock.Jump(jump)
	})
	w.fault(fault+w.times.lasting(oneClockTime), "it is set right", func() { w.member(leader).clock.Jump(-jump) })
	for r := Rank(1); int(r) <= w.setup.N; r++ {
		clock := &w.member(r).clock
		ahead := from + w.times.lasting(w.chance.Between(0, clockSpread))
		w.fault(ahead, fmt.Sprintf("the wall clock of %d jumps ahead", r), func() { clock.Jump(jump) })
		right := until + w.times.lasting(w.chance.Between(0, clockSpread))
		w.fault(right, fmt.Sprintf("the wall clock of %d is set right", r), func() { clock.Jump(-jump) })
	}
}

// priorityChanges plays an operator who forces a leader, puts it into standby, takes its successor out of
// service, and puts that back into service.
func priorityChanges(w *world, fault sim.Time) {
	next := 1
	if n := w.setup.N; n > 1 {
		next += w.chance.IntN(n - 1)
	}
	w.fault(fault, "an operator wants another leader: the highest priority for it", func() {
		old := max(w.present(), 1)
		if w.setup.N > 1 { // the operator asked for another leader: an agreement on the old one does not count
			w.watch.relieved = old
		}
		w.prioritize((old-1+Rank(next))%Rank(w.setup.N)+1, PriorityMax)
	})
	w.fault(fault+w.times.lasting(standbyFrom), "the leader is put into standby: the lowest priority in service", func() {
		w.watch.relieved = 0
		w.prioritize(max(w.present(), 1), 0)
	})
	out, before := Rank(0), 0
	w.fault(fault+w.times.lasting(outFrom), "the leader is taken out of service", func() {
		out = max(w.present(), 1)
		before = w.priorities[out-1]
		w.prioritize(out, PriorityMin)
	})
	w.fault(fault+w.times.lasting(outFrom+outTime), "it is in service again", func() { w.prioritize(out, before) })
}

// hasPriorities reports whether priorityChanges applies to an algorithm.
func hasPriorities(a *Algorithm) bool { return a.Priorities != nil }

// changePriorities plans the priority changes of the setup.
func (w *world) changePriorities(fault sim.Time) {
	for _, c := range w.setup.Changes {
		w.fault(fault+sim.Time(c.After), fmt.Sprintf("%d is given priority %d", c.Member, c.Priority), func() {
			w.prioritize(c.Member, c.Priority)
		})
	}
}
