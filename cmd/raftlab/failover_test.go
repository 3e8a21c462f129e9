package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/fuzzy/failover"
)

func TestFailover_SimulatesEachKind(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "picture.svg")
	code, out, errOut := lab("failover", "--simulated", "--trials", "20", "--json", "--svg", picture)
	require.Equal(t, exitClean, code, errOut)
	var r failover.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	var kinds []string
	for _, k := range r.Results {
		kinds = append(kinds, k.Kind)
		assert.Equal(t, 20, k.On.Count)
		assert.Equal(t, 20, k.Off.Count)
	}
	assert.Equal(t, []string{"kill", "kill, 5 % loss", "kill, 20 % loss", "silence", "silence, 5 % loss", "silence, 20 % loss"}, kinds)
	svg, err := os.ReadFile(picture)
	require.NoError(t, err)
	assert.Contains(t, string(svg), "silence, 20 % loss")

	code, out, errOut = lab("failover", "--simulated", "--trials", "5", "--kinds", "kill", "--members", "5", "--without", "news")
	require.Equal(t, exitClean, code, errOut)
	assert.Contains(t, out, "simulated, 5 members")
	assert.Contains(t, out, "off: without news\n")
	assert.NotContains(t, out, "silence")
}

func TestFailover_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--members", "2"}, "--members 2: it takes 3 to 9"},
		{[]string{"--kinds", "flood"}, "unknown kind \"flood\"; there are\n  kill "},
		{[]string{"--without", "votes"}, "--without \"votes\": use news"},
		{[]string{"--simulated", "--seed", "xyz"}, "hexadecimal"},
	} {
		code, _, errOut := lab(append([]string{"failover"}, row.args...)...)
		assert.Equal(t, exitUsage, code, "%v", row.args)
		assert.Contains(t, errOut, row.want, "%v", row.args)
	}
}

func TestFailoverPage_IsMadeOfAllReports(t *testing.T) {
	dir := t.TempDir()
	code, _, errOut := lab("failover", "page", "--reports", dir)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, errOut, "holds no report")
	for name, members := range map[string]string{"simulated-3": "3", "simulated-5": "5"} {
		code, out, errOut := lab("failover", "--simulated", "--trials", "5", "--kinds", "kill", "--members", members, "--json")
		require.Equal(t, exitClean, code, errOut)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".json"), []byte(out), 0o600))
	}
	peers := `[{"contestant":"other","tuned":true,"times":{"count":2,"mean_ms":200,"median_ms":210,"p90_ms":220,"p99_ms":230,"max_ms":240}}]`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "peers.json"), []byte(peers), 0o600))
	code, out, errOut := lab("failover", "page", "--reports", dir)
	require.Equal(t, exitClean, code, errOut)
	for _, want := range []string{
		"## Simulated, 3 members", "## Simulated, 5 members", "(failover/simulated-5.svg)",
		"| other | 150 to 300 ms | 2 | 200.0 | 210.0 | 220.0 | 230.0 | 240.0 |",
	} {
		assert.Contains(t, out, want)
	}
	assert.FileExists(t, filepath.Join(dir, "simulated-3.svg"))
}

// The page in docs is made only of the reports.
func TestFailoverPage_InTheDocumentsIsWhatTheReportsSay(t *testing.T) {
	written, err := os.ReadFile("../../docs/results/failover.md")
	if os.IsNotExist(err) {
		t.Skip("docs/results/failover.md does not exist: make failover")
	}
	require.NoError(t, err)
	page, pictures, err := failoverPage("../../docs/results/failover")
	require.NoError(t, err)
	assert.Equal(t, page, string(written), "make it anew: go run ./cmd/raftlab failover page > docs/results/failover.md")
	for path, svg := range pictures {
		drawn, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, svg, string(drawn), "as above")
	}
}
