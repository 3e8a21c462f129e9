package electionpage

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/elections"
	"github.com/coxswain/raft/internal/viewer"
)

func fiveMembers() *elections.Setup { return &elections.Setup{N: 5, Times: elections.Scaled()} }

func lookUp(t *testing.T, algorithm, scenario string) (*elections.Algorithm, *elections.Scenario) {
	t.Helper()
	a, err := elections.FindAlgorithm(algorithm)
	require.NoError(t, err)
	s, err := elections.FindScenario(scenario)
	require.NoError(t, err)
	return a, s
}

// followedSeeds is how many runs of each kind are followed from their trace.
var followedSeeds = uint64(3)

func TestReigns_LastAsLongAsWasMeasured(t *testing.T) {
	for _, algorithm := range []string{"two-phase", "bully-a", "invitation", "ring-c", "ballots-none", "raft"} {
		for _, scenario := range []string{"minority", "heal", "restart-storm", "loss-20"} {
			a, s := lookUp(t, algorithm, scenario)
			for seed := uint64(1); seed <= followedSeeds; seed++ {
				outcome, err := elections.Run(a, s, fiveMembers(), seed, nil)
				require.NoError(t, err)
				told, err := read(a, s, fiveMembers(), seed)
				require.NoError(t, err)
				assert.Equal(t, outcome[elections.TwoLeaders], longest(told.reigns()), "%s %s %d", algorithm, scenario, seed)
			}
		}
	}
}

// longest returns the longest time after the fault in which several members lead, even if they change.
func longest(reigns []reign) (most int64) {
	var began, ended int64
	for _, r := range reigns {
		from, to := max(int64(r.from), 0), int64(r.to)
		if from != ended {
			began = from
		}
		ended = to
		most = max(most, ended-began)
	}
	return most
}

func TestDraw_LeavesOutOnlyWhatRepeats(t *testing.T) {
	for _, a := range elections.Algorithms() {
		_, s := lookUp(t, a.Name, "minority")
		told, err := read(a, s, fiveMembers(), 1)
		require.NoError(t, err)
		drawn, gaps := told.fold(fiveMembers().Times.Heartbeat)
		require.NotEmpty(t, gaps, a.Name)
		assert.Less(t, len(drawn), actsMax, a.Name)
		left := 0
		for _, g := range gaps {
			left += g.acts
		}
		assert.Equal(t, len(told.from()), len(drawn)+left, "%s: a step is drawn or counted", a.Name)
		shown := map[*act]bool{}
		for _, act := range drawn {
			shown[act] = true
		}
		for _, act := range told.from() {
			if act.changed || act.down {
				assert.True(t, shown[act], "%s: %d takes %d for the leader", a.Name, act.Member, act.leader)
			}
		}
	}
}

func TestDraw_LetsMessagesArriveWhereTheyDid(t *testing.T) {
	for _, algorithm := range []string{"bully-b", "raft"} {
		a, s := lookUp(t, algorithm, "loss-20")
		told, err := read(a, s, fiveMembers(), 2)
		require.NoError(t, err)
		d := draw(told, a, s, fiveMembers().Times.Heartbeat)
		lost, taken := 0, 0
		for _, m := range d.Messages {
			if m.Step == 0 {
				lost++
				continue
			}
			taken++
			step := d.Steps[m.Step-1]
			assert.Equal(t, m.To, step.Lane)
			assert.Greater(t, step.Time, m.Sent)
		}
		assert.Positive(t, lost, algorithm)
		assert.Greater(t, taken, lost, algorithm)
		for i := 1; i < len(d.Steps); i++ {
			assert.LessOrEqual(t, d.Steps[i-1].Time, d.Steps[i].Time)
		}
	}
}

func TestDraw_StopsAtItsLimitAndSaysSo(t *testing.T) {
	a, s := lookUp(t, "stable", "loss-20")
	told, err := read(a, s, fiveMembers(), 1)
	require.NoError(t, err)
	d := draw(told, a, s, fiveMembers().Times.Heartbeat)
	assert.InDelta(t, actsMax, len(d.Steps), leastFold)
	assert.Contains(t, d.Marks[len(d.Marks)-1].Text, "The diagram ends here.")
}

func TestSay_ChoosesTheRuleThatActsLeastOften(t *testing.T) {
	told := &story{}
	often := map[string]int{"A timer runs out.": 90, "It leads.": 1}
	rule, others := told.say(&act{rules: []string{"A timer runs out.", "It leads."}}, often, nil)
	assert.Equal(t, "It leads.", rule)
	assert.Equal(t, []string{"A timer runs out."}, others)
	taken := &act{Record: elections.Record{Kind: elections.RecordArrive, Message: 7, Peer: 3}}
	rule, _ = told.say(taken, nil, map[int]string{7: "HEARTBEAT"})
	assert.Equal(t, "I take HEARTBEAT from 3.", rule)
}

func TestTelling_IsTheRunWithTheLongestSplitBrain(t *testing.T) {
	var dull, split, worse elections.Outcome
	dull[elections.Changes], split[elections.TwoLeaders], worse[elections.TwoInTerm] = 9, 50, 1
	c := &elections.Cell{Outcomes: []elections.Outcome{{}, dull, split}}
	assert.Equal(t, 2, telling(c))
	c.Outcomes = append(c.Outcomes, worse, worse)
	assert.Equal(t, 3, telling(c), "of equals the first")
}

func TestTour_LeadsToWhatItSpeaksOf(t *testing.T) {
	_, cells := compared(t)
	require.NotEmpty(t, cells)
	drawn, err := allDrawn()
	require.NoError(t, err)
	found := tour(drawn)
	require.Len(t, found, len(stops), "every stop has its diagrams")
	for _, s := range found {
		var left, row, right int
		_, err := fmt.Sscanf(string(s.Place), "diagram=%d&row=%d&diagram2=%d", &left, &row, &right)
		require.NoError(t, err)
		assert.Greater(t, row, 1, s.Title)
		a, scenario := lookUp(t, s.left, s.scenario)
		assert.Equal(t, []string{a.Title, scenario.Title}, drawn[left-1].At)
		b, _ := lookUp(t, s.right, s.scenario)
		assert.Equal(t, b.Title, drawn[right-1].At[0])
	}
	brief := func(d *viewer.Diagram) (long int64) {
		for _, m := range d.Marks {
			if m.Tone == viewer.ToneBad {
				long = max(long, m.Until-m.Time)
			}
		}
		return long
	}
	at := func(algorithm, scenario string) *viewer.Diagram {
		a, s := lookUp(t, algorithm, scenario)
		for i := range drawn {
			if drawn[i].At[0] == a.Title && drawn[i].At[1] == s.Title {
				return &drawn[i]
			}
		}
		return nil
	}
	second := int64(1_000_000_000)
	assert.Greater(t, brief(at("bully-a", "minority")), 9*second)
	assert.Zero(t, brief(at("raft", "minority")))
	assert.Greater(t, brief(at("ballots-none", "minority")), 9*second)
	assert.Less(t, brief(at("ballots-majority", "minority")), second/10)
}
