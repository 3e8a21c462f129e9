package elections

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/sim"
)

// story holds the events at the members of one run, as its trace tells them. Times count from the fault.
type story struct {
	led     Rank // who led when the fault came, or the cut before it
	crashes []blow
	starts  []blow // after the fault
	cuts    []blow
	mends   []blow
	fired   []blow // TimerSuspect, after the fault
	waited  []blow // timerAlive of the bully in three steps
	sent    int    // after the fault
	lost    int
	earlier int      // messages lost before the fault
	lasted  sim.Time // of the run
}

// blow is something that happens to a member, or its link to a peer.
type blow struct {
	at           sim.Time
	member, peer Rank
}

// storyOf runs one seed of a scenario.
func storyOf(t *testing.T, a *Algorithm, name string, n int, seed uint64) (s story) {
	t.Helper()
	scenario, err := FindScenario(name)
	require.NoError(t, err)
	var all []Record
	_, err = Run(a, scenario, &Setup{N: n, Times: Scaled()}, seed, func(r Record) { all = append(all, r) })
	require.NoError(t, err)
	var fault sim.Time
	for _, r := range all {
		if r.Kind == RecordFault {
			fault = r.At
			break
		}
	}
	faulted := false
	for _, r := range all {
		b := blow{r.At - fault, r.Member, r.Peer}
		faulted = faulted || r.Kind == RecordFault
		switch {
		case r.Kind == RecordCrash:
			s.crashes = append(s.crashes, b)
		case r.Kind == RecordCut:
			s.cuts = append(s.cuts, b)
		case r.Kind == RecordMend:
			s.mends = append(s.mends, b)
		case r.Kind == RecordEnd:
			s.lasted = b.at
		case r.Kind == RecordLeader && r.Member == r.Peer && !faulted && len(s.cuts) == 0:
			s.led = r.Member
		case r.Kind == RecordStart && (faulted || name == "cold-start"):
			s.starts = append(s.starts, b)
		case r.Kind == RecordTimer && r.Timer == TimerSuspect && faulted:
			s.fired = append(s.fired, b)
		case r.Kind == RecordTimer && r.Timer == timerAlive && a == bullyThreeStep:
			s.waited = append(s.waited, b)
		case r.Kind == RecordSend && r.Lost && !faulted:
			s.earlier++
		case r.Kind == RecordSend && faulted:
			s.sent++
			if r.Lost {
				s.lost++
			}
		}
	}
	return s
}

// parts returns the sizes of the parts into which the cuts divide n members, and the members of the leader's part.
func (s *story) parts(t *testing.T, n int) (sizes []int, with []Rank) {
	t.Helper()
	apart := map[[2]Rank]bool{}
	for _, c := range s.cuts {
		require.False(t, apart[[2]Rank{c.member, c.peer}], "a link is cut once")
		apart[[2]Rank{c.member, c.peer}] = true
	}
	placed := map[Rank]bool{}
	for r := Rank(1); r <= Rank(n); r++ {
		if placed[r] {
			continue
		}
		var part []Rank
		for m := r; m <= Rank(n); m++ {
			require.Equal(t, apart[[2]Rank{r, m}], apart[[2]Rank{m, r}], "both directions")
			if !apart[[2]Rank{r, m}] {
				part, placed[m] = append(part, m), true
			}
		}
		sizes = append(sizes, len(part))
		for _, m := range part {
			if m == s.led {
				with = part
			}
		}
	}
	return sizes, with
}

func TestScenario_ARunLastsThirtySecondsFromItsFault(t *testing.T) {
	for _, scenario := range Scenarios() {
		s := storyOf(t, ballotsRanked, scenario.Name, 3, 1)
		assert.Equal(t, ms(30_000), s.lasted, scenario.Name)
	}
}

func TestScenario_AtAColdStartAllStartWithin50Milliseconds(t *testing.T) {
	latest := sim.Time(0)
	for seed := uint64(1); seed <= 10; seed++ {
		s := storyOf(t, bullyThreeStep, "cold-start", 5, seed)
		require.Len(t, s.starts, 5)
		assert.Empty(t, s.crashes)
		latest = max(latest, s.starts[4].at)
	}
	assert.LessOrEqual(t, latest, ms(50))
	assert.Greater(t, latest, ms(40))
}

func TestScenario_TheLeaderCrashesAndStaysDown(t *testing.T) {
	for _, name := range []string{"leader-crash", "several-detectors", "loss-5", "loss-20"} {
		for seed := uint64(1); seed <= 5; seed++ {
			s := storyOf(t, stable, name, 5, seed)
			assert.Equal(t, []blow{{0, s.led, 0}}, s.crashes, name)
			assert.Empty(t, s.starts, name)
		}
	}
}

// All members that restarted their timers at the same heartbeat suspect the leader at one instant, or at the next instant 70
// ms later.
func TestScenario_SeveralDetectorsNoticeAtOneInstant(t *testing.T) {
	together := false
	for seed := uint64(1); seed <= 10; seed++ {
		s := storyOf(t, ringCollecting, "several-detectors", 25, seed)
		at := map[sim.Time]int{}
		for _, f := range s.fired {
			if f.at < ms(150) {
				assert.Equal(t, ms(80), f.at-f.at%ms(10), "seed %d", seed)
			}
			at[f.at]++
			together = together || at[f.at] > 3
		}
		require.NotEmpty(t, s.fired)
		assert.Zero(t, (s.fired[0].at-ms(80))%ms(70), "seed %d: instants 70 ms apart", seed)
	}
	assert.True(t, together)
}

// If a timer is set after the other timers have become coarse, it expires at its exact time. A member that notices the
// failure waits T for answers, and no longer.
func TestScenario_OnlyTheTimersThatRanAreCoarse(t *testing.T) {
	s := storyOf(t, bullyThreeStep, "several-detectors", 9, 1)
	noticed := s.fired[0].at
	var first sim.Time
	for _, w := range s.waited {
		if w.at > noticed && first == 0 {
			first = w.at - noticed
		}
	}
	assert.InDelta(t, int64(Scaled().Answer), int64(first), float64(10*time.Microsecond), "clocks are a little wrong")
}

func TestScenario_TheNextLeaderCrashesTooAndBothComeBack(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		s := storyOf(t, bullyCascading, "cascade", 5, seed)
		assert.Len(t, s.crashes, 2)
		assert.Equal(t, blow{0, s.led, 0}, s.crashes[0])
		assert.Equal(t, []blow{{ms(10_000), s.led, 0}, {ms(10_000), s.crashes[1].member, 0}}, s.starts)
	}
}

// If nobody can take over before the first crashed leader is back, the scenario still crashes the next leader, and this
// leader comes back, too.
func TestScenario_ACascadeThatBeginsLateEndsAllTheSame(t *testing.T) {
	for n := 1; n <= 2; n++ {
		for _, a := range []*Algorithm{twoPhase, bullyThreeStep, ballotsMajority, stable, raftCore} {
			s := storyOf(t, a, "cascade", n, 1)
			require.Len(t, s.crashes, 2, "%s, n = %d", a.Name, n)
			assert.Len(t, s.starts, 2, "%s, n = %d", a.Name, n)
			assert.EqualValues(t, 1, runOne(t, a, "cascade", n, 1)[Ends], "%s, n = %d", a.Name, n)
		}
	}
}

func TestScenario_TheLeaderIsCutOffWithAMinority(t *testing.T) {
	for _, row := range []struct {
		name     string
		cut, end sim.Time
	}{{"minority", 0, ms(10_000)}, {"heal", -ms(5_000), 0}} {
		for n, few := range map[int]int{3: 1, 4: 1, 5: 2, 9: 4, 25: 12} {
			s := storyOf(t, stable, row.name, n, 1)
			sizes, with := s.parts(t, n)
			assert.ElementsMatch(t, []int{few, n - few}, sizes, "%s, n = %d", row.name, n)
			assert.Len(t, with, few, "%s, n = %d", row.name, n)
			assert.Len(t, s.mends, len(s.cuts))
			assert.Equal(t, row.cut, s.cuts[0].at)
			assert.Equal(t, row.end, s.mends[0].at)
		}
	}
}

func TestScenario_ThreePartsOfWhichNoneIsAMajority(t *testing.T) {
	for n, want := range map[int][]int{3: {1, 1, 1}, 4: {1, 1, 2}, 5: {1, 2, 2}, 9: {3, 3, 3}, 25: {8, 8, 9}} {
		s := storyOf(t, stable, "three-way", n, 1)
		sizes, _ := s.parts(t, n)
		assert.ElementsMatch(t, want, sizes)
		assert.Equal(t, ms(10_000), s.mends[len(s.cuts)-1].at, "every cut is mended")
	}
}

func TestScenario_OneMemberDoesNotHearTheLeader(t *testing.T) {
	deaf := map[Rank]bool{}
	for seed := uint64(1); seed <= 20; seed++ {
		s := storyOf(t, stable, "one-way", 5, seed)
		require.Equal(t, []blow{{0, s.led, s.cuts[0].peer}}, s.cuts)
		assert.Equal(t, []blow{{ms(10_000), s.led, s.cuts[0].peer}}, s.mends)
		deaf[s.cuts[0].peer] = true
	}
	assert.Len(t, deaf, 4, "anybody but the leader")
}

func TestScenario_OneMemberHearsNobodyAndAllHearIt(t *testing.T) {
	deaf := map[Rank]bool{}
	for seed := uint64(1); seed <= 20; seed++ {
		s := storyOf(t, stable, "deaf", 5, seed)
		member := s.cuts[0].peer
		var cuts, mends []blow
		for from := Rank(1); from <= 5; from++ {
			if from != member {
				cuts, mends = append(cuts, blow{0, from, member}), append(mends, blow{ms(10_000), from, member})
			}
		}
		require.Equal(t, cuts, s.cuts)
		assert.Equal(t, mends, s.mends)
		assert.NotEqual(t, s.led, member)
		deaf[member] = true
	}
	assert.Len(t, deaf, 4, "anybody but the leader")
}

func TestScenario_WhoLeadsFlaps(t *testing.T) {
	s := storyOf(t, twoPhase, "flapping-leader", 5, 1)
	require.Len(t, s.crashes, 7)
	require.Len(t, s.starts, 7)
	members := map[Rank]bool{}
	for i := range sim.Time(7) {
		assert.Equal(t, ms(3000)*i, s.crashes[i].at)
		assert.Equal(t, s.crashes[i].member, s.starts[i].member, "it comes back")
		members[s.crashes[i].member] = true
	}
	assert.Equal(t, s.led, s.crashes[0].member)
	assert.Greater(t, len(members), 1, "another one leads when it is back")
}

func TestScenario_TheHighestRankFlaps(t *testing.T) {
	s := storyOf(t, stable, "flapping", 5, 1)
	require.Len(t, s.crashes, 7)
	require.Len(t, s.starts, 7)
	phases := map[sim.Time]bool{}
	for i := range sim.Time(7) {
		assert.Equal(t, blow{ms(3000) * i, 5, 0}, s.crashes[i])
		phase := s.starts[i].at - (ms(3000)*i + ms(1000))
		assert.Equal(t, Rank(5), s.starts[i].member)
		assert.GreaterOrEqual(t, phase, ms(0))
		assert.LessOrEqual(t, phase, ms(50))
		phases[phase] = true
	}
	assert.Len(t, phases, 7, "each return is at another phase of a heartbeat interval")
}

func TestScenario_OneMessageInSoManyIsLost(t *testing.T) {
	for name, want := range map[string]float64{"loss-5": 0.05, "loss-20": 0.2} {
		s := storyOf(t, ballotsNone, name, 9, 1)
		require.Greater(t, s.sent, 10_000)
		assert.InDelta(t, want, float64(s.lost)/float64(s.sent), 0.008, name)
		assert.Zero(t, s.earlier, "nothing is lost before")
	}
}

func TestScenario_TheLeaderIsBackBeforeAnybodyMissesIt(t *testing.T) {
	scenario, err := FindScenario("quick-restart")
	require.NoError(t, err)
	for _, a := range Algorithms() {
		if a.News {
			continue // its members learn of the crash at once
		}
		for seed := uint64(1); seed <= 5; seed++ {
			var crash, back sim.Time
			leader := Rank(0)
			_, err := Run(a, scenario, &Setup{N: 5, Times: Scaled()}, seed, func(r Record) {
				switch {
				case r.Kind == RecordCrash:
					crash, leader = r.At, r.Member
				case leader != 0 && back == 0 && r.Kind == RecordStart:
					assert.Equal(t, leader, r.Member)
					back = r.At
				case leader != 0 && back == 0 && r.Kind == RecordLeader:
					assert.Equal(t, leader, r.Peer, "%s, seed %d: %d misses it", a.Name, seed, r.Member)
				}
			})
			require.NoError(t, err)
			assert.GreaterOrEqual(t, back-crash, ms(10), "%s, seed %d", a.Name, seed)
			assert.LessOrEqual(t, back-crash, ms(50), "%s, seed %d", a.Name, seed)
		}
	}
}

func TestScenario_InAStormMembersCrashEveryHalfSecondTheLeaderFirst(t *testing.T) {
	hit := map[Rank]bool{}
	for seed := uint64(1); seed <= 5; seed++ {
		s := storyOf(t, stable, "restart-storm", 5, seed)
		require.Equal(t, blow{0, s.led, 0}, s.crashes[0])
		assert.Greater(t, len(s.crashes), 14, "few are down already")
		assert.LessOrEqual(t, len(s.crashes), 20)
		assert.Len(t, s.starts, len(s.crashes), "all come back")
		for _, c := range s.crashes {
			assert.Zero(t, c.at%ms(500))
			assert.Less(t, c.at, ms(10_000))
			hit[c.member] = true
			assert.Condition(t, func() bool { return s.back(c) }, fmt.Sprint(c))
		}
	}
	assert.Len(t, hit, 5)
}

// back reports whether a member is back 200 ms to 1 s after its crash.
func (s *story) back(crash blow) bool {
	for _, b := range s.starts {
		if down := b.at - crash.at; b.member == crash.member && down > 0 {
			return down >= ms(200) && down <= sim.Time(time.Second)
		}
	}
	return false
}

// "The leader" of a fault is the leader that most members follow. If no member has a leader, it is the highest rank that is
// up.
func TestScenario_TheLeaderIsWhomMostHold(t *testing.T) {
	for _, row := range []struct {
		rule  string
		parts [][]belief
		want  Rank
	}{
		{"whom most hold", [][]belief{follows(50, 1), follows(50, 1), follows(50, 3)}, 1},
		{"of two that as many hold, the higher", [][]belief{follows(50, 1), follows(50, 1), follows(50, 4), follows(50, 4)}, 4},
		{"one that does not take itself for the leader is none", [][]belief{follows(50, 2), nil, follows(50, 2)}, 3},
		{"nobody: the highest rank", [][]belief{nil, nil, nil}, 3},
	} {
		play(row.parts, func(w *world) {
			w.at(ms(200), func() { assert.Equal(t, row.want, w.present(), row.rule) })
		})
	}
}
