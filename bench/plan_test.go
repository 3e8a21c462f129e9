package main

import (
	"io"
	"slices"
	"testing"
	"time"
)

func planned(set string) *session {
	return &session{
		tiers: sets[set], contestants: append(names(contestants), storeNames()...), rounds: allRounds,
		warmup: 500 * time.Millisecond, measure: 2 * time.Second, out: io.Discard, done: map[string]int{},
	}
}

// If a session is stopped early, it has complete rounds of the first tier.
func TestPlan_ATierHasAllItsRoundsBeforeTheNextBegins(t *testing.T) {
	s := planned("core")
	s.skips = notInCore
	at, round := 0, 1
	for _, x := range s.plan() {
		if round == s.tiers[at].rounds && !slices.Contains(s.tiers[at].cells, x.cell) {
			at, round = at+1, 1
		}
		if !slices.Contains(s.tiers[at].cells, x.cell) || x.round < round || x.round > round+1 {
			t.Fatalf("%s of round %d comes in round %d of tier %d", x.cell, x.round, round, at)
		}
		round = x.round
	}
	if at != len(s.tiers)-1 || round != s.tiers[at].rounds {
		t.Errorf("it ends with round %d of tier %d", round, at)
	}
}

func TestPlan_TheCoreSetTakesLessThanAnHour(t *testing.T) {
	s := planned("core")
	s.skips = notInCore
	if took := s.expected(s.plan()); took > time.Hour {
		t.Errorf("%v", took)
	}
}

// The order of the contestants varies, so that none gains from always running after the same one.
func TestPlan_TheTurnsDiffer(t *testing.T) {
	after := map[[2]string]int{}
	steps := planned("core").plan()
	for i := 1; i < len(steps); i++ {
		if steps[i].cell == steps[i-1].cell {
			after[[2]string{steps[i-1].contestant, steps[i].contestant}]++
		}
	}
	if pairs := len(contestants) * (len(contestants) - 1); len(after) < pairs {
		t.Errorf("%d of %d pairs follow each other", len(after), pairs)
	}
}

// The durations of finished runs predict the durations of the remaining runs.
func TestPlan_LearnsHowLongARunTakes(t *testing.T) {
	s := planned("core")
	s.tiers, s.contestants, s.took = []tier{{6, []cell{loop(1, 16)}}}, []string{machine}, map[string][]time.Duration{}
	s.note(result{Cell: loop(1, 16), Contestant: machine, Round: 1, Took: time.Minute})
	left := s.left()
	if len(left) != 5 || s.expected(left) != 5*time.Minute {
		t.Errorf("%d runs left, %v", len(left), s.expected(left))
	}
}

func TestCells_HaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range allCells() {
		if seen[c.String()] {
			t.Errorf("two cells are called %q", c)
		}
		seen[c.String()] = true
	}
}
