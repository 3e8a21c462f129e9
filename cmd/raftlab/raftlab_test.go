package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy"
)

func lab(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

func TestFuzz_ReportsWhatItRan(t *testing.T) {
	code, out, _ := lab("fuzz", "--seeds", "6", "--seed", "2f", "--profile", "bootstrap,history", "--workers", "2")
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "6 seeds of bootstrap,history from 2f")
	assert.Contains(t, out, "events a core-second")

	code, out, _ = lab("fuzz", "--duration", "50ms", "--profile", "all", "--json")
	require.Equal(t, exitClean, code, out)
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Positive(t, r.Seeds)
	assert.Positive(t, r.EventsPerCoreSecond)
	assert.Empty(t, r.Failures)
}

// An interrupted campaign has run fewer seeds than its command asked for. It does not count as a success.
func TestFuzz_AnInterruptedOneReportsWhatItRanAndIsNotClean(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	assert.Equal(t, exitFailed, run(ctx, []string{"fuzz", "--seeds", "6"}, &out, &errOut))
	assert.Contains(t, out.String(), "0 seeds of swarm")
	assert.Contains(t, errOut.String(), "interrupted after 0 seeds")
}

func TestReplay_TellsHowItEnds(t *testing.T) {
	code, out, _ := lab("replay", "f10.history.3", "--show-profile")
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "f10.history.3: ")
	assert.Contains(t, out, `"Voters"`)
}

// full is an output whose writes fail, as on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestReports_ThatCannotBeWrittenAreNoSuccess(t *testing.T) {
	for _, line := range []string{
		"replay f10.history.3", "trace f10.history.3", "scenarios", "fuzz --seeds 1", "zoo --list",
	} {
		var errOut bytes.Buffer
		assert.Equal(t, exitFailed, run(t.Context(), strings.Fields(line), full{}, &errOut), line)
		assert.Contains(t, errOut.String(), "no space left", line)
	}
}

func TestScenarios_AreListedAndPlayed(t *testing.T) {
	code, out, _ := lab("scenarios")
	require.Equal(t, exitClean, code)
	assert.Contains(t, out, "figure-8-d: an entry of an earlier term")
	code, out, _ = lab("replay", "scenario:figure-8-d")
	require.Equal(t, exitClean, code, out)
	assert.Contains(t, out, "scenario:figure-8-d: ")
	code, out, _ = lab("trace", "scenario:figure-8-d.3")
	require.Equal(t, exitClean, code)
	assert.Contains(t, out, "lose AppendRequest from a to cde")
	code, _, errOut := lab("replay", "scenario:figure-9")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, errOut, "there are\n  longer-log-of-an-older-term: ")
}

func TestTrace_WritesEachFormat(t *testing.T) {
	code, out, _ := lab("trace", "f10.history.3")
	require.Equal(t, exitClean, code)
	assert.Contains(t, out, "lead term")
	path := t.TempDir() + "/trace.ndjson"
	code, _, _ = lab("trace", "f10.history.3", "--format", "ndjson", "--out", path)
	require.Equal(t, exitClean, code)
	assert.FileExists(t, path)

	code, again, errOut := lab("trace", "--from", path)
	require.Equal(t, exitClean, code, errOut)
	assert.Equal(t, out, again, "the file shows the same trace")
	page := t.TempDir() + "/page.html"
	for _, source := range [][]string{{"f10.history.3"}, {"--from", path}} {
		code, _, errOut = lab(append([]string{"trace", "--format", "html", "--out", page}, source...)...)
		require.Equal(t, exitClean, code, errOut)
		html, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Contains(t, string(html), "<!doctype html>")
	}
}

func TestRaftlab_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"fuzz", "--profile", "nonsense"}, exitUsage, "there are\n  swarm:"},
		{[]string{"fuzz", "--seed", "xyz"}, exitUsage, "hexadecimal"},
		{[]string{"fuzz", "--seed", ""}, exitUsage, "hexadecimal"},
		{[]string{"fuzz", "--seed", "0123456789abcdefgh", "--seeds", "1"}, exitUsage, "hexadecimal"},
		{[]string{"fuzz", "--duration", "1ns"}, exitFailed, "no seed finished"},
		{[]string{"fuzz", "--workers", "0"}, exitUsage, "1 to 1024"},
		{[]string{"fuzz", "--seeds", "-1"}, exitUsage, "0 or more"},
		{[]string{"fuzz", "--seeds", "x"}, exitUsage, `--seeds "x": it takes a whole number`},
		{[]string{"replay"}, exitUsage, "write raftlab replay SEED|FILE"},
		{[]string{"replay", "README.md"}, exitUsage, "a case file has a / or ends with .txt"},
		{[]string{"replay", "no/such.txt"}, exitUsage, "no such file"},
		{[]string{"replay", "f10.swarm.1", "--mutant", "Z99"}, exitUsage, `unknown mutant "Z99"; there are canary`},
		{[]string{"shrink"}, exitUsage, "a seed or a case file, or --mutant"},
		{[]string{"shrink", "--mutant", "Z99"}, exitUsage, `unknown mutant "Z99"; there are canary`},
		{[]string{"shrink", "f10.calm.1"}, exitFailed, "f10.calm.1 does not fail: nothing to shrink"},
		{[]string{"shrink", "f10.calm.1", "--out", "/nonexistent/x"}, exitFailed, "--out: open /nonexistent/x"},
		{[]string{"shrink", "f10.calm.1", "--attempts", "0"}, exitUsage, "above 0"},
		{[]string{"shrink", "f10.calm.1", "--ignore", "Z1"}, exitUsage, `unknown rule "Z1"; there are N1`},
		{[]string{"replay", "f02.swarm.1"}, exitUsage, "is not a seed"},
		{[]string{"zoo", "--json", "--list"}, exitUsage, "exclude each other"},
		{[]string{"replay", "f9.swarm.1"}, exitUsage, "format 9"},
		{[]string{"replay", "f10.swarm.1", "--lines", "-1"}, exitUsage, "0 or more"},
		{[]string{"trace", "f10.swarm.1", "--format", "pdf"}, exitUsage, "text, ndjson and html"},
		{[]string{"trace"}, exitUsage, "a seed, a case file or --from FILE"},
		{[]string{"trace", "f10.swarm.1", "--from", "x"}, exitUsage, "one of them"},
		{[]string{"trace", "--from", "x", "--mutant", "E01"}, exitUsage, "--mutant E01: --from runs nothing"},
		{[]string{"trace", "--from", "/nonexistent/x"}, exitFailed, "--from: open /nonexistent/x"},
		{[]string{"elections"}, exitUsage, "the election lab is a separate command: in a checkout, run go run -C elections ./cmd/electionlab compare"},
		{[]string{"elections", "--sizes", "5"}, exitUsage, "go run -C elections ./cmd/electionlab compare"},
		{[]string{"trace", "f10.history.1", "--out", "/nonexistent/x"}, exitFailed, "--out: open /nonexistent/x"},
	} {
		code, _, errOut := lab(row.args...)
		assert.Equal(t, row.code, code, "%v", row.args)
		assert.Contains(t, errOut, row.want, "%v", row.args)
	}
}

func TestExitCodes_TellFailuresApart(t *testing.T) {
	for class, code := range map[fuzzy.Class]int{fuzzy.Panic: exitCrash, fuzzy.Safety: exitSafety, fuzzy.Liveness: exitLiveness} {
		assert.Equal(t, code, exitCode(fmt.Errorf("while testing: %w", &fuzzy.Failure{Class: class})))
	}
	assert.Equal(t, exitFailed, exitCode(errors.New("no disk")))
	assert.Equal(t, exitFailed, exitCode(&fuzzy.Failure{Class: fuzzy.Staging}), "it proves nothing")
}

func TestReplay_KeepsTheLastLines(t *testing.T) {
	l := &lastLines{max: 2}
	for i := range 9 {
		_, _ = fmt.Fprintf(l, "%d\n", i)
	}
	assert.Equal(t, "7\n8\n", l.text())
}

func TestHelp_NamesNoSeedOfAnEarlierFormat(t *testing.T) {
	texts := map[string]string{}
	for _, file := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs/viewer.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(text)
	}
	root := newRoot()
	for _, command := range append(root.Commands(), root) {
		texts[command.Name()] = command.Long + command.Example
	}
	for where, text := range texts {
		for _, seed := range regexp.MustCompile(`\bf\d+\.[a-z]+\.[0-9a-f]+\b`).FindAllString(text, -1) {
			_, err := fuzzy.ParseSeed(seed)
			assert.NoError(t, err, where)
		}
	}
}
