package elections

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"time"
)

// The part of the first comparison that the second one of the document repeats.
const (
	authorsAt    = 5  // the size
	authorsShare = 10 // it takes one seed of this many
)

// authorsScenarios are its scenarios.
var authorsScenarios = []string{"cold-start", "leader-crash", "minority", "flapping"}

// AuthorsPlan returns the second comparison of the document: some scenarios at one size, with the authors' own times. ok is
// false if p already has those times, if p lacks that size, or if p has none of the scenarios.
func (p *Plan) AuthorsPlan() (second Plan, ok bool) {
	second = *p
	second.Setup.Times = Published()
	second.Sizes = []int{authorsAt}
	second.Seeds = max(p.Seeds/authorsShare, 1)
	second.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s *Scenario) bool {
		return !slices.Contains(authorsScenarios, s.Name)
	})
	ok = p.Setup.Times != second.Setup.Times && slices.Contains(p.Sizes, authorsAt) && len(second.Scenarios) > 0
	return second, ok
}

// WriteAuthors writes the last part of docs/results/elections.md: the tables of AuthorsPlan.
func WriteAuthors(w io.Writer, p *Plan, cells []Cell, measures []MeasureInfo) error {
	out := bufio.NewWriter(w)
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) } // Flush returns the error
	t := &p.Setup.Times
	printf("\n## The authors' own times\n\n"+
		"`--times %s`: a leader is heard every %v and suspected after a silence of %v to %v (%v where it is fixed), an\n"+
		"answer is waited for %v, ballots go out every %v, η is %v. Where an author gave no number, those of the two-phase\n"+
		"election hold. Raft has them too, so that it can be compared; its own, 150 to 300 ms, are those above.\n"+
		"The faults last %d times as long as above; messages take %v to %v, as there.\n"+
		"%s\n",
		t.Name, time.Duration(t.Heartbeat), time.Duration(t.TimeoutMin), time.Duration(t.TimeoutMax), time.Duration(t.Silence),
		time.Duration(t.Answer), time.Duration(t.Period), time.Duration(t.Eta), t.longer(),
		time.Duration(delayMin), time.Duration(delayMax), t.legend())
	for _, group := range groups(cells) {
		printf("\n### %s, %s times, n = %d, %d seeds\n\n", group[0].Scenario.Title, t.Name, group[0].N, len(group[0].Outcomes))
		writePipes(printf, rows(group, t.in(measures)))
	}
	return out.Flush()
}
