package elections

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// planSeeds is the number of seeds of each cell of somePlan. somePlan is the subset of the matrix that every test run takes:
// all algorithms in all scenarios.
var planSeeds = 4

// fewer divides the seeds of the tests that count over many runs. tracedSize is the size of the runs that are followed step
// by step in every scenario.
var fewer, tracedSize = 1, 5

func somePlan(workers int) *Plan {
	return &Plan{
		Algorithms: Algorithms(), Scenarios: Scenarios(), Sizes: []int{3, 5}, First: 1, Seeds: planSeeds,
		Workers: workers, Setup: Setup{Times: Scaled()},
	}
}

func reportOf(t *testing.T, p *Plan) []byte {
	t.Helper()
	cells, err := p.Compare(context.Background())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, NewReport(p, cells, Measures()).Write(&out))
	require.NoError(t, WriteTable(&out, p, cells, Measures()))
	require.NoError(t, WriteMarkdown(&out, p, cells, Measures()))
	return out.Bytes()
}

func TestCompare_GivesTheSameBytesWhateverTheWorkers(t *testing.T) {
	reportBy := func(workers int) []byte {
		p := somePlan(workers)
		p.Sizes = []int{3}
		return reportOf(t, p)
	}
	assert.True(t, bytes.Equal(reportBy(1), reportBy(3)))
}

func TestReport_HoldsEnoughToComputeEveryNumberOfTheTableAgain(t *testing.T) {
	p := somePlan(2)
	p.Scenarios = p.Scenarios[:2]
	cells, err := p.Compare(context.Background())
	require.NoError(t, err)
	var encoded bytes.Buffer
	require.NoError(t, NewReport(p, cells, Measures()).Write(&encoded))
	var r Report
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &r))

	require.Len(t, r.Cells, len(cells))
	for _, cell := range r.Cells {
		require.Len(t, cell.Values, len(Measures()))
		for name, values := range cell.Values {
			require.Len(t, values, cell.Runs)
			// The test computes the percentiles in another way than Summarize does: by counting.
			s := cell.Summary[name]
			assert.Equal(t, exceeded(values, 50), s.Median, name)
			assert.Equal(t, exceeded(values, 99), s.P99, name)
			assert.Equal(t, exceeded(values, 100), s.Worst, name)
			sum := int64(0)
			for _, v := range values {
				if v != Never {
					sum += v
				}
			}
			assert.Equal(t, sum, s.Sum, name)
		}
	}
	again := cellsOf(t, &r)
	var table, recomputed bytes.Buffer
	require.NoError(t, WriteTable(&table, p, cells, Measures()))
	require.NoError(t, WriteTable(&recomputed, p, again, Measures()))
	assert.Equal(t, table.String(), recomputed.String())
}

// exceeded returns the smallest value that p of a hundred do not exceed; Never is the largest.
func exceeded(values []int64, p int) int64 {
	sorted := slices.Clone(values)
	sort.Slice(sorted, func(i, k int) bool {
		return sorted[k] == Never && sorted[i] != Never || sorted[k] != Never && sorted[i] != Never && sorted[i] < sorted[k]
	})
	for i, v := range sorted {
		if 100*(i+1) >= p*len(sorted) {
			return v
		}
	}
	return Never
}

// cellsOf makes cells from a report.
func cellsOf(t *testing.T, r *Report) (cells []Cell) {
	t.Helper()
	for _, from := range r.Cells {
		a, err1 := FindAlgorithm(from.Algorithm)
		s, err2 := FindScenario(from.Scenario)
		require.NoError(t, errors.Join(err1, err2))
		cell := Cell{a, s, from.N, make([]Outcome, from.Runs)}
		for _, m := range Measures() {
			for i, v := range from.Values[m.Name] {
				cell.Outcomes[i][m.Measure] = v
			}
		}
		cells = append(cells, cell)
	}
	return cells
}

func TestSummarize_RanksNeverWorst(t *testing.T) {
	for _, row := range []struct {
		name   string
		values []int64
		want   Summary
	}{
		{"one value is all percentiles", []int64{7}, Summary{7, 7, 7, 7}},
		{"the median of four is the second", []int64{4, 1, 3, 2}, Summary{2, 4, 4, 10}},
		{"never is worse than any value", []int64{Never, 9, 8}, Summary{9, Never, Never, 17}},
		{"no value at all", nil, Summary{Never, Never, Never, 0}},
	} {
		assert.Equal(t, row.want, Summarize(row.values), row.name)
	}
	hundred := make([]int64, 200)
	for i := range hundred {
		hundred[i] = int64(200 - i)
	}
	assert.Equal(t, Summary{100, 198, 200, 20100}, Summarize(hundred))
}

func TestMatrix_IsEveryScenarioAtEverySizeOfTheComparison(t *testing.T) {
	p := somePlan(1)
	p.Sizes, p.Seeds = DefaultSizes(), 1000
	require.NoError(t, p.Validate())
	seeds := map[int]int{}
	crashes := 0
	for _, c := range p.Cells() {
		seeds[c.N] = len(c.Outcomes)
		if c.N == 101 {
			crashes++
			assert.Equal(t, "leader-crash", c.Scenario.Name)
		}
	}
	assert.Equal(t, map[int]int{3: 1000, 5: 1000, 9: 1000, 25: 100, 101: 10}, seeds)
	assert.Equal(t, len(Algorithms()), crashes)
	taken := 0
	everyRun(func(*Algorithm, *Scenario) { taken++ })
	assert.Len(t, p.Cells(), taken*4+crashes)
}

// everyRun calls a test for every algorithm and every scenario that applies to it.
func everyRun(test func(a *Algorithm, s *Scenario)) {
	for _, a := range Algorithms() {
		for _, s := range Scenarios() {
			if s.Takes(a) {
				test(a, s)
			}
		}
	}
}

func TestRun_IsTheSameWithAndWithoutATrace(t *testing.T) {
	everyRun(func(a *Algorithm, s *Scenario) {
		setup := &Setup{N: tracedSize, Times: Scaled()}
		plain, err := Run(a, s, setup, 7, nil)
		require.NoError(t, err)
		records, faults := 0, 0
		traced, err := Run(a, s, setup, 7, func(r Record) {
			records++
			if r.Kind == RecordFault {
				faults++
			}
		})
		require.NoError(t, err)
		assert.Equal(t, plain, traced, "%s %s", a.Name, s.Name)
		assert.Positive(t, faults, "%s %s", a.Name, s.Name)
		assert.Greater(t, records, 20, "%s %s", a.Name, s.Name)
	})
}

func TestRun_EveryStepOfATraceNamesItsRule(t *testing.T) {
	everyRun(func(a *Algorithm, s *Scenario) {
		ruled, acted := map[int]bool{}, map[int]RecordKind{}
		_, err := Run(a, s, &Setup{N: tracedSize, Times: Scaled()}, 5, func(r Record) {
			switch r.Kind {
			case RecordRule:
				ruled[r.Step] = true
			case RecordStart, RecordTimer, RecordArrive, RecordTold, RecordLost:
				acted[r.Step] = r.Kind
			}
		})
		require.NoError(t, err)
		assert.NotEmpty(t, acted)
		for step, kind := range acted {
			require.True(t, ruled[step], "%s %s: %s at step %d", a.Name, s.Name, kind, step)
		}
	})
}

func TestRun_AllAlgorithmsSeeTheSameFaults(t *testing.T) {
	for _, s := range append(slices.Clip(Scenarios()), LostVotes()) {
		var first []Record
		for _, a := range Algorithms() {
			if !s.Takes(a) {
				continue
			}
			var faults []Record
			_, err := Run(a, s, &Setup{N: tracedSize, Times: Scaled()}, 3, func(r Record) {
				if r.Kind == RecordFault && r.Text != "the next leader crashes" { // it comes with the next leader
					r.Step = 0
					faults = append(faults, r)
				}
			})
			require.NoError(t, err)
			if first == nil {
				first = faults
			}
			assert.Equal(t, first, faults, "%s %s", a.Name, s.Name)
		}
	}
}

func TestSetup_RefusesWhatMakesNoSense(t *testing.T) {
	for _, row := range []struct {
		setup Setup
		want  string
	}{
		{Setup{N: 0}, "elections: n = 0: it takes 1 to 101 members"},
		{Setup{N: 102}, "elections: n = 102: it takes 1 to 101 members"},
		{Setup{N: 3, Candidates: []Rank{1, 2, 2}}, "elections: candidate 2 is named twice: ranks are unique"},
		{Setup{N: 3, Candidates: []Rank{4}}, "elections: candidate 4: the ranks are 1 to 3"},
		{Setup{N: 3, Priorities: []int{1, 2}}, "elections: 2 priorities: it takes one for each of the 3 members"},
		{
			Setup{N: 3, Priorities: []int{1, 256, 1}},
			"elections: priority 256 of member 2: it takes -1 (out of service) to 255",
		},
		{
			Setup{N: 1, Priorities: []int{-2}},
			"elections: priority -2 of member 1: it takes -1 (out of service) to 255",
		},
		{Setup{N: 3, Wins: -1}, "elections: -1 consecutive wins: it takes 1 to 100, or 0 for the default"},
		{Setup{N: 3, Wins: 101}, "elections: 101 consecutive wins: it takes 1 to 100, or 0 for the default"},
		{Setup{N: 3, Qualities: []int{1, 2}}, "elections: 2 qualities: it takes one for each of the 3 members"},
		{
			Setup{N: 3, Qualities: []int{0, 100, 101}},
			"elections: quality 101 of member 3: it takes 0 (keeps failing) to 100 (never failed)",
		},
		{
			Setup{N: 1, Qualities: []int{-1}},
			"elections: quality -1 of member 1: it takes 0 (keeps failing) to 100 (never failed)",
		},
		{Setup{N: 3, Candidates: []Rank{0}}, "elections: candidate 0: the ranks are 1 to 3"},
		{
			Setup{N: 3, Changes: []PriorityChange{{0, 3, 300}}},
			"elections: priority 300 of member 3: it takes -1 (out of service) to 255",
		},
		{
			Setup{N: 3, Changes: []PriorityChange{{0, 3, -2}}},
			"elections: priority -2 of member 3: it takes -1 (out of service) to 255",
		},
		{Setup{N: 3, Changes: []PriorityChange{{0, 4, 1}}}, "elections: a priority change of member 4: the ranks are 1 to 3"},
		{
			Setup{N: 3, Changes: []PriorityChange{{time.Duration(runTime), 3, 1}}},
			"elections: a priority change 30s after the fault: it takes 0s to below 30s, the time of a run",
		},
		{
			Setup{N: 3, Changes: []PriorityChange{{-time.Second, 3, 1}}},
			"elections: a priority change -1s after the fault: it takes 0s to below 30s, the time of a run",
		},
	} {
		row.setup.Times = Scaled()
		_, err := Run(raftCore, scenarios[0], &row.setup, 1, nil)
		assert.EqualError(t, err, row.want)
	}
	_, err := Run(raftCore, scenarios[0], &Setup{N: 3}, 1, nil)
	assert.EqualError(t, err, "elections: no time profile: it takes Scaled or Published")
	_, err = Run(raftCore, scenarios[4], &Setup{N: 65, Times: Scaled()}, 1, nil)
	assert.EqualError(t, err, "elections: n = 65: minority cuts links, and takes at most 64 members")
	_, err = Run(raftCore, scenarioOf(t, "priority-change"), &Setup{N: 3, Times: Scaled()}, 1, nil)
	assert.EqualError(t, err, "elections: the members of raft have no priorities, which priority-change changes; "+
		"those of ballots-majority, ballots-ranked, ballots-n-1, ballots-none do")
}

func TestPlan_RefusesWhatMakesNoSense(t *testing.T) {
	for _, row := range []struct {
		change func(p *Plan)
		want   string
	}{
		{func(p *Plan) { p.Algorithms = nil }, "elections: nothing to compare: it takes an algorithm, a scenario and a size"},
		{func(p *Plan) { p.Seeds = 0 }, "elections: 0 seeds: it takes 1 to 1000000"},
		{func(p *Plan) { p.Workers = 0 }, "elections: 0 workers: it takes 1 to 1024"},
		{func(p *Plan) { p.Sizes = []int{3, 0} }, "elections: n = 0: it takes 1 to 101 members"},
		{func(p *Plan) { p.Sizes = []int{3, 3} }, "elections: the size 3 is named twice"},
		{
			func(p *Plan) { p.Sizes, p.Scenarios = []int{26}, scenarios[:1] },
			"elections: above 25 members there is only the scenario leader-crash",
		},
		{
			func(p *Plan) {
				p.Algorithms = []*Algorithm{raftCore, stable}
				p.Scenarios = []*Scenario{scenarioOf(t, "priority-change")}
			},
			"elections: priority-change means something only to ballots-majority, ballots-ranked, ballots-n-1, ballots-none",
		},
	} {
		p := somePlan(1)
		row.change(p)
		_, err := p.Compare(context.Background())
		assert.EqualError(t, err, row.want)
	}
}

func TestFind_NamesTheChoices(t *testing.T) {
	_, err := FindAlgorithm("paxos")
	assert.ErrorContains(t, err, `unknown algorithm "paxos"; there are `)
	for _, a := range Algorithms() {
		assert.ErrorContains(t, err, a.Name)
	}
	_, err = FindScenario("flood")
	assert.ErrorContains(t, err, `unknown scenario "flood"; there are cold-start, leader-crash, several-detectors, `)
	_, err = FindMeasure("beauty")
	assert.EqualError(t, err, `elections: unknown measure "beauty"; there are messages, bytes, elections, agreement, two-leaders, `+
		`two-in-term, changes, leaderless, ends`)
}

func TestAlgorithms_SayWhoTheyAre(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Algorithms() {
		assert.False(t, seen[a.Name], "%s is registered once", a.Name)
		seen[a.Name] = true
		for what, text := range map[string]string{
			"title": a.Title, "source": a.Source, "assumptions": a.Assumes, "guarantee": a.Guarantees,
			"part in the core": a.CoreHas() + a.CoreLacks() + a.Leaves,
		} {
			assert.NotEmpty(t, text, "the %s of %s", what, a.Name)
		}
	}
}

// The matrix with ten seeds a cell: what one core needs for it.
func BenchmarkCompare(b *testing.B) {
	for b.Loop() {
		p := somePlan(1)
		p.Sizes, p.Seeds = []int{3, 5, 9, 25}, 10
		_, err := p.Compare(context.Background())
		require.NoError(b, err)
	}
}

// The document's descriptions of algorithms, scenarios and measures come from the code; make elections writes them.
func TestDocument_SaysWhatTheCodeSays(t *testing.T) {
	var now bytes.Buffer
	require.NoError(t, WriteMarkdown(&now, somePlan(1), nil, Measures()))
	written, err := os.ReadFile("../docs/results/elections.md")
	require.NoError(t, err)
	const tables = "\n## Tables\n"
	want, _, _ := strings.Cut(now.String(), tables)
	got, _, found := strings.Cut(string(written), tables)
	assert.True(t, found)
	assert.Equal(t, want, got, "make elections")
}

// The hand-written text about the lab is short, leads to the results, and names every algorithm.
func TestDocument_IntroducesEveryAlgorithm(t *testing.T) {
	text, err := os.ReadFile("../docs/elections.md")
	require.NoError(t, err)
	assert.Less(t, len(strings.Fields(string(text))), 3000)
	assert.Contains(t, string(text), "(results/elections.md)")
	for _, a := range Algorithms() {
		assert.Contains(t, string(text), "`"+a.Name+"`")
	}
	for _, m := range regexp.MustCompile("scenarios? `([a-z0-9-]+)`").FindAllStringSubmatch(string(text), -1) {
		_, err := FindScenario(m[1])
		assert.NoError(t, err)
	}
}
