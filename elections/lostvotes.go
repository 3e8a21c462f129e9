package elections

import (
	"fmt"
	"time"

	"github.com/coxswain/raft/internal/sim"
)

// How long the two parts of lostVotes last, in scaled times. The first part ends between the first and the
// second round of the two-phase election.
const (
	lostVotesFirst  = sim.Time(400 * time.Millisecond)
	lostVotesSecond = sim.Time(1600 * time.Millisecond)
)

var lostVotes = &Scenario{
	Name: "lost-votes", Title: "Votes are lost", cuts: true, cold: true, inject: loseVotes,
	Meaning: "An example, in no chart: for 400 ms, 1 hears only the lower half; then, for 1.6 s, it reaches only " +
		"the highest rank, and does not hear 2.",
}

// LostVotes is not in the tables: it is written for one algorithm. It shows how loss alone makes the two-phase
// election of five or more members elect two leaders of one term. It does so with nearly every seed: an ELECT
// from 1 must arrive in time.
func LostVotes() *Scenario { return lostVotes }

// loseVotes: in round 1 only the votes of 1 and 2 reach 1; in round 2 the ELECT of 1 reaches only 5, so 2, 3,
// 4 vote for 2 and 1, 5 for 1: tallies {1,2,5} and {2,3,4}. Both keep leading because 1 does not hear 2.
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
