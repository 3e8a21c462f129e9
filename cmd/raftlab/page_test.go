package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reportsOf writes reports in the place where the page expects them, and returns their directory.
func reportsOf(t *testing.T, campaign, zoo, chaos string) string {
	root := t.TempDir()
	dir := filepath.Join(root, "docs", "results", "reliability")
	shrunk := filepath.Join(dir, caseFile)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(shrunk), 0o700))
	for path, text := range map[string]string{
		filepath.Join(dir, campaignFile): campaign, filepath.Join(dir, zooFile): zoo,
		filepath.Join(dir, chaosFile): chaos, shrunk: "a shrunk case",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

const (
	someSeeds   = `{"seeds":41,"failures":[{"seed":"f2.swarm.1"}]}`
	someMutants = `[{"id":"E01","killed":true,"rule":"N2"}]`
	someChaos   = `{"verdict":"clean","nodes":5}`
)

// The page shows failures, too.
func TestPage_ShowsWhatTheReportsSay(t *testing.T) {
	code, out, errOut := lab("page", "--reports", reportsOf(t, someSeeds, someMutants, someChaos))
	require.Equal(t, exitClean, code, errOut)
	for _, want := range []string{"| seeds | 41,", "| failed | 1: `f2.swarm.1`,", "| E01 |", "| verdict | clean |", "a shrunk case"} {
		assert.Contains(t, out, want)
	}
}

func TestPage_RefusesReportsThatHoldNothing(t *testing.T) {
	for _, dir := range []string{
		reportsOf(t, `{}`, someMutants, someChaos),
		reportsOf(t, someSeeds, `[]`, someChaos),
		reportsOf(t, someSeeds, someMutants, `{}`),
	} {
		code, _, errOut := lab("page", "--reports", dir)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, errOut, "holds no result")
	}
	code, _, errOut := lab("page", "--reports", reportsOf(t, `[]`, someMutants, someChaos))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "is not a report")
}

// The page in docs is made only from the reports, the invariants and the case.
func TestPage_InTheDocumentsIsWhatTheReportsSay(t *testing.T) {
	written, err := os.ReadFile("../../docs/results/reliability.md")
	require.NoError(t, err)
	var page strings.Builder
	require.NoError(t, writePage(&page, "../../docs/results/reliability"))
	assert.Equal(t, page.String(), string(written), "make it anew: go run ./cmd/raftlab page > docs/results/reliability.md")
}
