package elections

import (
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// The durations of the two parts of lostVotes, in scaled times. The first part ends between the first and the second round of
// the two-phase election.
const (
	lostVotesFirst  = sim.Time(400 * time.Millisecond)
	lostVotesSecond = sim.Time(1600 * time.Millisecond)
)

var lostVotes = &Scenario{
	Name: "lost-votes", Title: "Votes are lost", cuts: true, cold: true, inject: loseVotes,
	Meaning: "An example, in no chart: for 400 ms, 1 hears only the lower half; then, for 1.6 s, it reaches only " +
		"the highest rank, and does not hear 2.",
}

// LostVotes is not in the tables, because it is written for one algorithm. It shows that loss alone makes the two-phase
// election of five or more members elect two leaders of one term. This happens with nearly every seed; the only condition is
// that an ELECT from member 1 arrives in time.
func LostVotes() *Scenario { return lostVotes }

// loseVotes plans the loss. In round 1 only the votes of members 1 and 2 reach member 1. In round 2 the ELECT of 1 reaches
// only 5. So 2, 3, 4 vote for 2, and 1, 5 vote for 1. The tallies are {1,2,5} and {2,3,4}. Both keep leading because 1 does
// not hear 2.
func loseVotes(w *world, fault sim.Time) {
	n := w.setup.N
	if n == 1 { // it has no links
		w.fault(fault, "all start", func() {})
		return
	}
	half := n / 2
	w.fault(fault, fmt.Sprintf("all start, and 1 hears nobody above %d", half), func() {
		for from := half; from < n; from++ {
			w.cutOne(from, 0)
		}
	})
	first := w.times.lasting(lostVotesFirst)
	w.fault(fault+first, fmt.Sprintf("1 reaches only %d, and does not hear 2", n), func() {
		w.mend()
		for to := 1; to < n-1; to++ {
			w.cutOne(0, to)
		}
		w.cutOne(1, 0)
	})
	w.fault(fault+first+w.times.lasting(lostVotesSecond), "the links are mended", w.mend)
}
