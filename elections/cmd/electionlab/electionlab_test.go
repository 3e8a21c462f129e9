package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/elections"
)

func lab(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

// full is an output that takes nothing any more, such as a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestReports_ThatCannotBeWrittenAreNoSuccess(t *testing.T) {
	const few = " --algorithms raft --scenarios leader-crash --sizes 3 --seeds 1"
	for _, line := range []string{"compare" + few, "compare --json" + few, "page" + few, "trace raft leader-crash 3 1"} {
		var errOut bytes.Buffer
		assert.Equal(t, exitFailed, run(t.Context(), strings.Fields(line), full{}, &errOut), line)
		assert.Contains(t, errOut.String(), "no space left", line)
	}
}

func TestCompare_PrintsTheTableAndTheValuesItIsMadeOf(t *testing.T) {
	args := []string{"compare", "--algorithms", "raft,two-phase", "--scenarios", "leader-crash", "--sizes", "3", "--seeds", "5-9"}
	code, out, _ := lab(args...)
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "Leader crash, n = 3, 5 seeds from 5, scaled times")
	assert.Contains(t, out, "two-phase")
	code, out, _ = lab(append(args, "--seeds", "5")...)
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "Leader crash, n = 3, 5 seeds from 1, scaled times", "how many")

	code, out, _ = lab(append(args, "--json", "--measures", "agreement")...)
	require.Equal(t, exitClean, code, out)
	var r elections.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Len(t, r.Cells, 2)
	assert.Len(t, r.Cells[0].Values["agreement"], 5)

	assert.Empty(t, r.Candidates)

	args[2] = "candidate-ordinary,ballots-majority,bully-quality"
	code, out, _ = lab(append(args, "--json", "--candidates", "1,2", "--priorities", "9,-1,0", "--wins", "3",
		"--priority-changes", "1500ms:2=1,10s:3=-1", "--qualities", "0,50,100")...)
	require.Equal(t, exitClean, code, out)
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, []elections.Rank{1, 2}, r.Candidates, "a report says all that it takes to run it again")
	assert.Equal(t, []int{9, -1, 0}, r.Priorities)
	assert.Equal(t, 3, r.Wins)
	assert.Equal(t, []int{0, 50, 100}, r.Qualities)
	assert.Equal(t, []elections.PriorityChange{{After: 1500 * time.Millisecond, Member: 2, Priority: 1}, {After: 10 * time.Second, Member: 3, Priority: -1}}, r.Changes)

	code, out, _ = lab(append(args, "--markdown")...)
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "\n### Raft\n")
}

func TestPage_IsPrinted(t *testing.T) {
	code, out, _ := lab("page", "--algorithms", "raft,bully-a", "--scenarios", "minority", "--sizes", "3,5", "--seeds", "2")
	require.Equal(t, exitClean, code)
	assert.Regexp(t, `^<!doctype html>`, out)
	assert.Contains(t, out, "<title>Leader elections, side by side</title>")
}

func TestTrace_TellsOneRunWithUnits(t *testing.T) {
	code, out, _ := lab("trace", "raft", "leader-crash", "3", "1")
	require.Equal(t, exitClean, code)
	lines := strings.Split(out, "\n")
	assert.Equal(t, "     0.000 ms      raft leader-crash with 3 members, seed 1", lines[0])
	assert.Less(t, len(lines), 60, "what only repeats is left out")
	for _, line := range lines[:len(lines)-1] {
		assert.Regexp(t, `^ *\d+\.\d{3} ms   [ 123]  [a-z]`, line)
	}
	assert.Contains(t, out, " leads in term 2: A majority of all voted for me in this term: I lead.\n")
	assert.Contains(t, out, " ms      fault: the leader crashes\n")

	code, all, _ := lab("trace", "raft", "leader-crash", "3", "1", "--all")
	require.Equal(t, exitClean, code)
	assert.Greater(t, strings.Count(all, "\n"), 1000)
	assert.Regexp(t, `ms   1  receives Heartbeat from [23]\n`, all)

	code, _, errOut := lab("trace", "raft", "leader-crash", "3", "1", "--format", "html")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, `--format "html": there are text and ndjson`)
}

func TestTrace_IsRecordsForAProgram(t *testing.T) {
	code, out, _ := lab("trace", "raft", "leader-crash", "3", "1", "--format", "ndjson")
	require.Equal(t, exitClean, code)
	var first elections.Record
	require.NoError(t, json.Unmarshal([]byte(out[:strings.IndexByte(out, '\n')]), &first))
	assert.Equal(t, elections.Record{
		Kind: elections.RecordBegin, Text: "raft leader-crash", N: 3, Seed: 1, Format: elections.TraceFormat,
	}, first)
	assert.Contains(t, out, ": I lead.")
}

func TestCompare_RunsWithTheAuthorsTimes(t *testing.T) {
	args := []string{"compare", "--algorithms", "ballots-majority", "--scenarios", "leader-crash", "--sizes", "5", "--seeds", "1"}
	code, out, _ := lab(append(args, "--times", "published")...)
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "Leader crash, n = 5, 1 seeds from 1, published times")
	assert.Contains(t, out, "times are in s")

	code, out, _ = lab(append(args, "--markdown")...)
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "\n## The authors' own times\n")
	assert.Contains(t, out, "\n### Leader crash, published times, n = 5, 1 seeds\n")
	code, out, _ = lab(append(args, "--markdown", "--times", "published")...)
	require.Equal(t, exitClean, code, out)
	assert.NotContains(t, out, "The authors' own times", "all tables have them")
	assert.Contains(t, out, "A run lasts 50m0s of virtual time")
	assert.Contains(t, out, "Here everything except message delays takes 100 times as long.")

	code, out, _ = lab("trace", "raft", "leader-crash", "3", "1", "--times", "published")
	require.Equal(t, exitClean, code)
	assert.Contains(t, out, ": I lead.")
}

func TestHelp_NamesEveryScenarioThatIsTaken(t *testing.T) {
	code, out, _ := lab("--help")
	require.Equal(t, exitClean, code)
	for _, s := range append(slices.Clip(elections.Scenarios()), elections.LostVotes()) {
		assert.Contains(t, out, "\n  "+s.Name+" ")
	}
}

func TestElectionlab_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--algorithms", "paxos"}, `unknown algorithm "paxos"; there are two-phase, `},
		{[]string{"--scenarios", "flood"}, `unknown scenario "flood"; there are cold-start, leader-crash, `},
		{[]string{"--measures", "beauty"}, `unknown measure "beauty"; there are messages, bytes, `},
		{[]string{"--algorithms", "raft,raft"}, `"raft" is named twice`},
		{[]string{"--sizes", "0"}, "n = 0: it takes 1 to 101 members"},
		{[]string{"--sizes", "three"}, `--sizes: "three" is no number`},
		{[]string{"--seeds", "9-5"}, `--seeds "9-5": it takes 1 to 1000000 seeds, the first not above the last`},
		{[]string{"--seeds", "0-9999999"}, `it takes 1 to 1000000 seeds`},
		{[]string{"--seeds", "0"}, `--seeds "0": it takes 1 to 1000000 seeds`},
		{[]string{"--seeds", "-5"}, `--seeds "-5": it takes how many, such as 100, or FIRST-LAST, such as 5-9`},
		{[]string{"--seeds", ""}, `--seeds "": it takes how many, such as 100, or FIRST-LAST, such as 5-9`},
		{[]string{"--candidates", "2,2"}, "candidate 2 is named twice: ranks are unique"},
		{[]string{"--candidates", "1,9"}, "candidate 9: the ranks are 1 to 3"},
		{[]string{"--sizes", "3", "--priorities", "1,2,300"}, "priority 300 of member 3: it takes -1 (out of service) to 255"},
		{[]string{"--sizes", "3", "--priorities", "1"}, "1 priorities: it takes one for each of the 3 members"},
		{[]string{"--sizes", "3", "--qualities", "1,2,101"}, "quality 101 of member 3: it takes 0 (keeps failing) to 100 (never failed)"},
		{[]string{"--sizes", "3", "--qualities", "1,2"}, "2 qualities: it takes one for each of the 3 members"},
		{[]string{"--qualities", "good"}, `--qualities: "good" is no number`},
		{[]string{"--times", "lunar"}, `unknown profile of times "lunar"; there are scaled, published`},
		{[]string{"trace", "raft", "minority", "3", "1", "--times", ""}, `unknown profile of times ""; there are scaled, published`},
		{[]string{"--priority-changes", "10s:3=256"}, "priority 256 of member 3: it takes -1 (out of service) to 255"},
		{[]string{"--priority-changes", "10s:3=-2"}, "priority -2 of member 3: it takes -1 (out of service) to 255"},
		{[]string{"--priority-changes", "10s:4=1"}, "a priority change of member 4: the ranks are 1 to 3"},
		{[]string{"--priority-changes", "1m:3=1"}, "a priority change 1m0s after the fault: it takes 0s to below 30s"},
		{
			[]string{"--priority-changes", "10s:3=1,3=1"},
			`--priority-changes "3=1": it takes AFTER:MEMBER=PRIORITY, such as 10s:3=255, several with commas`,
		},
		{
			[]string{"--algorithms", "raft", "--scenarios", "priority-change"},
			"priority-change means something only to ballots-majority, ",
		},
		{[]string{"trace", "raft", "priority-change", "3", "1"}, "the members of raft have no priorities, which priority-change changes"},
		{[]string{"--algorithms", "raft,bully-a", "--wins", "3"}, "consecutive wins mean nothing to raft, bully-a; they are for ballots-majority, "},
		{[]string{"--algorithms", "raft", "--priorities", "1,2,3"}, "priorities mean nothing to raft; they are for ballots-majority, "},
		{[]string{"--algorithms", "raft", "--priority-changes", "1s:3=9"}, "priority changes mean nothing to raft; they are for ballots-majority, "},
		{[]string{"--algorithms", "raft", "--candidates", "1"}, "candidates mean nothing to raft; they are for candidate-ordinary"},
		{[]string{"--algorithms", "bully-a", "--qualities", "1,2,3"}, "qualities mean nothing to bully-a; they are for bully-quality"},
		{[]string{"trace", "raft", "minority", "3", "1", "--wins", "3"}, "consecutive wins mean nothing to raft; they are for "},
		{[]string{"trace", "raft", "minority", "3", "1", "--all", "--format", "ndjson"}, "--all is for text: the format ndjson has everything"},
		{[]string{"--wins", "-1"}, "-1 consecutive wins: it takes 1 to 100"},
		{[]string{"--workers", "0"}, "0 workers: it takes 1 to 1024"},
		{[]string{"--sizes", "101", "--scenarios", "minority"}, "above 25 members there is only the scenario leader-crash"},
		{[]string{"--json", "--markdown"}, "--json and --markdown: choose one"},
		{[]string{"trace", "raft", "flood", "3", "1"}, `unknown scenario "flood"`},
		{[]string{"trace", "raft", "minority", "65", "1"}, "minority cuts links, and takes at most 64 members"},
		{[]string{"trace", "raft", "minority", "x", "1"}, `n "x", seed "1": both take one whole number`},
		{[]string{"trace", "raft", "minority", "3", "1-4"}, `seed "1-4"`},
	} {
		args := row.args
		if args[0] != "trace" {
			args = append([]string{"compare"}, args...)
		}
		code, out, errOut := lab(args...)
		assert.Equal(t, exitUsage, code, "%v", row.args)
		assert.Contains(t, errOut, row.want, "%v", row.args)
		assert.Empty(t, out)
	}
}
