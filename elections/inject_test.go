package elections

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// faultsOf are the faults of one run, with their times from the first.
func faultsOf(t *testing.T, a *Algorithm, scenario string, setup *Setup) (told []Record) {
	t.Helper()
	_, err := Run(a, scenarioOf(t, scenario), setup, 1, func(r Record) {
		if r.Kind == RecordFault {
			told = append(told, r)
		}
	})
	require.NoError(t, err)
	for i := range told[1:] {
		told[i+1].At -= told[0].At
	}
	told[0].At = 0
	return told
}

func TestScenario_WallClocksJumpAndAreSetRight(t *testing.T) {
	w := newWorld(ballotsNone, &Setup{N: 3, Times: Scaled()}, 1, nil)
	fault := scenarioOf(t, "clock-jump").plan(w)
	ahead := func(at sim.Time) (n int) {
		w.run(fault + at)
		for r := Rank(1); r <= 3; r++ {
			if w.wall(r)-int64(w.queue.Now()) > minute/2 {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 0, ahead(-1))
	led := w.present()
	assert.Equal(t, 1, ahead(1))
	assert.Greater(t, w.wall(led)-int64(w.queue.Now()), minute/2, "the leader's")
	assert.Equal(t, 1, ahead(ms(9_999)))
	assert.Equal(t, 0, ahead(ms(10_001)))
	assert.Equal(t, 0, ahead(ms(14_999)))
	assert.Equal(t, 3, ahead(ms(16_001)), "within a second")
	assert.Equal(t, 3, ahead(ms(19_999)))
	assert.Equal(t, 0, ahead(ms(21_001)))
}

// A safety rule never reads a clock. Only ballots and the stable election notice that wall clocks jump. Both have a leader
// again when the clocks are set right.
func TestScenario_WallClocksThatJumpConcernOnlyWhoComparesThem(t *testing.T) {
	for _, a := range Algorithms() {
		changes, leaderless := int64(0), int64(0)
		for seed := uint64(1); seed <= 5; seed++ {
			o := runOne(t, a, "clock-jump", 5, seed)
			changes, leaderless = changes+o[Changes], leaderless+o[Leaderless]
			assert.EqualValues(t, 1, o[Ends], "%s, seed %d", a.Name, seed)
			assert.Less(t, o[Leaderless], int64(2500*time.Millisecond), "%s, seed %d: nobody is locked out for long", a.Name, seed)
		}
		compares := strings.HasPrefix(a.Name, "ballots-") || a == stable
		assert.Equal(t, compares, changes+leaderless > 0, a.Name)
	}
}

// A leader is forced, put into standby, and its successor taken out of service for 5 s.
func TestScenario_PrioritiesChange(t *testing.T) {
	for _, a := range []*Algorithm{ballotsMajority, ballotsRanked, ballotsAllButOne, ballotsNone} {
		for seed := uint64(1); seed <= 5; seed++ {
			w := newWorld(a, &Setup{N: 5, Times: Scaled()}, seed, nil)
			fault := scenarioOf(t, "priority-change").plan(w)
			name := fmt.Sprintf("%s, seed %d", a.Name, seed)
			leadsAt := func(at sim.Time) Rank {
				w.run(fault + at)
				require.Len(t, w.watch.leaders, 1, name)
				return w.watch.leaders[0]
			}
			first, forced := leadsAt(-1), leadsAt(ms(9_999))
			assert.NotEqual(t, first, forced, name)
			assert.Equal(t, PriorityMax, w.priorities[forced-1], name)
			next := leadsAt(ms(19_999))
			assert.NotEqual(t, forced, next, name)
			assert.Zero(t, w.priorities[forced-1], name)
			w.run(fault + ms(20_000) + 1)
			assert.Empty(t, w.watch.leaders, "%s: it steps down at once", name)
			assert.NotEqual(t, next, leadsAt(ms(24_999)), name)
			assert.Equal(t, PriorityMin, w.priorities[next-1], name)
			last := leadsAt(ms(29_999))
			assert.Equal(t, a == ballotsRanked, last == next, "%s: back in service it takes over only from a lower priority", name)
		}
	}
}

// forcedSizes are the sizes of the groups in which an operator forces a leader. The manual promises that a forced leader
// leads at once. In fact this takes one to two periods, because the forced leader must win two elections.
var forcedSizes = []int{3, 5, 9}

func TestScenario_AForcedLeaderTakesOverAfterOneToTwoPeriods(t *testing.T) {
	p := somePlan(2)
	p.Algorithms, p.Sizes, p.Seeds = []*Algorithm{ballotsMajority, ballotsRanked}, forcedSizes, 100 // as a median needs
	p.Scenarios = []*Scenario{scenarioOf(t, "priority-change")}
	cells, err := p.Compare(t.Context())
	require.NoError(t, err)
	period := Scaled().Period
	for i := range cells {
		took := cells[i].Values(Agreement)
		assert.Greater(t, slices.Min(took), int64(period))
		assert.Less(t, slices.Max(took), int64(2*period+delayMax+ms(1)))
		assert.InDelta(t, int64(period*3/2), Summarize(took).Median, float64(period)/5)
		assert.Zero(t, Summarize(cells[i].Values(Changes)).Worst, "an operator's wish is a cause")
	}
}

// A group of one member has no leader while that member is out of service for 5 s; then the member leads again. In a group of
// two, the other member leads meanwhile.
func TestScenario_PrioritiesChangeInTheSmallestGroups(t *testing.T) {
	for n := 1; n <= 2; n++ {
		for _, a := range []*Algorithm{ballotsMajority, ballotsRanked, ballotsAllButOne, ballotsNone} {
			o := runOne(t, a, "priority-change", n, 1)
			assert.EqualValues(t, 1, o[Ends], "%s, n = %d", a.Name, n)
			assert.NotEqualValues(t, Never, o[Agreement], "%s, n = %d", a.Name, n)
		}
	}
}

func TestSetup_ChangesPrioritiesInEveryScenario(t *testing.T) {
	setup := &Setup{N: 3, Times: Scaled(), Changes: []PriorityChange{{12 * time.Second, 3, 9}, {14 * time.Second, 2, -1}}}
	for _, a := range []*Algorithm{ballotsMajority, raftCore} {
		told := faultsOf(t, a, "minority", setup)
		require.Len(t, told, 4, "all algorithms see them")
		assert.Equal(t, ms(12_000), told[2].At)
		assert.Equal(t, "3 is given priority 9", told[2].Text)
		assert.Equal(t, "2 is given priority -1", told[3].Text)
	}
	w := newWorld(ballotsMajority, setup, 1, nil)
	fault := scenarioOf(t, "minority").plan(w)
	w.run(fault + ms(11_999))
	assert.Equal(t, Rank(2), w.present())
	w.run(fault + ms(13_000))
	assert.Equal(t, Rank(3), w.present())
	assert.Equal(t, []int{1, 1, 9}, w.priorities)
	w.crash(3)
	w.startAt(w.queue.Now()+ms(500), 3)
	w.run(fault + ms(13_400))
	assert.Equal(t, Rank(1), w.present())
	w.run(fault + ms(14_000))
	assert.Equal(t, Rank(3), w.present(), "a restart keeps the priority")
	assert.Nil(t, newWorld(bullyThreeStep, setup, 1, nil).priorities)
}

// In a trace, each order of an operator to a member is a step of its own, with the rule that the member follows.
func TestTrace_TellsWhatAnOperatorSays(t *testing.T) {
	var told []string
	step := -1
	setup := &Setup{N: 3, Times: Scaled(), Changes: []PriorityChange{{time.Second, 2, 9}, {2 * time.Second, 2, -1}}}
	_, err := Run(ballotsMajority, scenarioOf(t, "loss-5"), setup, 1, func(r Record) {
		switch {
		case r.Kind == RecordTold:
			step = r.Step
			told = append(told, fmt.Sprintf("%d: %s", r.Member, r.Text))
		case r.Step == step && (r.Kind == RecordRule || r.Kind == RecordLeader):
			told = append(told, fmt.Sprintf("%d %s %s", r.Member, r.Kind, r.Text))
		}
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"2: priority 9", "2 rule My next ballot has the priority that I am given.",
		"2: priority -1", "2 rule I am taken out of service: I stop leading.", "2 leader ",
	}, told)
}
