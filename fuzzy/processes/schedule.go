package processes

import (
	"cmp"
	"slices"
	"time"

	"github.com/coxswain/raft/internal/demo/local"
	"github.com/coxswain/raft/internal/sim"
)

// Fault is one fault of a schedule.
type Fault struct {
	At     time.Duration // since the beginning; it begins later if the fault before it took longer
	Kind   Kind
	Leader bool          // it affects the leader, if there is one then; otherwise Node
	Node   int           // the number of a member, from 0
	Other  int           // the other end of a link, or the first of some members in a row
	For    time.Duration // how long it lasts
	Random uint64        // decides the rest
}

// budget limits a schedule, besides the kinds that are wanted.
type budget struct {
	members int  // with the spare ones
	noDisks bool // our own file system is not available
}

// crowd returns how many members there are with the spare ones: the cluster can grow to five, and another member can take
// the place of one.
func crowd(nodes int) int { return min(max(nodes+1, grownMax), local.NodesMax) }

// mayLose returns how many disks may be lost at once while there are so many voters: never so many that the rest is no
// majority.
func mayLose(voters int) int { return max(voters-1, 0) / 2 }

// choose returns the wanted kinds, or all, as far as the budget allows them, and the kinds that were left out.
func (b budget) choose(wanted []Kind) (kinds []Kind, left []Kind) {
	for _, h := range habits {
		switch {
		case len(wanted) > 0 && !slices.Contains(wanted, h.kind):
		case h.fuse && b.noDisks:
			left = append(left, h.kind)
		default:
			kinds = append(kinds, h.kind)
		}
	}
	return kinds, left
}

// draw returns the faults of a run, sorted by time. Each kind has its own random stream, so leaving one out does not move
// the others. Each kind occurs at least once.
func draw(seed uint64, b budget, kinds []Kind, duration time.Duration) (faults []Fault) {
	for i, h := range habits {
		if !slices.Contains(kinds, h.kind) {
			continue
		}
		random := sim.NewStream(seed, sim.ProcessConcern<<8+sim.Concern(i))
		for at := between(random, 0, min(h.every, 9*duration/10)); at < duration; at += wait(random, h.every) {
			faults = append(faults, h.draw(random, b.members, at))
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return faults
}

func wait(random *sim.Stream, mean time.Duration) time.Duration {
	return time.Duration(1 + random.Exponential(sim.Time(mean)))
}

func between(random *sim.Stream, low, high time.Duration) time.Duration {
	return time.Duration(random.Between(sim.Time(low), sim.Time(high)))
}

// draw draws one fault. It always draws the same number of random numbers.
func (h habit) draw(random *sim.Stream, nodes int, at time.Duration) Fault {
	f := Fault{
		At: at, Kind: h.kind, Leader: random.Chance(h.leader * sim.Million / 100), Node: random.IntN(nodes),
		For: between(random, h.least, h.most), Random: random.Uint64(),
	}
	f.Other = (f.Node + 1 + random.IntN(nodes-1)) % nodes
	return f
}

// inLane returns the faults of a lane.
func inLane(faults []Fault, l lane) (some []Fault) {
	for _, f := range faults {
		if h, _ := habitOf(f.Kind); h.lane == l {
			some = append(some, f)
		}
	}
	return some
}
