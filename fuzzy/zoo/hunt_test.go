package zoo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/internal/resume"
)

// The build contains every mutant. The canary dies, the no-op does not, and a handful of others die. The seeds decide which
// invariant kills a mutant first; the scoreboard shows it.
func TestHunt_KillsWhatItMust(t *testing.T) {
	b := built(t)
	ids := []string{Canary, Noop, "E01", "E05", "E13", "R09", "R11", "R15", "D21", "F12"}
	mutants, err := Choose(ids)
	require.NoError(t, err)
	reports, err := b.Hunt(t.Context(), mutants, Options{Seeds: 12, Budget: time.Minute, Workers: 2})
	require.NoError(t, err)
	require.NoError(t, Honest(reports))
	assert.Empty(t, Survivors(reports))
}

func TestHunt_AVerdictNeedsNoSeedIfAScenarioKills(t *testing.T) {
	b := built(t)
	mutants, err := Choose([]string{"C12"})
	require.NoError(t, err)
	reports, err := b.Hunt(t.Context(), mutants, Options{Verdict: true})
	require.NoError(t, err)
	assert.True(t, reports[0].Killed)
	assert.True(t, reports[0].ByScenario)
	assert.Zero(t, reports[0].Seeds)
}

func TestHonest_NoticesAZooThatLies(t *testing.T) {
	alive, dead := Find{}, Find{Killed: true, Rule: "G1", Seed: "f10.swarm.2"}
	assert.NoError(t, Honest([]Report{{ID: Canary, Find: dead}, {ID: Noop, Find: alive}, {ID: "E01", Find: alive}}))
	assert.ErrorContains(t, Honest([]Report{{ID: Canary, Find: alive}}), "the canary lives")
	assert.ErrorContains(t, Honest([]Report{{ID: Noop, Find: dead}}), "seed f10.swarm.2 fails without any mutant: G1")
}

var scores = []Report{
	{ID: Noop, Broken: "none", Bug: "nothing", Find: Find{Seeds: 9, Virtual: time.Hour}},
	{ID: "E01", Before: true, Broken: "one vote", Bug: "two | more", Seen: "etcd #1", Find: Find{Killed: true, Rule: "N2", Seeds: 3, Virtual: time.Minute}},
	{ID: "Q04", Broken: "a wait", Bug: "none", ByTest: true, Outside: true, Find: Find{Killed: true, Rule: "TestRead"}},
	{ID: "V01", Broken: "no change", Bug: "a change", Find: Find{Seeds: 200, Virtual: time.Hour}},
	{ID: "F13", Broken: "an order", Bug: "another", Excuse: "it makes no difference", Find: Find{Seeds: 200, Virtual: time.Hour}},
	{ID: "C10", Broken: "a cut", Bug: "a lie", Scenario: "figure-9", ByScenario: true, Find: Find{Killed: true, Rule: "H4", Seeds: 90, Virtual: time.Hour}},
	{ID: "R11", Scenario: "figure-9", Broken: "sorted", Bug: "not", Find: Find{Killed: true, Rule: "G5", Seeds: 1, Virtual: time.Second}, Ranges: []Range{
		{true, 1, time.Second}, {false, 50, time.Hour}, {true, 7, 3 * time.Minute},
	}},
}

func TestScoreboard_NamesTheKillerAndTheSurvivors(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteMarkdown(&b, scores))
	const columns = "| id | the rule | the bug | killed by | seeds | virtual time | seen in the wild |\n|---|---|---|---|---|---|---|\n"
	assert.Contains(t, b.String(), "#### Bugs that are newer than the check that kills them: 3\n\n"+columns+
		"| Q04 | a wait | none | `TestRead` | – | – | – |\n"+
		"| C10 | a cut | a lie | H4 in figure-9 | over 90 | 1h0m0s | – |\n"+
		"| R11 | sorted | not | G5, also in figure-9 | 7 | 3m0s | – |\n\n"+
		"#### Bugs that nothing kills: 2\n\n"+columns+
		"| V01 | no change | a change | **survives** | 200 | 1h0m0s | – |\n"+
		"| F13 | an order | another | lives, because it makes no difference | 200 | 1h0m0s | – |\n\n"+
		"#### Bugs that were known when the check that kills them was written: 1\n\n"+columns+
		`| E01 | one vote | two \| more | N2 | 3 | 1m0s | etcd #1 |`+"\n\n"+
		"#### Tests of the zoo itself: 1\n\n"+columns)
	assert.Contains(t, b.String(), "medians of 3 ranges")
	assert.Contains(t, b.String(), "the table of sessions has no clock")
	assert.Equal(t, "Of 6 mutants, 3 were killed by a check that is older than they are (1 by seeds of the simulator, 1 by its "+
		"directed scenarios alone, 1 by tests alone), and 1 by a check that was written when the bug was known, so that their death "+
		"was arranged (1 by seeds of the simulator, 0 by its directed scenarios alone, 0 by tests alone); 1 live for a reason, and "+
		"1 survive", Summary(scores))
	b.Reset()
	require.NoError(t, WriteText(&b, scores))
	assert.Contains(t, b.String(), "no-op   lives, as it must")
	assert.Contains(t, b.String(), "V01     SURVIVES")
	assert.Contains(t, b.String(), "C10     killed in a scenario")
	b.Reset()
	require.NoError(t, WriteJSON(&b, scores))
	assert.Contains(t, b.String(), `"rule": "N2"`)
	assert.Equal(t, []string{"V01"}, Survivors(scores))
}

func TestMedian_ALivingMutantComesLast(t *testing.T) {
	one, two, alive := Range{true, 1, 1}, Range{true, 2, 1}, Range{false, 1, 9}
	for want, ranges := range map[Range][]Range{one: {two, one, one}, two: {alive, two, one}, alive: {alive, one, alive}} {
		assert.Equal(t, want, (&Report{Ranges: ranges}).Median())
	}
}

// If a checker panics, it would kill every mutant that provokes the panic. Such a kill proves nothing.
func TestFind_APanicOfACheckerIsAnErrorAndNoKill(t *testing.T) {
	for class, killed := range map[fuzzy.Class]bool{
		fuzzy.Panic: true, fuzzy.Safety: true, fuzzy.Liveness: true, fuzzy.Staging: false, fuzzy.Simulation: false,
	} {
		var find Find
		err := find.Take(&fuzzy.Failure{Class: class, Rule: "N2", Text: "index out of range"})
		assert.Equal(t, killed, find.Killed, class)
		assert.Equal(t, class == fuzzy.Simulation, err != nil, class)
	}
	var find Find
	require.NoError(t, find.Take(nil))
	assert.False(t, find.Killed)
}

// When the hunter ends with a failure, it reports the failure. The hunt then returns this message instead of a scoreboard.
func TestHunt_EndsWithWhatTheHunterCouldNotDo(t *testing.T) {
	hunter := filepath.Join(t.TempDir(), "hunter")
	require.NoError(t, os.WriteFile(hunter, []byte("#!/bin/sh\necho 'seed f10.calm.2: the simulation itself failed' >&2\nexit 2\n"), 0o700))
	_, err := (&Binary{hunter: hunter}).Hunt(t.Context(), []Mutant{{ID: "E01"}}, Options{Seeds: 1})
	assert.ErrorContains(t, err, "mutant E01: the hunter: exit status 2: seed f10.calm.2: the simulation itself failed")
}

// If a hunt ended early for any reason, it continues with the mutants that have no report yet.
func TestCommand_GoesOnWithTheMutantsThatAreLeft(t *testing.T) {
	dir := t.TempDir()
	hunter, hunted, path := filepath.Join(dir, "hunter"), filepath.Join(dir, "hunted"), filepath.Join(dir, "progress.json")
	huntWith := func(failing string) {
		script := "#!/bin/sh\nliving=$" + mutantVariable + "\necho $living >> " + hunted + "\n" +
			"[ $living = " + failing + " ] && exit 2\n[ $living = no-op ] && echo '{}' && exit\n" +
			`echo '{"killed":true,"rule":"N2","seed":"f10.calm.2","seeds":3}'` + "\n"
		require.NoError(t, os.WriteFile(hunter, []byte(script), 0o700))
	}
	ids := []string{"R11", "E01", "E02"}
	r := request{options: Options{Seeds: 9, Budget: time.Minute, Ranges: 1, Workers: 1}}
	mutants, err := r.chosen(ids)
	require.NoError(t, err)
	cmd := Command()
	cmd.SetContext(t.Context())
	cmd.SetErr(t.Output())
	var done []Report
	hunt := func() error {
		file, err := resume.Open(path, r.campaign(ids), &done)
		require.NoError(t, err)
		done, err = r.hunt(cmd, &Binary{hunter: hunter}, without(mutants, done), file, done)
		return err
	}

	huntWith("E01")
	require.ErrorContains(t, hunt(), "3 of 5 mutants are done, and the same command continues from there")
	done = nil
	require.NoError(t, os.Remove(hunted))
	huntWith("nobody")
	require.NoError(t, hunt())
	assert.Len(t, done, 5)
	again, err := os.ReadFile(hunted)
	require.NoError(t, err)
	assert.Contains(t, string(again), "E01")
	assert.NotContains(t, string(again), "R11")

	// If a hunt has already ended, the command prints its results again without another build.
	t.Chdir(dir)
	for line, other := range map[string]bool{
		"--seeds 9 R11 E01 E02": false, "--seeds 9 R11 E01": true, "--seeds 10 R11 E01 E02": true, "--seeds 9 --must-kill R11 E01 E02": true,
	} {
		whole := Command()
		whole.SilenceUsage, whole.SilenceErrors = true, true
		whole.SetArgs(append(strings.Fields(line), "--budget", "1m", "--resume", path))
		var out strings.Builder
		whole.SetOut(&out)
		err := whole.ExecuteContext(t.Context())
		var refused *resume.OtherCampaignError
		assert.Equal(t, other, errors.As(err, &refused), "%s: %v", line, err)
		assert.Equal(t, !other, strings.Contains(out.String(), "E02     killed"), line)
	}
}
