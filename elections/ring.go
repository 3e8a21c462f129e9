package elections

import "slices"

// The texts that the two forms with two rounds share.
const (
	ringAssumes = "Messages arrive and are acknowledged within T, what is silent has crashed, and every " +
		"member knows the order of all; clocks measure T and the patience of a starter, and " +
		"need not agree."
	ringGuarantees = "While that holds and nobody crashes meanwhile, the highest rank that lives is the " +
		"one leader, after 2 · live hops for one starter, beside acknowledgements and what is " +
		"sent in vain to the dead; otherwise nothing: a ring split in two elects two leaders."
)

// ringCollecting finds the highest rank in one round, and notifies all in a second one.
var ringCollecting = &Algorithm{
	Name:  "ring-a",
	Title: "Ring, collecting",
	Source: "E. Chang and R. Roberts, An Improved Algorithm for Decentralized Extrema-Finding in " +
		"Circular Configurations of Processes, 1979, in the textbooks' form, in which the " +
		"starter's message comes back to it",
	Assumes:    ringAssumes,
	Guarantees: ringGuarantees,
	InCore:     []*CorePart{coreTarget},
	Leaves:     "The second round: heartbeats announce.",
	Choices: []string{
		"A starter that sees no COORDINATOR within 2n · T starts again; a message past n hops is " +
			"dropped.",
		lapChoice,
		seatChoice,
	},
	New: func(Options) Machine { return newRing(collect, false) },
}

// ringMaximum is like ringCollecting, but its messages carry only the highest rank.
var ringMaximum = &Algorithm{
	Name:  "ring-b",
	Title: "Ring, maximum only",
	Source: "E. Chang and R. Roberts, An Improved Algorithm for Decentralized Extrema-Finding in " +
		"Circular Configurations of Processes, 1979, in the textbooks' form with short " +
		"messages",
	Assumes:    ringAssumes,
	Guarantees: ringGuarantees,
	InCore:     []*CorePart{coreTarget},
	Leaves:     "Messages with the maximum alone: the sets of a group are tiny.",
	Choices: []string{
		"As in the collecting form.",
	},
	New: func(Options) Machine { return newRing(highest, true) },
}

// fold returns the ranks that an ELECTION carries after a member has passed it on.
type fold func(ranks []Rank, self Rank) []Rank

// collect adds this member's rank: the detector sends ELECTION{itself}; each adds itself and passes on.
func collect(ranks []Rank, self Rank) []Rank { return append(slices.Clone(ranks), self) }

// highest: only the highest rank seen travels.
func highest(ranks []Rank, self Rank) []Rank {
	for _, r := range ranks {
		self = max(self, r)
	}
	return []Rank{self}
}

// ring is one member of the ring, in both of these forms.
type ring struct {
	ringMember
	fold    fold
	maximum bool // only the highest rank travels
}

func newRing(fold fold, maximum bool) *ring {
	r := &ring{fold: fold, maximum: maximum}
	r.form = r
	return r
}

// elect sends an ELECTION round. Concurrent elections run independently, so it starts one even if another is
// in progress.
func (r *ring) elect(e *Env) {
	e.Rule("I start an election: a message with my rank sets out.")
	e.Elect()
	l := r.newLap(e, false, r.fold(nil, e.Self())...)
	r.mine, r.electing = l.tag, true
	e.Set(timerRound, patience(e))
	r.circulate(e, l)
}

func (r *ring) onLap(e *Env, l lap) {
	switch {
	case l.coordinator:
		e.Rule("The second round names the leader: I obey, and pass it on.")
		r.obey(e, l.ranks[0])
	case r.maximum:
		e.Rule("An election comes by: the higher of its rank and mine goes on.")
		l.ranks = r.fold(l.ranks, e.Self())
	default:
		e.Rule("An election comes by: I add my rank, and pass it on.")
		l.ranks = r.fold(l.ranks, e.Self())
	}
	r.circulate(e, l)
}

// onHome ends a round:
//
//	Collecting: back at the start the highest rank in the set is leader, and a second round tells all.
//	Maximum only: back at the start it goes round once more as COORDINATOR.
//
// The member drops a second copy of its own ELECTION, and an ELECTION from before its restart. It also drops another member's
// ELECTION, which ends here if nobody else is left in the ring.
func (r *ring) onHome(e *Env, l lap) {
	switch {
	case l.coordinator && l.starter == e.Self():
		e.Rule("The second round is back: I have told all that it reached.")
	case l.starter == e.Self() && l.tag == r.mine:
		e.Rule("My message is back: the highest rank in it leads.")
		r.mine = 0
		leader := slices.Max(l.ranks)
		r.obey(e, leader)
		r.circulate(e, r.newLap(e, true, leader))
	}
}
