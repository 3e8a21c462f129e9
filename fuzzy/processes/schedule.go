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
	At     time.Duration // time since the start; the fault begins later if the one before it took longer
	Kind   Kind
	Leader bool          // aimed at the leader, if there is one; otherwise at Node
	Node   int           // number of a member, from 0
	Other  int           // number of the member at the other end of a link, or of the first of several members in a row
	For    time.Duration // duration
	Random uint64        // decides the rest
}

// budget limits the faults of a schedule.
type budget struct {
	members int  // number of members, including the spare ones
	noDisks bool // our own file system is not available
}

// memberCount returns the number of members, including the spare ones. This number suffices for a cluster of five and a
// replacement.
func memberCount(nodes int) int { return min(max(nodes+1, grownMax), local.NodesMax) }

// mayLose returns the number of disks that this many voters may lose at once. The voters with intact disks must be a
// majority.
func mayLose(voters int) int { return max(voters-1, 0) / 2 }

// choose returns the wanted kinds that the budget allows, and the kinds that the budget excludes. By default, all kinds are
// wanted.
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

// draw returns the faults of a run, sorted by time. Each kind has its own random stream. If a run leaves out one kind, the
// faults of the other kinds therefore do not change. Each kind occurs at least once.
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
