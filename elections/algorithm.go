package elections

import "strings"

// Algorithm is one variant of the comparison.
type Algorithm struct {
	Name       string // in commands and tables: bully-a
	Title      string
	Source     string // who described it, where and when
	Assumes    string // of the network, the clocks and the members
	Guarantees string
	InCore     []*CorePart // what the Raft core has of it today, or instead of it
	NotInCore  []*CoreLack // what the core could adopt from it, and does not have today
	Leaves     string      // what the core does not take over, and why
	Choices    []string    // what the source leaves open, and what was chosen here
	Epochs     bool        // Leader's second value numbers leaders: two leaders of one epoch are measured
	Candidates bool        // some members may lead, and others not: Options.Candidates
	Qualities  bool        // hosts have qualities: Options.Qualities
	News       bool        // its members learn that the process of a peer has ended: its machines implement Connected
	New        func(o Options) Machine
	// Priorities returns the priority of each member, by rank from 1, if a Setup gives none. nil: the algorithm
	// has no priorities. Otherwise its machines implement Prioritized.
	Priorities func(n int) []int
	// Bootstrap returns the contents of the members' disks before a scenario begins, by rank from 0. nil: the
	// algorithm has no disk, or begins with an empty one.
	Bootstrap func(s *Setup) ([]any, error)
}

// CoreHas describes which features of the algorithm the core has, and where.
func (a *Algorithm) CoreHas() string {
	said := make([]string, len(a.InCore))
	for i, p := range a.InCore {
		said[i] = p.String()
	}
	return strings.Join(said, " ")
}

// CoreLacks describes which features of the algorithm the core lacks and could adopt.
func (a *Algorithm) CoreLacks() string {
	if len(a.NotInCore) == 0 {
		return ""
	}
	said := make([]string, len(a.NotInCore))
	for i, l := range a.NotInCore {
		said[i] = l.What
	}
	return strings.Join(said, "; ") + "."
}

// Options is what a Machine is created with.
type Options struct {
	Self       Rank
	N          int
	Candidates []Rank // candidate/ordinary: the members that may lead, in the order in which they are asked; empty: the algorithm's own choice
	Priorities []int  // ballots: one for each member, by rank from 1; empty: those of Algorithm.Priorities
	Wins       int    // ballots: consecutive wins that a leader needs; 0: two
	Qualities  []int  // bully-quality: of each member's host at the start, by rank from 1; empty: the best
}

// Quality returns the quality of the member's host at the start.
func (o *Options) Quality() int {
	if len(o.Qualities) == 0 {
		return QualityMax
	}
	return o.Qualities[o.Self-1]
}

// algorithms lists every variant, in the order of the tables. A new algorithm needs a line here.
var algorithms = []*Algorithm{
	twoPhase,
	bullyThreeStep,
	bullyCascading,
	bullyQuality,
	nextInLineFailover,
	candidateOrdinary,
	invitationAlgorithm,
	ringCollecting,
	ringMaximum,
	ringChangRoberts,
	ballotsMajority,
	ballotsRanked,
	ballotsAllButOne,
	ballotsNone,
	stable,
	raftCore,
	raftPreferred,
	raftBare,
	raftFixed,
	raftRanked,
}

// Algorithms returns every variant, in the order of the tables.
func Algorithms() []*Algorithm { return algorithms }
