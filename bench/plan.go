package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// tier is a group of cells. The session measures all rounds of a tier before the next tier begins. So an interrupted session
// has complete rounds of the most important cells.
type tier struct {
	rounds int
	cells  []cell
}

// step is one run of the plan.
type step struct {
	cell       cell
	contestant string
	round      int
}

// plan returns all runs in order. In each round, the contestants take turns within each cell. The order of the turns differs
// from round to round.
func (s *session) plan() (steps []step) {
	for t, tier := range s.tiers {
		for round := 1; round <= s.roundsOf(tier); round++ {
			for k, c := range tier.cells {
				for _, who := range shuffled(s.contestantsOf(c), uint64(round), uint64(t<<16+k)) {
					steps = append(steps, step{c, who, round})
				}
			}
		}
	}
	return steps
}

func (s *session) roundsOf(t tier) int { return min(s.rounds, t.rounds) }

// left returns the runs of the plan that are not finished.
func (s *session) left() []step {
	return slices.DeleteFunc(s.plan(), func(x step) bool { return s.done[runKey(x.cell, x.contestant, x.round)] >= triesMax })
}

// expected returns the expected duration of the steps, without repetitions. For a cell and a contestant that were measured
// before, it uses the median of the measured durations. For others, it uses an estimate.
func (s *session) expected(steps []step) (sum time.Duration) {
	for _, x := range steps {
		sum += s.expectedOf(x)
	}
	return sum
}

func (s *session) expectedOf(x step) time.Duration {
	if took := s.took[runKey(x.cell, x.contestant, 0)]; len(took) > 0 {
		sorted := slices.Sorted(slices.Values(took))
		return sorted[len(sorted)/2]
	}
	return s.guess(x)
}

// The parts of a run's duration besides its load, as measured on a machine with two cores.
const (
	startReplicas = 250 * time.Millisecond
	startStore    = 2 * time.Second
	perKill       = 300 * time.Millisecond
	perKillOthers = 2 * time.Second // with default timeouts
	entriesASec   = 100_000         // entries that fill a log in a second
)

func (s *session) guess(x step) time.Duration {
	c, start := x.cell, startReplicas
	filled := time.Duration(c.Entries) * time.Second / entriesASec
	switch c.Kind {
	case limits:
		return start + time.Duration(len(syncSizes)+1)*s.measure/2
	case store:
		return startStore + s.warmup + s.measure
	case failover:
		if c.Tuned || isOurs(x.contestant) {
			return start + time.Duration(c.Kills)*perKill
		}
		return start + time.Duration(c.Kills)*perKillOthers
	case restart, catchUp:
		return 2*start + filled + time.Second
	case idle:
		return start + s.warmup + idleFactor*s.measure
	}
	return start + s.warmup + s.measure + c.Rest
}

func isOurs(contestant string) bool { return strings.HasPrefix(contestant, ours) }

// outline prints the remaining work, tier by tier, before the session begins.
func (s *session) outline() {
	left := s.left()
	s.say("%d of %d runs to do, about %s. A run that other programs disturb is repeated.",
		len(left), len(s.plan()), minutes(s.expected(left)))
	var until time.Duration
	for t, tier := range s.tiers {
		of := slices.DeleteFunc(slices.Clone(left), func(x step) bool { return !slices.Contains(tier.cells, x.cell) })
		until += s.expected(of)
		if len(s.tiers) > 1 {
			s.say("tier %d: %d cells, %d runs, %d rounds; over after %s", t+1, len(tier.cells), len(of), s.roundsOf(tier), minutes(until))
		}
	}
}

func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...) // the results are in the file
}

// minutes prints a duration for people.
func minutes(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}
