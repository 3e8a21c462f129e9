package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coxswain/raft/elections"
)

// choice holds flags as text.
type choice struct {
	algorithms, scenarios, measures, sizes, seeds string // of a comparison

	candidates, priorities, changes, qualities, times string
	wins                                              int
}

// flags adds the flags that say how the members are configured.
func (o *choice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.candidates, "candidates", "", "the ranks that may lead, with commas (candidate/ordinary)")
	cmd.Flags().StringVar(&o.priorities, "priorities", "", "of each member, from rank 1, with commas (ballots)")
	cmd.Flags().StringVar(&o.changes, "priority-changes", "", "while it runs, with commas: 10s:3=255 gives member 3 "+
		"priority 255 ten seconds after the fault; -1 is out of service (ballots)")
	cmd.Flags().IntVar(&o.wins, "wins", 0, "consecutive wins before one leads (ballots); default 2")
	cmd.Flags().StringVar(&o.times, "times", elections.Scaled().Name,
		"how long things take: scaled, made for comparison, or published, the authors' own numbers")
	cmd.Flags().StringVar(&o.qualities, "qualities", "", "of each member's host, from rank 1, 0 to 100, with commas (bully-quality)")
}

// setup returns the configuration of the members, except for their number.
func (o *choice) setup() (elections.Setup, error) {
	candidates, err1 := numbers[elections.Rank]("--candidates", o.candidates)
	priorities, err2 := numbers[int]("--priorities", o.priorities)
	changes, err3 := priorityChanges(o.changes)
	qualities, err4 := numbers[int]("--qualities", o.qualities)
	times, err5 := elections.FindTimes(o.times)
	s := elections.Setup{
		Times: times, Candidates: candidates, Priorities: priorities, Wins: o.wins, Changes: changes,
		Qualities: qualities,
	}
	return s, errors.Join(err1, err2, err3, err4, err5)
}

// priorityChanges reads "10s:3=255,20s:3=-1".
func priorityChanges(text string) (all []elections.PriorityChange, err error) {
	if text == "" {
		return nil, nil
	}
	for _, field := range strings.Split(text, ",") {
		after, what, _ := strings.Cut(field, ":")
		member, priority, _ := strings.Cut(what, "=")
		t, err1 := time.ParseDuration(after)
		r, err2 := strconv.Atoi(member)
		p, err3 := strconv.Atoi(priority)
		if errors.Join(err1, err2, err3) != nil {
			return nil, fmt.Errorf("--priority-changes %q: it takes AFTER:MEMBER=PRIORITY, such as 10s:3=255, several with commas", field)
		}
		all = append(all, elections.PriorityChange{After: t, Member: elections.Rank(r), Priority: p})
	}
	return all, nil
}

func numbers[T ~int](flag, text string) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var all []T
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no number", flag, field)
		}
		all = append(all, T(n))
	}
	return all, nil
}
