package elections

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The limits of a Setup.
const (
	MembersMax  = 101
	PriorityMin = -1 // below 0: out of service
	PriorityMax = 255
	winsMax     = 100
	QualityMin  = 0 // a host that keeps failing
	QualityMax  = 100
	// priorityDefault is the priority of every member unless an algorithm says otherwise.
	priorityDefault = 1
)

// Setup is the configuration of the members of a run.
type Setup struct {
	N          int
	Times      Times
	Candidates []Rank // see Options
	Priorities []int
	Wins       int
	Qualities  []int
	Changes    []PriorityChange // made in every scenario, in addition to its own
}

// PriorityChange gives a member another priority at a given time after the fault. No time profile scales that time. The new
// priority survives a restart.
type PriorityChange struct {
	After    time.Duration `json:"after"`
	Member   Rank          `json:"member"`
	Priority int           `json:"priority"`
}

// Validate returns what is wrong with the setup, and the remedy.
func (s *Setup) Validate() error {
	if s.N < 1 || s.N > MembersMax {
		return fmt.Errorf("elections: n = %d: it takes 1 to %d members", s.N, MembersMax)
	}
	if s.Times == (Times{}) {
		return fmt.Errorf("elections: no time profile: it takes Scaled or Published")
	}
	if s.Wins < 0 || s.Wins > winsMax {
		return fmt.Errorf("elections: %d consecutive wins: it takes 1 to %d, or 0 for the default", s.Wins, winsMax)
	}
	seen := map[Rank]bool{}
	for _, r := range s.Candidates {
		if r < 1 || int(r) > s.N {
			return fmt.Errorf("elections: candidate %d: the ranks are 1 to %d", r, s.N)
		}
		if seen[r] {
			return fmt.Errorf("elections: candidate %d is named twice: ranks are unique", r)
		}
		seen[r] = true
	}
	if p := len(s.Priorities); p != 0 && p != s.N {
		return fmt.Errorf("elections: %d priorities: it takes one for each of the %d members", p, s.N)
	}
	for i, p := range s.Priorities {
		if err := checkPriority(Rank(i+1), p); err != nil {
			return err
		}
	}
	if q := len(s.Qualities); q != 0 && q != s.N {
		return fmt.Errorf("elections: %d qualities: it takes one for each of the %d members", q, s.N)
	}
	for i, q := range s.Qualities {
		if q < QualityMin || q > QualityMax {
			return fmt.Errorf("elections: quality %d of member %d: it takes %d (keeps failing) to %d (never failed)",
				q, i+1, QualityMin, QualityMax)
		}
	}
	for _, c := range s.Changes {
		if end := time.Duration(s.Times.lasting(runTime)); c.After < 0 || c.After >= end {
			return fmt.Errorf("elections: a priority change %v after the fault: it takes 0s to below %v, the time of a run", c.After, end)
		}
		if c.Member < 1 || int(c.Member) > s.N {
			return fmt.Errorf("elections: a priority change of member %d: the ranks are 1 to %d", c.Member, s.N)
		}
		if err := checkPriority(c.Member, c.Priority); err != nil {
			return err
		}
	}
	return nil
}

// CheckUsed returns an error if the setup has an option that none of the chosen algorithms uses.
func (s *Setup) CheckUsed(chosen ...*Algorithm) error {
	hasCandidates := func(a *Algorithm) bool { return a.Candidates }
	hasQualities := func(a *Algorithm) bool { return a.Qualities }
	for _, option := range []struct {
		name  string
		given bool
		by    func(*Algorithm) bool
	}{
		{"candidates", len(s.Candidates) > 0, hasCandidates},
		{"priorities", len(s.Priorities) > 0, hasPriorities},
		{"priority changes", len(s.Changes) > 0, hasPriorities},
		{"consecutive wins", s.Wins > 0, hasPriorities},
		{"qualities", len(s.Qualities) > 0, hasQualities},
	} {
		if option.given && !slices.ContainsFunc(chosen, option.by) {
			return fmt.Errorf("elections: %s mean nothing to %s; they are for %s", option.name,
				namesOf(chosen, func(*Algorithm) bool { return true }), namesOf(algorithms, option.by))
		}
	}
	return nil
}

func checkPriority(r Rank, p int) error {
	if p < PriorityMin || p > PriorityMax {
		return fmt.Errorf("elections: priority %d of member %d: it takes %d (out of service) to %d", p, r, PriorityMin, PriorityMax)
	}
	return nil
}

// FindAlgorithm returns the algorithm of this name.
func FindAlgorithm(name string) (*Algorithm, error) {
	return findNamed("algorithm", name, algorithms, func(a *Algorithm) string { return a.Name })
}

// FindScenario returns the scenario of this name, one of Scenarios or LostVotes.
func FindScenario(name string) (*Scenario, error) {
	all := append(slices.Clip(scenarios), lostVotes)
	return findNamed("scenario", name, all, func(s *Scenario) string { return s.Name })
}

// FindTimes returns the profile of times of this name.
func FindTimes(name string) (Times, error) {
	return findNamed("profile of times", name, []Times{Scaled(), Published()}, func(t Times) string { return t.Name })
}

// FindMeasure returns the measure of this name.
func FindMeasure(name string) (MeasureInfo, error) {
	return findNamed("measure", name, measureInfos, func(m MeasureInfo) string { return m.Name })
}

// namesOf lists the names of the algorithms that are wanted.
func namesOf(all []*Algorithm, wanted func(*Algorithm) bool) string {
	var names []string
	for _, a := range all {
		if wanted(a) {
			names = append(names, a.Name)
		}
	}
	return strings.Join(names, ", ")
}

// findNamed finds an item by its name. The error lists the names that exist.
func findNamed[T any](kind, name string, all []T, nameOf func(T) string) (one T, err error) {
	var names []string
	for _, candidate := range all {
		if nameOf(candidate) == name {
			return candidate, nil
		}
		names = append(names, nameOf(candidate))
	}
	return one, fmt.Errorf("elections: unknown %s %q; there are %s", kind, name, strings.Join(names, ", "))
}
