package elections

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/golden"
	"github.com/coxswain/raft/internal/sim"
)

// publishedStory is the records of one run with the authors' own times.
func publishedStory(t *testing.T, a *Algorithm, name string, n int, seed uint64) (records []Record) {
	t.Helper()
	s, err := FindScenario(name)
	require.NoError(t, err)
	_, err = Run(a, s, &Setup{N: n, Times: Published()}, seed, func(r Record) { records = append(records, r) })
	require.NoError(t, err)
	return records
}

// The warm-up fits the profile: for every algorithm, all members follow one leader when the leader crashes.
func TestPublished_AllFollowALeaderWhenItCrashes(t *testing.T) {
	for _, a := range Algorithms() {
		for n, seed := range map[int]uint64{3: 1, 5: 2, 9: 3} {
			held := map[Rank]Rank{}
			var crashed Rank
			for _, r := range publishedStory(t, a, "leader-crash", n, seed) {
				if r.Kind == RecordLeader {
					held[r.Member] = r.Peer
				}
				if r.Kind == RecordCrash {
					crashed = r.Member
					break
				}
			}
			require.Len(t, held, n, "%s, n = %d", a.Name, n)
			for member, leader := range held {
				assert.Equal(t, crashed, leader, "%s, n = %d: whom %d follows", a.Name, n, member)
			}
		}
	}
}

// What happens to the members takes as many heartbeat intervals as with the scaled times.
func TestPublished_ScenariosTakeAsManyHeartbeats(t *testing.T) {
	for _, s := range append(slices.Clip(Scenarios()), LostVotes()) {
		a := stable
		if !s.Takes(a) {
			a = ballotsMajority
		}
		at := func(times Times, unit sim.Time) (faults []sim.Time) {
			var first sim.Time
			_, err := Run(a, s, &Setup{N: 5, Times: times}, 4, func(r Record) {
				ends := r.Kind == RecordEnd
				if (r.Kind == RecordFault || ends) && r.Text != "the next leader crashes" { // it comes with the next leader
					if len(faults) == 0 {
						first = r.At
					}
					faults = append(faults, (r.At-first)/unit)
				}
			})
			require.NoError(t, err)
			return faults
		}
		assert.Equal(t, at(Scaled(), 1), at(Published(), 100), s.Name)
	}
}

func TestTimes_WhatLastsCountsInHeartbeats(t *testing.T) {
	for heartbeat, want := range map[time.Duration]time.Duration{
		50 * time.Millisecond: 30 * time.Second, 5 * time.Second: 50 * time.Minute, 20 * time.Millisecond: 12 * time.Second,
	} {
		times := Times{Heartbeat: sim.In(heartbeat)}
		assert.Equal(t, want, time.Duration(times.lasting(runTime)), heartbeat)
	}
}

// The messages do not take longer: the published bound on a round trip is generous.
func TestPublished_LeavesTheNetworkAsItIs(t *testing.T) {
	sent := map[int]sim.Time{}
	for _, r := range publishedStory(t, raftBare, "leader-crash", 5, 1) {
		switch r.Kind {
		case RecordSend:
			sent[r.Message] = r.At
		case RecordArrive:
			assert.LessOrEqual(t, r.At-sent[r.Message], delayMax)
		}
	}
	require.NotEmpty(t, sent)
}

func TestPublished_RaftIsBootstrappedWithItsTimesToo(t *testing.T) {
	disks, err := bootstrapOnce(&Setup{N: 5, Times: Published()})
	require.NoError(t, err)
	assert.Len(t, disks, 5)
}

// The bully's and the ballots' numbers, in the authors' own times: 10 s ballots, 5 s heartbeats.
func TestPublished_ShowsTheAuthorsNumbers(t *testing.T) {
	for _, row := range []struct {
		a         *Algorithm
		low, high time.Duration // until a crashed leader is replaced
	}{
		{ballotsMajority, 20 * time.Second, 40 * time.Second},   // two periods of its last ballot, two wins
		{bullyThreeStep, 10 * time.Second, 31 * time.Second},    // 15 to 30 s after its last heartbeat
		{stable, 5 * time.Second, 21 * time.Second},             // 2η, and two OKs
		{twoPhase, 10 * time.Second, 26 * time.Second},          // 3 · HBT after its last LEAD
		{raftBare, 10 * time.Second, time.Minute},               // as the bully, and once more for a split vote
		{candidateOrdinary, 10 * time.Second, 31 * time.Second}, // 15 s, and δ
	} {
		s, err := FindScenario("leader-crash")
		require.NoError(t, err)
		for seed := uint64(1); seed <= 10; seed++ {
			o, err := Run(row.a, s, &Setup{N: 5, Times: Published()}, seed, nil)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Duration(o[Agreement]), row.low, "%s, seed %d", row.a.Name, seed)
			assert.LessOrEqual(t, time.Duration(o[Agreement]), row.high, "%s, seed %d", row.a.Name, seed)
		}
	}
}

func TestFindTimes_NamesTheProfiles(t *testing.T) {
	for _, want := range []Times{Scaled(), Published()} {
		found, err := FindTimes(want.Name)
		require.NoError(t, err)
		assert.Equal(t, want, found)
	}
	_, err := FindTimes("lunar")
	assert.EqualError(t, err, `elections: unknown profile of times "lunar"; there are scaled, published`)
}

func TestTables_WithPublishedTimesAreInSeconds(t *testing.T) {
	published := Published()
	seconds := published.in(Measures())[Agreement]
	for value, want := range map[time.Duration]string{
		0: "0", 1: "<0.1", 49 * time.Millisecond: "<0.1", 50 * time.Millisecond: "0.1", 12345 * time.Millisecond: "12.3",
		999_960 * time.Millisecond: "1000.0", Never: "–",
	} {
		assert.Equal(t, want, seconds.value(int64(value)), value)
	}
	assert.Equal(t, "ns", seconds.Unit(), "a report is in nanoseconds")
	assert.Equal(t, "3", published.in(Measures())[Messages].Text(Summary{Median: 3, P99: 3, Worst: 3}, 1)[:1])
	assert.Contains(t, published.legend(), "times are in s, <0.1 is below 0.05 and not 0;")
	scaled := Scaled()
	assert.Equal(t, Measures(), scaled.in(Measures()))
	assert.Equal(t, Legend, scaled.legend())
	assert.Equal(t, scenarios[1].Meaning, scenarios[1].Told(&scaled))
	assert.Equal(t, scenarios[1].Meaning+" Here everything except message delays takes 100 times as long.", scenarios[1].Told(&published))
}

func TestAuthorsPlan_IsAPartOfAPlanWithOtherTimes(t *testing.T) {
	p := somePlan(1)
	p.Seeds = 1000
	second, ok := p.AuthorsPlan()
	require.True(t, ok)
	require.NoError(t, second.Validate())
	assert.Equal(t, Published(), second.Setup.Times)
	assert.Equal(t, []int{5}, second.Sizes)
	assert.Equal(t, 100, second.Seeds)
	var names []string
	for _, s := range second.Scenarios {
		names = append(names, s.Name)
	}
	assert.Equal(t, []string{"cold-start", "leader-crash", "minority", "flapping"}, names)
	assert.Equal(t, Scaled(), p.Setup.Times, "the plan itself stays")

	for what, change := range map[string]func(p *Plan){
		"other times are the same": func(p *Plan) { p.Setup.Times = Published() },
		"it has not that size":     func(p *Plan) { p.Sizes = []int{3, 9} },
		"none of the scenarios":    func(p *Plan) { p.Scenarios = []*Scenario{lostVotes} },
	} {
		p := somePlan(1)
		change(p)
		_, ok := p.AuthorsPlan()
		assert.False(t, ok, what)
	}
}

// The tables with the authors' own times, byte for byte; Raft's own numbers change with the core.
func TestGolden_TheAuthorsTables(t *testing.T) {
	p := somePlan(2)
	p.Seeds = 40
	p.Algorithms = slices.DeleteFunc(slices.Clone(p.Algorithms), isCore)
	second, ok := p.AuthorsPlan()
	require.True(t, ok)
	cells, err := second.Compare(context.Background())
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, WriteAuthors(&now, &second, cells, Measures()))
	golden.Check(t, "testdata/authors.golden", now.String(), "make fix and make elections")
}
